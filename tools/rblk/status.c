/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rblk status: the whole status of one volume, or of all. The volume process makes the object
 * (nbd_bridge/control/bridge_rpc.c); here it is printed, as text for people or unchanged as JSON.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/units.h"
#include "tools/rblk/commands.h"
#include "tools/rblk/report.h"
#include "tools/rblk/volumes.h"
#include "tools/shared/field.h"

static const char program[] = "rblk status";

static void print_text(const char *label, const char *text)
{
	if (*text)
		field_print(label, text);
}

/* absent: what the lack of the key means; "" prints no line at all. */
static void print_seconds(struct json_object *status, const char *label, const char *key,
			  const char *absent)
{
	struct json_object *value = NULL;
	char text[UNITS_MAX];

	if (!json_object_object_get_ex(status, key, &value) || !value)
		print_text(label, absent);
	else
		print_text(label, units_format_duration(text, json_object_get_uint64(value) *
								      NSEC_PER_SEC));
}

static void print_namespace(struct json_object *status)
{
	char size[UNITS_MAX], text[128];

	snprintf(text, sizeof(text), "%s (%s bytes), blocks of %s%s",
		 units_format_size(size, json_number(status, "size_bytes")),
		 json_text(status, "size_bytes"), json_text(status, "block_size"),
		 strcmp(json_text(status, "read_only"), "true") ? "" : ", read only");
	print_text("size", text);
	print_text("uuid", json_text(status, "uuid"));
	print_text("model", json_text(status, "model"));
	print_text("serial", json_text(status, "serial"));
}

/* With memory windows the target shall invalidate each key with its answer. Those that it leaves to
 * the host cost the host a work request each, so the ratio is worth a line. */
static void print_keys(struct json_object *status)
{
	struct json_object *has_windows = NULL;
	char text[128];

	if (!json_object_object_get_ex(status, "memory_windows", &has_windows) ||
	    !json_object_get_boolean(has_windows))
		return;
	snprintf(text, sizeof(text), "%s keys invalidated by the target, %s left to us",
		 json_text(status, "keys_invalidated"), json_text(status, "keys_revoked"));
	print_text("windows", text);
}

/* "3, the last at 2026-07-01T12:00:00Z: write of 8 blocks at LBA 64: Capacity Exceeded (status
 * 0.81)" */
static void print_io_errors(struct json_object *status)
{
	struct json_object *last = NULL;
	char text[384], range[64] = "";

	if (!json_object_object_get_ex(status, "last_io_error", &last) || !last)
		return;
	if (json_number(last, "blocks"))
		snprintf(range, sizeof(range), " of %s blocks at LBA %s", json_text(last, "blocks"),
			 json_text(last, "lba"));
	snprintf(text, sizeof(text), "%s, the last at %s: %s%s: %s", json_text(status, "io_errors"),
		 json_text(last, "time"), json_text(last, "operation"), range,
		 json_text(last, "error"));
	print_text("I/O errors", text);
}

/* "by time, 12s left, 3 writes wait", "proven (by reset)", "unknown until 10.0.0.1:4420 is back" */
static void print_fencing(struct json_object *status)
{
	struct json_object *o = NULL, *last = NULL, *address = NULL;
	uint64_t left_s, n_held;
	char text[256], until[96] = "", left[UNITS_MAX + 8] = "", time[UNITS_MAX], held[48] = "";

	if (!json_object_object_get_ex(status, "fencing", &o) || !o ||
	    !strcmp(json_text(o, "state"), "none"))
		return;
	json_object_object_get_ex(o, "last_proof", &last);
	json_object_object_get_ex(o, "waits_for", &address);
	if (address)
		snprintf(until, sizeof(until), " until %s is back",
			 json_object_get_string(address));
	left_s = json_number(o, "left_s");
	n_held = json_number(o, "held");
	if (left_s)
		snprintf(left, sizeof(left), ", %s left",
			 units_format_duration(time, left_s * NSEC_PER_SEC));
	if (n_held)
		snprintf(held, sizeof(held), ", %s writes wait", json_text(o, "held"));
	snprintf(text, sizeof(text), "%s%s%s%s%s%s%s", json_text(o, "state"), until, left, held,
		 last ? " (by " : "", last ? json_object_get_string(last) : "", last ? ")" : "");
	print_text("fencing", text);
}

