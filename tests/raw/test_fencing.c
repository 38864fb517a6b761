/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An old write of a host never lands after a newer one: Cross-Controller Reset, its log pages and
 * events, and associations that expired while rblkd was stopped. README.md has the invariants.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "tests/raw/fencing.h"
#include "tests/raw/group.h"
#include "tests/raw/reset.h"
#include "transport/wire/nvme_cross_reset.h"

enum {
	KATO_MS = 1000,
	ROUNDS = 20,
	ENDS = 100,
	IN_FLIGHT = 32,
	WRAPS = 260,
	CQT_MS = 2000,
};

static struct raw_name name_of(uint16_t id, const struct nvme_id_ctrl *of)
{
	return (struct raw_name){id, of->ciu, get_le64(of->cirn)};
}

static enum nvme_status reset(struct raw_queue *through, uint16_t icid,
			      const struct nvme_id_ctrl *id, bool *ret_is_immediate)
{
	return raw_reset(through, name_of(icid, id), ret_is_immediate);
}

/* The page is in admin->data. */
static unsigned read_log(struct raw_queue *admin, enum nvme_log page, uint32_t flags)
{
	struct nvme_sqe sqe = raw_sqe(admin, NVME_ADMIN_GET_LOG_PAGE, NVME_NSID_ALL);
	const struct nvme_cross_reset_log *log = (const void *)admin->data;
	struct nvme_cqe cqe;

	sqe.cdw10 = put_le32((uint32_t)page | flags | (4096 / 4 - 1) << 16);
	raw_describe(admin, &sqe, 0, 4096);
	assert_int_equal(raw_run(admin, &sqe, NULL, 0, &cqe), NVME_OK);
	return get_le16(log->n_entries);
}

static const struct nvme_cross_reset_entry *first_entry(const struct raw_queue *admin)
{
	return (const void *)(admin->data + sizeof(struct nvme_cross_reset_log));
}

static void enable_events(struct raw_queue *admin, uint32_t mask)
{
	struct nvme_sqe sqe = raw_sqe(admin, NVME_ADMIN_SET_FEATURES, 0);
	struct nvme_cqe cqe;

	sqe.cdw10 = put_le32(NVME_FEAT_ASYNC_EVENT);
	sqe.cdw11 = put_le32(mask);
	assert_int_equal(raw_run(admin, &sqe, NULL, 0, &cqe), NVME_OK);
	sqe = raw_sqe(admin, NVME_ADMIN_ASYNC_EVENT_REQUEST, 0);
	raw_send(admin, &sqe, sizeof(sqe));
}

static void expect_event(struct raw_queue *admin, uint32_t event)
{
	struct nvme_cqe cqe;

	assert_true(raw_receive(admin, &cqe, FENCING_PATIENCE_MS));
	assert_int_equal(get_nvme_status(cqe.status), NVME_OK);
	assert_int_equal(get_le32(cqe.dw0), event);
}

static void must_serve(struct raw_host *h)
{
	assert_int_equal(raw_io(&h->io, NVME_IO_READ, DAEMON_RAM, 0, 8, FENCING_BLOCK), NVME_OK);
}

/* ---- Cross-Controller Reset ----------------------------------------------------------------- */

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
	assert_int_equal(read_log(&h.admin, NVME_LOG_CROSS_RESET, 0), 0);
	raw_host_close(&h);
}

