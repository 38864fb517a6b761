/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rblkctl status: one line on the daemon, one on each portal. The exit code is 0 when all is well
 * and 6 (partial) when a portal does not listen, a namespace has failed, or a disk error was not
 * cleared (rblkctl clear), for scripts.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "tools/rblkctl/options.h"
#include "tools/rblkctl/rblkctl.h"
#include "tools/shared/terminal.h"

enum {
	SUMMARY_MAX = 256,
	STORE_MAX = 512,
};

/* In two lines where one does not fit. */
static void print_line(char *text)
{
	unsigned room = terminal_columns();
	char *gap = NULL;

	if (room && strlen(text) > room)
		for (char *p = text; (p = strstr(p, "  ")) && (size_t)(p - text) <= room; p++)
			gap = p;
	if (gap)
		*gap++ = '\n';
	puts(text);
}

/* One line that a person can read over the phone. Monitoring reads the exit code, or JSON. */
static void print_summary(struct json_object *status)
{
	const char *state = answer_string(status, "state");
	char text[SUMMARY_MAX], uptime[UNITS_MAX];

	snprintf(text, sizeof(text),
		 "%s %s running %s  portals %" PRIu64 "/%zu up  subsystems %" PRIu64
		 "  namespaces %" PRIu64 "  hosts %" PRIu64 "  state %s",
		 answer_string(status, "program"), answer_string(status, "version"),
		 units_format_duration(uptime, answer_number(status, "uptime_s") * NSEC_PER_SEC),
		 answer_number(status, "portals_up"),
		 json_object_array_length(answer_member(status, "portals")),
		 answer_number(status, "subsystems"), answer_number(status, "namespaces"),
		 answer_number(status, "hosts"), strcmp(state, "ok") ? state : "OK");
	print_line(text);
}

/* "connections 3 of 4096" */
static void print_use(const char *what, const char *key, struct json_object *status)
{
	printf("%s %" PRIu64 " of %" PRIu64, what, answer_number(status, key),
	       answer_number(answer_member(status, "limits"), key));
}

/* Connections in use beside their limits. */
static void print_uses(struct json_object *status)
{
	print_use("connections", "connections", status);
	print_use(", pending", "pending_connections", status);
	print_use(", discovery", "discovery_associations", status);
	putchar('\n');
}

/* detail has no title: it is there only for a portal that hosts do not reach. */
static void print_portals(struct json_object *portals)
{
	static const char *const titles[] = {"PORTAL",	"ADDRESS", "RDMA", "STATE",
					     ">QPAIRS", "",	   NULL};
	struct table table;

	table_begin(&table, titles);
	for (size_t i = 0; i < json_object_array_length(portals); i++) {
		struct json_object *portal = json_object_array_get_idx(portals, i);

		table_add(&table, answer_string(portal, "name"));
		table_add(&table, answer_string(portal, "address"));
		table_add(&table, answer_string(portal, "device"));
		table_add(&table, answer_string(portal, "state"));
		table_addf(&table, "%" PRIu64, answer_number(portal, "queue_pairs"));
		table_add(&table,
			  answer_member(portal, "detail") ? answer_string(portal, "detail") : "");
	}
	table_end(&table);
}

/* ---- durability ---- */

/* Bytes of the part that fits into a table: "nothing" of "nothing: the contents end with rblkd". */
static size_t short_length(const char *text)
{
	static const char *const ends[] = {": ", ", ", " if "};
	size_t n = strlen(text);

	for (unsigned i = 0; i < ARRAY_LEN(ends); i++) {
		const char *end = strstr(text, ends[i]);

		n = end ? MIN(n, (size_t)(end - text)) : n;
	}
	return n;
}

/* A terminal has the short form, and the whole text once, below the table. */
static void add_guarantee(struct table *table, struct json_object *durability, const char *key,
			  struct json_object *texts)
{
	const char *text = answer_string(durability, key);
	size_t n = terminal_columns() ? short_length(text) : strlen(text);