/* Why a path or a discovery controller does not serve now, on a line of its own. */
static void print_reason(struct json_object *o)
{
	struct json_object *error = NULL;

	if (strcmp(json_text(o, "state"), "live") != 0 &&
	    json_object_object_get_ex(o, "last_error", &error) && error)
		print_text("", json_text(error, "message"));
}

/* " +- 10.0.0.1:4420: live (optimized), 1234 commands, 310 us, lost 2 times", and why it is not. */
static void print_path(struct json_object *o)
{
	char text[256], ana[48] = "", latency[UNITS_MAX + 8] = "", losses[64] = "";
	char pace[UNITS_MAX];
	uint64_t ns = json_number(o, "latency_ns"), n_losses = json_number(o, "losses");

	if (*json_text(o, "ana_state"))
		snprintf(ana, sizeof(ana), " (%s)", json_text(o, "ana_state"));
	if (ns)
		snprintf(latency, sizeof(latency), ", %s", units_format_duration(pace, ns));
	if (n_losses)
		snprintf(losses, sizeof(losses), ", lost %" PRIu64 " times", n_losses);
	snprintf(text, sizeof(text), " +- %s: %s%s%s, %s commands%s%s", json_text(o, "address"),
		 json_text(o, "state"), ana, strcmp(json_text(o, "found"), "true") ? "" : ", found",
		 json_text(o, "commands"), latency, losses);
	print_text("", text);
	print_reason(o);
}

/* The paths are a tree, as `nvme list-subsys` draws it. */
static void print_paths(struct json_object *status)
{
	struct json_object *paths = NULL, *services = NULL;
	bool has_services = json_object_object_get_ex(status, "discovery", &services) &&
			    json_object_array_length(services) > 0;

	if (!json_object_object_get_ex(status, "path_list", &paths) ||
	    (json_object_array_length(paths) < 2 && !has_services))
		return;
	print_text("paths", "\\");
	for (unsigned i = 0; i < json_object_array_length(paths); i++)
		print_path(json_object_array_get_idx(paths, i));
}

/* "10.0.0.1:4420: live for 5min, 2 portals, changed 3s ago" */
static void print_service(struct json_object *o)
{
	bool is_referral = !strcmp(json_text(o, "referral"), "true");
	char text[256], since[UNITS_MAX], changed[UNITS_MAX + 24] = "", time[UNITS_MAX];

	if (*json_text(o, "changed_s"))
		snprintf(changed, sizeof(changed), ", changed %s ago",
			 units_format_duration(time, json_number(o, "changed_s") * NSEC_PER_SEC));
	snprintf(text, sizeof(text), "%s%s: %s for %s, %s portal%s%s", is_referral ? " +- " : "",
		 json_text(o, "address"), json_text(o, "state"),
		 units_format_duration(since, json_number(o, "state_since_s") * NSEC_PER_SEC),
		 json_text(o, "portals"), json_number(o, "portals") == 1 ? "" : "s", changed);
	print_text(is_referral ? "" : "discovery", text);
	print_reason(o);
}

/* The discovery controllers that the paths follow; below the first those to which it refers. */
static void print_discovery(struct json_object *status)
{
	struct json_object *services = NULL;

	if (!json_object_object_get_ex(status, "discovery", &services))
		return;
	for (unsigned i = 0; i < json_object_array_length(services); i++)
		print_service(json_object_array_get_idx(services, i));
}

