/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reservations between three hosts: access under each type, every action with its refusals, the
 * notices to other hosts, and the state after a restart. Numbers are those of Base 2.0, 8.19.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/error.h"
#include "tests/raw/group.h"
#include "tests/raw/host.h"
#include "transport/wire/nvme_reservation.h"

enum {
	WAIT_MS = 60000,
	N_HOSTS = 3,
	REGISTER = NVME_RREGA_REGISTER,
	CONFLICT = NVME_RESERVATION_CONFLICT | NVME_DNR,
	INVALID = NVME_INVALID_FIELD | NVME_DNR,
	BLOCK = 4096,
	PAIR_BLOCK = 300,
};

static struct raw_host hosts[N_HOSTS];

static int connect_all(void **state)
{
	for (unsigned i = 0; i < N_HOSTS; i++)
		raw_host_open_as(&hosts[i], d.port, i);
	return 0;
}

static int leave_all(void **state)
{
	for (unsigned i = 0; i < N_HOSTS; i++)
		raw_host_close(&hosts[i]);
	daemon_wait_empty(&d);
	return 0;
}

/* ---- the commands --------------------------------------------------------------------------- */

static enum nvme_status reserve(unsigned host, uint8_t opcode, uint32_t cdw10, uint64_t first,
				uint64_t second)
{
	struct raw_queue *q = &hosts[host].io;
	struct nvme_sqe sqe = raw_sqe(q, opcode, DAEMON_FILE);
	le64 keys[2] = {put_le64(first), put_le64(second)};
	struct nvme_cqe cqe;

	memcpy(q->data, keys, sizeof(keys));
	raw_describe(q, &sqe, 0, opcode == NVME_IO_RESERVATION_RELEASE ? 8 : 16);
	sqe.cdw10 = put_le32(cdw10);
	return raw_run(q, &sqe, NULL, 0, &cqe);
}

static enum nvme_status regist(unsigned host, uint32_t cdw10, uint64_t crkey, uint64_t nrkey)
{
	return reserve(host, NVME_IO_RESERVATION_REGISTER, cdw10, crkey, nrkey);
}

static enum nvme_status acquire(unsigned host, unsigned action, unsigned type, uint64_t crkey,
				uint64_t prkey)
{
	return reserve(host, NVME_IO_RESERVATION_ACQUIRE, action | type << NVME_RESV_RTYPE_SHIFT,
		       crkey, prkey);
}

static enum nvme_status release(unsigned host, unsigned action, unsigned type, uint64_t crkey)
{
	return reserve(host, NVME_IO_RESERVATION_RELEASE, action | type << NVME_RESV_RTYPE_SHIFT,
		       crkey, 0);
}

struct report {
	struct nvme_resv_status status;
	struct nvme_resv_registrant registrants[N_HOSTS];
};

static struct report report(unsigned host)
{
	struct raw_queue *q = &hosts[host].io;
	struct nvme_sqe sqe = raw_sqe(q, NVME_IO_RESERVATION_REPORT, DAEMON_FILE);
	struct report report;
	struct nvme_cqe cqe;

	raw_describe(q, &sqe, 0, sizeof(report));
	sqe.cdw10 = put_le32(sizeof(report) / 4 - 1);
	assert_int_equal(raw_run(q, &sqe, NULL, 0, &cqe), NVME_HOST_ID_INCONSISTENT | NVME_DNR);
	sqe.cid = put_le16(q->next_cid++);
	sqe.cdw11 = put_le32(NVME_RESV_EDS);
	assert_int_equal(raw_run(q, &sqe, NULL, 0, &cqe), NVME_OK);
	memcpy(&report, q->data, sizeof(report));
	return report;
}

static void assert_state(unsigned n, unsigned type)
{
	struct report r = report(0);

	assert_int_equal(r.status.regctl[0], n);
	assert_int_equal(r.status.rtype, type);
}

static enum nvme_status io(unsigned host, uint8_t opcode)
{
	return raw_io(&hosts[host].io, opcode, DAEMON_FILE, 0, 1, 4096);
}

static enum nvme_status without_data(unsigned host, uint8_t opcode)
{
	struct nvme_sqe sqe = raw_sqe(&hosts[host].io, opcode, DAEMON_FILE);
	struct nvme_cqe cqe;