	table_addf(table, "%.*s", (int)n, text);
	if (text[n])
		json_object_object_add(texts, text, NULL);
}

/* Prints what Flush and FUA guarantee, for each namespace. */
static void print_durability(struct json_object *namespaces)
{
	static const char *const titles[] = {"~NAMESPACE", "KIND",    "CACHE", "^FLUSH",
					     "^FUA",	   "^BLOCKS", NULL};
	static const char *const keys[] = {"cache", "flush", "fua", "blocks"};
	struct json_object *texts;
	struct table table;

	if (!json_object_array_length(namespaces))
		return;
	putchar('\n');
	texts = json_object_new_object();
	table_begin(&table, titles);
	for (size_t i = 0; i < json_object_array_length(namespaces); i++) {
		struct json_object *o = json_object_array_get_idx(namespaces, i);

		table_addf(&table, "%s/%" PRIu64, answer_string(o, "subsystem"),
			   answer_number(o, "nsid"));
		table_add(&table, answer_string(o, "kind"));
		for (unsigned k = 0; k < ARRAY_LEN(keys); k++)
			add_guarantee(&table, answer_member(o, "durability"), keys[k], texts);
	}
	table_end(&table);
	json_object_object_foreach(texts, text, nothing)
	{
		(void)nothing;
		printf("  %s\n", text);
	}
	json_object_put(texts);
}

/* "2026-07-01T12:00:00Z, write of 8 blocks at LBA 64, host NQN: No space left on device" */
static void add_last_error(struct table *table, struct json_object *error)
{
	char range[64] = "";

	if (answer_number(error, "blocks"))
		snprintf(range, sizeof(range), " of %" PRIu64 " blocks at LBA %" PRIu64,
			 answer_number(error, "blocks"), answer_number(error, "lba"));
	table_addf(table, "%s, %s%s, host %s: %s", answer_string(error, "time"),
		   answer_string(error, "operation"), range, answer_string(error, "host"),
		   answer_string(error, "error"));
}

/* The I/O errors of each namespace's store. */
static void print_errors(struct json_object *namespaces)
{
	static const char *const titles[] = {"NAMESPACE", "STATE", ">ERRORS", "LAST ERROR", NULL};
	struct table table;

	if (!json_object_array_length(namespaces))
		return;
	putchar('\n');
	table_begin(&table, titles);
	for (size_t i = 0; i < json_object_array_length(namespaces); i++) {
		struct json_object *o = json_object_array_get_idx(namespaces, i);
		uint64_t n = 0;

		json_object_object_foreach(answer_member(o, "backend_errors"), kind, value)
		{
			(void)kind;
			n += json_object_get_uint64(value);
		}
		table_addf(&table, "%s/%" PRIu64, answer_string(o, "subsystem"),
			   answer_number(o, "nsid"));
		table_add(&table, answer_string(o, "state"));
		table_addf(&table, "%" PRIu64, n);
		add_last_error(&table, answer_member(o, "last_error"));
	}
	table_end(&table);
}

/* Namespaces of one cluster have one health, and many clusters are well in the same words. */
static void describe_health(struct json_object *store, char text[STORE_MAX])
{
	snprintf(text, STORE_MAX, "%s: %s", answer_string(store, "kind"),
		 answer_string(store, "health"));
}

/* Each image of a pool has an object of its own there, named after the image's id. */
static void describe_state(struct json_object *store, char text[STORE_MAX])
{
	const char *place = answer_string(store, "state_store"), *id = strrchr(place, '.');
	bool is_shared = json_object_get_boolean(answer_member(store, "state_shared"));
	int n = is_shared && id ? (int)(id - place) : (int)strlen(place);

	if (answer_member(store, "state_store"))
		snprintf(text, STORE_MAX, "%s: reservations are in %.*s%s",
			 answer_string(store, "kind"), n, place, is_shared ? ".*" : "");
	else
		snprintf(text, STORE_MAX, "%s: reservations end with rblkd: no state_directory",
			 answer_string(store, "kind"));
}

