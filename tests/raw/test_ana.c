/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asymmetric Namespace Access, in raw capsules: Identify and the log page byte by byte, the event,
 * and the commands that are refused in each state. Each host has two paths, through the portals p
 * and q; see daemon_start_ana.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/bits.h"
#include "base/rpc.h"
#include "base/rpc_client.h"
#include "tests/raw/daemon.h"
#include "tests/raw/host.h"

enum {
	PATIENCE_MS = 60000,
	EVENT_ANA = 1 << 11, /* feature 0Bh */
	EVENT_NAMESPACES = 1 << 8,
	EVENTS_OF_CCR = 1 << 20 | 1 << 21, /* a controller was reset; a host was lost */
	RETAIN = 1 << 15,
	GROUPS_ONLY = 1 << 8,
	PAGE_BYTES = 16 + 2 * (32 + 2 * 4),
	ROOM = 4096,
};

static struct daemon d;
static struct raw_host p, q; /* the same host through each portal */

static int start(void **state)
{
	daemon_start_ana(&d);
	return 0;
}

static int stop(void **state)
{
	daemon_stop(&d);
	return 0;
}

static int open_paths(void **state)
{
	raw_host_open(&p, d.port);
	raw_host_open(&q, d.second_port);
	return 0;
}

/* ---- the administrator ---------------------------------------------------------------------- */

static struct json_object *ask(const char *method, struct json_object *params, struct error *error)
{
	struct json_object *result = NULL;
	char path[128];

	error->code = EXIT_OK;
	snprintf(path, sizeof(path), "%s/sock", d.folder);
	rpc_call(path, method, params, PATIENCE_MS, &result, error);
	json_object_put(params);
	return result;
}

/* The number of notified controllers; or minus the exit code of rblkctl. */
static int try_set(unsigned group, const char *name, const char *portal)
{
	struct json_object *params = json_object_new_object(), *result;
	struct error error;
	int n;

	json_object_object_add(params, "subsystem", json_object_new_string(RAW_SUBNQN));
	json_object_object_add(params, "group", json_object_new_int((int)group));
	json_object_object_add(params, "state", json_object_new_string(name));
	if (portal)
		json_object_object_add(params, "portal", json_object_new_string(portal));
	result = ask("ana_set", params, &error);
	if (!result)
		return -(int)error.code;
	n = json_object_get_int(json_object_object_get(result, "controllers_told"));
	json_object_put(result);
	return n;
}

static void set(const char *name, const char *portal)
{
	assert_true(try_set(DAEMON_ANA_GROUP, name, portal) >= 0);
}

/* Restores the state at the start, which the next test expects. */
static int close_paths(void **state)
{
	set("non_optimized", "p");
	set("inaccessible", "q");
	raw_host_close(&p);
	raw_host_close(&q);
	daemon_wait_empty(&d);
	return 0;
}

static void change_config(const char *expression)
{
	char command[256];
	struct json_object *result;
	struct error error;

	snprintf(command, sizeof(command), "sed -i '%s' %s/target.yaml", expression, d.folder);
	assert_int_equal(system(command), 0);
	result = ask("apply", NULL, &error);
	assert_non_null(result);
	if (!json_object_get_boolean(json_object_object_get(result, "applied")))
		fail_msg("%s", json_object_to_json_string(result));
	json_object_put(result);
}

/* ---- the host ------------------------------------------------------------------------------- */

static enum nvme_status run(struct raw_queue *queue, const struct nvme_sqe *sqe)
{
	struct nvme_cqe cqe;

	return raw_run(queue, sqe, NULL, 0, &cqe);
}

static const uint8_t *identify(struct raw_queue *queue, unsigned cns, uint32_t nsid)
{
	struct nvme_sqe sqe = raw_sqe(queue, NVME_ADMIN_IDENTIFY, nsid);

	memset(queue->data, 0xee, ROOM);
	raw_describe(queue, &sqe, 0, ROOM);
	sqe.cdw10 = put_le32(cns);
	assert_int_equal(run(queue, &sqe), NVME_OK);
	return (const uint8_t *)queue->data;
}

