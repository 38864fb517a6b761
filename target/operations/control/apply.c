/* SPDX-License-Identifier: BSD-3-Clause */
/* diff and apply: the report of change/apply.c as JSON. Control thread. */
#include <string.h>

#include "target/operations/change/apply.h"
#include "base/json.h"
#include "target/operations/change/apply_log.h"
#include "target/operations/control/apply.h"
#include "target/operations/control/list.h"
#include "target/operations/ownership/ownership.h"

/* Whether an earlier loss of that change is of the same host. */
static bool is_seen(const struct change_users *users, unsigned at)
{
	for (unsigned i = 0; i < at; i++)
		if (users->items[i].change == users->items[at].change &&
		    !strcmp(users->items[i].host, users->items[at].host))
			return true;
	return false;
}

/* The NQNs of hosts that lose something by the change. */
static struct json_object *show_hosts(const struct change_users *users, unsigned change)
{
	struct json_object *list = json_object_new_array();

	for (unsigned i = 0; i < users->n; i++)
		if (users->items[i].change == change && !is_seen(users, i))
			json_append(list, json_object_new_string(users->items[i].host));
	return list;
}

static struct json_object *show_loss(const struct change_user *user)
{
	struct json_object *o = json_object_new_object();
	const char *reason = change_user_reason(user);

	control_add_string(o, "host", user->host);
	control_add_string(o, "object", user->object);
	control_add_string(o, "reason", *reason ? reason : NULL);
	return o;
}

/* The losses of the users by the change. */
static struct json_object *show_losses(const struct change_users *users, unsigned change)
{
	struct json_object *list = json_object_new_array();

	for (unsigned i = 0; i < users->n; i++)
		if (users->items[i].change == change)
			json_append(list, show_loss(&users->items[i]));
	return list;
}

static struct json_object *show_change(const struct apply_report *report, unsigned i)
{
	const struct config_change *change = &report->changes.items[i];
	static const char *const kinds[] = {
		[CHANGE_ADD] = "add",
		[CHANGE_REMOVE] = "remove",
		[CHANGE_VALUE] = "change",
	};
	struct json_object *o = json_object_new_object();

	control_add_string(o, "change", kinds[change->kind]);
	control_add_string(o, "what", change->what);
	control_add_string(o, "name", change->name);
	control_add_string(o, "key", *change->key ? change->key : NULL);
	control_add_string(o, "before", change->kind == CHANGE_ADD ? NULL : change->before);
	control_add_string(o, "after", change->kind == CHANGE_REMOVE ? NULL : change->after);
	json_add(o, "live", json_object_new_boolean(change->is_live));
	json_add(o, "hosts", show_hosts(&report->users, i));
	json_add(o, "losses", show_losses(&report->users, i));
	return o;
}

static struct json_object *show_lines(const char *text)
{
	struct json_object *list = json_object_new_array();

	while (text && *text) {
		size_t n = strcspn(text, "\n");

		json_append(list, json_object_new_string_len(text, (int)n));
		text += n + (text[n] == '\n');
	}
	return list;
}

static struct json_object *show_report(const char *path, const struct apply_report *report)
{
	struct json_object *o = json_object_new_object();
	struct json_object *changes = json_object_new_array();

	for (unsigned i = 0; i < report->changes.n; i++)
		json_append(changes, show_change(report, i));
	control_add_number(o, "schema", CONTROL_SCHEMA);
	control_add_string(o, "file", path);
	control_add_number(o, "code", (uint64_t)report->error.code);
	json_add(o, "applied", json_object_new_boolean(report->is_applied));
	json_add(o, "opening", json_object_new_boolean(report->is_opening));
	control_add_string(o, "refusal", *report->error.message ? report->error.message : NULL);
	json_add(o, "messages", show_lines(report->messages));
	json_add(o, "changes", changes);
	return o;
}

static struct json_object *answer(struct target *target, struct json_object *params,
				  enum apply_mode mode)
{
	struct json_object *file = NULL, *o;
	struct apply_report report;
	const char *path = NULL;

	json_object_object_get_ex(params, "file", &file);
	if (file)
		path = json_object_get_string(file);
	apply_file(target, path, mode, &report);
	o = show_report(path ? path : target->config_path, &report);
	if (report.is_applied) {
		ownership_follow(target);
		apply_log(path ? path : target->config_path, &report);
	}
	apply_report_free(&report);
	return o;
}

struct json_object *control_diff(void *context, struct json_object *params, struct error *error)
{
	return answer(context, params, APPLY_SHOW);
}

struct json_object *control_apply(void *context, struct json_object *params, struct error *error)
{
	struct json_object *if_unused = NULL;

	json_object_object_get_ex(params, "if_unused", &if_unused);
	return answer(context, params,
		      json_object_get_boolean(if_unused) ? APPLY_IF_UNUSED : APPLY_ALL);
}