/* How many stores before this one are described alike; in *ret_after, how many from it on. */
static size_t count_alike(struct json_object *stores, size_t at,
			  void (*describe)(struct json_object *store, char text[STORE_MAX]),
			  size_t *ret_after)
{
	char text[STORE_MAX], other[STORE_MAX];
	size_t n_before = 0;

	*ret_after = 0;
	describe(json_object_array_get_idx(stores, at), text);
	for (size_t i = 0; i < json_object_array_length(stores); i++) {
		bool is_alike;

		describe(json_object_array_get_idx(stores, i), other);
		is_alike = !strcmp(text, other);
		n_before += is_alike && i < at;
		*ret_after += is_alike && i >= at;
	}
	return n_before;
}

/* "rbd: HEALTH_OK (12 namespaces)": a line for all stores with the same words, so that a hundred
 * images are not a hundred lines. -o json has each of them. */
static void print_alike(struct json_object *stores,
			void (*describe)(struct json_object *store, char text[STORE_MAX]))
{
	for (size_t i = 0; i < json_object_array_length(stores); i++) {
		char text[STORE_MAX];
		size_t n;

		if (count_alike(stores, i, describe, &n))
			continue;
		describe(json_object_array_get_idx(stores, i), text);
		printf("%s (%zu namespace%s)\n", text, n, n == 1 ? "" : "s");
	}
}

static void print_stores(struct json_object *stores)
{
	if (!json_object_array_length(stores))
		return;
	putchar('\n');
	print_alike(stores, describe_health);
	print_alike(stores, describe_state);
}

/* Not of one that went well. */
static void print_upgrade(struct json_object *upgrade)
{
	const char *state = upgrade ? answer_string(upgrade, "state") : "done";

	if (!strcmp(state, "done")) {
		if (upgrade && answer_member(upgrade, "reason"))
			printf("\nthe last upgrade: %s\n", answer_string(upgrade, "reason"));
	} else if (!strcmp(state, "failed") || !strcmp(state, "undone")) {
		printf("\nthe last upgrade %s: %s\n",
		       strcmp(state, "failed") ? "was undone" : "failed",
		       answer_string(upgrade, "reason"));
	} else {
		printf("\nupgrade: %s; process %" PRIu64 " takes over\n", state,
		       answer_number(upgrade, "successor"));
	}
}

/* Whether an old write of a host can land after a newer one: in one line, if the answer is the same
 * for every subsystem. Then the associations that have ended, and wait for their disks: hosts that
 * use Cross-Controller Reset, or connect again, wait for these, too. */
static void print_fencing(struct json_object *fencing)
{
	struct json_object *quiescing = answer_member(fencing, "quiescing");
	struct json_object *subsystems = answer_member(fencing, "subsystems");

	printf("\nfencing: %s (%s)\n", answer_string(fencing, "level"),
	       answer_string(fencing, "why"));
	for (size_t i = 0; i < json_object_array_length(subsystems); i++) {
		struct json_object *o = json_object_array_get_idx(subsystems, i);

		if (strcmp(answer_string(o, "level"), "exact") != 0)
			printf("  %s: %s: %s\n", answer_string(o, "subsystem"),
			       answer_string(o, "level"), answer_string(o, "why"));
	}
	for (size_t i = 0; i < json_object_array_length(quiescing); i++) {
		struct json_object *o = json_object_array_get_idx(quiescing, i);
		char since[UNITS_MAX];

		printf("  quiescing for %s: controller %" PRIu64 " of %s\n",
		       units_format_duration(since, answer_number(o, "since_ms") * NSEC_PER_MSEC),
		       answer_number(o, "controller"), answer_string(o, "host"));
	}
}

/* Waits for its host, its disk or a limit of rate for a second at least. */
static bool is_slow(struct json_object *holder)
{
	return answer_number(holder, "oldest_command_s") ||
	       answer_number(holder, "takes_no_data_s");
}

