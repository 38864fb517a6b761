/* SPDX-License-Identifier: BSD-3-Clause */
/* See group.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/rpc.h"
#include "base/rpc_client.h"
#include "tests/raw/good_host.h"
#include "tests/raw/group.h"
#include "tests/raw/host.h"

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

int call_rblkd(const char *method, struct json_object *params, struct json_object **ret_result)
{
	struct error error = {.code = EXIT_FAILED};
	struct json_object *result = NULL;
	char path[128];
	int r;

	snprintf(path, sizeof(path), "%s/sock", d.folder);
	r = rpc_call(path, method, params, PATIENCE_MS, &result, &error);
	json_object_put(params);
	if (ret_result)
		*ret_result = result;
	else
		json_object_put(result);
	return r == 0 ? EXIT_OK : (int)error.code;
}

int drop_registrant(uint32_t nsid, const char *hostid, bool is_forced)
{
	struct json_object *params = json_object_new_object(), *result = NULL;
	int r;

	json_object_object_add(params, "subsystem", json_object_new_string(RAW_SUBNQN));
	json_object_object_add(params, "nsid", json_object_new_int((int)nsid));
	json_object_object_add(params, "hostid", json_object_new_string(hostid));
	json_object_object_add(params, "force", json_object_new_boolean(is_forced));
	r = call_rblkd("registrant_drop", params, &result);
	while (r == EXIT_OK &&
	       !strcmp(json_object_get_string(json_object_object_get(result, "state")),
		       "running")) {
		params = json_object_new_object();
		json_object_object_add(params, "id",
				       json_object_get(json_object_object_get(result, "id")));
		json_object_put(result);
		result = NULL;
		r = call_rblkd("registrant_drop", params, &result);
	}
	if (r == EXIT_OK &&
	    !strcmp(json_object_get_string(json_object_object_get(result, "state")), "none"))
		r = EXIT_NOT_FOUND;
	json_object_put(result);
	return r;
}

struct json_object *apply_as(struct json_object *params)
{
	for (;;) {
		struct json_object *result = NULL;
		int code = call_rblkd("apply", json_object_get(params), &result);

		if (code != EXIT_OK)
			fail_msg("apply: exit code %d", code);
		if (!json_object_get_boolean(json_object_object_get(result, "opening"))) {
			json_object_put(params);
			return result;
		}
		json_object_put(result);
	}
}

void apply_edited(const char *edit)
{
	char command[512];

	snprintf(command, sizeof(command), "sed -i '%s' %s/target.yaml", edit, d.folder);
	assert_int_equal(system(command), 0);
	json_object_put(apply_as(NULL));
}

void limit_rate(const char *word, const char *qos)
{
	char edit[256];

	snprintf(edit, sizeof(edit), "/%s/{s/, qos: {[^}]*}//;s/}$/%s%s}/}", word,
		 qos ? ", qos: " : "", qos ? qos : "");
	apply_edited(edit);
}