static enum nvme_status read_log(struct raw_queue *queue, uint32_t flags, uint64_t offset,
				 uint32_t n)
{
	struct nvme_sqe sqe = raw_sqe(queue, NVME_ADMIN_GET_LOG_PAGE, NVME_NSID_ALL);
	uint32_t n_dwords = n / 4 - 1;

	memset(queue->data, 0xee, ROOM);
	raw_describe(queue, &sqe, 0, n);
	sqe.cdw10 = put_le32(0x0c | n_dwords << 16 | flags);
	sqe.cdw11 = put_le32(n_dwords >> 16);
	sqe.cdw12 = put_le32((uint32_t)offset);
	sqe.cdw13 = put_le32((uint32_t)(offset >> 32));
	return run(queue, &sqe);
}

static uint32_t u32(const uint8_t *page, size_t at)
{
	le32 value;

	memcpy(&value, page + at, sizeof(value));
	return get_le32(value);
}

static uint64_t u64(const uint8_t *page, size_t at)
{
	le64 value;

	memcpy(&value, page + at, sizeof(value));
	return get_le64(value);
}

/* The whole page, without re-enabling the event; in the queue's memory. */
static const uint8_t *whole_log(struct raw_queue *queue)
{
	assert_int_equal(read_log(queue, RETAIN, 0, PAGE_BYTES), NVME_OK);
	return (const uint8_t *)queue->data;
}

/* ---- Identify ------------------------------------------------------------------------------- */

static void says_that_it_speaks_ana(void **state)
{
	const uint8_t *id = identify(&p.admin, NVME_CNS_CTRL, 0);

	assert_int_equal(id[76], 0x0b); /* several ports, several controllers, ANA */
	assert_int_equal(u32(id, 92), EVENT_ANA | EVENT_NAMESPACES | EVENTS_OF_CCR);
	assert_in_range(id[342], 1, 255);
	assert_int_equal(id[343], 0x1f); /* all states; groups may change; none is preferred */
	assert_int_equal(u32(id, 344), 64);
	assert_int_equal(u32(id, 348), 64);
	/* Linux reads the whole page, in its largest possible size. */
	assert_true(16 + u32(id, 348) * 32 + u32(id, 540) * 4 <= 4096u << id[77]);
}

static void namespaces_have_groups(void **state)
{
	for (uint32_t nsid = 1; nsid <= 4; nsid++) {
		bool is_seven = nsid == DAEMON_FILE || nsid == DAEMON_BIG_RAM;
		const uint8_t *id = identify(&q.admin, NVME_CNS_NS, nsid);

		assert_int_equal(u32(id, 92), is_seven ? DAEMON_ANA_GROUP : 1);
		assert_int_equal(id[30], 1);
		assert_int_not_equal(u64(id, 0), 0);
		assert_int_equal(u64(id, 8), u64(id, 0));
		assert_int_equal(u64(id, 16), is_seven ? 0 : u64(id, 0));
		id = identify(&p.admin, NVME_CNS_NS, nsid);
		assert_int_equal(u64(id, 16), u64(id, 0));
	}
}

static void without_groups_there_is_no_ana(void **state)
{
	struct nvme_sqe sqe;
	struct daemon plain;
	const uint8_t *id;
	struct raw_host h;

	daemon_start(&plain, "");
	raw_host_open(&h, plain.port);
	id = identify(&h.admin, NVME_CNS_CTRL, 0);
	assert_int_equal(id[76], 0x03);
	assert_int_equal(u32(id, 92), EVENT_NAMESPACES | EVENTS_OF_CCR);
	for (unsigned i = 342; i < 352; i++)
		assert_int_equal(id[i], 0);
	id = identify(&h.admin, NVME_CNS_NS, DAEMON_RAM);
	assert_int_equal(u32(id, 92), 0);
	assert_int_equal(read_log(&h.admin, 0, 0, PAGE_BYTES), NVME_LOG_PAGE_INVALID | NVME_DNR);
	sqe = raw_sqe(&h.admin, NVME_ADMIN_SET_FEATURES, 0);
	sqe.cdw10 = put_le32(NVME_FEAT_ASYNC_EVENT);
	sqe.cdw11 = put_le32(EVENT_ANA);
	assert_int_equal(run(&h.admin, &sqe), NVME_INVALID_FIELD | NVME_DNR);
	raw_host_close(&h);
	daemon_stop(&plain);
}

