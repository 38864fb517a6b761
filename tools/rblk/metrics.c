/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rblk metrics: what Prometheus reads of volumes, by their control sockets: for the textfile
 * collector of node_exporter, so that no volume needs a port. The format has each family once, so
 * the texts of the volumes are merged, family by family.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/output.h"
#include "base/rpc_client.h"
#include "nbd_bridge/control/metrics.h"
#include "tools/rblk/commands.h"
#include "tools/rblk/report.h"
#include "tools/rblk/run_dir.h"
#include "tools/rblk/volumes.h"

static const char program[] = "rblk metrics";
static const char help_mark[] = "# HELP ";

enum {
	METRICS_TIMEOUT_MS = 3000,
};

/* ---- asking --------------------------------------------------------------------------------- */

/* A volume that cannot be asked still has a series, so that an alert can tell it from one that was
 * detached. The text is the one that the process would begin with. */
static struct json_object *make_answer(const char *name, bool is_up)
{
	struct json_object *o = json_object_new_object();
	char *text = bridge_metrics_up(name, is_up);

	json_object_object_add(o, "name", json_object_new_string(name));
	json_object_object_add(o, "text", json_object_new_string(text ?: ""));
	free(text);
	return o;
}

/* {"name", "text"}; NULL: its process has ended meanwhile. One of an older version has no metrics,
 * but is up. */
static struct json_object *ask_one(struct json_object *status)
{
	const char *name = json_text(status, "name"), *state = json_text(status, "state");
	struct json_object *answer = NULL;
	struct error error;
	char path[PATH_MAX];
	int r;

	if (!strcmp(state, "unresponsive") || !strcmp(state, "left-behind"))
		return make_answer(name, false);
	if (run_dir_path(path, name, "sock", &error))
		return NULL;
	r = rpc_call(path, "metrics", NULL, METRICS_TIMEOUT_MS, &answer, &error);
	if (r == -ENOENT || r == -ECONNREFUSED)
		return NULL;
	if (r < 0)
		return make_answer(name, r == -EREMOTEIO);
	json_object_object_del(answer, "schema");
	return answer;
}

/* A device that a dead process left may have the name of a volume that runs, or of another one that
 * was left. A series may be there once only: the running volume's, or the first. */
static bool is_told_already(const struct volumes *volumes, unsigned which)
{
	struct json_object *status = volumes_get(volumes, which);
	bool is_left = !strcmp(json_text(status, "state"), "left-behind");

	for (unsigned i = 0; is_left && i < volumes->n; i++) {
		struct json_object *other = volumes_get(volumes, i);

		if (i != which && !strcmp(json_text(other, "name"), json_text(status, "name")) &&
		    (i < which || strcmp(json_text(other, "state"), "left-behind") != 0))
			return true;
	}
	return false;
}

/* In the order of the names; only: NULL, or the volume that the user named. */
static struct json_object *ask_all(const struct volumes *volumes, const struct json_object *only)
{
	struct json_object *list = json_object_new_array();

	for (unsigned i = 0; i < volumes->n; i++) {
		struct json_object *status = volumes_get(volumes, i), *answer = NULL;

		if (!only || only == status)
			answer = is_told_already(volumes, i) ? NULL : ask_one(status);
		if (answer)
			json_object_array_add(list, answer);
	}
	return list;
}

/* 0, and the caller owns *ret_list; or an exit code with *error. volume: NULL: all of them. */
static int ask(const char *volume, struct json_object **ret_list, struct error *error)
{
	struct json_object *chosen = NULL;
	struct volumes volumes;
	int code = volumes_read(&volumes, error);

	if (code == 0 && volume) {
		chosen = volumes_find(&volumes, volume, 0, error);
		code = chosen ? 0 : (int)error->code;
	} else if (code == 0) {
		volumes_add_left(&volumes);
	}
	if (chosen && !strcmp(json_text(chosen, "state"), "unresponsive")) {
		error_set(error, EXIT_UNREACHABLE, "see `rblk status`",
			  "the volume process of %.150s does not answer", volume);
		code = EXIT_UNREACHABLE;
	}
	if (code == 0)
		*ret_list = ask_all(&volumes, chosen);
	volumes_release(&volumes);
	return code;
}

