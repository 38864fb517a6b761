/* SPDX-License-Identifier: BSD-3-Clause */
/* See group.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "tests/raw/group.h"
#include "tests/raw/host.h"

enum {
	PATIENCE_S = 10
}; /* some ms on a machine that has nothing else to do */

struct daemon d;

int start(void **state)
{
	daemon_start(&d, "");
	return 0;
}

int start_keeping(void **state)
{
	daemon_start_keeping(&d);
	return 0;
}

int stop(void **state)
{
	daemon_stop(&d);
	return 0;
}

int next_good_host(void **state)
{
	struct raw_host h;
	uint64_t before, took;

	daemon_wait_empty(&d);
	before = clock_ns();
	raw_host_open(&h, d.port);
	took = clock_ns() - before;
	print_message("# the next good host waited %llu ms\n",
		      (unsigned long long)(took / NSEC_PER_MSEC));
	assert_true(took < PATIENCE_S * NSEC_PER_SEC);
	assert_int_equal(raw_io(&h.io, NVME_IO_READ, DAEMON_RAM, 0, 8, 4096), NVME_OK);
	raw_host_close(&h);
	daemon_wait_empty(&d);
	return 0;
}
