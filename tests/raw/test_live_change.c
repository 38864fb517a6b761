/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The notices of a host, in raw capsules, when an administrator changes objects that it uses: the
 * event, the log page that names the change, and the responses afterwards.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "base/rpc.h"
#include "base/rpc_client.h"
#include "tests/raw/group.h"
#include "tests/raw/host.h"

enum {
	PATIENCE_MS = 60000,
	GROWN_BYTES = 3 * 1024 * 1024,
	EVENT_NAMESPACES = 1 << 8, /* feature 0Bh */
	EVENT_DISCOVERY = 1u << 31,
	RETAIN = 1 << 15,
};

/* ---- the administrator ---------------------------------------------------------------------- */

static int ask(const char *method, struct json_object *params, struct error *error)
{
	struct json_object *result = NULL;
	char path[128];
	int r;

	snprintf(path, sizeof(path), "%s/sock", d.folder);
	r = rpc_call(path, method, params, PATIENCE_MS, &result, error);
	json_object_put(params);
	json_object_put(result);
	return r;
}

static void truncate_file(const char *name, off_t size)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", d.folder, name);
	assert_int_equal(truncate(path, size), 0);
}

/* The exit code of rblkctl. */
static enum exit_code resize(uint32_t nsid, uint64_t size, bool is_forced)
{
	struct json_object *params = json_object_new_object();
	struct error error = {.code = EXIT_OK};

	json_object_object_add(params, "subsystem", json_object_new_string(RAW_SUBNQN));
	json_object_object_add(params, "nsid", json_object_new_int((int)nsid));
	if (size)
		json_object_object_add(params, "size_bytes", json_object_new_uint64(size));
	json_object_object_add(params, "force", json_object_new_boolean(is_forced));
	ask("ns_resize", params, &error);
	return error.code;
}

/* Inserts this in front of each line of the configuration that contains text. */
static void edit_config(const char *text, const char *prefix)
{
	_autofclose_ FILE *in = NULL, *out = NULL;
	char path[128], new_path[128], line[256];

	snprintf(path, sizeof(path), "%s/target.yaml", d.folder);
	snprintf(new_path, sizeof(new_path), "%s/new.yaml", d.folder);
	in = fopen(path, "r");
	out = fopen(new_path, "w");
	assert_non_null(in);
	assert_non_null(out);
	while (fgets(line, sizeof(line), in))
		fprintf(out, "%s%s", strstr(line, text) ? prefix : "", line);
	assert_int_equal(fflush(out), 0);
	assert_int_equal(rename(new_path, path), 0);
}

static void uncomment_config(void)
{
	char command[128];

	snprintf(command, sizeof(command), "sed -i 's/^#//' %s/target.yaml", d.folder);
	assert_int_equal(system(command), 0);
}

static void apply(void)
{
	struct error error = {.code = EXIT_OK};
	char text[128];

	assert_int_equal(ask("apply", NULL, &error), 0);
	snprintf(text, sizeof(text), "%s/target.yaml: applied", d.folder);
	assert_true(daemon_has_logged(&d, text));
}

/* ---- the host ------------------------------------------------------------------------------- */

static void run_admin(struct raw_queue *q, struct nvme_sqe *sqe, uint32_t n)
{
	struct nvme_cqe cqe;

	memset(q->data, 0xee, n);
	if (n)
		raw_describe(q, sqe, 0, n);
	assert_int_equal(raw_run(q, sqe, NULL, 0, &cqe), NVME_OK);
}

static void enable_events(struct raw_queue *q, uint32_t events)
{
	struct nvme_sqe sqe = raw_sqe(q, NVME_ADMIN_SET_FEATURES, 0);

	sqe.cdw10 = put_le32(NVME_FEAT_ASYNC_EVENT);
	sqe.cdw11 = put_le32(events);
	run_admin(q, &sqe, 0);
}

static void ask_for_event(struct raw_queue *q)
{
	struct nvme_sqe sqe = raw_sqe(q, NVME_ADMIN_ASYNC_EVENT_REQUEST, 0);

	raw_send(q, &sqe, sizeof(sqe));
}

static void expect_event(struct raw_queue *q, uint32_t event)
{
	struct nvme_cqe cqe;

	assert_true(raw_receive(q, &cqe, PATIENCE_MS));
	assert_int_equal(get_nvme_status(cqe.status), NVME_OK);
	assert_int_equal(get_le32(cqe.dw0), event);
}