	return raw_run(&hosts[host].io, &sqe, NULL, 0, &cqe);
}

static enum nvme_status copy_block(unsigned host)
{
	struct raw_queue *q = &hosts[host].io;
	struct nvme_sqe sqe = raw_sqe(q, NVME_IO_COPY, DAEMON_FILE);
	struct nvme_cqe cqe;

	memset(q->data, 0, 32);
	raw_describe(q, &sqe, 0, 32);
	sqe.cdw10 = put_le32(100);
	return raw_run(q, &sqe, NULL, 0, &cqe);
}

static enum nvme_status discard_block(unsigned host)
{
	struct raw_queue *q = &hosts[host].io;
	struct nvme_sqe sqe = raw_sqe(q, NVME_IO_DSM, DAEMON_FILE);
	struct nvme_dsm_range range = {.nlb = put_le32(1), .slba = put_le64(200)};
	struct nvme_cqe cqe;

	memcpy(q->data, &range, sizeof(range));
	raw_describe(q, &sqe, 0, sizeof(range));
	sqe.cdw11 = put_le32(NVME_DSM_AD);
	return raw_run(q, &sqe, NULL, 0, &cqe);
}

/* ---- Compare and Write ---------------------------------------------------------------------- */

/* The block that pairs write, and its content: each byte is this number. */
static uint8_t pair_content;

static void send_half(struct raw_queue *q, uint8_t opcode, unsigned fuse, uint8_t content)
{
	struct nvme_sqe sqe = raw_blocks(q, opcode, DAEMON_FILE, PAIR_BLOCK, 1);
	size_t offset = opcode == NVME_IO_WRITE ? BLOCK : 0;

	memset(q->data + offset, content, BLOCK);
	sqe.flags |= (uint8_t)fuse;
	raw_describe(q, &sqe, offset, BLOCK);
	raw_send(q, &sqe, sizeof(sqe));
}

static enum nvme_status answer(unsigned host)
{
	struct nvme_cqe cqe;

	assert_true(raw_receive(&hosts[host].io, &cqe, WAIT_MS));
	return get_nvme_status(cqe.status);
}

/* The block is that of host 0, which always has access. */
static void assert_content(uint8_t content)
{
	struct raw_queue *q = &hosts[0].io;

	memset(q->data, ~content, BLOCK);
	assert_int_equal(raw_io(q, NVME_IO_READ, DAEMON_FILE, PAIR_BLOCK, 1, BLOCK), NVME_OK);
	for (unsigned i = 0; i < BLOCK; i++)
		assert_int_equal((uint8_t)q->data[i], content);
}

/* The Compare would succeed: only the reservation refuses. The half that it refuses has the
 * conflict (Base 2.0, 3.4.2), and the Write is not executed. */
static void assert_pair(unsigned host, bool may_read, bool may_write)
{
	enum nvme_status because = NVME_ABORTED_FAILED_FUSED | NVME_DNR;
	enum nvme_status second = may_write ? NVME_OK : CONFLICT;
	struct raw_queue *q = &hosts[host].io;
	uint8_t next = (uint8_t)(pair_content + 1);

	send_half(q, NVME_IO_COMPARE, NVME_FLAGS_FUSE_FIRST, pair_content);
	send_half(q, NVME_IO_WRITE, NVME_FLAGS_FUSE_SECOND, next);
	assert_int_equal(answer(host), !may_read ? CONFLICT : may_write ? NVME_OK : because);
	assert_int_equal(answer(host), may_read ? second : because);
	if (may_read && may_write)
		pair_content = next;
	assert_content(pair_content);
}

static void clear(unsigned host, uint64_t key)
{
	assert_int_equal(release(host, NVME_RRELA_CLEAR, 0, key), NVME_OK);
	assert_state(0, NVME_RTYPE_NONE);
}

/* ---- access --------------------------------------------------------------------------------- */

