/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "tools/rblk/doctor/doctor.h"
#include "tools/rblk/doctor/findings.h"
#include "tools/rblk/report.h"

enum {
	COLUMNS = 80,
	INDENT = 11, /* "  warning  " */
};

const char *finding_level_name(enum finding_level level)
{
	static const char *const names[FINDING_LEVELS] = {
		[FINDING_OK] = "ok",
		[FINDING_NOTE] = "note",
		[FINDING_WARNING] = "warning",
		[FINDING_PROBLEM] = "problem",
	};

	return names[level];
}

static void record(struct doctor *doctor, enum finding_level level, const char *check,
		   const char *message, const char *hint)
{
	struct json_object *o = json_object_new_object();

	json_add(o, "section", json_object_new_string(doctor->section));
	json_add(o, "check", json_object_new_string(check));
	json_add(o, "level", json_object_new_string(finding_level_name(level)));
	json_add(o, "message", json_object_new_string(message));
	json_add(o, "hint", json_object_new_string(hint ?: ""));
	json_append(doctor->findings, o);
	doctor->counts[level]++;
}

void doctor_found(struct doctor *doctor, enum finding_level level, const char *check,
		  const char *hint, const char *fmt, ...)
{
	char message[ERROR_MESSAGE_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(message, sizeof(message), fmt, ap);
	va_end(ap);
	record(doctor, level, check, message, hint);
}

void doctor_failed(struct doctor *doctor, enum finding_level level, const char *check,
		   const struct error *error)
{
	record(doctor, level, check, error->message, error->hint);
}

/* Words of text, from column *at on; a line that is full ends, and the next begins indented. */
static void print_words(const char *text, int *at)
{
	for (text += strspn(text, " "); *text; text += strspn(text, " ")) {
		int n = (int)strcspn(text, " ");

		if (*at > INDENT && *at + 1 + n > COLUMNS) {
			printf("\n%*s", INDENT, "");
			*at = INDENT;
		}
		*at += printf("%s%.*s", *at > INDENT ? " " : "", n, text);
		text += n;
	}
}

/* Names of checks are for scripts; people read them with blanks. */
static void print_finding(struct json_object *o)
{
	const char *hint = json_text(o, "hint");
	char title[80];
	int at;

	snprintf(title, sizeof(title), "%s:", json_text(o, "check"));
	for (char *p = title; (p = strchr(p, '_'));)
		*p = ' ';
	at = printf("  %-9s", json_text(o, "level"));
	print_words(title, &at);
	print_words(json_text(o, "message"), &at);
	putchar('\n');
	if (!*hint)
		return;
	at = printf("%*s", INDENT, "");
	print_words("hint:", &at);
	print_words(hint, &at);
	putchar('\n');
}

static bool is_bad(struct json_object *o)
{
	const char *level = json_text(o, "level");

	return !strcmp(level, "warning") || !strcmp(level, "problem");
}

static void print_sum(const struct doctor *doctor)
{
	unsigned problems = doctor->counts[FINDING_PROBLEM],
		 warnings = doctor->counts[FINDING_WARNING];

	if (problems || warnings)
		printf("\n%u problem%s, %u warning%s\n", problems, problems == 1 ? "" : "s",
		       warnings, warnings == 1 ? "" : "s");
	else
		printf("\nno problem found\n");
}

void doctor_print(const struct doctor *doctor, bool is_quiet)
{
	const char *section = "";

	for (size_t i = 0; i < json_object_array_length(doctor->findings); i++) {
		struct json_object *o = json_object_array_get_idx(doctor->findings, i);

		if (is_quiet && !is_bad(o))
			continue;
		if (strcmp(section, json_text(o, "section")) != 0) {
			section = json_text(o, "section");
			printf("%s\n", section);
		}
		print_finding(o);
	}
	if (!is_quiet)
		print_sum(doctor);
}

int doctor_read_line(char *buf, size_t n, const char *fmt, ...)
{
	_autofclose_ FILE *f = NULL;
	_autofree_ char *path = NULL;
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = vasprintf(&path, fmt, ap);
	va_end(ap);
	if (r < 0) {
		path = NULL;
		return -ENOMEM;
	}
	f = fopen(path, "re");
	if (!f)
		return -errno;
	if (!fgets(buf, (int)n, f))
		return ferror(f) ? -EIO : -ENODATA;
	buf[strcspn(buf, "\r\n")] = '\0';
	return 0;
}
