/* SPDX-License-Identifier: BSD-3-Clause */
/* See group.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/rpc.h"
#include "tests/raw/good_host.h"
#include "tests/raw/group.h"

enum {
	PATIENCE_MS = 60000,
};

struct daemon d;
static struct good_host before;

int start_tuned(const char *tuning)
{
	daemon_start(&d, tuning);
	good_host_first(&before, &d);
	return 0;
}

int start_limited(const char *tuning, const char *limits)
{
	daemon_start_limited(&d, tuning, limits);
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

void apply_edited(const char *edit)
{
	struct error error = {.code = EXIT_OK};
	struct json_object *result = NULL;
	char command[512], path[128];

	snprintf(command, sizeof(command), "sed -i '%s' %s/target.yaml", edit, d.folder);
	assert_int_equal(system(command), 0);
	snprintf(path, sizeof(path), "%s/sock", d.folder);
	if (rpc_call(path, "apply", NULL, PATIENCE_MS, &result, &error))
		fail_msg("apply: %s", error.message);
	json_object_put(result);
}

void limit_rate(const char *word, const char *qos)
{
	char edit[256];

	snprintf(edit, sizeof(edit), "/%s/{s/, qos: {[^}]*}//;s/}$/%s%s}/}", word,
		 qos ? ", qos: " : "", qos ? qos : "");
	apply_edited(edit);
}
