/* SPDX-License-Identifier: BSD-3-Clause */
/* rblk list: a line a volume; JSON: {"schema": 1, "volumes": [...]}. */
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/units.h"
#include "tools/rblk/commands.h"
#include "tools/rblk/report.h"
#include "tools/rblk/volumes.h"
#include "tools/shared/table.h"

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

/* Adds what an administrator has to look at, or nothing:
 * "(3 I/O errors, see rblk status)  (gives up in 588 s, 34 I/O held)" */
static void add_trouble(struct table *table, struct json_object *status)
{
	char errors[64] = "", held[96] = "";

	if (json_number(status, "io_errors"))
		snprintf(errors, sizeof(errors), "(%s I/O errors, see rblk status)",
			 json_text(status, "io_errors"));
	if (volume_holds_io(status) && *json_text(status, "gives_up_in_s"))
		snprintf(held, sizeof(held), "(gives up in %s s, %s I/O held)",
			 json_text(status, "gives_up_in_s"), json_text(status, "held"));
	else if (volume_holds_io(status))
		snprintf(held, sizeof(held), "(%s I/O held)", json_text(status, "held"));
	table_addf(table, "%s%s%s", errors, *errors && *held ? "  " : "", held);
}

/* Trouble has no title: a healthy list stays narrow. */
static int print_table(const struct volumes *volumes)
{
	static const char *const titles[] = {"NAME",  "~DEVICE",    "SIZE", "STATE",
					     "PATHS", "~SUBSYSTEM", "",	    NULL};
	char size[UNITS_MAX];
	struct table table;

	table_begin(&table, titles);
	for (unsigned i = 0; i < volumes->n; i++) {
		struct json_object *status = volumes_get(volumes, i);

		table_add(&table, json_text(status, "name"));
		table_add(&table, volume_where(status));
		table_add(&table, units_format_size(size, json_number(status, "size_bytes")));
		table_add(&table, json_text(status, "state"));
		table_addf(&table, "%u/%u", (unsigned)json_number(status, "paths_live"),
			   (unsigned)json_number(status, "paths"));
		table_addf(&table, "%s/%u", json_text(status, "subsystem"),
			   (unsigned)json_number(status, "nsid"));
		add_trouble(&table, status);
	}
	table_end(&table);
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
