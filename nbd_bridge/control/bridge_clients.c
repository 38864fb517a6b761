/* SPDX-License-Identifier: BSD-3-Clause */
#include "nbd_bridge/control/bridge_clients.h"
#include "nbd_bridge/control/bridge_json.h"
#include "nbd_bridge/control/figures.h"

/* Whole seconds since then; null if there is no such moment. */
static void put_age(struct json_object *o, const char *key, uint64_t since_ns)
{
	put_seconds(o, key, since_ns ? bridge_age_ns(since_ns) : UINT64_MAX);
}

/* A client that takes no replies, or has sent half a payload, keeps memory from the others. */
static void put_figures(struct json_object *o, const struct conn_figures *of)
{
	struct client_figures figures = {0};

	client_figures_add(&figures, of);
	put_uint(o, "in_flight", figures.n_requests);
	put_age(o, "oldest_request_s", figures.oldest_ns);
	put_uint(o, "held_bytes", figures.n_held_bytes);
	put_uint(o, "copied_out_bytes", figures.n_copied_bytes);
	put_age(o, "takes_no_replies_s", figures.blocked_ns);
}

struct json_object *bridge_conns_to_json(const struct bridge *bridge)
{
	struct json_object *array = json_object_new_array();

	list_for_each (node, &bridge->conns) {
		const struct nbd_conn *conn = list_entry(node, struct nbd_conn, owned);
		struct json_object *o = json_object_new_object();

		put_uint(o, "id", conn->id);
		put_uint(o, "worker", worker_of_conn(conn)->index);
		put_string(o, "peer", conn->peer);
		put_figures(o, &conn->figures);
		json_append(array, o);
	}
	return array;
}

struct json_object *bridge_workers_to_json(const struct bridge *bridge)
{
	struct json_object *array = json_object_new_array();

	list_for_each (node, &bridge->pool.workers) {
		const struct worker *worker = list_entry(node, struct worker, node);
		const struct nbd_stats *stats = &worker->nbd.stats;
		struct json_object *o = json_object_new_object();

		put_uint(o, "worker", worker->index);
		put_uint(o, "connections", worker->n_assigned);
		put_uint(o, "in_flight", counter_get(&stats->n_running));
		put_uint(o, "reads", counter_get(&stats->n_reads));
		put_uint(o, "read_bytes", counter_get(&stats->n_read_bytes));
		put_uint(o, "writes", counter_get(&stats->n_writes));
		put_uint(o, "written_bytes", counter_get(&stats->n_written_bytes));
		put_uint(o, "others", counter_get(&stats->n_others));
		put_uint(o, "read_modify_writes", counter_get(&stats->n_rmw));
		put_uint(o, "errors", counter_get(&stats->n_errors));
		put_uint(o, "copied_out", counter_get(&stats->n_copied_out));
		json_append(array, o);
	}
	return array;
}
