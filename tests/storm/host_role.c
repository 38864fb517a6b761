/* SPDX-License-Identifier: BSD-3-Clause */
/* A host of a storm: it sends any command, accepts any answer, disconnects and connects again. Its
 * answers are not judged. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/storm/storm.h"

enum {
	CONNECT_MS = 20000,
	RECENT = 8, /* commands of a queue that an Abort may name */
	IO_ENTRIES = 16,
	IO_DEPTH = 14,
	ADMIN_DEPTH = 28,
	DUELS = 5, /* of 1000 steps */
};

struct storm_queue {
	struct raw_queue q;
	bool is_open;
	unsigned n_entries, n_outstanding;
	uint16_t recent[RECENT];
};

struct storm_host {
	const uint16_t *ports;
	unsigned number, queue_depth; /* the most that rblkd accepts */
	struct dice dice;
	struct storm_queue queues[STORM_QUEUES + 1]; /* 0: admin */
	uint16_t cntlid;
	bool must_enable;
	struct duel duel;
	struct capsule_made capsule;
	unsigned long n_sent, n_ok, n_refused, n_connected, n_not_connected, n_died;
};

static void close_queue(struct storm_queue *queue)
{
	if (queue->is_open)
		raw_close(&queue->q);
	queue->is_open = false;
	queue->n_outstanding = 0;
}

/* The admin queue first or last. */
static void close_all(struct storm_host *h)
{
	bool is_admin_first = chance(&h->dice, 500);

	for (unsigned i = 0; i <= STORM_QUEUES; i++)
		close_queue(&h->queues[is_admin_first ? i : STORM_QUEUES - i]);
}

static void make_connect(struct storm_host *h, unsigned qid, struct raw_connect *c)
{
	struct storm_queue *queue = &h->queues[qid];

	raw_connect_init(c, &queue->q, (uint16_t)qid, (uint16_t)(queue->n_entries - 1),
			 qid ? h->cntlid : NVMF_CNTLID_DYNAMIC);
	memset(c->data.subnqn, 0, sizeof(c->data.subnqn));
	memset(c->data.hostnqn, 0, sizeof(c->data.hostnqn));
	strcpy((char *)c->data.subnqn, STORM_SUBNQN);
	snprintf((char *)c->data.hostnqn, sizeof(c->data.hostnqn), STORM_HOSTNQN, h->number);
	memset(c->data.hostid, 0x41 + (int)h->number, sizeof(c->data.hostid));
	if (chance(&h->dice, 20)) /* of the command or its data */
		((uint8_t *)c)[roll(&h->dice, sizeof(*c))] ^= (uint8_t)(1 << roll(&h->dice, 8));
	c->cmd.kato = put_le32(chance(&h->dice, 600) ? 0 : 1000 + (uint32_t)roll(&h->dice, 20000));
	if (chance(&h->dice, 30))
		c->cmd.cattr |= 4; /* without flow control of the submission queue */
}

static bool send_connect(struct storm_host *h, unsigned qid)
{
	struct storm_queue *queue = &h->queues[qid];
	struct raw_connect c;
	struct nvme_cqe cqe;
	uint8_t capsule[sizeof(c)];

	make_connect(h, qid, &c);
	memcpy(queue->q.data, &c.data, sizeof(c.data));
	memcpy(capsule, &c, sizeof(c));
	raw_send(&queue->q, capsule, qid ? sizeof(c) : sizeof(c.cmd));
	if (!raw_receive(&queue->q, &cqe, CONNECT_MS) || get_nvme_status(cqe.status) != NVME_OK)
		return false;
	if (qid == 0)
		h->cntlid = (uint16_t)get_le32(cqe.dw0);
	return true;
}

static void open_queue(struct storm_host *h, unsigned qid, unsigned portal)
{
	struct storm_queue *queue = &h->queues[qid];

	queue->n_entries = !qid			   ? (unsigned)NVMF_ADMIN_SQ_ENTRIES
			   : chance(&h->dice, 100) ? h->queue_depth
						   : (unsigned)IO_ENTRIES;
	queue->is_open = raw_open(&queue->q, h->ports[portal], (uint16_t)qid, queue->n_entries) ==
				 0 &&
			 send_connect(h, qid);
	if (!queue->is_open) {
		raw_close(&queue->q);
		h->n_not_connected++;
		return;
	}
	h->n_connected++;
	queue->n_outstanding = 0;
	queue->q.keeps_receives = chance(&h->dice, 10);
}

