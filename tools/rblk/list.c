/* SPDX-License-Identifier: BSD-3-Clause */
/* rblk list: a line a volume; JSON: {"schema": 1, "volumes": [...]}. */
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/units.h"
#include "tools/rblk/commands.h"
#include "tools/rblk/report.h"
#include "tools/rblk/volumes.h"

static const char program[] = "rblk list";

/* The keys that scripts need in a list; `rblk status` has the rest. */
static const char *const list_keys[] = {
	"name",	      "device",	    "uri",	     "socket",	      "pid",
	"size_bytes", "block_size", "read_only",     "state",	      "paths_live",
	"paths",      "held",	    "gives_up_in_s", "subsystem",     "address",
	"nsid",	      "uuid",	    "io_errors",     "last_io_error",
};

/* Keys that a status lacks are left out: JSON has no second way to say that nothing is known. */
static struct json_object *short_form(struct json_object *status)
{
	struct json_object *o = json_object_new_object(), *value;

	for (unsigned i = 0; i < ARRAY_LEN(list_keys); i++)
		if (json_object_object_get_ex(status, list_keys[i], &value))
			json_object_object_add(o, list_keys[i], json_object_get(value));
	return o;
}

static int print_json(const struct volumes *volumes)
{
	struct json_object *whole = json_object_new_object(), *array = json_object_new_array();

	for (unsigned i = 0; i < volumes->n; i++)
		json_object_array_add(array, short_form(volumes_get(volumes, i)));
	json_object_object_add(whole, "schema", json_object_new_int(1));
	json_object_object_add(whole, "volumes", array);
	return report_json(whole);
}

/* "  (3 I/O errors, see rblk status)  (gives up in 588 s, 34 I/O held)" */
static void print_trouble(struct json_object *status)
{
	struct json_object *gives_up = NULL;

	if (json_number(status, "io_errors"))
		printf("  (%s I/O errors, see rblk status)", json_text(status, "io_errors"));
	if (!volume_holds_io(status))
		return;
	json_object_object_get_ex(status, "gives_up_in_s", &gives_up);
	if (gives_up)
		printf("  (gives up in %s s, %s I/O held)", json_text(status, "gives_up_in_s"),
		       json_text(status, "held"));
	else
		printf("  (%s I/O held)", json_text(status, "held"));
}

/* Names and sockets are of any length: each column is as wide as its longest text. */
static int column(const struct volumes *volumes, const char *(*text)(struct json_object *),
		  const char *title)
{
	size_t width = strlen(title);

	for (unsigned i = 0; i < volumes->n; i++)
		width = MAX(width, strlen(text(volumes_get(volumes, i))));
	return (int)width;
}

static const char *name_of(struct json_object *status)
{
	return json_text(status, "name");
}

/* Trouble goes behind the last column, so that a healthy list stays narrow. */
static int print_table(const struct volumes *volumes)
{
	int name = column(volumes, name_of, "NAME");
	int where = column(volumes, volume_where, "DEVICE");
	char size[UNITS_MAX];

	printf("%-*s  %-*s  %-8s  %-12s  %-5s  %s\n", name, "NAME", where, "DEVICE", "SIZE",
	       "STATE", "PATHS", "SUBSYSTEM");
	for (unsigned i = 0; i < volumes->n; i++) {
		struct json_object *status = volumes_get(volumes, i);

		printf("%-*s  %-*s  %-8s  %-12s  %u/%-3u  %s/%u", name, name_of(status), where,
		       volume_where(status),
		       units_format_size(size, json_number(status, "size_bytes")),
		       json_text(status, "state"), (unsigned)json_number(status, "paths_live"),
		       (unsigned)json_number(status, "paths"), json_text(status, "subsystem"),
		       (unsigned)json_number(status, "nsid"));
		print_trouble(status);
		putchar('\n');
	}
	return EXIT_OK;
}

int list_main(int argc, char **argv)
{
	unsigned output = OUTPUT_TABLE;
	const struct arg table[] = {
		{"output", 'o', ARG_CHOICE, &output, OUTPUT_CHOICES, OUTPUT_HELP, 0, 0,
		 output_names},
		{0},
	};
	const struct args_usage usage = {program, "", "List the attached volumes.", 0, 0};
	struct error error;
	struct volumes volumes;
	int at, code = args_parse(&usage, table, argc, argv, &at);

	if (code >= 0)
		return code;
	code = volumes_read(&volumes, &error);
	if (code == 0)
		volumes_add_left(&volumes);
	if (code)
		code = report_error(program, &error);
	else
		code = output == OUTPUT_JSON ? print_json(&volumes) : print_table(&volumes);
	volumes_release(&volumes);
	return code;
}
