/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The keeper of a storm: the only host that writes its namespace. Each block holds its number and
 * its version, which counts the writes. A Read must return the version of the last Write that was
 * acknowledged, or of one sent later.
 *
 * Some blocks are written by a fused Compare and Write, and some commands are aborted. An Abort
 * that returns "aborted" must be true: the command ends with an error, and the block holds what it
 * held.
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
	ABORT_US = 3000, /* an Abort follows its command by less than that */
	COMMANDS_MAX = 2,
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
	unsigned long n_written, n_read, n_connected, n_unknown, n_aborted;
};

/* A command that was sent, until its response is here. */
struct sent_command {
	uint16_t cid;
	bool is_answered, is_aborted; /* is_aborted: as the Abort returned */
	enum nvme_status status;
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

/* True: a response came; *ret_status is its status then. */
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

/* ---- writes --------------------------------------------------------------------------------- */

/* The contents of a block at this version. At version 0 it was never written, and holds zeroes. */
static void fill(char *data, uint64_t block, uint64_t version)
{
	struct stamp stamp = {version ? block : 0, version};

	for (unsigned at = 0; at < BYTES; at += sizeof(stamp))
		memcpy(data + at, &stamp, sizeof(stamp));
}

static void send_block(struct keeper *k, uint8_t opcode, uint8_t fuse, uint64_t block,
		       uint64_t version, size_t offset, struct sent_command *ret_command)
{
	struct raw_queue *q = &k->h.io;
	struct nvme_sqe sqe = raw_blocks(q, opcode, STAMPS_NSID, block, 1);

	sqe.flags |= fuse;
	fill(q->data + offset, block, version);
	raw_describe(q, &sqe, offset, BYTES);
	*ret_command = (struct sent_command){.cid = get_le16(sqe.cid)};
	raw_send(q, &sqe, sizeof(sqe));
}

/* False: the Abort was not answered. */
static bool abort_command(struct keeper *k, struct sent_command *command)
{
	struct nvme_sqe sqe = raw_sqe(&k->h.admin, NVME_ADMIN_ABORT, 0);
	struct nvme_cqe cqe;

	usleep((unsigned)roll(&k->dice, ABORT_US));
	sqe.cdw10 = put_le32((uint32_t)command->cid << 16 | 1);
	raw_send(&k->h.admin, &sqe, sizeof(sqe));
	if (!raw_receive(&k->h.admin, &cqe, ANSWER_MS))
		return false;
	command->is_aborted = get_nvme_status(cqe.status) == NVME_OK && !(get_le32(cqe.dw0) & 1);
	k->n_aborted += command->is_aborted;
	return true;
}

/* True: each of the n commands was answered, and so was an Abort that was sent for one of them. */
static bool collect(struct keeper *k, struct sent_command *commands, unsigned n)
{
	struct nvme_cqe cqe;

	if (chance(&k->dice, 300) && !abort_command(k, &commands[roll(&k->dice, n)]))
		return false;
	for (unsigned n_answered = 0; n_answered < n; n_answered++) {
		if (!raw_receive(&k->h.io, &cqe, ANSWER_MS))
			return false;
		for (unsigned i = 0; i < n; i++) {
			if (commands[i].cid != get_le16(cqe.cid))
				continue;
			commands[i].is_answered = true;
			commands[i].status = get_nvme_status(cqe.status);
		}
	}
	return true;
}

/* Statuses of a command that has changed nothing. */
static bool is_untouched(enum nvme_status status)
{
	switch ((enum nvme_status)(status & ~NVME_DNR)) {
	case NVME_ABORTED_BY_REQUEST:
	case NVME_ABORTED_FAILED_FUSED:
	case NVME_ABORTED_MISSING_FUSED:
	case NVME_INTERRUPTED:
		return true;
	default:
		return false;
	}
}

static bool is_abort_true(uint64_t block, const struct sent_command *command)
{
	if (!command->is_aborted || command->status != NVME_OK)
		return true;
	printf("# block %lu: an Abort returned that command %u was aborted, but it succeeded\n",
	       (unsigned long)block, command->cid);
	return false;
}

/* The last of the n commands writes the block. False: a response is wrong. */
static bool judge(struct keeper *k, uint64_t block, const struct sent_command *commands, unsigned n)
{
	const struct sent_command *write = &commands[n - 1];

	for (unsigned i = 0; i < n; i++) {
		if (!commands[i].is_answered) {
			printf("# a response has an identifier that was not sent\n");
			return false;
		}
		if (!is_abort_true(block, &commands[i]))
			return false;
	}
	if (write->status == NVME_OK && commands[0].status != NVME_OK) {
		printf("# block %lu: of a pair the Compare failed, and the Write succeeded\n",
		       (unsigned long)block);
		return false;
	}
	if (commands[0].status == (NVME_COMPARE_FAILURE | NVME_DNR)) {
		printf("# block %lu: a Compare with version %lu failed, which it holds\n",
		       (unsigned long)block, (unsigned long)k->acknowledged[block]);
		return false;
	}
	if (write->status == NVME_OK) {
		k->acknowledged[block] = k->sent[block];
		k->n_written++;
	} else if (is_untouched(write->status)) {
		k->sent[block]--;
	}
	return true;
}

/* False: a finding. */
static bool write_block(struct keeper *k, uint64_t block)
{
	/* After a Write without a response it is not known what the block holds. */
	bool is_known = k->acknowledged[block] == k->sent[block];
	unsigned n = is_known && chance(&k->dice, 500) ? 2 : 1;
	uint64_t held = k->sent[block], version = ++k->sent[block];
	struct sent_command commands[COMMANDS_MAX];

	if (n == 2) {
		send_block(k, NVME_IO_COMPARE, NVME_FLAGS_FUSE_FIRST, block, held, 0, &commands[0]);
		send_block(k, NVME_IO_WRITE, NVME_FLAGS_FUSE_SECOND, block, version, BYTES,
			   &commands[1]);
	} else {
		send_block(k, NVME_IO_WRITE, 0, block, version, 0, &commands[0]);
	}
	if (collect(k, commands, n))
		return judge(k, block, commands, n);
	k->n_unknown++;
	leave(k);
	return true;
}

/* ---- reads ---------------------------------------------------------------------------------- */

static bool is_right(const struct keeper *k, uint64_t block, const char *data)
{
	struct stamp first, stamp;

	memcpy(&first, data, sizeof(first));
	for (unsigned at = 0; at < BYTES; at += sizeof(stamp)) {
		memcpy(&stamp, data + at, sizeof(stamp));
		if (memcmp(&stamp, &first, sizeof(stamp)) != 0) {
			printf("# wrong data: block %lu is torn at byte %u\n", (unsigned long)block,
			       at);
			return false;
		}
	}
	if (first.version >= k->acknowledged[block] && first.version <= k->sent[block] &&
	    (first.block == block || !first.version))
		return true;
	printf("# wrong data: block %lu holds version %lu of %lu; %lu was acknowledged, %lu sent\n",
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
	return chance(&k->dice, 500) ? write_block(k, block) : read_block(k, block);
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

	k = (struct keeper){.ports = ports, .dice = dice_of(seed, STREAM_KEEPER)};
	/* A slow machine may take longer for the first write; test_storm.c limits the time. */
	while (is_right_yet && (clock_ns() < end_ns || !k.n_written))
		is_right_yet = step(&k);
	is_right_yet = is_right_yet && read_all(&k);
	leave(&k);
	printf("# keeper: %lu written, %lu read, %lu writes without answer, %lu commands aborted, %lu times connected\n",
	       k.n_written, k.n_read, k.n_unknown, k.n_aborted, k.n_connected);
	return is_right_yet ? 0 : 1;
}
