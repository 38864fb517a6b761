/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cross-Controller Reset, its log pages and events: a reset succeeds when no I/O of that controller
 * is left. Controllers that are not in the registry are called over only if rblkd knows that they
 * are: what this process has made, and what an earlier process of this machine has made, if this
 * one has the lock of the store. A controller of any other rblkd may be alive there, with a write
 * on its way to the same store.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/raw/fencing.h"
#include "tests/raw/group.h"
#include "tests/raw/reset.h"

enum {
	ROUNDS = 20,
	ENDS = 100,
	IN_FLIGHT = 32,
	WRAPS = 260,
	CQT_MS = 2000,
	LIMIT = 4,	   /* resets under way */
	INSTANCE = 0xffff, /* the part of CIRN that is not its maker's */
};

static void expect_reset(struct raw_queue *through, struct raw_name name, enum nvme_status status,
			 bool is_immediate)
{
	bool was_immediate;

	assert_int_equal(raw_reset(through, name, &was_immediate), status);
	assert_int_equal(was_immediate, is_immediate);
}

static void expect_over(struct raw_host *h, struct raw_name name)
{
	expect_reset(&h->admin, name, NVME_OK, true);
}

static void expect_unknown(struct raw_host *h, struct raw_name name)
{
	expect_reset(&h->admin, name, NVME_INVALID_FIELD | NVME_DNR, false);
}

/* Two associations of a host; returns the name of the old one. */
static struct raw_name open_both(struct raw_host *old, struct raw_host *new)
{
	raw_host_open(old, d.port);
	raw_host_open(new, d.port);
	return raw_name_of(old);
}

/* Disables it, and enables it as another instance. */
static void renew(struct raw_queue *admin)
{
	assert_int_equal(raw_property_set(admin, NVME_PROP_CC, 0), NVME_OK);
	raw_wait_csts(admin, NVME_CSTS_RDY, 0);
	assert_int_equal(raw_property_set(admin, NVME_PROP_CC, NVME_CC_ENABLE_VALUE), NVME_OK);
}

static void must_serve(struct raw_host *h)
{
	assert_int_equal(raw_io(&h->io, NVME_IO_READ, DAEMON_RAM, 0, 8, FENCING_BLOCK), NVME_OK);
}

/* ---- controllers of the registry ------------------------------------------------------------ */

static void a_controller_says_which_instance_it_is(void **state)
{
	struct raw_host h;
	struct nvme_id_ctrl id;

	raw_host_open(&h, d.port);
	id = raw_identify(&h.admin);
	assert_int_not_equal(id.ciu, 0);
	assert_true(get_le64(id.cirn) != 0);
	assert_int_equal(id.ccrl, 4);
	assert_int_equal(get_le16(id.cqt), CQT_MS);
	assert_true(get_le32(id.oaes) & NVME_OAES_CROSS_RESET);
	assert_true(get_le32(id.oaes) & NVME_OAES_LOST_HOST);
	assert_int_equal(raw_reset_log(&h.admin, NVME_LOG_CROSS_RESET, 0), 0);
	raw_host_close(&h);
}

/* Without work in a store the answer is the proof. */
static void what_is_idle_is_reset_at_once(void **state)
{
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct raw_host old, new;
		struct raw_name name = open_both(&old, &new);
		bool is_immediate;

		assert_int_equal(raw_reset(&new.admin, name, &is_immediate), NVME_OK);
		assert_true(raw_is_dropped(&old.io));
		/* Either at once, or the log has it. */
		if (is_immediate)
			assert_int_equal(raw_reset_log(&new.admin, NVME_LOG_CROSS_RESET, 0), 0);
		must_serve(&new);
		/* A controller that is over stays over. */
		raw_host_close(&old);
		while (raw_reset_log(&new.admin, NVME_LOG_CROSS_RESET, NVME_CROSS_RESET_RMC))
			usleep(1000);
		expect_over(&new, name);
		raw_host_close(&new);
	}
}

static void send_read(struct raw_queue *io)
{
	struct nvme_sqe sqe = raw_blocks(io, NVME_IO_READ, DAEMON_RAM, 0, 8);

	raw_describe(io, &sqe, 0, FENCING_BLOCK);
	raw_send(io, &sqe, sizeof(sqe));
}

/* Its host would take a refusal for the answer to its command. Silence makes it ask elsewhere. */
static void nothing_is_refused_by_the_end(void **state)
{
	for (unsigned i = 0; i < ENDS; i++) {
		struct raw_host old, new;
		struct raw_name name = open_both(&old, &new);
		struct nvme_sqe sqe;
		struct nvme_cqe cqe;

		for (unsigned n = 0; n < IN_FLIGHT; n++)
			send_read(&old.io);
		sqe = raw_reset_command(&new.admin, name);
		raw_send(&new.admin, &sqe, sizeof(sqe));
		while (raw_receive(&old.io, &cqe, FENCING_PATIENCE_MS)) {
			assert_int_equal(get_nvme_status(cqe.status), NVME_OK);
			send_read(&old.io);
		}
		assert_true(old.io.is_dead);
		assert_true(raw_collect(&new.admin, 1, FENCING_PATIENCE_MS));
		raw_host_close(&new);
		raw_host_close(&old);
	}
}