/* ---- merging -------------------------------------------------------------------------------- */

/* A family of a text: "# HELP NAME ...", "# TYPE ...", its samples. */
struct family {
	const char *begin, *name, *samples, *end;
	size_t n_name;
};

static const char *next_line(const char *line)
{
	const char *end = strchr(line, '\n');

	return end ? end + 1 : line + strlen(line);
}

/* The head of a family from here on, or the end of the text. */
static const char *next_head(const char *line)
{
	while (*line && strncmp(line, help_mark, strlen(help_mark)) != 0)
		line = next_line(line);
	return line;
}

/* The first one at or after this place, which is the begin of a line. */
static bool next_family(const char *at, struct family *ret)
{
	const char *begin = next_head(at), *samples = next_line(begin);

	if (!*begin)
		return false;
	ret->begin = begin;
	ret->name = begin + strlen(help_mark);
	ret->n_name = strcspn(ret->name, " \n");
	ret->end = next_head(samples);
	while (samples < ret->end && *samples == '#')
		samples = next_line(samples);
	ret->samples = samples;
	return true;
}

/* The family of the same name. The texts differ in their families where the processes of the
 * volumes are of different versions. */
static bool find_family(const char *text, const struct family *like, struct family *ret)
{
	for (const char *at = text; next_family(at, ret); at = ret->end)
		if (ret->n_name == like->n_name && !memcmp(ret->name, like->name, like->n_name))
			return true;
	return false;
}

/* "" if memory ran out. */
static const char *text_of(struct json_object *list, size_t i)
{
	return json_text(json_object_array_get_idx(list, i), "text");
}

/* Whether one of the first n texts has the family, so that it is printed already. */
static bool has_before(struct json_object *list, size_t n, const struct family *like)
{
	struct family family;

	for (size_t i = 0; i < n; i++)
		if (find_family(text_of(list, i), like, &family))
			return true;
	return false;
}

/* The head of the first text that has the family, and the samples of all. */
static void print_family(struct json_object *list, size_t first, const struct family *family)
{
	size_t n = json_object_array_length(list);
	struct family other;

	fwrite(family->begin, 1, (size_t)(family->end - family->begin), stdout);
	for (size_t i = first + 1; i < n; i++)
		if (find_family(text_of(list, i), family, &other))
			fwrite(other.samples, 1, (size_t)(other.end - other.samples), stdout);
}

/* A file that was not written whole must not take the place of the last one. */
static int print_text(struct json_object *list)
{
	size_t n = json_object_array_length(list);
	struct family family;

	for (size_t i = 0; i < n; i++)
		for (const char *at = text_of(list, i); next_family(at, &family); at = family.end)
			if (!has_before(list, i, &family))
				print_family(list, i, &family);
	if (fflush(stdout) == 0 && !ferror(stdout))
		return EXIT_OK;
	return fail_with(program, EXIT_FAILED, NULL, "cannot write the metrics: %s",
			 strerror(errno));
}

/* ---- the subcommand ------------------------------------------------------------------------- */

/* Scripts get the text of each volume as its process has written it. */
static int print_json(struct json_object *list)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "schema", json_object_new_int(1));
	json_object_object_add(o, "volumes", json_object_get(list));
	return report_json(o);
}

int metrics_main(int argc, char **argv)
{
	unsigned output = OUTPUT_TABLE;
	const struct arg table[] = {
		{"output", 'o', ARG_CHOICE, &output, OUTPUT_CHOICES, OUTPUT_HELP, 0, 0,
		 output_names},
		{0},
	};
	const struct args_usage usage = {
		program, "[NAME|DEVICE|NQN@ADDRESS[:PORT]]",
		"Print the metrics of attached volumes, as Prometheus reads them.", 0, 1};
	struct json_object *list = NULL;
	struct error error;
	int at, code = args_parse(&usage, table, argc, argv, &at);

	if (code >= 0)
		return code;
	code = ask(at < argc ? argv[at] : NULL, &list, &error);
	if (code)
		return report_error(program, &error);
	code = output == OUTPUT_JSON ? print_json(list) : print_text(list);
	json_object_put(list);
	return code;
}