/* It stays after the connection is back, so its age tells old from new. */
static void print_last_error(struct json_object *error)
{
	uint64_t age_s = json_number(error, "age_s");
	char text[1200], age[UNITS_MAX];

	snprintf(text, sizeof(text), "%s%s%s%s", json_text(error, "message"), age_s ? " (" : "",
		 age_s ? units_format_duration(age, age_s * NSEC_PER_SEC) : "",
		 age_s ? " ago)" : "");
	print_text("last error", text);
}

/* Prints the target of the volume, and what becomes of its I/O if the target stays away. */
static void print_association(struct json_object *status)
{
	struct json_object *error = NULL, *ana = NULL;
	char text[256];

	snprintf(text, sizeof(text), "%s/%s at %s", json_text(status, "subsystem"),
		 json_text(status, "nsid"), json_text(status, "address"));
	print_text("subsystem", text);
	print_text("host", json_text(status, "hostnqn"));
	print_text("rdma device", json_text(status, "rdma_device"));
	snprintf(text, sizeof(text), "%s of %s live, controller %s, %s reconnects",
		 json_text(status, "queues_live"), json_text(status, "queues"),
		 json_text(status, "cntlid"), json_text(status, "reconnects"));
	print_text("queues", text);
	print_paths(status);
	print_discovery(status);
	if (json_number(status, "paths") < 2 &&
	    json_object_object_get_ex(status, "ana_state", &ana) && ana) {
		snprintf(text, sizeof(text), "%s (ANA group %s)", json_text(status, "ana_state"),
			 json_text(status, "ana_group"));
		print_text("path", text);
	}
	snprintf(text, sizeof(text), "%s in flight, %s held", json_text(status, "in_flight"),
		 json_text(status, "held"));
	print_text("I/O", text);
	print_fencing(status);
	print_keys(status);
	print_seconds(status, "keep alive", "keep_alive_s", "off");
	print_seconds(status, "reconnect delay", "reconnect_delay_s", "-");
	print_seconds(status, "gives up after", "ctrl_loss_tmo_s", "never");
	print_seconds(status, "gives up in", "gives_up_in_s", "");
	if (json_object_object_get_ex(status, "last_error", &error) && error)
		print_last_error(error);
	print_io_errors(status);
}

/* A line a thread: load that is not spread, or one thread with errors, shows here. */
static void print_workers(struct json_object *status)
{
	struct json_object *workers = NULL;
	char read[UNITS_MAX], written[UNITS_MAX], label[32], text[256];

	if (!json_object_object_get_ex(status, "workers", &workers))
		return;
	for (unsigned i = 0; i < json_object_array_length(workers); i++) {
		struct json_object *o = json_object_array_get_idx(workers, i);

		snprintf(label, sizeof(label), "worker %s", json_text(o, "worker"));
		snprintf(text, sizeof(text),
			 "%s connections, %s in flight, %s reads (%s), %s writes (%s), %s errors",
			 json_text(o, "connections"), json_text(o, "in_flight"),
			 json_text(o, "reads"),
			 units_format_size(read, json_number(o, "read_bytes")),
			 json_text(o, "writes"),
			 units_format_size(written, json_number(o, "written_bytes")),
			 json_text(o, "errors"));
		print_text(label, text);
	}
}

/* "takes no replies for 12s; 24 MiB copied out", on a line of its own: a client that keeps others
 * waiting. */
static void print_standing_still(struct json_object *conn)
{
	struct json_object *since = NULL;
	char text[128], size[UNITS_MAX], time[UNITS_MAX] = "";
	uint64_t n_copied = json_number(conn, "copied_out_bytes");

	json_object_object_get_ex(conn, "takes_no_replies_s", &since);
	if (since && json_number(conn, "takes_no_replies_s"))
		snprintf(text, sizeof(text), "takes no replies for %s",
			 units_format_duration(time, json_number(conn, "takes_no_replies_s") *
							     NSEC_PER_SEC));
	else if (n_copied)
		snprintf(text, sizeof(text), "stands still");
	else
		return;
	if (n_copied)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "; %s copied out",
			 units_format_size(size, n_copied));
	print_text("", text);
}