static void assert_access(unsigned host, bool may_read, bool may_write)
{
	enum nvme_status reads = may_read ? NVME_OK : CONFLICT;
	enum nvme_status writes = may_write ? NVME_OK : CONFLICT;

	assert_int_equal(io(host, NVME_IO_WRITE), writes);
	assert_int_equal(without_data(host, NVME_IO_WRITE_ZEROES), writes);
	assert_int_equal(without_data(host, NVME_IO_WRITE_UNCORRECTABLE), writes);
	assert_int_equal(without_data(host, NVME_IO_WRITE_ZEROES), writes); /* healed */
	assert_int_equal(without_data(host, NVME_IO_FLUSH), writes);
	assert_int_equal(copy_block(host), writes);
	assert_int_equal(discard_block(host), writes);
	assert_int_equal(io(host, NVME_IO_READ), reads);
	assert_int_equal(io(host, NVME_IO_COMPARE), reads);
	assert_int_equal(without_data(host, NVME_IO_VERIFY), reads);
	assert_pair(host, may_read, may_write);
}

static void each_type_lets_through(void **state)
{
	static const struct {
		bool registrant_reads, registrant_writes, stranger_reads;
	} rights[] = {
		[NVME_RTYPE_WRITE_EXCLUSIVE] = {true, false, true},
		[NVME_RTYPE_EXCLUSIVE_ACCESS] = {false, false, false},
		[NVME_RTYPE_WRITE_EXCLUSIVE_REGISTRANTS] = {true, true, true},
		[NVME_RTYPE_EXCLUSIVE_ACCESS_REGISTRANTS] = {true, true, false},
		[NVME_RTYPE_WRITE_EXCLUSIVE_ALL] = {true, true, true},
		[NVME_RTYPE_EXCLUSIVE_ACCESS_ALL] = {true, true, false},
	};

	assert_int_equal(regist(0, REGISTER, 0, 10), NVME_OK);
	assert_int_equal(regist(1, REGISTER, 0, 11), NVME_OK);
	for (unsigned i = 0; i < N_HOSTS; i++)
		assert_access(i, true, true); /* registered is not reserved */
	for (unsigned type = 1; type <= NVME_RTYPE_EXCLUSIVE_ACCESS_ALL; type++) {
		assert_int_equal(acquire(0, NVME_RACQA_ACQUIRE, type, 10, 0), NVME_OK);
		assert_access(0, true, true);
		assert_access(1, rights[type].registrant_reads, rights[type].registrant_writes);
		assert_access(2, rights[type].stranger_reads, false);
		assert_int_equal(release(0, NVME_RRELA_RELEASE, type, 10), NVME_OK);
	}
	assert_access(2, true, true);
	clear(1, 11);
}

/* ---- actions and refusals ------------------------------------------------------------------- */

static void registers(void **state)
{
	uint32_t gen = get_le32(report(0).status.gen);

	assert_int_equal(regist(0, REGISTER, 0, 0), INVALID);
	assert_int_equal(regist(0, 3, 0, 5), INVALID);
	assert_int_equal(regist(0, 1u << NVME_RESV_CPTPL_SHIFT, 0, 5), INVALID);
	assert_int_equal(regist(0, NVME_RREGA_UNREGISTER, 5, 0), CONFLICT);
	assert_int_equal(regist(0, NVME_RREGA_REPLACE, 5, 6), CONFLICT);
	assert_int_equal(get_le32(report(0).status.gen), gen); /* refusals do not count */
	assert_int_equal(regist(0, REGISTER, 0, 5), NVME_OK);
	assert_int_equal(regist(0, REGISTER, 0, 5), NVME_OK);
	assert_int_equal(regist(0, REGISTER, 0, 6), CONFLICT);
	assert_int_equal(regist(0, NVME_RREGA_REPLACE, 4, 6), CONFLICT);
	assert_int_equal(regist(0, NVME_RREGA_REPLACE, 5, 6), NVME_OK);
	assert_int_equal(regist(0, NVME_RREGA_REPLACE | NVME_RESV_IEKEY, 0, 7), NVME_OK);
	assert_int_equal(regist(1, NVME_RREGA_REPLACE | NVME_RESV_IEKEY, 0, 8), NVME_OK);
	assert_int_equal(get_le64(report(0).registrants[0].rkey), 7);
	assert_int_equal(get_le32(report(0).status.gen), gen + 5);
	assert_int_equal(regist(1, NVME_RREGA_UNREGISTER, 7, 0), CONFLICT);
	assert_int_equal(regist(1, NVME_RREGA_UNREGISTER, 8, 0), NVME_OK);
	assert_int_equal(regist(0, NVME_RREGA_UNREGISTER | NVME_RESV_IEKEY, 0, 0), NVME_OK);
	assert_state(0, NVME_RTYPE_NONE);
}

