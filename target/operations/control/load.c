/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See load.h. The pollers own what is measured. A message makes each look at its queues; this
 * thread waits for them. No queue is freed meanwhile, because only this thread frees queues.
 */
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/json.h"
#include "target/association/connection.h"
#include "target/association/controller.h"
#include "target/operations/control/fields.h"
#include "target/operations/control/load.h"

enum {
	HOLDERS_MAX = 16,
};

struct question {
	struct loop_msg msg;
	const struct poller *poller;
	struct loads *loads;
	sem_t *is_answered;
};

static void measure(struct loop_msg *msg)
{
	struct question *q = container_of(msg, struct question, msg);

	for (unsigned i = 0; i < q->loads->n; i++) {
		struct connection_load *row = &q->loads->rows[i];

		if (row->connection->queue->poller == q->poller)
			load_measure(row->connection->queue, &row->load);
	}
	sem_post(q->is_answered);
}

/* A poller without connections may have ended. */
static bool has_queues(const struct poller *poller, const struct loads *loads)
{
	for (unsigned i = 0; i < loads->n; i++)
		if (loads->rows[i].connection->queue->poller == poller)
			return true;
	return false;
}

static void ask(struct target *target, struct loads *loads)
{
	struct question questions[POLLERS_MAX];
	unsigned n_asked = 0;
	sem_t is_answered;

	sem_init(&is_answered, 0, 0);
	for (unsigned i = 0; i < target->n_pollers; i++) {
		struct poller *poller = &target->pollers[i];

		if (!has_queues(poller, loads))
			continue;
		questions[n_asked] = (struct question){.msg.run = measure,
						       .poller = poller,
						       .loads = loads,
						       .is_answered = &is_answered};
		loop_send(&poller->loop, &questions[n_asked++].msg);
	}
	while (n_asked)
		n_asked -= sem_wait(&is_answered) == 0; /* or interrupted by a signal */
	sem_destroy(&is_answered);
}

void loads_measure(struct target *target, struct loads *ret_loads)
{
	struct loads loads = {0};

	loads.rows = calloc(target->n_connections + 1, sizeof(*loads.rows));
	if (loads.rows) {
		list_for_each (node, &target->connections) {
			loads.rows[loads.n++].connection = list_entry(node, struct connection,
								      node);
		}
		ask(target, &loads);
	}
	*ret_loads = loads;
}

void loads_free(struct loads *loads)
{
	free(loads->rows);
	*loads = (struct loads){0};
}

struct load loads_of(const struct loads *loads, const struct connection *connection)
{
	for (unsigned i = 0; i < loads->n; i++)
		if (loads->rows[i].connection == connection)
			return loads->rows[i].load;
	return (struct load){0};
}

struct load loads_of_host(const struct loads *loads, const char *nqn)
{
	struct load sum = {0};

	for (unsigned i = 0; i < loads->n; i++) {
		const struct controller *controller = loads->rows[i].connection->controller;
		const struct load *load = &loads->rows[i].load;

		if (!controller || strcmp(controller->hostnqn, nqn) != 0)
			continue;
		sum.n_commands += load->n_commands;
		sum.buffer_bytes += load->buffer_bytes;
		sum.oldest_ns = MAX(sum.oldest_ns, load->oldest_ns);
		sum.takes_no_ns = MAX(sum.takes_no_ns, load->takes_no_ns);
	}
	return sum;
}

void loads_add(struct json_object *o, const struct load *load)
{
	control_add_number(o, "in_flight", load->n_commands);
	control_add_number(o, "oldest_command_s", load->oldest_ns / NSEC_PER_SEC);
	control_add_number(o, "buffer_bytes", load->buffer_bytes);
	control_add_number(o, "takes_no_data_s", load->takes_no_ns / NSEC_PER_SEC);
}

static int compare_age(const void *a, const void *b)
{
	const struct load *x = &((const struct connection_load *)a)->load;
	const struct load *y = &((const struct connection_load *)b)->load;

	return (x->oldest_ns < y->oldest_ns) - (x->oldest_ns > y->oldest_ns);
}

static struct json_object *show_holder(const struct connection_load *row)
{
	const struct controller *controller = row->connection->controller;
	struct json_object *o = json_object_new_object();

	control_add_string(o, "host", controller ? controller->hostnqn : NULL);
	control_add_string(o, "address", row->connection->remote);
	if (controller)
		control_add_number(o, "controller", controller->id);
	else
		json_add_null(o, "controller");
	control_add_number(o, "queue", row->connection->queue->qid);
	loads_add(o, &row->load);
	return o;
}

struct json_object *control_list_holders(struct target *target)
{
	struct json_object *list = json_object_new_array();
	struct loads loads;

	loads_measure(target, &loads);
	if (loads.n)
		qsort(loads.rows, loads.n, sizeof(*loads.rows), compare_age);
	for (unsigned i = 0; i < loads.n; i++) {
		const struct load *load = &loads.rows[i].load;

		if ((load->n_commands || load->buffer_bytes) &&
		    json_object_array_length(list) < HOLDERS_MAX)
			json_append(list, show_holder(&loads.rows[i]));
	}
	loads_free(&loads);
	return list;
}