/* V4: no proof while a store has a write of that controller. */
static void no_success_while_a_store_has_a_write(void **state)
{
	struct raw_host old, new;
	struct raw_name name = open_both(&old, &new);
	struct nvme_cqe cqe;

	raw_enable_events(&new.admin, NVME_OAES_CROSS_RESET);
	fencing_hold_write(&old.io, 'A');
	expect_reset(&new.admin, name, NVME_OK, false);
	expect_reset(&new.admin, name, NVME_CROSS_RESET_BUSY | NVME_DNR, false);
	assert_int_equal(raw_reset_log(&new.admin, NVME_LOG_CROSS_RESET, 0), 1);
	assert_int_equal(get_le16(raw_first_reset(&new.admin)->icid), name.id);
	assert_int_equal(raw_first_reset(&new.admin)->ciu, name.ciu);
	assert_int_equal(raw_first_reset(&new.admin)->ccrs, NVME_CROSS_RESET_IN_PROGRESS);
	assert_false(raw_receive(&new.admin, &cqe, 200));
	fencing_hang_disk(false);
	raw_expect_event(&new.admin, NVME_AER_CROSS_RESET);
	assert_int_equal(raw_reset_log(&new.admin, NVME_LOG_CROSS_RESET, NVME_CROSS_RESET_RMC), 1);
	assert_int_equal(raw_first_reset(&new.admin)->ccrs, NVME_CROSS_RESET_SUCCESS);
	assert_int_equal(raw_reset_log(&new.admin, NVME_LOG_CROSS_RESET, 0), 0);
	/* The old write was over before the proof. */
	fencing_must_read(&new.io, DAEMON_FILE, 0, 'A');
	fencing_write(&new.io, DAEMON_FILE, 0, 'B');
	fencing_must_read(&new.io, DAEMON_FILE, 0, 'B');
	raw_host_close(&new);
	raw_host_close(&old);
}

/* The source leaves while the reset that it has requested is under way. */
static void a_source_may_leave_first(void **state)
{
	struct raw_host old, new;
	struct raw_name name = open_both(&old, &new);

	fencing_hold_write(&old.io, 'A');
	expect_reset(&new.admin, name, NVME_OK, false);
	raw_host_close(&new);
	fencing_hang_disk(false);
	raw_host_close(&old);
}

/* The source is reset meanwhile: its log begins anew. */
static void a_reset_source_forgets(void **state)
{
	struct raw_host old, new;
	struct raw_name name = open_both(&old, &new);

	fencing_hold_write(&old.io, 'A');
	expect_reset(&new.admin, name, NVME_OK, false);
	renew(&new.admin);
	assert_int_equal(raw_reset_log(&new.admin, NVME_LOG_CROSS_RESET, 0), 0);
	fencing_hang_disk(false);
	raw_host_close(&old);
	assert_int_equal(raw_reset_log(&new.admin, NVME_LOG_CROSS_RESET, 0), 0);
	raw_host_close(&new);
}

/* V6: each enable is another instance, and an old name resets no living controller. */
static void a_stale_name_resets_nothing(void **state)
{
	struct raw_host old, new;
	struct raw_name before = open_both(&old, &new), after;

	for (unsigned i = 0; i < WRAPS; i++) {
		renew(&old.admin);
		after = raw_name_of(&old);
		assert_int_equal(after.ciu, before.ciu % UINT8_MAX + 1);
		assert_true(after.cirn != before.cirn);
		if (i < 3)
			expect_unknown(&new, before);
		before = after;
	}
	assert_int_equal(raw_name_of(&old).ciu, after.ciu); /* it lives */
	must_serve(&new);
	raw_host_close(&new);
	raw_host_close(&old);
}

/* V7. */
static void controllers_of_others_are_safe(void **state)
{
	struct raw_host victim, hostile;
	struct raw_name name, own;
	struct nvme_sqe sqe;
	struct nvme_cqe cqe;

	raw_host_open(&victim, d.port);
	raw_host_open_as(&hostile, d.port, 1);
	name = raw_name_of(&victim);
	own = raw_name_of(&hostile);
	expect_unknown(&hostile, name);
	expect_unknown(&hostile, own);
	expect_unknown(&hostile, (struct raw_name){0, own.ciu, own.cirn});
	expect_unknown(&hostile, (struct raw_name){0xffff, own.ciu, own.cirn});
	sqe = raw_reset_command(&hostile.admin, name);
	sqe.nsid = put_le32(1);
	assert_int_equal(raw_run(&hostile.admin, &sqe, NULL, 0, &cqe),
			 NVME_INVALID_FIELD | NVME_DNR);
	must_serve(&victim);
	must_serve(&hostile);
	raw_host_close(&hostile);
	raw_host_close(&victim);
}