/* As Linux does it: a key is replaced by zero. The reservation goes with its holder. */
static void replacing_by_no_key_unregisters(void **state)
{
	const uint32_t replace = NVME_RREGA_REPLACE;

	assert_int_equal(regist(0, replace, 0, 0), CONFLICT);
	assert_int_equal(regist(0, replace | NVME_RESV_IEKEY, 0, 0), CONFLICT);
	assert_int_equal(regist(0, REGISTER, 0, 10), NVME_OK);
	assert_int_equal(regist(1, REGISTER, 0, 11), NVME_OK);
	assert_int_equal(acquire(0, NVME_RACQA_ACQUIRE, NVME_RTYPE_WRITE_EXCLUSIVE, 10, 0),
			 NVME_OK);
	assert_int_equal(regist(1, replace, 10, 0), CONFLICT);
	assert_state(2, NVME_RTYPE_WRITE_EXCLUSIVE);
	assert_int_equal(regist(0, replace, 10, 0), NVME_OK);
	assert_state(1, NVME_RTYPE_NONE);
	assert_int_equal(regist(1, replace | NVME_RESV_IEKEY, 0, 0), NVME_OK);
	assert_state(0, NVME_RTYPE_NONE);
}

static void acquires_and_releases(void **state)
{
	assert_int_equal(acquire(0, NVME_RACQA_ACQUIRE, 1, 10, 0), CONFLICT);
	assert_int_equal(regist(0, REGISTER, 0, 10), NVME_OK);
	assert_int_equal(regist(1, REGISTER, 0, 11), NVME_OK);
	assert_int_equal(acquire(0, NVME_RACQA_ACQUIRE, 0, 10, 0), INVALID);
	assert_int_equal(acquire(0, NVME_RACQA_ACQUIRE, 7, 10, 0), INVALID);
	assert_int_equal(acquire(0, 3, 1, 10, 0), INVALID);
	assert_int_equal(acquire(0, NVME_RESV_IEKEY, 1, 10, 0), INVALID);
	assert_int_equal(acquire(0, NVME_RACQA_ACQUIRE, 1, 11, 0), CONFLICT);
	assert_int_equal(acquire(0, NVME_RACQA_ACQUIRE, 1, 10, 0), NVME_OK);
	assert_int_equal(acquire(0, NVME_RACQA_ACQUIRE, 1, 10, 0), NVME_OK);
	assert_int_equal(acquire(0, NVME_RACQA_ACQUIRE, 2, 10, 0), CONFLICT);
	assert_int_equal(acquire(1, NVME_RACQA_ACQUIRE, 1, 11, 0), CONFLICT);
	assert_int_equal(report(0).registrants[0].rcsts, 1);
	assert_int_equal(report(0).registrants[1].rcsts, 0);
	assert_int_equal(release(1, NVME_RRELA_RELEASE, 1, 11), NVME_OK); /* not its own */
	assert_state(2, 1);
	assert_int_equal(release(0, NVME_RRELA_RELEASE, 2, 10), INVALID);
	assert_int_equal(release(0, NVME_RRELA_RELEASE, 1, 12), CONFLICT);
	assert_int_equal(release(2, NVME_RRELA_CLEAR, 1, 10), CONFLICT);
	assert_int_equal(release(0, NVME_RRELA_RELEASE, 1, 10), NVME_OK);
	/* A reservation goes with its holder; that of all registrants stays with the others. */
	assert_int_equal(acquire(0, NVME_RACQA_ACQUIRE, 4, 10, 0), NVME_OK);
	assert_int_equal(regist(0, NVME_RREGA_UNREGISTER, 10, 0), NVME_OK);
	assert_state(1, NVME_RTYPE_NONE);
	assert_int_equal(regist(0, REGISTER, 0, 10), NVME_OK);
	assert_int_equal(acquire(0, NVME_RACQA_ACQUIRE, 6, 10, 0), NVME_OK);
	assert_int_equal(report(0).registrants[0].rcsts, 1);
	assert_int_equal(report(0).registrants[1].rcsts, 1);
	assert_int_equal(regist(0, NVME_RREGA_UNREGISTER, 10, 0), NVME_OK);
	assert_state(1, 6);
	assert_int_equal(io(0, NVME_IO_READ), CONFLICT);
	assert_int_equal(regist(1, NVME_RREGA_UNREGISTER, 11, 0), NVME_OK);
	assert_state(0, NVME_RTYPE_NONE);
}