/* Without work in a store the answer is the proof. */
static void what_is_idle_is_reset_at_once(void **state)
{
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct raw_host old, new;
		struct nvme_id_ctrl id;
		bool is_immediate;

		raw_host_open(&old, d.port);
		raw_host_open(&new, d.port);
		id = raw_identify(&old.admin);
		assert_int_equal(reset(&new.admin, old.cntlid, &id, &is_immediate), NVME_OK);
		assert_true(raw_is_dropped(&old.io));
		/* Either at once, or the log has it. */
		if (is_immediate)
			assert_int_equal(read_log(&new.admin, NVME_LOG_CROSS_RESET, 0), 0);
		must_serve(&new);
		/* What is over already is over. */
		raw_host_close(&old);
		while (read_log(&new.admin, NVME_LOG_CROSS_RESET, NVME_CROSS_RESET_RMC))
			usleep(1000);
		assert_int_equal(reset(&new.admin, old.cntlid, &id, &is_immediate), NVME_OK);
		assert_true(is_immediate);
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
		struct nvme_id_ctrl id;
		struct nvme_sqe sqe;
		struct nvme_cqe cqe;

		raw_host_open(&old, d.port);
		raw_host_open(&new, d.port);
		id = raw_identify(&old.admin);
		for (unsigned n = 0; n < IN_FLIGHT; n++)
			send_read(&old.io);
		sqe = raw_reset_command(&new.admin, name_of(old.cntlid, &id));
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
	struct nvme_id_ctrl id;
	struct nvme_cqe cqe;
	bool is_immediate;

	raw_host_open(&old, d.port);
	raw_host_open(&new, d.port);
	id = raw_identify(&old.admin);
	enable_events(&new.admin, NVME_OAES_CROSS_RESET);
	fencing_hang_disk(true);
	fencing_send_write(&old.io, DAEMON_FILE, 0, 'A');
	fencing_wait_held();
	assert_int_equal(reset(&new.admin, old.cntlid, &id, &is_immediate), NVME_OK);
	assert_false(is_immediate);
	assert_int_equal(reset(&new.admin, old.cntlid, &id, &is_immediate),
			 NVME_CROSS_RESET_BUSY | NVME_DNR);
	assert_int_equal(read_log(&new.admin, NVME_LOG_CROSS_RESET, 0), 1);
	assert_int_equal(get_le16(first_entry(&new.admin)->icid), old.cntlid);
	assert_int_equal(first_entry(&new.admin)->ciu, id.ciu);
	assert_int_equal(first_entry(&new.admin)->ccrs, NVME_CROSS_RESET_IN_PROGRESS);
	assert_false(raw_receive(&new.admin, &cqe, 200));
	fencing_hang_disk(false);
	expect_event(&new.admin, NVME_AER_CROSS_RESET);
	assert_int_equal(read_log(&new.admin, NVME_LOG_CROSS_RESET, NVME_CROSS_RESET_RMC), 1);
	assert_int_equal(first_entry(&new.admin)->ccrs, NVME_CROSS_RESET_SUCCESS);
	assert_int_equal(read_log(&new.admin, NVME_LOG_CROSS_RESET, 0), 0);
	/* The old write was over before the proof. */
	fencing_must_read(&new.io, DAEMON_FILE, 0, 'A');
	fencing_send_write(&new.io, DAEMON_FILE, 0, 'B');
	assert_true(raw_collect(&new.io, 1, FENCING_PATIENCE_MS));
	fencing_must_read(&new.io, DAEMON_FILE, 0, 'B');
	raw_host_close(&new);
	raw_host_close(&old);
}

/* The source leaves while the reset that it has requested is under way. */
static void a_source_may_leave_first(void **state)
{
	struct raw_host old, new;
	struct nvme_id_ctrl id;
	bool is_immediate;

	raw_host_open(&old, d.port);
	raw_host_open(&new, d.port);
	id = raw_identify(&old.admin);
	fencing_hang_disk(true);
	fencing_send_write(&old.io, DAEMON_FILE, 0, 'A');
	fencing_wait_held();
	assert_int_equal(reset(&new.admin, old.cntlid, &id, &is_immediate), NVME_OK);
	assert_false(is_immediate);
	raw_host_close(&new);
	fencing_hang_disk(false);
	raw_host_close(&old);
}

/* The source is reset meanwhile: its log begins anew. */
static void a_reset_source_forgets(void **state)
{
	struct raw_host old, new;
	struct nvme_id_ctrl id;
	bool is_immediate;
	uint64_t csts = NVME_CSTS_RDY;

	raw_host_open(&old, d.port);
	raw_host_open(&new, d.port);
	id = raw_identify(&old.admin);
	fencing_hang_disk(true);
	fencing_send_write(&old.io, DAEMON_FILE, 0, 'A');
	fencing_wait_held();
	assert_int_equal(reset(&new.admin, old.cntlid, &id, &is_immediate), NVME_OK);
	assert_int_equal(raw_property_set(&new.admin, NVME_PROP_CC, 0), NVME_OK);
	while (csts & NVME_CSTS_RDY)
		assert_int_equal(raw_property_get(&new.admin, NVME_PROP_CSTS, false, &csts),
				 NVME_OK);
	assert_int_equal(raw_property_set(&new.admin, NVME_PROP_CC, NVME_CC_ENABLE_VALUE), NVME_OK);
	assert_int_equal(read_log(&new.admin, NVME_LOG_CROSS_RESET, 0), 0);
	fencing_hang_disk(false);
	raw_host_close(&old);
	assert_int_equal(read_log(&new.admin, NVME_LOG_CROSS_RESET, 0), 0);
	raw_host_close(&new);
}

