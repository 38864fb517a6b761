/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An old write of a host never lands after a newer one: the fence at Connect, when the target has
 * not noticed that an association is dead; writes of other paths; associations that expired while
 * rblkd was stopped. Hosts that have several associations for good reasons keep them all.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "tests/raw/fencing.h"
#include "tests/raw/group.h"
#include "tests/raw/host.h"

enum {
	KATO_MS = 1000,
	N_WRITES = 8,
};

#define WAITS "waits for writes of its older association"
#define ENDED "the host disconnected"

/* ---- expired associations ------------------------------------------------------------------- */

static void quick_kato(struct raw_connect *c)
{
	c->cmd.kato = put_le32(KATO_MS);
}

/* V5: rblkd is stopped for longer than KATO, with a write in its receive queue. */
static void what_expired_while_rblkd_was_stopped_stays_dead(void **state)
{
	struct raw_host old, new;
	int status;

	raw_host_open(&new, d.port);
	fencing_write(&new.io, DAEMON_RAM, 0, 'Z');
	raw_host_close(&new);
	raw_host_open_with(&old, d.port, quick_kato);
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

/* V2: the first copy of a write is in the store, and its association is lost, or rblkd takes it for
 * alive. The host repeats it elsewhere, where it is connected already, and writes again. */
static void siblings_wait(bool is_lost)
{
	const char *line = is_lost ? "disconnected from" : "takes long";
	unsigned n_before = daemon_n_logged(&d, line);
	struct raw_host old, other;
	struct nvme_cqe cqe;

	raw_host_open(&old, d.port);
	raw_host_open(&other, d.port);
	fencing_hang_one();
	fencing_send_write(&old.io, DAEMON_FILE, 0, 'A');
	fencing_wait_held();
	if (is_lost)
		raw_close(&old.admin);
	daemon_wait_logged_again(&d, line, n_before + 1);
	fencing_send_write(&other.io, DAEMON_FILE, 0, 'B');
	assert_false(raw_receive(&other.io, &cqe, 300));
	/* Reads go on, and beside an association that lives other blocks are free. */
	assert_int_equal(raw_io(&other.io, NVME_IO_READ, DAEMON_RAM, 0, 8, FENCING_BLOCK), NVME_OK);
	if (!is_lost) {
		fencing_write(&other.io, DAEMON_FILE, 1, 'C');
		fencing_must_read(&other.io, DAEMON_FILE, 1, 'C');
	}
	fencing_hang_disk(false);
	assert_true(raw_collect(&other.io, 1, FENCING_PATIENCE_MS));
	assert_true(is_lost || raw_collect(&old.io, 1, FENCING_PATIENCE_MS));
	fencing_must_read(&other.io, DAEMON_FILE, 0, 'B');
	raw_host_close(&other);
	raw_host_close(&old);
}

static void siblings_wait_for_what_a_lost_path_has(void **state)
{
	siblings_wait(true);
}

static void old_writes_guard_their_blocks(void **state)
{
	siblings_wait(false);
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

/* ---- the fence at Connect: the host is silent, connects anew and repeats -------------------- */

/* Sends a Connect without waiting for its response. */
static void send_connect(struct raw_queue *q)
{
	struct raw_connect c;

	assert_int_equal(raw_open(q, d.port, 0, NVMF_ADMIN_SQ_ENTRIES), 0);
	raw_connect_init(&c, q, 0, NVMF_ADMIN_SQ_ENTRIES - 1, NVMF_CNTLID_DYNAMIC);
	memcpy(q->data, &c.data, sizeof(c.data));
	raw_send(q, &c.cmd, sizeof(c.cmd));
}

static void what_waits_for_a_rate_is_over_first(void **state)
{
	unsigned n_waits = daemon_n_logged(&d, WAITS);
	struct raw_host old, new;

	limit_rate("nsid: 1, ram: 16", "{write_bandwidth: 32KiB}");
	raw_host_open(&old, d.port);
	for (unsigned i = 0; i < N_WRITES; i++)
		fencing_send_write(&old.io, DAEMON_RAM, i, 'A');
	/* The old association is silent from here on; rblkd counts it as alive. */
	raw_host_open(&new, d.port);
	daemon_wait_logged_again(&d, WAITS, n_waits + 1);
	assert_true(raw_collect(&old.io, N_WRITES, FENCING_PATIENCE_MS));
	for (unsigned i = 0; i < N_WRITES; i++)
		fencing_must_read(&new.io, DAEMON_RAM, i, 'A');
	limit_rate("nsid: 1, ram: 16", NULL);
	fencing_write(&new.io, DAEMON_RAM, N_WRITES - 1, 'B');
	fencing_must_read(&new.io, DAEMON_RAM, N_WRITES - 1, 'B');
	raw_host_close(&new);
	raw_host_close(&old);
}

static void what_the_disk_has_is_over_first(void **state)
{
	struct raw_host old, new = {0};
	struct nvme_cqe cqe;

	raw_host_open(&old, d.port);
	fencing_hang_disk(true);
	fencing_send_write(&old.io, DAEMON_FILE, 0, 'A');
	send_connect(&new.admin);
	daemon_wait_logged(&d, WAITS);
	assert_false(raw_receive(&new.admin, &cqe, 50));
	/* It dies while its Connect is held: the next one is held as well. */
	raw_host_close(&new);
	send_connect(&new.admin);
	fencing_hang_disk(false);
	assert_true(raw_collect(&new.admin, 1, FENCING_PATIENCE_MS));
	/* Two threads of rblkd send the two responses, so either may arrive first. */
	assert_true(raw_collect(&old.io, 1, FENCING_PATIENCE_MS));
	raw_host_close(&new);
	raw_host_open(&new, d.port);
	fencing_must_read(&new.io, DAEMON_FILE, 0, 'A');
	raw_host_close(&new);
	raw_host_close(&old);
}

/* SPDK issue 3593: the host is known to be gone, but the disk has its write. */
static void what_the_dead_have_sent_is_over_first(void **state)
{
	unsigned n_ended = daemon_n_logged(&d, ENDED);
	struct raw_host old, new = {0};
	struct nvme_cqe cqe;

	raw_host_open(&old, d.port);
	fencing_hold_write(&old.io, 'A');
	raw_host_close(&old);
	daemon_wait_logged_again(&d, ENDED, n_ended + 1);
	send_connect(&new.admin);
	assert_false(raw_receive(&new.admin, &cqe, 50));
	fencing_hang_disk(false);
	assert_true(raw_collect(&new.admin, 1, FENCING_PATIENCE_MS));
	raw_host_close(&new);
	raw_host_open(&new, d.port);
	fencing_must_read(&new.io, DAEMON_FILE, 0, 'A');
	raw_host_close(&new);
}

/* Its older I/O hangs, but the association sends commands: a host may have two. */
static void several_associations_live_on(void **state)
{
	uint64_t deadline = clock_ns() + FENCING_PATIENCE_MS * NSEC_PER_MSEC, value;
	struct raw_host first, second = {0};
	struct nvme_cqe cqe;
	bool is_answered;

	raw_host_open(&first, d.port);
	fencing_hang_disk(true);
	fencing_send_write(&first.io, DAEMON_FILE, 0, 'C');
	send_connect(&second.admin);
	do {
		assert_int_equal(raw_property_get(&first.admin, NVME_PROP_CSTS, false, &value),
				 NVME_OK);
		is_answered = raw_receive(&second.admin, &cqe, 50);
	} while (!is_answered && clock_ns() < deadline);
	assert_true(is_answered);
	assert_int_equal(get_nvme_status(cqe.status), NVME_OK);
	fencing_hang_disk(false);
	assert_true(raw_collect(&first.io, 1, FENCING_PATIENCE_MS));
	fencing_must_read(&first.io, DAEMON_FILE, 0, 'C');
	raw_host_close(&second);
	raw_host_close(&first);
}

/* Silent, and it hangs: the host is to retry. */
static void what_hangs_is_not_waited_for_without_end(void **state)
{
	struct raw_host old, new = {0};
	struct nvme_cqe cqe;

	raw_host_open(&old, d.port);
	fencing_hang_disk(true);
	fencing_send_write(&old.io, DAEMON_FILE, 0, 'D');
	send_connect(&new.admin);
	assert_true(raw_receive(&new.admin, &cqe, FENCING_PATIENCE_MS));
	assert_int_equal(get_nvme_status(cqe.status), NVME_CONNECT_BUSY);
	fencing_hang_disk(false);
	assert_true(raw_collect(&old.io, 1, FENCING_PATIENCE_MS));
	raw_host_close(&new);
	raw_host_close(&old);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(what_expired_while_rblkd_was_stopped_stays_dead,
					  next_good_host),
		cmocka_unit_test_teardown(siblings_wait_for_what_a_lost_path_has, next_good_host),
		cmocka_unit_test_teardown(old_writes_guard_their_blocks, next_good_host),
		cmocka_unit_test_teardown(no_newer_write_passes_an_old_one, next_good_host),
		cmocka_unit_test_setup_teardown(what_the_disk_has_is_over_first, fencing_be_patient,
						next_good_host),
		cmocka_unit_test_teardown(what_the_dead_have_sent_is_over_first, next_good_host),
		cmocka_unit_test_teardown(what_waits_for_a_rate_is_over_first, next_good_host),
		cmocka_unit_test_teardown(several_associations_live_on, next_good_host),
		cmocka_unit_test_teardown(what_hangs_is_not_waited_for_without_end, next_good_host),
	};

	return cmocka_run_group_tests_name("fencing", tests, fencing_start_quick, stop);
}