/* The list of log page 04h has this namespace alone; 0: it is empty. */
static void expect_changed(struct raw_queue *q, uint32_t nsid, uint32_t flags)
{
	struct nvme_sqe sqe = raw_sqe(q, NVME_ADMIN_GET_LOG_PAGE, NVME_NSID_ALL);
	const le32 *list = (const void *)q->data;

	sqe.cdw10 = put_le32(NVME_LOG_CHANGED_NS | (4096 / 4 - 1) << 16 | flags);
	run_admin(q, &sqe, 4096);
	assert_int_equal(get_le32(list[0]), nsid);
	for (unsigned i = 1; i < 1024; i++)
		assert_int_equal(get_le32(list[i]), 0);
}

static uint64_t identify_blocks(struct raw_queue *q, uint32_t nsid)
{
	struct nvme_sqe sqe = raw_sqe(q, NVME_ADMIN_IDENTIFY, nsid);
	const struct nvme_id_ns *id = (const void *)q->data;

	sqe.cdw10 = put_le32(NVME_CNS_NS);
	run_admin(q, &sqe, NVME_IDENTIFY_BYTES);
	return get_le64(id->nsze);
}

/* ---- growing -------------------------------------------------------------------------------- */

static void hears_that_a_file_has_grown(void **state)
{
	enum {
		OLD_BLOCKS = 1024 * 1024 / 512,
		NEW_BLOCKS = GROWN_BYTES / 512
	};
	struct raw_host h;
	struct nvme_cqe cqe;

	raw_host_open(&h, d.port);
	enable_events(&h.admin, EVENT_NAMESPACES);
	ask_for_event(&h.admin);
	assert_int_equal(identify_blocks(&h.admin, DAEMON_READ_ONLY), OLD_BLOCKS);
	truncate_file("fixed", GROWN_BYTES);
	assert_int_equal(raw_io(&h.io, NVME_IO_READ, DAEMON_READ_ONLY, OLD_BLOCKS, 1, 512),
			 NVME_LBA_OUT_OF_RANGE | NVME_DNR);
	assert_int_equal(resize(DAEMON_READ_ONLY, 0, false), EXIT_OK);
	expect_event(&h.admin, NVME_AER_NS_CHANGED);
	assert_int_equal(identify_blocks(&h.admin, DAEMON_READ_ONLY), NEW_BLOCKS);
	assert_int_equal(raw_io(&h.io, NVME_IO_READ, DAEMON_READ_ONLY, NEW_BLOCKS - 1, 1, 512),
			 NVME_OK);

	/* It was notified and has not read the log, so no second event is sent. */
	ask_for_event(&h.admin);
	truncate_file("fixed", 2 * GROWN_BYTES);
	assert_int_equal(resize(DAEMON_READ_ONLY, 0, false), EXIT_OK);
	expect_changed(&h.admin, DAEMON_READ_ONLY, RETAIN);
	assert_int_equal(h.admin.n_arrived, 0);
	expect_changed(&h.admin, DAEMON_READ_ONLY, 0);
	expect_event(&h.admin, NVME_AER_NS_CHANGED);
	expect_changed(&h.admin, 0, 0);
	assert_int_equal(identify_blocks(&h.admin, DAEMON_READ_ONLY), 2 * NEW_BLOCKS);

	/* Without a change there is no event. */
	ask_for_event(&h.admin);
	assert_int_equal(resize(DAEMON_READ_ONLY, 0, false), EXIT_OK);
	assert_false(raw_receive(&h.admin, &cqe, 100));
	raw_host_close(&h);
	daemon_wait_empty(&d);
}

static void is_told_of_less_only_by_force(void **state)
{
	struct raw_host h;

	raw_host_open(&h, d.port);
	enable_events(&h.admin, EVENT_NAMESPACES);
	ask_for_event(&h.admin);
	truncate_file("fixed", GROWN_BYTES);
	assert_int_equal(resize(DAEMON_READ_ONLY, 0, false), EXIT_BUSY);
	assert_int_equal(identify_blocks(&h.admin, DAEMON_READ_ONLY), 2 * GROWN_BYTES / 512);
	assert_int_equal(resize(DAEMON_READ_ONLY, 0, true), EXIT_OK);
	expect_event(&h.admin, NVME_AER_NS_CHANGED);
	expect_changed(&h.admin, DAEMON_READ_ONLY, 0);
	assert_int_equal(identify_blocks(&h.admin, DAEMON_READ_ONLY), GROWN_BYTES / 512);
	raw_host_close(&h);
	daemon_wait_empty(&d);
}