static void preempts(void **state)
{
	for (unsigned action = NVME_RACQA_PREEMPT; action <= NVME_RACQA_PREEMPT_ABORT; action++) {
		for (unsigned i = 0; i < N_HOSTS; i++)
			assert_int_equal(regist(i, REGISTER, 0, 10 + i), NVME_OK);
		assert_int_equal(acquire(0, NVME_RACQA_ACQUIRE, 1, 10, 0), NVME_OK);
		assert_int_equal(acquire(1, action, 1, 11, 0), INVALID);
		assert_int_equal(acquire(1, action, 1, 11, 99), CONFLICT);
		/* Preempts a registrant that is not the holder; then the holder. */
		assert_int_equal(acquire(1, action, 3, 11, 12), NVME_OK);
		assert_state(2, 1);
		assert_int_equal(acquire(1, action, 3, 11, 10), NVME_OK);
		assert_state(1, 3);
		assert_int_equal(io(0, NVME_IO_WRITE), CONFLICT);
		assert_int_equal(io(1, NVME_IO_WRITE), NVME_OK);
		/* Preempts all others of a reservation of all registrants. */
		assert_int_equal(release(1, NVME_RRELA_RELEASE, 3, 11), NVME_OK);
		assert_int_equal(regist(0, REGISTER, 0, 10), NVME_OK);
		assert_int_equal(acquire(0, NVME_RACQA_ACQUIRE, 5, 10, 0), NVME_OK);
		assert_int_equal(acquire(1, action, 2, 11, 0), NVME_OK);
		assert_state(1, 2);
		assert_int_equal(io(0, NVME_IO_READ), CONFLICT);
		clear(1, 11);
	}
}

/* ---- victims -------------------------------------------------------------------------------- */

static void send_write(unsigned host, uint64_t slba, unsigned stamp)
{
	struct raw_queue *q = &hosts[host].io;
	struct nvme_sqe sqe = raw_sqe(q, NVME_IO_WRITE, DAEMON_FILE);

	memset(q->data + (size_t)stamp * 65536, (int)stamp + 1, 65536);
	raw_describe(q, &sqe, (size_t)stamp * 65536, 65536);
	sqe.cdw10 = put_le32((uint32_t)slba);
	sqe.cdw12 = put_le32(15);
	raw_send(q, &sqe, sizeof(sqe));
}

/* Commands of the preempted host are over when Preempt and Abort completes: none is executed
 * after it. */
static void nothing_lands_after_a_preempt(void **state)
{
	for (unsigned round = 0; round < 40; round++) {
		unsigned action = NVME_RACQA_PREEMPT + round % 2;
		struct nvme_cqe cqe;

		assert_int_equal(regist(0, REGISTER, 0, 10), NVME_OK);
		assert_int_equal(regist(1, REGISTER, 0, 11), NVME_OK);
		assert_int_equal(acquire(0, NVME_RACQA_ACQUIRE, 1, 10, 0), NVME_OK);
		for (unsigned i = 0; i < 16; i++)
			send_write(0, 0, i);
		assert_int_equal(acquire(1, action, 1, 11, 10), NVME_OK);
		memset(hosts[1].io.data, 0xee, 65536);
		assert_int_equal(raw_io(&hosts[1].io, NVME_IO_WRITE, DAEMON_FILE, 0, 16, 65536),
				 NVME_OK);
		for (unsigned i = 0; i < 16; i++) {
			enum nvme_status status;

			assert_true(raw_receive(&hosts[0].io, &cqe, WAIT_MS));
			status = nvme_status_code(get_nvme_status(cqe.status));
			assert_true(status == NVME_OK || status == NVME_RESERVATION_CONFLICT ||
				    status == NVME_ABORTED_PREEMPT);
		}
		memset(hosts[1].io.data, 0, 65536);
		assert_int_equal(raw_io(&hosts[1].io, NVME_IO_READ, DAEMON_FILE, 0, 16, 65536),
				 NVME_OK);
		for (unsigned i = 0; i < 65536; i++)
			assert_int_equal((uint8_t)hosts[1].io.data[i], 0xee);
		clear(1, 11);
	}
}