/* ---- the log page --------------------------------------------------------------------------- */

static void expect_group(const uint8_t *page, size_t at, uint32_t id, unsigned state,
			 unsigned n_nsids)
{
	assert_int_equal(u32(page, at), id);
	assert_int_equal(u32(page, at + 4), n_nsids);
	assert_int_equal(page[at + 16], state);
	for (unsigned i = 17; i < 32; i++)
		assert_int_equal(page[at + i], 0);
}

static void log_page_byte_by_byte(void **state)
{
	const uint8_t *page = whole_log(&p.admin);

	assert_int_equal(u32(page, 8), 2); /* groups; the empty one is not listed */
	assert_int_equal(u32(page, 12), 0);
	expect_group(page, 16, 1, NVME_ANA_STATE_OPTIMIZED, 2);
	assert_int_equal(u32(page, 48), DAEMON_RAM);
	assert_int_equal(u32(page, 52), DAEMON_READ_ONLY);
	expect_group(page, 56, DAEMON_ANA_GROUP, NVME_ANA_STATE_NON_OPTIMIZED, 2);
	assert_int_equal(u32(page, 88), DAEMON_FILE);
	assert_int_equal(u32(page, 92), DAEMON_BIG_RAM);
	page = whole_log(&q.admin);
	expect_group(page, 16, 1, NVME_ANA_STATE_OPTIMIZED, 2);
	expect_group(page, 56, DAEMON_ANA_GROUP, NVME_ANA_STATE_INACCESSIBLE, 2);
	/* Without NSIDs (RGO): the groups only. */
	assert_int_equal(read_log(&q.admin, GROUPS_ONLY | RETAIN, 0, 256), NVME_OK);
	page = (const uint8_t *)q.admin.data;
	assert_int_equal(u32(page, 8), 2);
	expect_group(page, 16, 1, NVME_ANA_STATE_OPTIMIZED, 0);
	expect_group(page, 48, DAEMON_ANA_GROUP, NVME_ANA_STATE_INACCESSIBLE, 0);
	for (unsigned i = 80; i < 256; i++)
		assert_int_equal(page[i], 0);
}

/* Each piece equals that part of the whole page, and is zero beyond its end. */
static void log_page_in_pieces(void **state)
{
	uint8_t whole[PAGE_BYTES + 64] = {0};

	memcpy(whole, whole_log(&p.admin), PAGE_BYTES);
	for (uint32_t offset = 0; offset <= PAGE_BYTES; offset += 4)
		for (uint32_t n = 4; n <= 64; n += 20) {
			assert_int_equal(read_log(&p.admin, RETAIN, offset, n), NVME_OK);
			assert_memory_equal(p.admin.data, whole + offset, n);
			assert_int_equal((uint8_t)p.admin.data[n], 0xee);
		}
}

static void log_page_for_hostile_hosts(void **state)
{
	static const uint64_t bad[] = {PAGE_BYTES + 4,
				       4096,
				       1ULL << 31,
				       1ULL << 32,
				       (1ULL << 32) + 16,
				       UINT32_MAX - 3,
				       UINT64_MAX - 4095,
				       UINT64_MAX - 3,
				       1,
				       2,
				       PAGE_BYTES + 1,
				       UINT64_MAX};

	for (unsigned i = 0; i < ARRAY_LEN(bad); i++) {
		assert_int_equal(read_log(&p.admin, 0, bad[i], 256), NVME_INVALID_FIELD | NVME_DNR);
		assert_int_equal((uint8_t)p.admin.data[0], 0xee);
	}
	/* One command moves several groups. */
	assert_int_equal(read_log(&p.admin, 0, 0, 2 * 1024 * 1024), NVME_INVALID_FIELD | NVME_DNR);
	assert_int_equal(read_log(&p.admin, 0, PAGE_BYTES, 4096), NVME_OK);
	for (unsigned i = 0; i < 4096; i++)
		assert_int_equal(p.admin.data[i], 0);
}

