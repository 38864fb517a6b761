/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The Persistent Event log (0Dh) in raw capsules, read at the offsets of the specification's
 * figures: its header, the step from event to event, the reporting context, and its contents after
 * restarts and crashes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/args.h"
#include "base/clock.h"
#include "tests/raw/daemon.h"
#include "tests/raw/host.h"

enum {
	READ = 0,
	ESTABLISH = 1,
	RELEASE = 2,
	HEADER = 3,
	LID = 0x0d,
	SMART = 1,
	POWER_ON = 4,
	HEADER_BYTES = 512,
	LOG_MAX = 64 * 1024,
	EVENTS_MAX = 64,
	PATIENCE_S = 100,
	CC_ENABLED = 0x460001,
	MANY_RESETS = 40,
	RESETS_AT_ONCE = 16,
};

static struct daemon d;

/* ---- the command ---------------------------------------------------------------------------- */

/* n bytes from there, which must fit the command's data buffer. */
static enum nvme_status get_page(struct raw_queue *admin, unsigned action, uint64_t offset,
				 uint32_t n)
{
	struct nvme_sqe sqe = raw_sqe(admin, NVME_ADMIN_GET_LOG_PAGE, NVME_NSID_ALL);
	struct nvme_cqe cqe;

	sqe.cdw10 = put_le32(LID | action << 8 | (n / 4 - 1) << 16);
	sqe.cdw11 = put_le32((n / 4 - 1) >> 16);
	sqe.cdw12 = put_le32((uint32_t)offset);
	sqe.cdw13 = put_le32((uint32_t)(offset >> 32));
	memset(admin->data, 0xee, n);
	raw_describe(admin, &sqe, 0, n);
	return raw_run(admin, &sqe, NULL, 0, &cqe);
}

static uint64_t number(const char *bytes, size_t at, unsigned n)
{
	uint64_t value = 0;

	for (unsigned i = n; i-- > 0;)
		value = value << 8 | (uint8_t)bytes[at + i];
	return value;
}

/* ---- the page ------------------------------------------------------------------------------- */

struct event {
	unsigned type, cntlid;
	uint64_t time_ms;
	const char *data;
	uint32_t n;
};

struct log {
	char bytes[LOG_MAX];
	uint64_t tll;
	unsigned n_events, generation;
	uint32_t rci;
	struct event events[EVENTS_MAX];
};

static void read_header(struct log *log)
{
	const char *h = log->bytes;
	char id[20];

	assert_int_equal(number(h, 0, 4), LID);
	log->n_events = (unsigned)number(h, 4, 4);
	log->tll = number(h, 8, 8);
	assert_int_equal(number(h, 16, 1), 3); /* LREV */
	assert_int_equal(number(h, 17, 1), 0);
	assert_int_equal(number(h, 18, 2), 492); /* LHL */
	assert_in_range(number(h, 20, 8), 1577836800000, 0xffffffffffff);
	assert_int_equal(number(h, 28, 8) | number(h, 36, 8), 0); /* POH */
	assert_int_equal(number(h, 52, 4), 0);			  /* VID, SSVID */
	memset(id, ' ', sizeof(id));
	assert_memory_not_equal(h + 56, id, 20);
	assert_memory_equal(h + 76, "rblk                ", 20);
	assert_string_equal(h + 116, RAW_SUBNQN);
	log->generation = (unsigned)number(h, 372, 2);
	log->rci = (uint32_t)number(h, 374, 4);
	for (size_t i = 378; i < 480; i++)
		assert_int_equal(h[i], 0);
	assert_int_equal(number(h, 480, 8), 1 << SMART | 1 << POWER_ON);
	for (size_t i = 488; i < HEADER_BYTES; i++)
		assert_int_equal(h[i], 0);
}