/* V6: each enable is another instance, and an old name resets no living controller. */
static void a_stale_name_resets_nothing(void **state)
{
	struct raw_host old, new;
	struct nvme_id_ctrl before, after;
	bool is_immediate;

	raw_host_open(&old, d.port);
	raw_host_open(&new, d.port);
	before = raw_identify(&old.admin);
	for (unsigned i = 0; i < WRAPS; i++) {
		uint64_t csts = NVME_CSTS_RDY;

		assert_int_equal(raw_property_set(&old.admin, NVME_PROP_CC, 0), NVME_OK);
		while (csts & NVME_CSTS_RDY)
			assert_int_equal(raw_property_get(&old.admin, NVME_PROP_CSTS, false, &csts),
					 NVME_OK);
		assert_int_equal(raw_property_set(&old.admin, NVME_PROP_CC, NVME_CC_ENABLE_VALUE),
				 NVME_OK);
		after = raw_identify(&old.admin);
		assert_int_equal(after.ciu, before.ciu % UINT8_MAX + 1);
		assert_true(get_le64(after.cirn) != get_le64(before.cirn));
		if (i < 3)
			assert_int_equal(reset(&new.admin, old.cntlid, &before, &is_immediate),
					 NVME_INVALID_FIELD | NVME_DNR);
		before = after;
	}
	assert_int_equal(raw_identify(&old.admin).ciu, after.ciu); /* it lives */
	must_serve(&new);
	raw_host_close(&new);
	raw_host_close(&old);
}

/* V7. */
static void controllers_of_others_are_safe(void **state)
{
	struct raw_host victim, hostile;
	struct nvme_id_ctrl id, own;
	struct nvme_sqe sqe;
	struct nvme_cqe cqe;
	bool is_immediate;

	raw_host_open(&victim, d.port);
	raw_host_open_as(&hostile, d.port, 1);
	id = raw_identify(&victim.admin);
	own = raw_identify(&hostile.admin);
	assert_int_equal(reset(&hostile.admin, victim.cntlid, &id, &is_immediate),
			 NVME_INVALID_FIELD | NVME_DNR);
	assert_false(is_immediate);
	assert_int_equal(reset(&hostile.admin, hostile.cntlid, &own, &is_immediate),
			 NVME_INVALID_FIELD | NVME_DNR);
	assert_int_equal(reset(&hostile.admin, 0, &own, &is_immediate),
			 NVME_INVALID_FIELD | NVME_DNR);
	assert_int_equal(reset(&hostile.admin, 0xffff, &own, &is_immediate),
			 NVME_INVALID_FIELD | NVME_DNR);
	sqe = raw_reset_command(&hostile.admin, name_of(victim.cntlid, &id));
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
	enum {
		N = 5
	};
	struct raw_host old[N], new;
	struct nvme_id_ctrl id[N];
	bool is_immediate;

	for (unsigned i = 0; i < N; i++) {
		raw_host_open(&old[i], d.port);
		id[i] = raw_identify(&old[i].admin);
	}
	raw_host_open(&new, d.port);
	fencing_hang_disk(true);
	for (unsigned i = 0; i < N; i++) {
		fencing_send_write(&old[i].io, DAEMON_FILE, i, 'A');
		/* It is in the store: a later command of the queue is answered. */
		assert_int_equal(raw_io(&old[i].io, NVME_IO_READ, DAEMON_RAM, 0, 8, FENCING_BLOCK),
				 NVME_OK);
	}
	for (unsigned i = 0; i < N - 1; i++) {
		assert_int_equal(reset(&new.admin, old[i].cntlid, &id[i], &is_immediate), NVME_OK);
		assert_false(is_immediate);
	}
	assert_int_equal(reset(&new.admin, old[N - 1].cntlid, &id[N - 1], &is_immediate),
			 NVME_CROSS_RESET_LIMIT | NVME_DNR);
	must_serve(&new);
	fencing_hang_disk(false);
	for (unsigned i = 0; i < N; i++)
		raw_host_close(&old[i]);
	raw_host_close(&new);
}

