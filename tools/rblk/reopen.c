/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rblk attach of a volume that has failed: its process still runs, and programs may have the volume
 * open. So that process tries its target again, in place. It checks by itself that the target has
 * the same namespace; if not, its error has a hint.
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/rpc_client.h"
#include "tools/rblk/reopen.h"
#include "tools/rblk/report.h"
#include "tools/rblk/run_dir.h"

enum {
	CALL_TIMEOUT_MS = 5000,
};
#define PATIENCE_NS (15 * NSEC_PER_SEC)
#define INTERVAL_NS (50 * NSEC_PER_MSEC)

static int call(const char *path, const char *name, const char *method,
		struct json_object **ret_status, struct error *error)
{
	struct error said = {0};
	int r = rpc_call(path, method, NULL, CALL_TIMEOUT_MS, ret_status, &said);

	if (r == 0)
		return 0;
	if (r == -EREMOTEIO)
		error_set(error, said.code, said.hint, "%s", said.message);
	else
		error_set(error, EXIT_FAILED, "end it by `rblk detach --force`, then attach again",
			  "the volume process of %s does not answer: %s", name, strerror(-r));
	return (int)error->code;
}

/* The last error of the process, or only its state when there is none. */
static int fail(const char *name, struct json_object *status, struct error *error)
{
	struct json_object *last = NULL;
	const char *state = json_text(status, "state");

	if (json_object_object_get_ex(status, "last_error", &last) && last)
		error_set(error, (enum exit_code)json_number(last, "code"),
			  *json_text(last, "hint")
				  ? json_text(last, "hint")
				  : "see `rblk status`; or detach it, and attach it again",
			  "volume %s is %s: %s", name, state, json_text(last, "message"));
	else
		error_set(error, EXIT_UNREACHABLE, "see `rblk status`", "volume %s is %s", name,
			  state);
	return (int)error->code;
}

/* Denied, gone and failed are outcomes: the user has to act on them, so waiting on is of no use. */
static bool is_still_trying(struct json_object *status)
{
	return !strcmp(json_text(status, "state"), "reconnecting");
}

/* The process goes on trying after this returns, as after any loss. PATIENCE_NS bounds only how
 * long the command waits for a live volume before it reports the state as it is. */
int reopen_volume(const char *name, struct json_object **ret_status, struct error *error)
{
	uint64_t until = clock_ns() + PATIENCE_NS;
	struct json_object *status = NULL;
	char path[PATH_MAX];
	int code = run_dir_path(path, name, "sock", error);

	if (code == 0)
		code = call(path, name, "reopen", &status, error);
	while (code == 0 && is_still_trying(status) && clock_ns() < until) {
		json_object_put(status);
		status = NULL;
		clock_sleep_ns(INTERVAL_NS);
		code = call(path, name, "status", &status, error);
	}
	if (code == 0 && strcmp(json_text(status, "state"), "live") != 0)
		code = fail(name, status, error);
	if (code) {
		json_object_put(status);
		return code;
	}
	*ret_status = status;
	return 0;
}