/* From one event to the next by EHL + 3 + EL, to the very end. */
static void walk(struct log *log)
{
	size_t at = HEADER_BYTES;

	assert_in_range(log->n_events, 0, EVENTS_MAX);
	for (unsigned i = 0; i < log->n_events; i++) {
		const char *e = log->bytes + at;
		struct event *event = &log->events[i];

		assert_true(at + 24 <= log->tll);
		event->type = (unsigned)number(e, 0, 1);
		assert_int_equal(number(e, 1, 1), 1);  /* revision */
		assert_int_equal(number(e, 2, 1), 21); /* EHL */
		assert_int_equal(number(e, 3, 1), 3);  /* of no port */
		event->cntlid = (unsigned)number(e, 4, 2);
		event->time_ms = number(e, 6, 8);
		assert_int_equal(number(e, 14, 6), 0);
		assert_int_equal(number(e, 20, 2), 0); /* VSIL */
		event->n = (uint32_t)number(e, 22, 2);
		event->data = e + 24;
		at += 21 + 3 + event->n;
		assert_in_range(event->time_ms, 1577836800000, number(log->bytes, 20, 8));
	}
	assert_int_equal(at, log->tll);
}

/* Establishes a context and reads the whole log in one piece; bytes beyond it are zero. */
static void read_log(struct raw_queue *admin, struct log *log)
{
	assert_int_equal(get_page(admin, ESTABLISH, 0, LOG_MAX), NVME_OK);
	memcpy(log->bytes, admin->data, LOG_MAX);
	read_header(log);
	walk(log);
	for (size_t i = log->tll; i < LOG_MAX; i++)
		assert_int_equal(log->bytes[i], 0);
}

static void release(struct raw_queue *admin)
{
	assert_int_equal(get_page(admin, RELEASE, 0, 4), NVME_OK);
	assert_int_equal((uint8_t)admin->data[0], 0xee); /* it returns no data */
}

static void expect_event(const struct log *log, unsigned i, unsigned type, uint32_t n)
{
	assert_in_range(i, 0, log->n_events - 1);
	assert_int_equal(log->events[i].type, type);
	assert_int_equal(log->events[i].n, n);
}

/* A start: the SMART event is newer than the Power-on event. */
static void expect_start(const struct log *log, unsigned i, uint64_t cycles, uint64_t unsafe)
{
	expect_event(log, i, SMART, 512);
	assert_int_equal(number(log->events[i].data, 112, 8), cycles);
	assert_int_equal(number(log->events[i].data, 144, 8), unsafe);
	assert_int_equal(log->events[i].cntlid, 0xffff);
	expect_event(log, i + 1, POWER_ON, 8);
	assert_int_equal(log->events[i + 1].cntlid, 0xffff);
	assert_memory_equal(log->events[i + 1].data, RBLK_VERSION "   ", 8);
}

static void expect_reset(const struct log *log, unsigned i, unsigned cntlid, uint64_t cycle)
{
	const char *reset;

	expect_event(log, i, POWER_ON, 8 + 36);
	assert_int_equal(log->events[i].cntlid, cntlid);
	reset = log->events[i].data + 8;
	assert_int_equal(number(reset, 0, 2), cntlid);
	assert_int_equal(number(reset, 2, 2), 0); /* FA, OIP */
	assert_int_equal(number(reset, 16, 4), cycle);
	assert_in_range(number(reset, 20, 8), 0, 1000 * 3600);
	assert_in_range(number(reset, 28, 8), 1577836800000, log->events[i].time_ms);
}

/* ---- a controller that is reset ------------------------------------------------------------- */

static void reset(struct raw_queue *admin)
{
	assert_int_equal(raw_property_set(admin, NVME_PROP_CC, CC_ENABLED - 1), NVME_OK);
	raw_wait_csts(admin, NVME_CSTS_RDY, 0);
	assert_int_equal(raw_property_set(admin, NVME_PROP_CC, CC_ENABLED), NVME_OK);
	raw_wait_csts(admin, NVME_CSTS_RDY, NVME_CSTS_RDY);
}

static void open_admin(struct raw_host *h)
{
	raw_host_open_admin(h, d.port, RAW_SUBNQN);
}

