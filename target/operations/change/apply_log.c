/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "base/log.h"
#include "target/operations/change/apply.h"
#include "target/operations/change/apply_log.h"

/* ---- the records ---------------------------------------------------------------------------- */

static void log_lines(enum log_level level, char *text)
{
	char *rest = text, *line;

	while ((line = strsep(&rest, "\n")))
		if (*line)
			log_write(level, "%s", line);
}

static void log_change(const struct config_change *change)
{
	static const char signs[] = {
		[CHANGE_ADD] = '+', [CHANGE_REMOVE] = '-', [CHANGE_VALUE] = '~'};

	if (change->kind == CHANGE_VALUE)
		log_info("%c %s %s %s: %s -> %s", signs[change->kind], change->what, change->name,
			 change->key, change->before, change->after);
	else
		log_info("%c %s %s %s%s", signs[change->kind], change->what, change->name,
			 change->before, change->after);
}

void apply_log(const char *path, const struct apply_report *report)
{
	const struct change_users *users = &report->users;

	for (unsigned i = 0; i < users->n; i++) {
		const struct change_user *user = &users->items[i];
		const char *why = change_user_reason(user);

		log_warn_about(LOG_ABOUT(.host = user->host),
			       "%s: %s was taken away from host %s, which used it%s%s", path,
			       user->object, user->host, *why ? ": " : "", why);
	}
	log_info("%s: applied, %u change%s", path, report->changes.n,
		 report->changes.n == 1 ? "" : "s");
}

bool apply_and_log(struct target *target)
{
	struct apply_report report;
	bool is_opening;

	apply_file(target, NULL, APPLY_ALL, &report);
	is_opening = report.is_opening;
	if (report.messages && !is_opening)
		log_lines(report.error.code == EXIT_OK ? LOG_WARN : LOG_ERR, report.messages);
	if (report.is_applied) {
		for (unsigned i = 0; i < report.changes.n; i++)
			log_change(&report.changes.items[i]);
		apply_log(target->config_path, &report);
	} else if (!is_opening) {
		log_err("%s: not applied, %s%s%s", target->config_path,
			report.n_left ? "files stay larger" : "nothing was changed",
			*report.error.message ? ": " : "", report.error.message);
	}
	apply_report_free(&report);
	return !is_opening;
}
