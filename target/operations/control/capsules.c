/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * capsules {"queues": ["3", "4/1"], "count": 8}: the last command capsules of each queue, or of
 * those of these controllers or queues. Control thread.
 *
 * The pollers own the rings. A message makes each poller copy its own; this thread waits for them,
 * as it does for a grace period. No queue is freed meanwhile, because only this thread frees
 * queues.
 */
#include <inttypes.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/rpc_request.h"
#include "base/units.h"
#include "target/operations/control/capsules.h"
#include "target/association/connection.h"
#include "target/operations/control/list.h"
#include "target/association/controller.h"
#include "target/engine/record/capsule_text.h"
#include "transport/wire/strings.h"

/* ---- which queues --------------------------------------------------------------------------- */

/* "3" is a controller, "3/1" one queue of it. */
static bool is_named(const struct connection *c, const char *name)
{
	char text[32];

	if (!c->controller)
		return false;
	snprintf(text, sizeof(text), "%u/%u", c->controller->id, c->queue->qid);
	if (!strcmp(text, name))
		return true;
	*strchr(text, '/') = '\0';
	return !strcmp(text, name);
}

static const char *name_at(struct json_object *names, size_t i)
{
	return json_object_get_string(json_object_array_get_idx(names, i));
}

static size_t n_names(struct json_object *names)
{
	return json_object_is_type(names, json_type_array) ? json_object_array_length(names) : 0;
}

static bool is_wanted(const struct connection *c, struct json_object *names)
{
	size_t n = n_names(names);

	for (size_t i = 0; i < n; i++) {
		const char *name = name_at(names, i);

		if (name && is_named(c, name))
			return true;
	}
	return !n;
}

/* The first name that is not a queue's; NULL: each one is. */
static const char *find_stranger(const struct target *target, struct json_object *names)
{
	for (size_t i = 0; i < n_names(names); i++) {
		const char *name = name_at(names, i);
		bool is_known = false;

		list_for_each (node, &target->connections) {
			is_known |= name &&
				    is_named(list_entry(node, struct connection, node), name);
		}
		if (!is_known)
			return name ? name : "";
	}
	return NULL;
}

/* ---- querying pollers ----------------------------------------------------------------------- */

struct question {
	struct loop_msg msg;
	const struct connection *connection;
	struct capsule_ring copy;
	sem_t *is_answered;
};

static void copy_ring(struct loop_msg *msg)
{
	struct question *q = container_of(msg, struct question, msg);

	q->copy = *q->connection->queue->capsules;
	sem_post(q->is_answered);
}

/* Returns when all have answered. */
static void ask(struct question *questions, unsigned n)
{
	sem_t is_answered;

	sem_init(&is_answered, 0, 0);
	for (unsigned i = 0; i < n; i++) {
		questions[i].msg.run = copy_ring;
		questions[i].is_answered = &is_answered;
		loop_send(&questions[i].connection->queue->poller->loop, &questions[i].msg);
	}
	for (unsigned i = 0; i < n; i++)
		while (sem_wait(&is_answered) < 0)
			; /* interrupted by a signal */
	sem_destroy(&is_answered);
}

/* ---- showing -------------------------------------------------------------------------------- */

static void add_place(struct json_object *o, const struct capsule *capsule, bool is_admin)
{
	const struct nvme_sqe *sqe = &capsule->sqe;

	if (!capsule_has_range(capsule, is_admin)) {
		json_add_null(o, "slba");
		json_add_null(o, "blocks");
		return;
	}
	control_add_number(o, "slba", get_le32(sqe->cdw10) | (uint64_t)get_le32(sqe->cdw11) << 32);
	control_add_number(o, "blocks", (get_le32(sqe->cdw12) & NVME_RW_NLB_MASK) + 1);
}

static void add_dwords(struct json_object *o, const struct nvme_sqe *sqe)
{
	const le32 dwords[] = {sqe->cdw10, sqe->cdw11, sqe->cdw12,
			       sqe->cdw13, sqe->cdw14, sqe->cdw15};
	struct json_object *list = json_object_new_array();

	for (unsigned i = 0; i < ARRAY_LEN(dwords); i++)
		json_append(list, json_object_new_uint64(get_le32(dwords[i])));
	json_add(o, "cdw10_15", list);
}

