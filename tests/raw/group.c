/* SPDX-License-Identifier: BSD-3-Clause */
/* See group.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/raw/good_host.h"
#include "tests/raw/group.h"

struct daemon d;
static struct good_host before;

int start_tuned(const char *tuning)
{
	daemon_start(&d, tuning);
	good_host_first(&before, &d);
	return 0;
}

int start(void **state)
{
	return start_tuned("");
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
	good_host_next(&before);
	return 0;
}