/* ---- notifications -------------------------------------------------------------------------- */

static struct nvme_resv_log next_notice(unsigned host, bool is_awaited)
{
	struct raw_queue *q = &hosts[host].admin;
	struct nvme_sqe sqe = raw_sqe(q, NVME_ADMIN_ASYNC_EVENT_REQUEST, 0);
	struct nvme_resv_log log;
	struct nvme_cqe cqe;

	if (is_awaited) {
		raw_send(q, &sqe, sizeof(sqe));
		assert_true(raw_receive(q, &cqe, WAIT_MS));
		assert_int_equal(get_le32(cqe.dw0), 0x00800006);
	}
	sqe = raw_sqe(q, NVME_ADMIN_GET_LOG_PAGE, 0);
	sqe.cdw10 = put_le32(NVME_LOG_RESERVATION | (64 / 4 - 1) << 16);
	raw_describe(q, &sqe, 0, 64);
	assert_int_equal(raw_run(q, &sqe, NULL, 0, &cqe), NVME_OK);
	memcpy(&log, q->data, sizeof(log));
	return log;
}

static enum nvme_status mask(unsigned host, uint32_t bits)
{
	struct nvme_sqe sqe = raw_sqe(&hosts[host].admin, NVME_ADMIN_SET_FEATURES, DAEMON_FILE);
	struct nvme_cqe cqe;

	sqe.cdw10 = put_le32(NVME_FEAT_RESV_MASK);
	sqe.cdw11 = put_le32(bits);
	return raw_run(&hosts[host].admin, &sqe, NULL, 0, &cqe);
}

static void others_are_told(void **state)
{
	struct nvme_resv_log log;

	/* Nothing of earlier cases is left: these associations are new. */
	assert_int_equal(next_notice(0, false).type, NVME_RESV_NOTICE_NONE);
	assert_int_equal(mask(2, 1), INVALID);
	assert_int_equal(mask(2, 1 << NVME_RESV_REGISTRATION_PREEMPTED), NVME_OK);
	for (unsigned i = 0; i < N_HOSTS; i++)
		assert_int_equal(regist(i, REGISTER, 0, 10 + i), NVME_OK);
	assert_int_equal(acquire(1, NVME_RACQA_ACQUIRE, 3, 11, 0), NVME_OK);
	assert_int_equal(release(1, NVME_RRELA_RELEASE, 3, 11), NVME_OK);
	log = next_notice(0, true);
	assert_int_equal(log.type, NVME_RESV_RELEASED);
	assert_int_equal(get_le32(log.nsid), DAEMON_FILE);
	assert_int_equal(get_le64(log.count), 1);
	assert_int_equal(acquire(1, NVME_RACQA_PREEMPT, 1, 11, 12), NVME_OK); /* masked */
	assert_int_equal(acquire(1, NVME_RACQA_PREEMPT, 1, 11, 10), NVME_OK);
	log = next_notice(0, true);
	assert_int_equal(log.type, NVME_RESV_REGISTRATION_PREEMPTED);
	assert_int_equal(get_le64(log.count), 2);
	assert_int_equal(regist(2, REGISTER, 0, 12), NVME_OK);
	assert_int_equal(release(1, NVME_RRELA_CLEAR, 0, 11), NVME_OK);
	log = next_notice(2, true); /* the released one came first */
	assert_int_equal(log.type, NVME_RESV_RELEASED);
	assert_int_equal(next_notice(2, true).type, NVME_RESV_PREEMPTED);
	assert_int_equal(next_notice(2, false).type, NVME_RESV_NOTICE_NONE);
	assert_int_equal(next_notice(1, false).type, NVME_RESV_NOTICE_NONE);
}

/* ---- an administrator ----------------------------------------------------------------------- */