/* ---- the event ------------------------------------------------------------------------------ */

static void enable_events(struct raw_queue *queue, uint32_t events)
{
	struct nvme_sqe sqe = raw_sqe(queue, NVME_ADMIN_SET_FEATURES, 0);

	sqe.cdw10 = put_le32(NVME_FEAT_ASYNC_EVENT);
	sqe.cdw11 = put_le32(events);
	assert_int_equal(run(queue, &sqe), NVME_OK);
}

static void ask_for_event(struct raw_queue *queue)
{
	struct nvme_sqe sqe = raw_sqe(queue, NVME_ADMIN_ASYNC_EVENT_REQUEST, 0);

	raw_send(queue, &sqe, sizeof(sqe));
}

static void expect_event(struct raw_queue *queue)
{
	struct nvme_cqe cqe;

	assert_true(raw_receive(queue, &cqe, PATIENCE_MS));
	assert_int_equal(get_nvme_status(cqe.status), NVME_OK);
	assert_int_equal(get_le32(cqe.dw0), 0x000c0302);
}

static void only_who_is_concerned_hears_of_it(void **state)
{
	uint64_t count = u64(whole_log(&p.admin), 0), other = u64(whole_log(&q.admin), 0);
	struct nvme_cqe cqe;

	enable_events(&p.admin, EVENT_ANA);
	enable_events(&q.admin, EVENT_ANA);
	ask_for_event(&p.admin);
	ask_for_event(&q.admin);
	assert_int_equal(try_set(DAEMON_ANA_GROUP, "optimized", "p"), 1);
	expect_event(&p.admin);
	assert_int_equal(u64(whole_log(&p.admin), 0), count + 1);
	assert_int_equal(u64(whole_log(&p.admin), 56 + 8), count + 1);
	assert_int_equal(whole_log(&p.admin)[56 + 16], NVME_ANA_STATE_OPTIMIZED);
	assert_int_equal(u64(whole_log(&q.admin), 0), other);
	/* An unchanged state, or a group without namespaces, raises no event. */
	assert_int_equal(try_set(DAEMON_ANA_GROUP, "optimized", "p"), 0);
	assert_int_equal(try_set(9, "inaccessible", NULL), 0);
	assert_false(raw_receive(&q.admin, &cqe, 100));
	set("optimized", NULL); /* p has that state already */
	expect_event(&q.admin);
	assert_int_equal(u64(whole_log(&p.admin), 56 + 8), count + 1);
}

static void hears_again_after_it_has_looked(void **state)
{
	enable_events(&p.admin, EVENT_ANA);
	ask_for_event(&p.admin);
	set("inaccessible", "p");
	expect_event(&p.admin);
	ask_for_event(&p.admin);
	set("optimized", "p");
	whole_log(&p.admin); /* with RAE: it was notified, and has not read the log */
	assert_int_equal(p.admin.n_arrived, 0);
	assert_int_equal(read_log(&p.admin, 0, 0, 16), NVME_OK);
	expect_event(&p.admin);
}

static void who_did_not_ask_is_not_told(void **state)
{
	struct nvme_cqe cqe;

	enable_events(&p.admin, EVENT_NAMESPACES);
	ask_for_event(&p.admin);
	set("inaccessible", "p");
	assert_false(raw_receive(&p.admin, &cqe, 100));
	enable_events(&p.admin, EVENT_ANA);
	set("change", "p");
	expect_event(&p.admin);
}