static void send_made(struct storm_host *h, unsigned qid)
{
	struct storm_queue *queue = &h->queues[qid];
	struct nvme_sqe sqe;

	if (!queue->is_open || queue->q.is_dead)
		return;
	memcpy(&sqe, h->capsule.bytes, sizeof(sqe));
	queue->recent[roll(&h->dice, RECENT)] = get_le16(sqe.cid);
	queue->n_outstanding++;
	h->n_sent++;
	raw_send(&queue->q, h->capsule.bytes, h->capsule.n);
}

static void set_cc(struct storm_host *h, uint64_t value)
{
	struct nvmf_property_cmd cmd = {.opcode = NVME_FABRICS,
					.flags = NVME_FLAGS_PSDT_SGL,
					.cid = put_le16(h->queues[0].q.next_cid++),
					.fctype = NVMF_PROPERTY_SET,
					.offset = put_le32(NVME_PROP_CC),
					.value = put_le64(value)};

	((struct nvme_sqe *)&cmd)->sgl.keyed.type = NVME_SGL_KEYED_ADDRESS;
	memcpy(h->capsule.bytes, &cmd, sizeof(cmd));
	h->capsule.n = sizeof(cmd);
	send_made(h, 0);
}

/* From any state: a controller that was shut down is enabled only after it was disabled. */
static void enable(struct storm_host *h)
{
	set_cc(h, 0);
	set_cc(h, NVME_CC_ENABLE_VALUE);
}

static void open_all(struct storm_host *h)
{
	unsigned portal = (unsigned)roll(&h->dice, 2);
	unsigned n = (unsigned)roll(&h->dice, STORM_QUEUES + 1);

	open_queue(h, 0, portal);
	if (!h->queues[0].is_open)
		return;
	if (chance(&h->dice, 900)) {
		enable(h);
		usleep(3000);
	}
	for (unsigned i = 1; i <= n && !h->queues[0].q.is_dead; i++)
		open_queue(h, i, chance(&h->dice, 900) ? portal : (unsigned)roll(&h->dice, 2));
}

static void take_answer(struct storm_host *h, struct storm_queue *queue, const struct nvme_cqe *cqe)
{
	enum nvme_status status = get_nvme_status(cqe->status);

	queue->n_outstanding -= queue->n_outstanding > 0;
	if (status == NVME_OK)
		h->n_ok++;
	else
		h->n_refused++;
	/* The controller is disabled, by a Property Set of this host. */
	if ((status & ~NVME_DNR) == NVME_COMMAND_SEQUENCE && chance(&h->dice, 100))
		h->must_enable = true;
}

/* Takes the responses that are here, and closes queues that have ended. */
static void take_answers(struct storm_host *h)
{
	struct nvme_cqe cqe;

	for (unsigned i = 0; i <= STORM_QUEUES; i++) {
		struct storm_queue *queue = &h->queues[i];

		while (queue->is_open && !queue->q.is_dead && raw_receive(&queue->q, &cqe, 0)) {
			take_answer(h, queue, &cqe);
		}
		if (queue->is_open && queue->q.is_dead) {
			h->n_died++;
			close_queue(queue);
		}
	}
	if (!h->queues[0].is_open)
		close_all(h);
}

static void send_pair(struct storm_host *h, unsigned qid)
{
	struct raw_queue *q = &h->queues[qid].q;
	uint32_t nsid = h->duel.n_left ? h->duel.nsid
				       : 1 + (uint32_t)roll(&h->dice, STORM_NAMESPACES);
	uint64_t slba = h->duel.n_left ? h->duel.slba : roll(&h->dice, 64);

	for (unsigned half = 0; half < 2 && !q->is_dead; half++) {
		if (half && chance(&h->dice, 50)) /* something between, or nothing at all */
			return;
		make_half(&h->dice, q, half, nsid, slba, &h->capsule);
		send_made(h, qid);
		if (chance(&h->dice, 100) && !h->queues[0].q.is_dead) {
			make_abort(&h->queues[0].q, qid, (uint16_t)(q->next_cid - 1), &h->capsule);
			send_made(h, 0);
		}
	}
}