/* raw_host_open_as: the last byte counts the hosts. */
static int drop(unsigned host, bool is_forced)
{
	static const char *const ids[N_HOSTS] = {"72617720-686f-7374-2031-362062797465",
						 "72617720-686f-7374-2031-362062797466",
						 "72617720-686f-7374-2031-362062797467"};

	return drop_registrant(DAEMON_FILE, ids[host], is_forced);
}

static void an_administrator_drops_registrants(void **state)
{
	const uint32_t set = (uint32_t)NVME_CPTPL_SET << NVME_RESV_CPTPL_SHIFT;
	const uint32_t no = (uint32_t)NVME_CPTPL_CLEAR << NVME_RESV_CPTPL_SHIFT;
	uint32_t gen = get_le32(report(0).status.gen);

	assert_int_equal(drop(1, true), EXIT_NOT_FOUND);
	assert_int_equal(regist(0, REGISTER | set, 0, 10), NVME_OK);
	assert_int_equal(regist(1, REGISTER, 0, 11), NVME_OK);
	assert_int_equal(acquire(1, NVME_RACQA_ACQUIRE, 3, 11, 0), NVME_OK);
	assert_int_equal(drop(1, false), EXIT_BUSY); /* it is connected */
	assert_state(2, 3);
	assert_int_equal(drop(1, true), EXIT_OK);
	assert_state(1, NVME_RTYPE_NONE); /* it held the reservation */
	assert_int_equal(get_le32(report(0).status.gen), gen + 3);
	assert_int_equal(next_notice(0, true).type, NVME_RESV_RELEASED);
	assert_int_equal(next_notice(1, true).type, NVME_RESV_REGISTRATION_PREEMPTED);
	assert_int_equal(next_notice(2, false).type, NVME_RESV_NOTICE_NONE);
	assert_int_equal(regist(1, REGISTER, 0, 11), NVME_OK);
	assert_int_equal(acquire(0, NVME_RACQA_ACQUIRE, 4, 10, 0), NVME_OK);
	assert_int_equal(io(1, NVME_IO_READ), NVME_OK);
	assert_int_equal(drop(1, true), EXIT_OK);
	assert_int_equal(io(1, NVME_IO_READ), CONFLICT);
	leave_all(NULL);
	daemon_kill_and_restart(&d);
	connect_all(NULL);
	assert_state(1, 4);
	assert_int_equal(io(1, NVME_IO_READ), CONFLICT);
	leave_all(NULL);
	assert_int_equal(drop(0, false), EXIT_OK);
	daemon_kill_and_restart(&d);
	connect_all(NULL);
	assert_state(0, NVME_RTYPE_NONE);
	assert_int_equal(regist(0, REGISTER | no, 0, 10), NVME_OK);
	clear(0, 10);
}

/* As after a preempt: a write of the dropped host is over, or refused. */
static void nothing_lands_after_a_drop(void **state)
{
	for (unsigned round = 0; round < 20; round++) {
		struct nvme_cqe cqe;

		assert_int_equal(regist(0, REGISTER, 0, 10), NVME_OK);
		assert_int_equal(regist(1, REGISTER, 0, 11), NVME_OK);
		assert_int_equal(acquire(0, NVME_RACQA_ACQUIRE, 4, 10, 0), NVME_OK);
		for (unsigned i = 0; i < 16; i++)
			send_write(1, 0, i);
		assert_int_equal(drop(1, true), EXIT_OK);
		memset(hosts[0].io.data, 0xee, 65536);
		assert_int_equal(raw_io(&hosts[0].io, NVME_IO_WRITE, DAEMON_FILE, 0, 16, 65536),
				 NVME_OK);
		for (unsigned i = 0; i < 16; i++) {
			enum nvme_status status;

			assert_true(raw_receive(&hosts[1].io, &cqe, WAIT_MS));
			status = nvme_status_code(get_nvme_status(cqe.status));
			assert_true(status == NVME_OK || status == NVME_RESERVATION_CONFLICT);
		}
		memset(hosts[0].io.data, 0, 65536);
		assert_int_equal(raw_io(&hosts[0].io, NVME_IO_READ, DAEMON_FILE, 0, 16, 65536),
				 NVME_OK);
		for (unsigned i = 0; i < 65536; i++)
			assert_int_equal((uint8_t)hosts[0].io.data[i], 0xee);
		clear(0, 10);
	}
}