/* ---- commands in each state ----------------------------------------------------------------- */

static const struct {
	const char *name;
	enum nvme_status status;
} states[] = {
	{"optimized", NVME_OK},		 {"inaccessible", NVME_ANA_INACCESSIBLE},
	{"non_optimized", NVME_OK},	 {"persistent_loss", NVME_ANA_PERSISTENT_LOSS},
	{"change", NVME_ANA_TRANSITION},
};

static enum nvme_status io(struct raw_queue *queue, uint8_t opcode, uint32_t nsid, uint32_t n_bytes)
{
	struct nvme_sqe sqe = raw_sqe(queue, opcode, nsid);

	if (n_bytes) {
		memset(queue->data, 0, n_bytes);
		raw_describe(queue, &sqe, 0, n_bytes);
	}
	if (opcode == NVME_IO_RESERVATION_REGISTER)
		queue->data[8] = 1; /* the key */
	if (opcode == NVME_IO_RESERVATION_REPORT) {
		sqe.cdw10 = put_le32(n_bytes / 4 - 1);
		sqe.cdw11 = put_le32(1);
	}
	return run(queue, &sqe);
}

static void commands_of_a_namespace(void **state)
{
	static const struct {
		uint8_t opcode;
		uint32_t n_bytes;
	} commands[] = {
		{NVME_IO_READ, 4096},
		{NVME_IO_WRITE, 4096},
		{NVME_IO_COMPARE, 4096},
		{NVME_IO_FLUSH, 0},
		{NVME_IO_WRITE_ZEROES, 0},
		{NVME_IO_VERIFY, 0},
		{NVME_IO_DSM, 16},
		{NVME_IO_COPY, 32},
		{NVME_IO_RESERVATION_REGISTER, 16},
		{NVME_IO_RESERVATION_REPORT, 64},
	};
	static const uint32_t nsids[] = {DAEMON_FILE, DAEMON_BIG_RAM};

	for (unsigned i = 0; i < ARRAY_LEN(states); i++) {
		set(states[i].name, "p");
		for (unsigned j = 0; j < ARRAY_LEN(commands) * ARRAY_LEN(nsids); j++) {
			unsigned k = j / ARRAY_LEN(nsids);
			enum nvme_status status = io(&p.io, commands[k].opcode,
						     nsids[j % ARRAY_LEN(nsids)],
						     commands[k].n_bytes);

			if (status != states[i].status)
				fail_msg("%s: opcode %02x: %04x", states[i].name,
					 commands[k].opcode, status);
		}
		assert_int_equal(io(&p.io, NVME_IO_FLUSH, NVME_NSID_ALL, 0), states[i].status);
		/* Not through the other portal, and not of the other group. */
		assert_int_equal(io(&q.io, NVME_IO_READ, DAEMON_FILE, 4096), NVME_ANA_INACCESSIBLE);
		assert_int_equal(io(&p.io, NVME_IO_READ, DAEMON_RAM, 512), NVME_OK);
		assert_int_equal(io(&p.io, NVME_IO_READ, 99, 512), NVME_INVALID_NSID | NVME_DNR);
	}
}

/* Logs and Identify need no path. The utilization of a namespace in a store is zero where the
 * path is away. */