/* ---- adding and removing ------------------------------------------------------------------- */

static void hears_of_namespaces_that_come_and_go(void **state)
{
	struct raw_host h;

	raw_host_open(&h, d.port);
	enable_events(&h.admin, EVENT_NAMESPACES);
	ask_for_event(&h.admin);
	assert_int_equal(raw_io(&h.io, NVME_IO_WRITE, DAEMON_BIG_RAM, 0, 1, 4096), NVME_OK);
	edit_config("nsid: 4", "#");
	apply();
	expect_event(&h.admin, NVME_AER_NS_CHANGED);
	expect_changed(&h.admin, DAEMON_BIG_RAM, 0);
	assert_int_equal(identify_blocks(&h.admin, DAEMON_BIG_RAM), 0); /* inactive */
	assert_int_equal(raw_io(&h.io, NVME_IO_WRITE, DAEMON_BIG_RAM, 0, 1, 4096),
			 NVME_INVALID_NSID | NVME_DNR);
	assert_int_equal(raw_io(&h.io, NVME_IO_READ, DAEMON_RAM, 0, 1, 512), NVME_OK);
	ask_for_event(&h.admin);
	uncomment_config();
	apply();
	expect_event(&h.admin, NVME_AER_NS_CHANGED);
	expect_changed(&h.admin, DAEMON_BIG_RAM, 0);
	assert_int_not_equal(identify_blocks(&h.admin, DAEMON_BIG_RAM), 0);
	assert_int_equal(raw_io(&h.io, NVME_IO_READ, DAEMON_BIG_RAM, 0, 1, 4096), NVME_OK);
	for (unsigned i = 0; i < 4096; i++)
		assert_int_equal(h.io.data[i], 0); /* another one, empty */
	raw_host_close(&h);
	daemon_wait_empty(&d);
}

/* How often the removal of a namespace takes it from a host, as diff shows it. */
static unsigned count_losses(const char *nsid)
{
	struct json_object *result, *changes;
	unsigned n = 0;

	edit_config(nsid, "#");
	result = daemon_ask(&d, "diff");
	uncomment_config();
	changes = json_object_object_get(result, "changes");
	assert_int_equal(json_object_array_length(changes), 1);
	for (size_t i = 0; i < json_object_array_length(changes); i++)
		n += (unsigned)json_object_array_length(
			json_object_object_get(json_object_array_get_idx(changes, i), "losses"));
	json_object_put(result);
	return n;
}

/* A host uses the namespaces that its commands name, until these are removed. */
static void uses_what_its_commands_name(void **state)
{
	struct raw_host h;

	raw_host_open(&h, d.port);
	assert_int_equal(count_losses("nsid: 3"), 0);
	identify_blocks(&h.admin, DAEMON_READ_ONLY);
	assert_int_equal(count_losses("nsid: 3"), 1);
	assert_int_equal(count_losses("nsid: 4"), 0);
	assert_int_equal(raw_io(&h.io, NVME_IO_READ, DAEMON_BIG_RAM, 0, 1, 4096), NVME_OK);
	assert_int_equal(count_losses("nsid: 4"), 1);
	edit_config("nsid: 4", "#");
	apply();
	uncomment_config();
	apply();
	assert_int_equal(count_losses("nsid: 4"), 0);
	assert_int_equal(count_losses("nsid: 3"), 1);
	raw_host_close(&h);
	daemon_wait_empty(&d);
	assert_int_equal(count_losses("nsid: 3"), 0);
}

/* The daemon has buffers for 8 MiB: some commands have only been parsed when their namespace is
 * removed. */
