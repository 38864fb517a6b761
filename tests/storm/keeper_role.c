/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The keeper of a storm: the only host that writes its namespace. Each block has its number and how
 * often it was written; a block that is read is the last that was acknowledged, or one sent later.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/storm/storm.h"

enum {
	BLOCKS = 64,
	BYTES = 4096,
	ANSWER_MS = 60000,
	AGAIN_US = 20000,
};

struct stamp {
	uint64_t block, version;
};

struct keeper {
	const uint16_t *ports;
	struct dice dice;
	struct raw_host h;
	bool is_admin_open, is_io_open;
	uint64_t acknowledged[BLOCKS], sent[BLOCKS];
	unsigned long n_written, n_read, n_connected, n_unknown;
};

static void leave(struct keeper *k)
{
	if (k->is_io_open)
		raw_close(&k->h.io);
	if (k->is_admin_open)
		raw_close(&k->h.admin);
	k->is_io_open = k->is_admin_open = false;
}

static bool connect_queue(struct keeper *k, struct raw_queue *q, uint16_t qid, uint16_t port)
{
	unsigned n = qid ? 16 : NVMF_ADMIN_SQ_ENTRIES;
	struct raw_connect c;
	struct nvme_cqe cqe;

	if (raw_open(q, port, qid, n) != 0) {
		raw_close(q);
		return false;
	}
	raw_connect_init(&c, q, qid, (uint16_t)(n - 1), qid ? k->h.cntlid : NVMF_CNTLID_DYNAMIC);
	memcpy(q->data, &c.data, sizeof(c.data));
	raw_send(q, &c, qid ? sizeof(c) : sizeof(c.cmd));
	if (!raw_receive(q, &cqe, ANSWER_MS) || get_nvme_status(cqe.status) != NVME_OK) {
		raw_close(q);
		return false;
	}
	if (qid == 0)
		k->h.cntlid = (uint16_t)get_le32(cqe.dw0);
	return true;
}

/* Whether the command was answered; then its status. */
static bool run(struct raw_queue *q, const void *sqe, enum nvme_status *ret_status)
{
	struct nvme_cqe cqe;

	raw_send(q, sqe, sizeof(struct nvme_sqe));
	if (!raw_receive(q, &cqe, ANSWER_MS))
		return false;
	*ret_status = get_nvme_status(cqe.status);
	return true;
}

static bool enable(struct raw_queue *q)
{
	struct nvmf_property_cmd cmd = {.opcode = NVME_FABRICS,
					.flags = NVME_FLAGS_PSDT_SGL,
					.cid = put_le16(q->next_cid++),
					.fctype = NVMF_PROPERTY_SET,
					.offset = put_le32(NVME_PROP_CC),
					.value = put_le64(NVME_CC_ENABLE_VALUE)};
	enum nvme_status status;

	((struct nvme_sqe *)&cmd)->sgl.keyed.type = NVME_SGL_KEYED_ADDRESS;
	return run(q, &cmd, &status) && status == NVME_OK;
}

/* A portal may be drained. */
static bool come(struct keeper *k)
{
	uint16_t port = k->ports[roll(&k->dice, 2)];

	k->is_admin_open = connect_queue(k, &k->h.admin, 0, port);
	k->is_io_open = k->is_admin_open && enable(&k->h.admin) &&
			connect_queue(k, &k->h.io, 1, port);
	if (!k->is_io_open)
		leave(k);
	k->n_connected += k->is_io_open;
	return k->is_io_open;
}

static void write_block(struct keeper *k, uint64_t block)
{
	struct raw_queue *q = &k->h.io;
	struct stamp stamp = {block, ++k->sent[block]};
	struct nvme_sqe sqe = raw_blocks(q, NVME_IO_WRITE, STAMPS_NSID, block, 1);
	enum nvme_status status;

	for (unsigned at = 0; at < BYTES; at += sizeof(stamp))
		memcpy(q->data + at, &stamp, sizeof(stamp));
	raw_describe(q, &sqe, 0, BYTES);
	if (!run(q, &sqe, &status)) {
		k->n_unknown++;
		leave(k);
	} else if (status == NVME_OK) {
		k->acknowledged[block] = stamp.version;
		k->n_written++;
	}
}

static bool is_right(const struct keeper *k, uint64_t block, const char *data)
{
	struct stamp first, stamp;

	memcpy(&first, data, sizeof(first));
	for (unsigned at = 0; at < BYTES; at += sizeof(stamp)) {
		memcpy(&stamp, data + at, sizeof(stamp));
		if (memcmp(&stamp, &first, sizeof(stamp)) != 0) {
			printf("# block %lu is torn at byte %u\n", (unsigned long)block, at);
			return false;
		}
	}
	if (first.version >= k->acknowledged[block] && first.version <= k->sent[block] &&
	    (first.block == block || !first.version))
		return true;
	printf("# block %lu: holds version %lu of %lu; %lu was acknowledged, %lu sent\n",
	       (unsigned long)block, (unsigned long)first.version, (unsigned long)first.block,
	       (unsigned long)k->acknowledged[block], (unsigned long)k->sent[block]);
	return false;
}

static bool read_block(struct keeper *k, uint64_t block)
{
	struct raw_queue *q = &k->h.io;
	struct nvme_sqe sqe = raw_blocks(q, NVME_IO_READ, STAMPS_NSID, block, 1);
	enum nvme_status status;

	memset(q->data, 0xee, BYTES);
	raw_describe(q, &sqe, 0, BYTES);
	if (!run(q, &sqe, &status)) {
		leave(k);
		return true;
	}
	k->n_read += status == NVME_OK;
	return status != NVME_OK || is_right(k, block, q->data);
}

static bool step(struct keeper *k)
{
	uint64_t block = roll(&k->dice, BLOCKS);

	if (!k->is_io_open && !come(k)) {
		usleep(AGAIN_US);
		return true;
	}
	if (chance(&k->dice, 5)) {
		leave(k);
		return true;
	}
	if (chance(&k->dice, 500))
		write_block(k, block);
	else
		return read_block(k, block);
	return true;
}

static bool read_all(struct keeper *k)
{
	for (uint64_t block = 0; block < BLOCKS; block++) {
		unsigned long before = k->n_read;

		while (k->n_read == before) {
			if (!k->is_io_open && !come(k))
				usleep(AGAIN_US);
			else if (!read_block(k, block))
				return false;
		}
	}
	return true;
}

int play_keeper(const uint16_t ports[2], uint64_t seed, uint64_t end_ns)
{
	static struct keeper k;
	bool is_right_yet = true;

	k = (struct keeper){.ports = ports, .dice = dice_of(seed, 0)};
	while (is_right_yet && clock_ns() < end_ns)
		is_right_yet = step(&k);
	is_right_yet = is_right_yet && read_all(&k);
	leave(&k);
	printf("# keeper: %lu written, %lu read, %lu writes without answer, %lu times connected\n",
	       k.n_written, k.n_read, k.n_unknown, k.n_connected);
	return is_right_yet && k.n_written ? 0 : 1;
}