static void send_admin(struct storm_host *h)
{
	struct raw_queue *q = &h->queues[0].q;
	unsigned qid = (unsigned)roll(&h->dice, STORM_QUEUES + 1);

	if (h->queues[0].n_outstanding >= ADMIN_DEPTH || q->is_dead)
		return;
	if (chance(&h->dice, 200))
		make_abort(q, qid, h->queues[qid].recent[roll(&h->dice, RECENT)], &h->capsule);
	else
		make_admin_command(&h->dice, q, &h->capsule);
	send_made(h, 0);
}

static void send_io(struct storm_host *h, unsigned qid)
{
	struct storm_queue *queue = &h->queues[qid];

	/* Now and then more than the queue has entries. */
	if (!queue->is_open || queue->q.is_dead ||
	    queue->n_outstanding >= (chance(&h->dice, 999) ? IO_DEPTH : 2 * IO_ENTRIES))
		return;
	if (chance(&h->dice, 100)) {
		send_pair(h, qid);
	} else if (h->duel.n_left) {
		make_duel_command(&h->dice, &queue->q, &h->duel, &h->capsule);
		send_made(h, qid);
	} else {
		make_io_command(&h->dice, &queue->q, &h->capsule);
		send_made(h, qid);
	}
}

/* All queues are kept full. */
static void go_on_with_duel(struct storm_host *h)
{
	for (unsigned i = 0; i < IO_DEPTH; i++)
		for (unsigned qid = 1; qid <= STORM_QUEUES && h->duel.n_left; qid++)
			send_io(h, qid);
	if (h->duel.n_left && chance(&h->dice, 20)) /* no queue may be open */
		h->duel.n_left--;
}

static void step(struct storm_host *h)
{
	unsigned qid = 1 + (unsigned)roll(&h->dice, STORM_QUEUES);
	unsigned n = 1 + (unsigned)roll(&h->dice, chance(&h->dice, 100) ? 30 : 4);

	if (!h->queues[0].is_open)
		open_all(h);
	take_answers(h);
	if (chance(&h->dice, 2))
		close_all(h);
	else if (chance(&h->dice, 2))
		close_queue(&h->queues[qid]);
	if (!h->queues[0].is_open)
		return;
	if (!h->queues[qid].is_open && chance(&h->dice, 20))
		open_queue(h, qid, (unsigned)roll(&h->dice, 2));
	if (h->must_enable)
		enable(h);
	h->must_enable = false;
	if (h->duel.n_left) {
		go_on_with_duel(h);
		return;
	}
	if (chance(&h->dice, DUELS))
		start_duel(&h->dice, &h->duel);
	while (n--)
		if (chance(&h->dice, 180))
			send_admin(h);
		else
			send_io(h, 1 + (unsigned)roll(&h->dice, STORM_QUEUES));
}

int play_host(const uint16_t ports[2], unsigned number, uint64_t seed, uint64_t end_ns)
{
	const struct storm_sizes sizes = storm_sizes_of(seed);
	static struct storm_host h;

	set_in_capsule_max(sizes.inline_data);
	h = (struct storm_host){.ports = ports,
				.number = number,
				.queue_depth = sizes.queue_depth,
				.dice = dice_of(seed, 1 + number)};
	/* Where it was not allowed all the time, it goes on: afterwards the weather is fair. */
	while (clock_ns() < end_ns || !h.n_ok)
		step(&h);
	close_all(&h);
	printf("# host %u: %lu commands, %lu answered well, %lu refused; %lu queues connected, %lu not, %lu died\n",
	       number, h.n_sent, h.n_ok, h.n_refused, h.n_connected, h.n_not_connected, h.n_died);
	return 0;
}