static void what_every_state_answers(void **state)
{
	static const unsigned logs[] = {NVME_LOG_ERROR,	     NVME_LOG_SMART,   NVME_LOG_FIRMWARE,
					NVME_LOG_CHANGED_NS, NVME_LOG_EFFECTS, NVME_LOG_ANA,
					NVME_LOG_RESERVATION};
	static const unsigned pages[] = {NVME_CNS_CTRL, NVME_CNS_NS_LIST, NVME_CNS_NS_DESCS,
					 NVME_CNS_CSI_NS, NVME_CNS_CSI_CTRL};

	for (unsigned i = 0; i < ARRAY_LEN(states); i++) {
		bool is_away = states[i].status == NVME_ANA_INACCESSIBLE ||
			       states[i].status == NVME_ANA_PERSISTENT_LOSS;
		const uint8_t *id;

		set(states[i].name, "p");
		for (unsigned j = 0; j < ARRAY_LEN(logs); j++) {
			struct nvme_sqe sqe = raw_sqe(&p.admin, NVME_ADMIN_GET_LOG_PAGE,
						      NVME_NSID_ALL);

			raw_describe(&p.admin, &sqe, 0, 64);
			sqe.cdw10 = put_le32(logs[j] | RETAIN | 15 << 16);
			assert_int_equal(run(&p.admin, &sqe), NVME_OK);
		}
		for (unsigned j = 0; j < ARRAY_LEN(pages); j++)
			identify(&p.admin, pages[j],
				 pages[j] == NVME_CNS_NS_LIST ? 0 : DAEMON_FILE);
		id = identify(&p.admin, NVME_CNS_NS, DAEMON_FILE);
		assert_int_not_equal(u64(id, 0), 0);
		assert_int_equal(u64(id, 16), is_away ? 0 : u64(id, 0));
		id = identify(&p.admin, NVME_CNS_NS, DAEMON_RAM);
		assert_int_equal(u64(id, 16), u64(id, 0));
	}
}

static enum nvme_status feature(uint8_t opcode, unsigned id, uint32_t nsid)
{
	struct nvme_sqe sqe = raw_sqe(&p.admin, opcode, nsid);

	sqe.cdw10 = put_le32(id);
	return run(&p.admin, &sqe);
}

static void features_of_a_namespace(void **state)
{
	static const unsigned of_namespace[] = {0x05, 0x0a, 0x82, 0x83};
	static const unsigned of_all[] = {0x01, 0x06, 0x0b};

	for (unsigned i = 0; i < ARRAY_LEN(states); i++) {
		bool is_lost = states[i].status == NVME_ANA_PERSISTENT_LOSS;

		set(states[i].name, "p");
		for (unsigned j = 0; j < ARRAY_LEN(of_namespace); j++) {
			unsigned id = of_namespace[j];

			assert_int_equal(feature(NVME_ADMIN_GET_FEATURES, id, DAEMON_RAM), NVME_OK);
			assert_int_equal(feature(NVME_ADMIN_GET_FEATURES, id, DAEMON_FILE),
					 states[i].status);
			/* 83h would register no host; 0Ah applies to all namespaces or none. */
			if (id != 0x83)
				assert_int_equal(feature(NVME_ADMIN_SET_FEATURES, id, DAEMON_FILE),
						 id == 0x0a && states[i].status == NVME_OK
							 ? NVME_FEATURE_NOT_NS_SPECIFIC | NVME_DNR
							 : states[i].status);
		}
		for (unsigned j = 0; j < ARRAY_LEN(of_all); j++) {
			assert_int_equal(feature(NVME_ADMIN_GET_FEATURES, of_all[j], 0), NVME_OK);
			assert_int_equal(feature(NVME_ADMIN_GET_FEATURES, of_all[j], DAEMON_FILE),
					 NVME_OK);
		}
		assert_int_equal(feature(NVME_ADMIN_SET_FEATURES, 0x01, DAEMON_FILE),
				 is_lost ? states[i].status
					 : NVME_FEATURE_NOT_NS_SPECIFIC | NVME_DNR);
		assert_int_equal(feature(NVME_ADMIN_SET_FEATURES, 0x01, 0), NVME_OK);
		identify(&p.admin, NVME_CNS_NS, DAEMON_FILE);
		identify(&p.admin, NVME_CNS_NS_DESCS, DAEMON_FILE);
	}
}