/* "4 in flight, the oldest for 12s, 3.0 MiB" */
static const char *describe_requests(char text[128], struct json_object *conn)
{
	char size[UNITS_MAX], age[UNITS_MAX + 20] = "", time[UNITS_MAX];
	uint64_t oldest_s = json_number(conn, "oldest_request_s");

	if (!json_number(conn, "in_flight"))
		return "idle";
	if (oldest_s)
		snprintf(age, sizeof(age), ", the oldest for %s",
			 units_format_duration(time, oldest_s * NSEC_PER_SEC));
	snprintf(text, 128, "%s in flight%s, %s", json_text(conn, "in_flight"), age,
		 units_format_size(size, json_number(conn, "held_bytes")));
	return text;
}

/* NBD clients, with the worker that serves each. */
static void print_connections(struct json_object *status)
{
	struct json_object *conns = NULL;
	char text[256], requests[128];

	if (!json_object_object_get_ex(status, "connections", &conns))
		return;
	for (unsigned i = 0; i < json_object_array_length(conns); i++) {
		struct json_object *o = json_object_array_get_idx(conns, i);

		snprintf(text, sizeof(text), "%s, worker %s, %s", json_text(o, "peer"),
			 json_text(o, "worker"), describe_requests(requests, o));
		print_text("connection", text);
		print_standing_still(o);
	}
}

/* A process that does not answer is known by its name alone: its other lines are left out. */
static void print_volume(struct json_object *status)
{
	uint64_t since_s = json_number(status, "state_since_s");
	char text[128], since[UNITS_MAX] = "less than 1s";

	if (since_s)
		units_format_duration(since, since_s * NSEC_PER_SEC);
	if (*json_text(status, "state_since_s"))
		snprintf(text, sizeof(text), "%s for %s", json_text(status, "state"), since);
	else /* it did not answer */
		snprintf(text, sizeof(text), "%s", json_text(status, "state"));
	printf("%s\n", json_text(status, "name"));
	print_text("state", text);
	print_text("reason", json_text(status, "reason"));
	print_text("device", json_text(status, "device"));
	print_text("uri", json_text(status, "uri"));
	print_text("pid", json_text(status, "pid"));
	if (!*json_text(status, "subsystem"))
		return; /* it did not answer */
	print_namespace(status);
	print_association(status);
	print_workers(status);
	print_connections(status);
}

/* The object of the process, unchanged: a script sees the keys that rblk does not know, too. */
static int show_one(const struct volumes *volumes, const char *what, unsigned output)
{
	struct error error;
	struct json_object *status = volumes_find(volumes, what, 0, &error);

	if (!status)
		return report_error(program, &error);
	if (output == OUTPUT_JSON)
		return report_json(json_object_get(status));
	print_volume(status);
	return EXIT_OK;
}

static int show_all(const struct volumes *volumes, unsigned output)
{
	struct json_object *whole;

	if (output == OUTPUT_JSON) {
		whole = json_object_new_object();
		json_object_object_add(whole, "schema", json_object_new_int(1));
		json_object_object_add(whole, "volumes", json_object_get(volumes->array));
		return report_json(whole);
	}
	for (unsigned i = 0; i < volumes->n; i++)
		print_volume(volumes_get(volumes, i));
	return EXIT_OK;
}

int status_main(int argc, char **argv)
{
	unsigned output = OUTPUT_TABLE;
	const struct arg table[] = {
		{"output", 'o', ARG_CHOICE, &output, OUTPUT_CHOICES, OUTPUT_HELP, 0, 0,
		 output_names},
		{0},
	};
	const struct args_usage usage = {program, "[NAME|DEVICE|NQN@ADDRESS[:PORT]]",
					 "Show the whole status of one attached volume, or of all.",
					 0, 1};
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
		code = at < argc ? show_one(&volumes, argv[at], output)
				 : show_all(&volumes, output);
	volumes_release(&volumes);
	return code;
}