static void expect_offered(struct raw_queue *admin, bool is_offered)
{
	struct nvme_sqe sqe = raw_sqe(admin, NVME_ADMIN_IDENTIFY, 0);
	struct nvme_cqe cqe;

	sqe.cdw10 = put_le32(1);
	raw_describe(admin, &sqe, 0, 4096);
	assert_int_equal(raw_run(admin, &sqe, NULL, 0, &cqe), NVME_OK);
	assert_int_equal(number(admin->data, 261, 1) >> 4 & 1, is_offered); /* LPA */
	assert_int_equal(number(admin->data, 352, 4), is_offered);	    /* PELS */
}

/* ---- tests ---------------------------------------------------------------------------------- */

static struct log log_a, log_b;

static void contexts(void **state)
{
	const enum nvme_status out_of_order = NVME_COMMAND_SEQUENCE | NVME_DNR;
	struct raw_host h, other;
	struct raw_queue *admin = &h.admin;

	daemon_start_keeping(&d);
	open_admin(&h);
	expect_offered(admin, true);
	release(admin);
	release(admin);
	assert_int_equal(get_page(admin, READ, 0, HEADER_BYTES), out_of_order);
	/* A read beyond the end establishes no context. */
	assert_int_equal(get_page(admin, ESTABLISH, LOG_MAX + 4, 16),
			 NVME_INVALID_FIELD | NVME_DNR);
	assert_int_equal(get_page(admin, ESTABLISH, 2, 16), NVME_INVALID_FIELD | NVME_DNR);
	read_log(admin, &log_a);
	assert_int_equal(log_a.n_events, 2);
	expect_start(&log_a, 0, 1, 0);
	assert_int_equal(log_a.tll, 512 + 24 + 512 + 24 + 8);
	assert_int_equal(log_a.rci, 0); /* there was none before */
	assert_int_equal(get_page(admin, ESTABLISH, 0, HEADER_BYTES), out_of_order);
	/* It still exists. RCI: established through portal 1. */
	assert_int_equal(get_page(admin, READ, 0, HEADER_BYTES), NVME_OK);
	assert_int_equal(number(admin->data, 374, 4), 1 << 18 | 1 << 16 | 1);
	memset(admin->data + 374, 0, 4);
	assert_memory_equal(admin->data, log_a.bytes, HEADER_BYTES);
	assert_int_equal(get_page(admin, READ, log_a.tll, 16), NVME_OK);
	assert_int_equal(number(admin->data, 0, 8) | number(admin->data, 8, 8), 0);
	assert_int_equal(get_page(admin, READ, log_a.tll + 4, 16), NVME_INVALID_FIELD | NVME_DNR);
	assert_int_equal(get_page(admin, READ, 1ULL << 40, 16), NVME_INVALID_FIELD | NVME_DNR);
	/* Another controller has a context of its own. */
	raw_host_open_as(&other, d.port, 1);
	assert_int_equal(get_page(&other.admin, READ, 0, 16), out_of_order);
	read_log(&other.admin, &log_b);
	assert_memory_equal(log_a.bytes + HEADER_BYTES, log_b.bytes + HEADER_BYTES,
			    LOG_MAX - HEADER_BYTES);
	assert_int_equal(log_a.generation, log_b.generation);
	release(&other.admin);
	assert_int_equal(get_page(&other.admin, READ, 0, 16), out_of_order);
	assert_int_equal(get_page(admin, READ, 0, 16), NVME_OK);
	raw_host_close(&other);
	release(admin);
	assert_int_equal(get_page(admin, READ, 0, 16), out_of_order);
	raw_close(&h.admin);
	daemon_stop(&d);
}