static void resets_have_a_limit(void **state)
{
	struct raw_host old[LIMIT + 1], new;
	struct raw_name names[LIMIT + 1];

	for (unsigned i = 0; i <= LIMIT; i++) {
		raw_host_open(&old[i], d.port);
		names[i] = raw_name_of(&old[i]);
	}
	raw_host_open(&new, d.port);
	fencing_hang_disk(true);
	for (unsigned i = 0; i <= LIMIT; i++) {
		fencing_send_write(&old[i].io, DAEMON_FILE, i, 'A');
		must_serve(&old[i]); /* a later command is answered: the write is in the store */
	}
	for (unsigned i = 0; i < LIMIT; i++)
		expect_reset(&new.admin, names[i], NVME_OK, false);
	expect_reset(&new.admin, names[LIMIT], NVME_CROSS_RESET_LIMIT | NVME_DNR, false);
	must_serve(&new);
	fencing_hang_disk(false);
	for (unsigned i = 0; i <= LIMIT; i++)
		raw_host_close(&old[i]);
	raw_host_close(&new);
}

/* Log page 1Fh: the other controllers of a host learn that one has lost it. */
static void the_loss_of_a_host_is_told(void **state)
{
	const struct nvme_lost_host_entry *entry;
	struct raw_host lost, other, foreign;
	struct raw_name name;

	raw_host_open(&lost, d.port);
	raw_host_open(&other, d.port);
	raw_host_open_as(&foreign, d.port, 1);
	name = raw_name_of(&lost);
	raw_enable_events(&other.admin, NVME_OAES_LOST_HOST);
	raw_host_close(&lost); /* without a shutdown */
	raw_expect_event(&other.admin, NVME_AER_LOST_HOST);
	assert_int_equal(raw_reset_log(&other.admin, NVME_LOG_LOST_HOST, 0), 1);
	entry = (const void *)(other.admin.data + sizeof(struct nvme_cross_reset_log));
	assert_int_equal(get_le16(entry->cntlid), name.id);
	assert_int_equal(entry->ciu, name.ciu);
	assert_int_equal(entry->loss_count, 1);
	assert_int_equal(raw_reset_log(&other.admin, NVME_LOG_LOST_HOST, 0), 0);
	assert_int_equal(raw_reset_log(&foreign.admin, NVME_LOG_LOST_HOST, 0), 0);
	raw_host_close(&foreign);
	raw_host_close(&other);
}

/* ---- controllers that are not in the registry ----------------------------------------------- */

static struct {
	const char *ids;   /* the key controller_ids with its line end, or "" */
	const char *store; /* more keys of the file */
} config;

/* A rblkd for one test. */
static struct daemon own;

static int stop_own(void **state)
{
	daemon_stop(&own);
	return 0;
}

static void write_config(const struct daemon *daemon)
{
	FILE *f = daemon_open_config(daemon);

	fprintf(f,
		"version: 1\ncontrol_socket: %s/sock\n%s"
		"portals: [{name: p, address: 127.0.0.1, port: %u}, {name: q, address: 127.0.0.1, port: %u}]\n"
		"subsystems:\n"
		"  - nqn: %s\n    allow_any_host: true\n    serial: both\n    namespaces:\n"
		"      - {nsid: 1, file: %s/disk, size: 1MiB, create: true%s, uuid: 0b1e6c5e-5a55-4c0e-9b0c-2f6f4b5d1a11}\n",
		daemon->folder, config.ids, daemon->port, daemon->second_port, RAW_SUBNQN,
		daemon->folder, config.store);
	fclose(f);
}

static struct raw_name begin(const char *ids, const char *store, struct raw_host *ret_host)
{
	config.ids = ids;
	config.store = store;
	daemon_start_configured(&own, write_config);
	raw_host_open(ret_host, own.port);
	return raw_name_of(ret_host);
}

static uint16_t another_id(uint16_t id)
{
	return id == 1 ? 2 : id - 1;
}

static void what_this_process_made_is_over(void **state)
{
	struct raw_host h;
	struct raw_name name = begin("", "", &h);

	name.id = another_id(name.id);
	expect_over(&h, name);
	name.cirn ^= INSTANCE;
	expect_over(&h, name);
	raw_host_close(&h);
}

