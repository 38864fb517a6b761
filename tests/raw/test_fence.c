/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fence, when the target has not noticed that an association is dead: the host is silent on it,
 * connects anew, and repeats the commands without a response. Its earlier commands must be over by
 * then. Hosts that have several associations for good reasons keep them all.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "tests/raw/fencing.h"
#include "tests/raw/group.h"
#include "tests/raw/host.h"

enum {
	PATIENCE_MS = 60000,
	N_WRITES = 8,
};

#define WAITS "waits for writes of its older association"

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
	assert_true(raw_collect(&old.io, N_WRITES, PATIENCE_MS));
	for (unsigned i = 0; i < N_WRITES; i++)
		fencing_must_read(&new.io, DAEMON_RAM, i, 'A');
	limit_rate("nsid: 1, ram: 16", NULL);
	fencing_send_write(&new.io, DAEMON_RAM, N_WRITES - 1, 'B');
	assert_true(raw_collect(&new.io, 1, PATIENCE_MS));
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
	assert_true(raw_collect(&new.admin, 1, PATIENCE_MS));
	/* Two threads of rblkd send the two responses, so either may arrive first. */
	assert_true(raw_collect(&old.io, 1, PATIENCE_MS));
	raw_host_close(&new);
	raw_host_open(&new, d.port);
	fencing_must_read(&new.io, DAEMON_FILE, 0, 'A');
	raw_host_close(&new);
	raw_host_close(&old);
}

/* Its older I/O hangs, but the association sends commands: a host may have two. */
static void several_associations_live_on(void **state)
{
	uint64_t deadline = clock_ns() + PATIENCE_MS * NSEC_PER_MSEC, value;
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
	assert_true(raw_collect(&first.io, 1, PATIENCE_MS));
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
	assert_true(raw_receive(&new.admin, &cqe, PATIENCE_MS));
	assert_int_equal(get_nvme_status(cqe.status), NVME_CONNECT_BUSY);
	fencing_hang_disk(false);
	assert_true(raw_collect(&old.io, 1, PATIENCE_MS));
	raw_host_close(&new);
	raw_host_close(&old);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(what_the_disk_has_is_over_first, next_good_host),
		cmocka_unit_test_teardown(what_waits_for_a_rate_is_over_first, next_good_host),
		cmocka_unit_test_teardown(several_associations_live_on, next_good_host),
		cmocka_unit_test_teardown(what_hangs_is_not_waited_for_without_end, next_good_host),
	};

	return cmocka_run_group_tests_name("fence", tests, fencing_start, stop);
}