/* Returns 512 bytes from the beginning, whatever length and offset the command has. */
static void header_alone(void **state)
{
	struct raw_host h;
	struct raw_queue *admin = &h.admin;
	struct nvme_sqe sqe;
	struct nvme_cqe cqe;

	daemon_start_keeping(&d);
	open_admin(&h);
	for (unsigned i = 0; i < 2; i++) {
		sqe = raw_sqe(admin, NVME_ADMIN_GET_LOG_PAGE, NVME_NSID_ALL);
		sqe.cdw10 = put_le32(LID | HEADER << 8 | 3 << 16);
		sqe.cdw12 = put_le32(6);
		memset(admin->data, 0xee, 1024);
		raw_describe(admin, &sqe, 0, 1024);
		assert_int_equal(raw_run(admin, &sqe, NULL, 0, &cqe), NVME_OK);
		assert_int_equal((uint8_t)admin->data[512], 0xee);
		memcpy(log_a.bytes, admin->data, HEADER_BYTES);
		read_header(&log_a);
		assert_int_equal(log_a.n_events, 2);
		assert_int_equal(log_a.rci, i ? 1 << 18 | 1 << 16 | 1 : 0);
	}
	raw_describe(admin, &sqe, 0, 508);
	sqe.cid = raw_sqe(admin, 0, 0).cid;
	assert_int_equal(raw_run(admin, &sqe, NULL, 0, &cqe), NVME_SGL_LENGTH_INVALID | NVME_DNR);
	assert_int_equal(get_page(admin, READ, 0, HEADER_BYTES), NVME_OK);
	raw_close(&h.admin);
	daemon_stop(&d);
}

/* A context does not include later events; its pieces form the whole. */
static void pieces_of_one_log(void **state)
{
	struct raw_host h, other;
	uint64_t at;

	daemon_start_keeping(&d);
	open_admin(&h);
	raw_host_open_as(&other, d.port, 1);
	read_log(&h.admin, &log_a);
	reset(&other.admin);
	for (at = 0; at < log_a.tll; at += 20) {
		assert_int_equal(get_page(&h.admin, READ, at, 20), NVME_OK);
		if (at / 20 != 374 / 20)
			assert_memory_equal(h.admin.data, log_a.bytes + at, 20);
	}
	release(&h.admin);
	read_log(&h.admin, &log_b);
	assert_int_equal(log_b.n_events, log_a.n_events + 1);
	expect_reset(&log_b, 0, other.cntlid, 1);
	expect_start(&log_b, 1, 1, 0);
	assert_int_not_equal(log_a.generation, log_b.generation);
	raw_host_close(&other);
	raw_close(&h.admin);
	daemon_stop(&d);
}

/* A reset ends the context and is logged, but not as often as a host resets. */
static void resets(void **state)
{
	struct raw_host h;

	daemon_start_keeping(&d);
	open_admin(&h);
	read_log(&h.admin, &log_a);
	reset(&h.admin);
	assert_int_equal(get_page(&h.admin, READ, 0, 16), NVME_COMMAND_SEQUENCE | NVME_DNR);
	read_log(&h.admin, &log_b);
	assert_int_equal(log_b.n_events, 3);
	expect_reset(&log_b, 0, h.cntlid, 1);
	for (unsigned i = 0; i < MANY_RESETS; i++)
		reset(&h.admin);
	read_log(&h.admin, &log_b);
	/* Tokens for further events accrue with time, though never this many. */
	assert_in_range(log_b.n_events, 2 + RESETS_AT_ONCE, 2 + MANY_RESETS);
	expect_reset(&log_b, 0, h.cntlid, 1);
	expect_start(&log_b, log_b.n_events - 2, 1, 0);
	raw_close(&h.admin);
	daemon_stop(&d);
}

/* Waits until so many starts and resets are in the file. */
static void await_saved(unsigned n)
{
	uint64_t deadline = clock_ns() + PATIENCE_S * NSEC_PER_SEC;
	char command[300];

	snprintf(command, sizeof(command),
		 "test $(grep -h '\"" RAW_SUBNQN
		 "\"' %s/events-*.json | grep -o '\"04011503' | wc -l) -eq %u",
		 d.folder, n);
	while (system(command)) {
		assert_true(clock_ns() < deadline);
		usleep(10000);
	}
}