static void add_answer(struct json_object *o, const struct capsule *capsule)
{
	if (capsule->status == CAPSULE_UNANSWERED) {
		json_add_null(o, "status");
		json_add_null(o, "status_name");
		json_add_null(o, "took_ns");
		return;
	}
	control_add_number(o, "status", capsule->status);
	control_add_string(o, "status_name", nvme_status_string((enum nvme_status)capsule->status));
	control_add_number(o, "took_ns", ticks_to_ns(capsule->took));
}

static struct json_object *show_capsule(const struct capsule *capsule, bool is_admin, uint64_t now)
{
	struct json_object *o = json_object_new_object();
	uint32_t length;
	const char *sgl = capsule_sgl(capsule, &length);

	control_add_number(o, "age_ns", capsule_age_ns(capsule, now));
	control_add_string(o, "command", capsule_command(capsule, is_admin));
	control_add_number(o, "opcode", capsule->sqe.opcode);
	control_add_number(o, "flags", capsule->sqe.flags);
	control_add_number(o, "cid", get_le16(capsule->sqe.cid));
	control_add_number(o, "nsid", get_le32(capsule->sqe.nsid));
	add_place(o, capsule, is_admin);
	add_dwords(o, &capsule->sqe);
	control_add_string(o, "sgl", sgl);
	control_add_number(o, "length", length);
	add_answer(o, capsule);
	return o;
}

static struct json_object *show_ring(const struct target *target, const struct question *q,
				     unsigned count)
{
	const struct controller *controller = q->connection->controller;
	struct json_object *o = json_object_new_object();
	struct json_object *list = json_object_new_array();
	const struct capsule *sorted[CAPSULES_KEPT];
	unsigned n = capsules_sort(&q->copy, count, sorted);
	uint64_t now = ticks_now();

	if (controller)
		control_add_number(o, "controller", controller->id);
	else
		json_add_null(o, "controller");
	control_add_number(o, "queue", q->connection->queue->qid);
	control_add_string(o, "host", controller ? controller->hostnqn : NULL);
	control_add_string(o, "host_name",
			   controller ? control_host_name(target, controller->hostnqn) : NULL);
	control_add_string(o, "address", q->connection->remote);
	control_add_string(o, "state", connection_state_name(q->connection));
	for (unsigned i = 0; i < n; i++)
		json_append(list, show_capsule(sorted[i], q->connection->queue->qid == 0, now));
	json_add(o, "capsules", list);
	return o;
}

/* 0: out of range. */
static unsigned read_count(struct json_object *params)
{
	struct json_object *value = NULL;
	int64_t n;

	if (!json_object_object_get_ex(params, "count", &value))
		return CAPSULES_KEPT;
	n = json_object_get_int64(value);
	return n > 0 && n <= CAPSULES_KEPT ? (unsigned)n : 0;
}

struct json_object *control_capsules(void *context, struct json_object *params, struct error *error)
{
	struct target *target = context;
	struct json_object *names = NULL, *o, *list;
	_autofree_ struct question *questions = NULL;
	unsigned n = 0, count = read_count(params);
	const char *stranger;

	json_object_object_get_ex(params, "queues", &names);
	stranger = find_stranger(target, names);
	if (stranger)
		return rpc_refuse(error, EXIT_NOT_FOUND, "rblkctl list connections",
				  "there is no queue or controller '%s'", stranger);
	if (!count)
		return rpc_refuse(error, EXIT_USAGE, "", "so many are not kept: 1 to %u",
				  CAPSULES_KEPT);
	questions = calloc(target->n_connections + 1, sizeof(*questions));
	if (!questions)
		return rpc_refuse(error, EXIT_FAILED, "", "out of memory");
	list_for_each (node, &target->connections) {
		const struct connection *c = list_entry(node, struct connection, node);

		if (is_wanted(c, names))
			questions[n++].connection = c;
	}
	ask(questions, n);
	o = json_object_new_object();
	list = json_object_new_array();
	control_add_number(o, "schema", CONTROL_SCHEMA);
	for (unsigned i = 0; i < n; i++)
		json_append(list, show_ring(target, &questions[i], count));
	json_add(o, "queues", list);
	return o;
}