/* Log page 1Fh: the other controllers of a host learn that one has lost it. */
static void the_loss_of_a_host_is_told(void **state)
{
	const struct nvme_lost_host_entry *entry;
	struct raw_host lost, other, foreign;
	struct nvme_id_ctrl id;

	raw_host_open(&lost, d.port);
	raw_host_open(&other, d.port);
	raw_host_open_as(&foreign, d.port, 1);
	id = raw_identify(&lost.admin);
	enable_events(&other.admin, NVME_OAES_LOST_HOST);
	raw_host_close(&lost); /* without a shutdown */
	expect_event(&other.admin, NVME_AER_LOST_HOST);
	assert_int_equal(read_log(&other.admin, NVME_LOG_LOST_HOST, 0), 1);
	entry = (const void *)(other.admin.data + sizeof(struct nvme_cross_reset_log));
	assert_int_equal(get_le16(entry->cntlid), lost.cntlid);
	assert_int_equal(entry->ciu, id.ciu);
	assert_int_equal(entry->loss_count, 1);
	assert_int_equal(read_log(&other.admin, NVME_LOG_LOST_HOST, 0), 0);
	assert_int_equal(read_log(&foreign.admin, NVME_LOG_LOST_HOST, 0), 0);
	raw_host_close(&foreign);
	raw_host_close(&other);
}

/* ---- expired associations ------------------------------------------------------------------- */

static void open_with_kato(struct raw_host *h)
{
	struct raw_connect c;
	struct nvme_cqe cqe;

	*h = (struct raw_host){0};
	assert_int_equal(raw_open(&h->admin, d.port, 0, NVMF_ADMIN_SQ_ENTRIES), 0);
	raw_connect_init(&c, &h->admin, 0, NVMF_ADMIN_SQ_ENTRIES - 1, NVMF_CNTLID_DYNAMIC);
	c.cmd.kato = put_le32(KATO_MS);
	assert_int_equal(raw_connect(&h->admin, &c, &cqe), NVME_OK);
	h->cntlid = (uint16_t)get_le32(cqe.dw0);
	assert_int_equal(raw_property_set(&h->admin, NVME_PROP_CC, NVME_CC_ENABLE_VALUE), NVME_OK);
	assert_int_equal(raw_open(&h->io, d.port, 1, 32), 0);
	raw_connect_init(&c, &h->io, 1, 31, h->cntlid);
	assert_int_equal(raw_connect(&h->io, &c, &cqe), NVME_OK);
}

/* V5: rblkd is stopped for longer than KATO, with a write in its receive queue. */
static void what_expired_while_rblkd_was_stopped_stays_dead(void **state)
{
	struct raw_host old, new;
	int status;

	raw_host_open(&new, d.port);
	fencing_send_write(&new.io, DAEMON_RAM, 0, 'Z');
	assert_true(raw_collect(&new.io, 1, FENCING_PATIENCE_MS));
	raw_host_close(&new);
	open_with_kato(&old);
	assert_int_equal(kill(d.pid, SIGSTOP), 0);
	/* Until its last thread stands still: kill does not wait for that. */
	assert_int_equal(waitpid(d.pid, &status, WUNTRACED), d.pid);
	assert_true(WIFSTOPPED(status));
	fencing_send_write(&old.io, DAEMON_RAM, 0, 'A');
	/* A lower bound: the clock of the association began before. */
	usleep((KATO_MS + 1000) * 1000);
	assert_int_equal(kill(d.pid, SIGCONT), 0);
	assert_true(raw_is_dropped(&old.io));
	assert_true(raw_is_dropped(&old.admin));
	raw_host_open(&new, d.port);
	fencing_must_read(&new.io, DAEMON_RAM, 0, 'Z');
	raw_host_close(&new);
	raw_host_close(&old);
}