/* For any feature the status is that of the path, and no namespace is changed. */
static void features_of_all_namespaces(void **state)
{
	static const unsigned ids[] = {0x01, 0x05, 0x0a, 0x0b, 0x82};

	for (unsigned i = 0; i < ARRAY_LEN(states); i++) {
		set(states[i].name, "p");
		for (unsigned j = 0; j < ARRAY_LEN(ids); j++)
			assert_int_equal(feature(NVME_ADMIN_SET_FEATURES, ids[j], NVME_NSID_ALL),
					 states[i].status);
		assert_int_equal(feature(NVME_ADMIN_SET_FEATURES, 0x82, DAEMON_RAM), NVME_OK);
		/* These features are not a namespace's. */
		assert_int_equal(feature(NVME_ADMIN_GET_FEATURES, 0x0b, NVME_NSID_ALL), NVME_OK);
	}
}

/* Some commands have buffers and are at the disk, others wait for one (there are 8 MiB). Each is
 * answered, and was either done or not begun. */
static void commands_in_flight_end(void **state)
{
	enum {
		DEPTH = 31,
		N_BYTES = 1 << 20
	};
	static const uint32_t nsids[] = {DAEMON_FILE, DAEMON_BIG_RAM};

	for (unsigned round = 0; round < 4; round++) {
		uint64_t n_before = daemon_n_commands(&d);
		unsigned n_done = 0, n_refused = 0;

		set("optimized", "p");
		for (unsigned i = 0; i < DEPTH; i++) {
			struct nvme_sqe sqe = raw_sqe(&p.io, NVME_IO_WRITE, nsids[round % 2]);

			raw_describe(&p.io, &sqe, 0, N_BYTES);
			sqe.cdw12 = put_le32(N_BYTES / 4096 - 1);
			raw_send(&p.io, &sqe, sizeof(sqe));
		}
		while (round >= 2 && daemon_n_commands(&d) < n_before + DEPTH)
			usleep(1000);
		set("inaccessible", "p");
		for (unsigned i = 0; i < DEPTH; i++) {
			struct nvme_cqe cqe;
			enum nvme_status status;

			assert_true(raw_receive(&p.io, &cqe, PATIENCE_MS));
			status = get_nvme_status(cqe.status);
			n_done += status == NVME_OK;
			n_refused += status == NVME_ANA_INACCESSIBLE;
		}
		assert_int_equal(n_done + n_refused, DEPTH);
		assert_int_equal(io(&p.io, NVME_IO_READ, nsids[round % 2], 4096),
				 NVME_ANA_INACCESSIBLE);
	}
}

/* The pair is refused as a whole, and the queue continues. */
static void a_fused_pair_is_refused(void **state)
{
	struct nvme_cqe cqe;

	set("inaccessible", "p");
	for (unsigned i = 0; i < 2; i++) {
		struct nvme_sqe sqe = raw_sqe(&p.io, i ? NVME_IO_WRITE : NVME_IO_COMPARE,
					      DAEMON_FILE);

		sqe.flags |= i ? NVME_FLAGS_FUSE_SECOND : NVME_FLAGS_FUSE_FIRST;
		raw_describe(&p.io, &sqe, 0, 4096);
		raw_send(&p.io, &sqe, sizeof(sqe));
	}
	assert_true(raw_receive(&p.io, &cqe, PATIENCE_MS));
	assert_int_equal(get_nvme_status(cqe.status), NVME_ANA_INACCESSIBLE);
	assert_true(raw_receive(&p.io, &cqe, PATIENCE_MS));
	assert_int_not_equal(get_nvme_status(cqe.status), NVME_OK);
	set("optimized", "p");
	assert_int_equal(io(&p.io, NVME_IO_READ, DAEMON_FILE, 4096), NVME_OK);
}

/* ---- a changed file ------------------------------------------------------------------------- */