static void finishes_what_a_removed_namespace_has(void **state)
{
	enum {
		DEPTH = 31,
		N_BYTES = 1 << 20
	};
	struct nvme_cqe cqe;
	struct raw_host h;

	raw_host_open(&h, d.port);
	for (unsigned i = 0; i < DEPTH; i++) {
		struct nvme_sqe sqe = raw_sqe(&h.io, NVME_IO_WRITE, DAEMON_FILE);

		raw_describe(&h.io, &sqe, 0, N_BYTES);
		sqe.cdw12 = put_le32(N_BYTES / 4096 - 1);
		raw_send(&h.io, &sqe, sizeof(sqe));
	}
	while (daemon_n_commands(&d) < DEPTH + 1)
		usleep(1000);
	edit_config("nsid: 2", "#");
	apply();
	for (unsigned i = 0; i < DEPTH; i++) {
		assert_true(raw_receive(&h.io, &cqe, PATIENCE_MS));
		assert_int_equal(get_nvme_status(cqe.status), NVME_OK);
	}
	assert_int_equal(raw_io(&h.io, NVME_IO_WRITE, DAEMON_FILE, 0, 1, 4096),
			 NVME_INVALID_NSID | NVME_DNR);
	/* Then its file is closed, and can be exported again. */
	daemon_wait_logged(&d, "/disk): closed");
	uncomment_config();
	apply();
	assert_int_equal(raw_io(&h.io, NVME_IO_WRITE, DAEMON_FILE, 0, 1, 4096), NVME_OK);
	raw_host_close(&h);
	daemon_wait_empty(&d);
}

static void discovery_hears_of_subsystems(void **state)
{
	struct raw_host h;

	raw_host_open_admin(&h, d.port, NVMF_DISCOVERY_NQN);
	enable_events(&h.admin, EVENT_DISCOVERY);
	ask_for_event(&h.admin);
	edit_config("example:others", "  - nqn: nqn.2026-01.org.example:else\n#");
	apply();
	expect_event(&h.admin, NVME_AER_DISCOVERY_CHANGED);
	raw_host_close(&h);
	daemon_wait_empty(&d);
}

static void loses_what_was_withdrawn(void **state)
{
	struct raw_connect c;
	struct raw_queue q;
	struct raw_host h;
	struct nvme_cqe cqe;

	raw_host_open(&h, d.port);
	edit_config("allow_hosts: [raw]", "    allow_hosts: []\n#");
	apply();
	assert_true(raw_is_dropped(&h.io));
	assert_true(raw_is_dropped(&h.admin));
	raw_host_close(&h);
	daemon_wait_empty(&d);
	assert_int_equal(raw_open(&q, d.port, 0, NVMF_ADMIN_SQ_ENTRIES), 0);
	raw_connect_init(&c, &q, 0, NVMF_ADMIN_SQ_ENTRIES - 1, NVMF_CNTLID_DYNAMIC);
	assert_int_equal(raw_connect(&q, &c, &cqe), NVME_CONNECT_INVALID_HOST | NVME_DNR);
	raw_close(&q);
}

static void refuses_what_makes_no_sense(void **state)
{
	struct error error = {.code = EXIT_OK};

	assert_int_equal(resize(99, 0, false), EXIT_NOT_FOUND);
	assert_int_equal(resize(0, 0, false), EXIT_USAGE);
	assert_int_equal(resize(DAEMON_RAM, 1 << 30, false), EXIT_FAILED);
	assert_int_equal(resize(DAEMON_FILE, 0, false), EXIT_FAILED);
	assert_int_equal(resize(DAEMON_READ_ONLY, 1 << 30, false), EXIT_FAILED);
	truncate_file("fixed", GROWN_BYTES + 100);
	assert_int_equal(resize(DAEMON_READ_ONLY, 0, false), EXIT_FAILED);
	truncate_file("fixed", GROWN_BYTES);
	ask("ns_resize", json_object_new_string("all"), &error);
	assert_int_not_equal(error.code, EXIT_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hears_that_a_file_has_grown),
		cmocka_unit_test(is_told_of_less_only_by_force),
		cmocka_unit_test(hears_of_namespaces_that_come_and_go),
		cmocka_unit_test(uses_what_its_commands_name),
		cmocka_unit_test(finishes_what_a_removed_namespace_has),
		cmocka_unit_test(discovery_hears_of_subsystems),
		cmocka_unit_test(refuses_what_makes_no_sense),
		cmocka_unit_test(loses_what_was_withdrawn),
	};

	return cmocka_run_group_tests_name("live_change", tests, start, stop);
}