/* ---- other paths of one process ------------------------------------------------------------- */

/* V2: the first copy of a write is in the store, and its association is lost. The host repeats it
 * elsewhere, where it is connected already, and writes again. */
static void siblings_wait_for_what_a_lost_path_has(void **state)
{
	unsigned n_left = daemon_n_logged(&d, "disconnected from");
	struct raw_host lost, other;
	struct nvme_cqe cqe;

	raw_host_open(&lost, d.port);
	raw_host_open(&other, d.port);
	fencing_hang_one();
	fencing_send_write(&lost.io, DAEMON_FILE, 0, 'A');
	fencing_wait_held();
	raw_close(&lost.admin);
	daemon_wait_logged_again(&d, "disconnected from", n_left + 1);
	fencing_send_write(&other.io, DAEMON_FILE, 0, 'B');
	assert_false(raw_receive(&other.io, &cqe, 300));
	must_serve(&other); /* reads go on */
	fencing_hang_disk(false);
	assert_true(raw_collect(&other.io, 1, FENCING_PATIENCE_MS));
	fencing_must_read(&other.io, DAEMON_FILE, 0, 'B');
	raw_close(&lost.io);
	raw_host_close(&other);
}

/* The same while rblkd takes the first association for alive. */
static void old_writes_guard_their_blocks(void **state)
{
	unsigned n_old = daemon_n_logged(&d, "takes long");
	struct raw_host silent, other;
	struct nvme_cqe cqe;

	raw_host_open(&silent, d.port);
	raw_host_open(&other, d.port);
	fencing_hang_one();
	fencing_send_write(&silent.io, DAEMON_FILE, 0, 'A');
	daemon_wait_logged_again(&d, "takes long", n_old + 1);
	fencing_send_write(&other.io, DAEMON_FILE, 0, 'B');
	assert_false(raw_receive(&other.io, &cqe, 300));
	/* Other blocks are free. */
	fencing_send_write(&other.io, DAEMON_FILE, 1, 'C');
	assert_true(raw_collect(&other.io, 1, FENCING_PATIENCE_MS));
	fencing_must_read(&other.io, DAEMON_FILE, 1, 'C');
	fencing_hang_disk(false);
	assert_true(raw_collect(&other.io, 1, FENCING_PATIENCE_MS));
	assert_true(raw_collect(&silent.io, 1, FENCING_PATIENCE_MS));
	fencing_must_read(&other.io, DAEMON_FILE, 0, 'B');
	raw_host_close(&other);
	raw_host_close(&silent);
}

/* V8: the store has the old write for longer than CQT. No newer one to its blocks succeeds. */
static void no_newer_write_passes_an_old_one(void **state)
{
	unsigned n_old = daemon_n_logged(&d, "takes long");
	struct raw_host silent, other;
	struct nvme_cqe cqe;

	raw_host_open(&silent, d.port);
	raw_host_open(&other, d.port);
	fencing_hang_one();
	fencing_send_write(&silent.io, DAEMON_FILE, 0, 'A');
	daemon_wait_logged_again(&d, "takes long", n_old + 1);
	for (unsigned i = 0; i < 3; i++) {
		fencing_send_write(&other.io, DAEMON_FILE, 0, 'B');
		assert_true(raw_receive(&other.io, &cqe, FENCING_PATIENCE_MS));
		assert_int_equal(get_nvme_status(cqe.status), NVME_ANA_TRANSITION);
	}
	fencing_hang_disk(false);
	assert_true(raw_collect(&silent.io, 1, FENCING_PATIENCE_MS));
	fencing_must_read(&other.io, DAEMON_FILE, 0, 'A');
	raw_host_close(&other);
	raw_host_close(&silent);
}

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
		cmocka_unit_test_teardown(what_expired_while_rblkd_was_stopped_stays_dead,
					  next_good_host),
		cmocka_unit_test_teardown(siblings_wait_for_what_a_lost_path_has, next_good_host),
		cmocka_unit_test_teardown(old_writes_guard_their_blocks, next_good_host),
		cmocka_unit_test_teardown(no_newer_write_passes_an_old_one, next_good_host),
	};

	return cmocka_run_group_tests_name("fencing", tests, fencing_start_quick, stop);
}