/* "10.0.0.2:40012, 3/1: 4 commands, the oldest for 12s; 3.0MiB; takes no data for 8s" */
static void print_holder(const struct options *options, struct json_object *o)
{
	char size[UNITS_MAX], age[UNITS_MAX], since[UNITS_MAX];
	uint64_t takes_no_s = answer_number(o, "takes_no_data_s");

	printf("  %s, %" PRIu64 "/%" PRIu64 ": %" PRIu64 " commands, the oldest for %s; %s%s%s\n",
	       answer_string(o, "address"), answer_number(o, "controller"),
	       answer_number(o, "queue"), answer_number(o, "in_flight"),
	       units_format_duration(age, answer_number(o, "oldest_command_s") * NSEC_PER_SEC),
	       format_size(options, size, answer_number(o, "buffer_bytes")),
	       takes_no_s ? "; takes no data for " : "",
	       takes_no_s ? units_format_duration(since, takes_no_s * NSEC_PER_SEC) : "");
}

/* The connections whose commands take long, with the buffers that others may wait for. */
static void print_holders(const struct options *options, struct json_object *holders)
{
	bool has_title = false;

	for (size_t i = 0; i < json_object_array_length(holders); i++) {
		struct json_object *o = json_object_array_get_idx(holders, i);

		if (!is_slow(o))
			continue;
		if (!has_title)
			printf("\nunder way (address, controller/queue):\n");
		has_title = true;
		print_holder(options, o);
	}
}

/* Where SMART counters are saved. */
static void print_smart(struct json_object *smart)
{
	const char *directory = answer_string(smart, "directory");

	if (answer_member(smart, "error"))
		printf("\nSMART counters cannot be kept in %s: %s\n", directory,
		       answer_string(smart, "error"));
	else if (answer_member(smart, "directory"))
		printf("\nSMART counters are kept in %s\n", directory);
	else
		printf("\nSMART counters begin with this start: there is no state_directory\n");
}

/* Each problem that rblkd counts, and what to do about it. */
static void print_problems(struct json_object *status)
{
	static const struct {
		const char *key, *text;
	} problems[] = {
		{"unkept_namespaces",
		 "namespaces are unkept: their saved state may be wrong, see the log"},
		{"refusing_namespaces",
		 "namespaces refused commands: their state was not kept or read (see the log)"},
		{"defects",
		 "queues were ended by defects of rblkd: see the log, report them, restart rblkd"},
		{"degraded_namespaces",
		 "namespaces are degraded by disk errors: acknowledge them with rblkctl clear"},
	};

	if (answer_number(status, "failed_namespaces"))
		printf("failed namespaces: %" PRIu64 " (rblkctl list namespaces)\n",
		       answer_number(status, "failed_namespaces"));
	for (unsigned i = 0; i < ARRAY_LEN(problems); i++)
		if (answer_number(status, problems[i].key))
			printf("%" PRIu64 " %s\n", answer_number(status, problems[i].key),
			       problems[i].text);
}

/* Problems come below the tables, each with what to do about it: they are rare, and the end of the
 * output is what a terminal shows. */
void show_status(const struct options *options, struct json_object *status)
{
	print_summary(status);
	print_uses(status);
	print_portals(answer_member(status, "portals"));
	print_errors(answer_member(status, "errors"));
	print_durability(answer_member(status, "durability"));
	print_stores(answer_member(status, "stores"));
	print_fencing(answer_member(status, "fencing"));
	print_upgrade(answer_member(status, "upgrade"));
	print_smart(answer_member(status, "smart"));
	print_holders(options, answer_member(status, "holders"));
	print_problems(status);
}

/* That of the state, so a script needs no text. */
int code_of_status(struct json_object *status)
{
	return !strcmp(answer_string(status, "state"), "ok") ? EXIT_OK : EXIT_PARTIAL;
}