static void follows_the_file(void **state)
{
	const uint8_t *page;

	enable_events(&p.admin, EVENT_ANA);
	ask_for_event(&p.admin);
	change_config("s/state: non_optimized/state: optimized/");
	expect_event(&p.admin);
	assert_int_equal(whole_log(&p.admin)[56 + 16], NVME_ANA_STATE_OPTIMIZED);
	assert_int_equal(whole_log(&q.admin)[56 + 16], NVME_ANA_STATE_INACCESSIBLE);
	/* A namespace moves to the other group. */
	assert_int_equal(read_log(&p.admin, 0, 0, 16), NVME_OK);
	ask_for_event(&p.admin);
	change_config("/nsid: 2/s/ana_group: 7/ana_group: 1/");
	expect_event(&p.admin);
	page = whole_log(&p.admin);
	expect_group(page, 16, 1, NVME_ANA_STATE_OPTIMIZED, 3);
	assert_int_equal(u32(page, 48), DAEMON_RAM);
	assert_int_equal(u32(page, 52), DAEMON_FILE);
	assert_int_equal(u32(page, 56), DAEMON_READ_ONLY);
	expect_group(page, 60, DAEMON_ANA_GROUP, NVME_ANA_STATE_OPTIMIZED, 1);
	assert_int_equal(u32(identify(&p.admin, NVME_CNS_NS, DAEMON_FILE), 92), 1);
	assert_int_equal(io(&q.io, NVME_IO_READ, DAEMON_FILE, 4096), NVME_OK);
	change_config("/nsid: 2/s/ana_group: 1/ana_group: 7/");
	assert_int_equal(io(&q.io, NVME_IO_READ, DAEMON_FILE, 4096), NVME_ANA_INACCESSIBLE);
	change_config("s/state: optimized/state: non_optimized/");
}

static void what_was_set_stays(void **state)
{
	set("persistent_loss", "p");
	change_config("s/pending: 8/pending: 9/");
	assert_int_equal(io(&p.io, NVME_IO_READ, DAEMON_FILE, 4096), NVME_ANA_PERSISTENT_LOSS);
	/* A state that was set stays until the file's own entry changes. */
	change_config("s/state: non_optimized/state: optimized/");
	assert_int_equal(io(&p.io, NVME_IO_READ, DAEMON_FILE, 4096), NVME_OK);
	change_config("s/state: optimized/state: non_optimized/");
}

static void refuses_what_makes_no_sense(void **state)
{
	uint64_t count = u64(whole_log(&p.admin), 0);
	struct error error;

	assert_int_equal(try_set(3, "change", NULL), -EXIT_NOT_FOUND);
	assert_int_equal(try_set(0, "change", NULL), -EXIT_NOT_FOUND);
	assert_int_equal(try_set(DAEMON_ANA_GROUP, "gone", NULL), -EXIT_USAGE);
	assert_int_equal(try_set(DAEMON_ANA_GROUP, "", NULL), -EXIT_USAGE);
	assert_int_equal(try_set(DAEMON_ANA_GROUP, "change", "r"), -EXIT_NOT_FOUND);
	assert_null(ask("ana_set", json_object_new_string("all"), &error));
	assert_int_not_equal(error.code, EXIT_OK);
	assert_null(ask("ana_set", NULL, &error));
	assert_int_equal(error.code, EXIT_NOT_FOUND);
	assert_int_equal(u64(whole_log(&p.admin), 0), count);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, open_paths, close_paths)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(says_that_it_speaks_ana),
		CASE(namespaces_have_groups),
		cmocka_unit_test(without_groups_there_is_no_ana),
		CASE(log_page_byte_by_byte),
		CASE(log_page_in_pieces),
		CASE(log_page_for_hostile_hosts),
		CASE(only_who_is_concerned_hears_of_it),
		CASE(hears_again_after_it_has_looked),
		CASE(who_did_not_ask_is_not_told),
		CASE(commands_of_a_namespace),
		CASE(what_every_state_answers),
		CASE(features_of_a_namespace),
		CASE(features_of_all_namespaces),
		CASE(commands_in_flight_end),
		CASE(a_fused_pair_is_refused),
		CASE(follows_the_file),
		CASE(what_was_set_stays),
		CASE(refuses_what_makes_no_sense),
	};

	return cmocka_run_group_tests_name("ana", tests, start, stop);
}