static void an_id_that_it_never_gives_is_unknown(void **state)
{
	struct raw_host h;
	struct raw_name name = begin("controller_ids: {min: 100, max: 199}\n", "", &h);

	name.id = 99;
	expect_unknown(&h, name);
	name.id = 200;
	expect_unknown(&h, name);
	raw_host_close(&h);
}

static void no_instance_is_unknown(void **state)
{
	struct raw_host h;
	struct raw_name name = begin("", "", &h);

	name.cirn = 0;
	expect_unknown(&h, name);
	name.id = another_id(name.id);
	expect_unknown(&h, name);
	raw_host_close(&h);
}

/* kill -9, and another process; boot: contents of the file that names the kernel's boot. */
static void start_again(struct raw_host *h, const char *boot)
{
	char path[128];
	FILE *f;

	raw_host_close(h);
	snprintf(path, sizeof(path), "%s/boot", own.folder);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(boot, f);
	fclose(f);
	setenv("RBLKD_BOOT_ID_FILE", path, 1);
	daemon_kill_and_restart(&own);
	unsetenv("RBLKD_BOOT_ID_FILE");
	raw_host_open(h, own.port);
}

#define BOOT_1 "0b1e6c5e-5a55-4c0e-9b0c-2f6f4b5d1a01"
#define BOOT_2 "0b1e6c5e-5a55-4c0e-9b0c-2f6f4b5d1a02"

/* The answer is the same if a controller of this process has that id now, and it lives on. */
static void with_a_live_id(struct raw_host *h, struct raw_name name,
			   void (*expect)(struct raw_host *h, struct raw_name name))
{
	struct raw_host live;

	raw_host_open(&live, own.port);
	name.id = live.cntlid;
	expect(h, name);
	raw_name_of(&live);
	raw_host_close(&live);
}

/* rblkd with these keys of the store runs, is killed, and runs again, each time under a kernel of
 * that boot. What is known then of a controller that the first one made? */
struct lives {
	const char *store, *boot, *next_boot;
	void (*expect)(struct raw_host *h, struct raw_name name);
};

static void made_before(void **state)
{
	const struct lives *row = *state;
	struct raw_host h;
	struct raw_name before;

	begin("", row->store, &h);
	start_again(&h, row->boot);
	before = raw_name_of(&h);
	start_again(&h, row->next_boot);
	row->expect(&h, before);
	with_a_live_id(&h, before, row->expect);
	raw_host_close(&h);
}

static void a_machine_without_a_name_knows_itself_alone(void **state)
{
	struct raw_host h;
	struct raw_name before;

	begin("", "", &h);
	start_again(&h, "");
	before = raw_name_of(&h);
	before.id = another_id(before.id);
	expect_over(&h, before);
	start_again(&h, "");
	expect_unknown(&h, before);
	raw_host_close(&h);
}

#define LIVES(...)   (&(struct lives){__VA_ARGS__})
#define CASE(f, ...) ((struct CMUnitTest){#f, made_before, NULL, stop_own, LIVES(__VA_ARGS__)})

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(a_controller_says_which_instance_it_is, next_good_host),
		cmocka_unit_test_teardown(what_is_idle_is_reset_at_once, next_good_host),
		cmocka_unit_test_teardown(nothing_is_refused_by_the_end, next_good_host),
		cmocka_unit_test_teardown(no_success_while_a_store_has_a_write, next_good_host),
		cmocka_unit_test_teardown(a_source_may_leave_first, next_good_host),
		cmocka_unit_test_teardown(a_reset_source_forgets, next_good_host),
		cmocka_unit_test_teardown(a_stale_name_resets_nothing, next_good_host),
		cmocka_unit_test_teardown(controllers_of_others_are_safe, next_good_host),
		cmocka_unit_test_teardown(resets_have_a_limit, next_good_host),
		cmocka_unit_test_teardown(the_loss_of_a_host_is_told, next_good_host),
		cmocka_unit_test_teardown(what_this_process_made_is_over, stop_own),
		cmocka_unit_test_teardown(an_id_that_it_never_gives_is_unknown, stop_own),
		cmocka_unit_test_teardown(no_instance_is_unknown, stop_own),
		CASE(an_earlier_process_is_over_by_the_lock, "", BOOT_1, BOOT_1, expect_over),
		/* Nothing but the number tells them apart: ids and store are the same. */
		CASE(another_machine_is_unknown, "", BOOT_1, BOOT_2, expect_unknown),
		cmocka_unit_test_teardown(a_machine_without_a_name_knows_itself_alone, stop_own),
		CASE(without_the_lock_an_earlier_process_is_unknown, ", shared: true", BOOT_1,
		     BOOT_1, expect_unknown),
	};

	return cmocka_run_group_tests_name("cross_reset", tests, fencing_start_quick, stop);
}