/* ---- a restart ------------------------------------------------------------------------------ */

static void persists_when_asked_to(void **state)
{
	const uint32_t set = (uint32_t)NVME_CPTPL_SET << NVME_RESV_CPTPL_SHIFT;
	const uint32_t no = (uint32_t)NVME_CPTPL_CLEAR << NVME_RESV_CPTPL_SHIFT;

	assert_int_equal(regist(0, REGISTER | set, 0, 0xfedcba9876543210), NVME_OK);
	assert_int_equal(regist(1, REGISTER, 0, 11), NVME_OK);
	assert_int_equal(acquire(0, NVME_RACQA_ACQUIRE, 1, 0xfedcba9876543210, 0), NVME_OK);
	leave_all(NULL);
	daemon_kill_and_restart(&d);
	connect_all(NULL);
	assert_state(2, 1);
	assert_int_equal(report(0).status.ptpls, 1);
	assert_int_equal(get_le32(report(0).status.gen), 0);
	assert_int_equal(get_le64(report(0).registrants[0].rkey), 0xfedcba9876543210);
	assert_int_equal(report(0).registrants[0].rcsts, 1);
	assert_int_equal(io(0, NVME_IO_WRITE), NVME_OK);
	assert_int_equal(io(1, NVME_IO_WRITE), CONFLICT);
	assert_int_equal(regist(1, REGISTER | no, 0, 11), NVME_OK);
	leave_all(NULL);
	daemon_kill_and_restart(&d);
	connect_all(NULL);
	assert_state(0, NVME_RTYPE_NONE);
}

/* A reservation of all registrants, taken by one that leaves: the state file has no holder, and
 * is read back. */
static void of_all_outlives_who_took_it(void **state)
{
	const uint32_t set = (uint32_t)NVME_CPTPL_SET << NVME_RESV_CPTPL_SHIFT;
	const uint32_t no = (uint32_t)NVME_CPTPL_CLEAR << NVME_RESV_CPTPL_SHIFT;

	assert_int_equal(regist(0, REGISTER | set, 0, 10), NVME_OK);
	assert_int_equal(regist(1, REGISTER, 0, 11), NVME_OK);
	assert_int_equal(acquire(1, NVME_RACQA_ACQUIRE, NVME_RTYPE_WRITE_EXCLUSIVE_ALL, 11, 0),
			 NVME_OK);
	assert_int_equal(regist(1, NVME_RREGA_UNREGISTER, 11, 0), NVME_OK);
	leave_all(NULL);
	daemon_restart(&d);
	connect_all(NULL);
	assert_state(1, NVME_RTYPE_WRITE_EXCLUSIVE_ALL);
	assert_int_equal(report(0).registrants[0].rcsts, 1);
	assert_int_equal(io(0, NVME_IO_WRITE), NVME_OK);
	assert_int_equal(io(1, NVME_IO_WRITE), CONFLICT);
	assert_int_equal(regist(0, REGISTER | no, 0, 10), NVME_OK);
	clear(0, 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(each_type_lets_through, connect_all, leave_all),
		cmocka_unit_test_setup_teardown(registers, connect_all, leave_all),
		cmocka_unit_test_setup_teardown(replacing_by_no_key_unregisters, connect_all,
						leave_all),
		cmocka_unit_test_setup_teardown(acquires_and_releases, connect_all, leave_all),
		cmocka_unit_test_setup_teardown(preempts, connect_all, leave_all),
		cmocka_unit_test_setup_teardown(nothing_lands_after_a_preempt, connect_all,
						leave_all),
		cmocka_unit_test_setup_teardown(others_are_told, connect_all, leave_all),
		cmocka_unit_test_setup_teardown(an_administrator_drops_registrants, connect_all,
						leave_all),
		cmocka_unit_test_setup_teardown(nothing_lands_after_a_drop, connect_all, leave_all),
		cmocka_unit_test_setup_teardown(persists_when_asked_to, connect_all, leave_all),
		cmocka_unit_test_setup_teardown(of_all_outlives_who_took_it, connect_all,
						leave_all),
	};

	return cmocka_run_group_tests_name("reservations", tests, start_keeping, stop);
}