static void lives_on(void **state)
{
	struct raw_host h;
	unsigned cntlid;

	daemon_start_keeping(&d);
	open_admin(&h);
	reset(&h.admin);
	cntlid = h.cntlid;
	read_log(&h.admin, &log_a);
	assert_int_equal(log_a.n_events, 3);
	raw_close(&h.admin);
	daemon_restart(&d);
	open_admin(&h);
	read_log(&h.admin, &log_b);
	/* A start, then SMART at the end of the life before, then that life's events, byte for
	 * byte. */
	assert_int_equal(log_b.n_events, 3 + 2 + 1);
	expect_start(&log_b, 0, 2, 0);
	expect_event(&log_b, 2, SMART, 512);
	expect_reset(&log_b, 3, cntlid, 1);
	expect_start(&log_b, 4, 1, 0);
	assert_memory_equal(log_b.bytes + log_b.tll - (log_a.tll - HEADER_BYTES),
			    log_a.bytes + HEADER_BYTES, log_a.tll - HEADER_BYTES);
	/* A crash does not lose events that were saved. */
	reset(&h.admin);
	await_saved(4);
	raw_close(&h.admin);
	daemon_kill_and_restart(&d);
	open_admin(&h);
	read_log(&h.admin, &log_a);
	assert_int_equal(log_a.n_events, log_b.n_events + 1 + 2);
	expect_start(&log_a, 0, 3, 0); /* its machine kept its power */
	expect_event(&log_a, 2, POWER_ON, 8 + 36);
	assert_memory_equal(log_a.bytes + log_a.tll - (log_b.tll - HEADER_BYTES),
			    log_b.bytes + HEADER_BYTES, log_b.tll - HEADER_BYTES);
	raw_close(&h.admin);
	daemon_stop(&d);
}

static void without_a_directory(void **state)
{
	struct raw_host h;

	daemon_start(&d, "");
	open_admin(&h);
	expect_offered(&h.admin, false);
	for (unsigned action = READ; action <= HEADER; action++)
		assert_int_equal(get_page(&h.admin, action, 0, HEADER_BYTES),
				 NVME_LOG_PAGE_INVALID | NVME_DNR);
	reset(&h.admin);
	raw_close(&h.admin);
	raw_host_open_admin(&h, d.port, "nqn.2014-08.org.nvmexpress.discovery");
	for (unsigned action = READ; action <= HEADER; action++)
		assert_int_equal(get_page(&h.admin, action, 0, HEADER_BYTES),
				 NVME_LOG_PAGE_INVALID | NVME_DNR);
	raw_close(&h.admin);
	daemon_stop(&d);
}

/* RAW_SUBNQN's: it is not the only subsystem. */
static void find_file(char path[300])
{
	char command[300];
	FILE *f;

	snprintf(command, sizeof(command), "grep -l '\"" RAW_SUBNQN "\"' %s/events-*.json",
		 d.folder);
	f = popen(command, "r");
	assert_non_null(f);
	assert_non_null(fgets(path, 300, f));
	assert_int_equal(pclose(f), 0);
	path[strcspn(path, "\n")] = '\0';
}

static void a_damaged_file_begins_again(void **state)
{
	struct raw_host h;
	char path[300];
	int status;
	FILE *f;

	daemon_start_keeping(&d);
	assert_int_equal(daemon_end(&d), 0);
	find_file(path);
	f = fopen(path, "r+");
	assert_non_null(f);
	assert_int_equal(fseek(f, -20, SEEK_END), 0);
	fputc('x', f);
	fclose(f);
	assert_true(daemon_try(&d, &status));
	assert_true(daemon_has_logged(&d, "is damaged: the event log of " RAW_SUBNQN
					  " begins again; it is kept as "));
	strcat(path, ".damaged");
	assert_int_equal(access(path, F_OK), 0);
	open_admin(&h);
	read_log(&h.admin, &log_a);
	assert_int_equal(log_a.n_events, 2);
	expect_start(&log_a, 0, 2, 0);
	raw_close(&h.admin);
	daemon_stop(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(contexts),
		cmocka_unit_test(header_alone),
		cmocka_unit_test(pieces_of_one_log),
		cmocka_unit_test(resets),
		cmocka_unit_test(lives_on),
		cmocka_unit_test(without_a_directory),
		cmocka_unit_test(a_damaged_file_begins_again),
	};

	return cmocka_run_group_tests_name("events", tests, NULL, NULL);
}
