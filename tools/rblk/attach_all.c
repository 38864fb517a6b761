/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See attach_all.h. The list of volumes to attach is made in three steps: entries of nvme-cli's
 * files or the address of a target; subsystems, which the discovery service of an address lists,
 * and those of the targets it refers to; the namespaces of each subsystem. Each is then a command
 * line of `rblk attach`, run as a process, so that all volumes are attached by the same code as
 * one.
 *
 * A subsystem that is reached through several addresses is one volume with several paths for each
 * namespace: that of the first address which has it, and by --path the others which have it, too.
 * One that does not answer now is a path, too, because it is tried again. --find-paths says that
 * these are what discovery has found, so that a volume which has others is attached all the same.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/output.h"
#include "initiator/control/discover.h"
#include "initiator/control/host_identity.h"
#include "initiator/control/ns_list.h"
#include "tools/rblk/attach_all.h"
#include "tools/rblk/nvme_files.h"
#include "tools/rblk/option_words.h"
#include "tools/rblk/report.h"
#include "tools/rblk/target_name.h"
#include "tools/rblk/volumes.h"

static const char program[] = "rblk attach";

enum {
	TARGETS_MAX = 1024, /* a referral may name others, without an end */
	ANSWER_MAX = 1 << 16,
	TYPE_REFERRAL = 1, /* NVMe-oF 1.1, SUBTYPE */
	TYPE_SUBSYSTEM = 2,
	TRANSPORT_RDMA = 1,
};

struct run {
	const struct attach_all *all;
	struct nvme_entries entries;
	struct json_object *volumes, *failures; /* owned; of -o json, and counted */
	struct json_object *done; /* owned: of each namespace, the number of its first entry */
	struct offer *offers;	  /* owned: of each entry */
	int code;		  /* of the last failure */
};

/* ---- failures ---- */

/* Notes the failure of one target or volume: the others are attached all the same. */
static void add_failure(struct run *run, const char *what, const struct error *error)
{
	struct json_object *o = json_object_new_object();

	run->code = (int)error->code;
	json_object_object_add(o, "target", json_object_new_string(what));
	json_object_object_add(o, "code", json_object_new_int((int)error->code));
	json_object_object_add(o, "message", json_object_new_string(error->message));
	json_object_object_add(o, "hint", json_object_new_string(error->hint));
	json_object_array_add(run->failures, o);
	if (!run->all->is_json)
		fprintf(stderr, "rblk attach: %s: %s\n", what, error->message);
}

/* ---- which there are ---- */

/* The command line wins over the file, as it does for `rblk attach`. */
static int set_identity(const struct attach_all *all, const struct nvme_entry *entry,
			struct volume_config *config, struct error *error)
{
	const char *nqn = all->hostnqn ?: *entry->hostnqn ? entry->hostnqn : NULL;
	const char *id = all->hostid ?: *entry->hostid ? entry->hostid : NULL;

	volume_config_init(config);
	snprintf(config->secret_file, sizeof(config->secret_file), "%s", all->secret_file ?: "");
	snprintf(config->ctrl_secret_file, sizeof(config->ctrl_secret_file), "%s",
		 all->ctrl_secret_file ?: "");
	if (all->host_address && addr_parse(all->host_address, 0, &config->host_address) < 0) {
		error_set(error, EXIT_USAGE, NULL, "--host-address: '%.100s' is not an address",
			  all->host_address);
		return EXIT_USAGE;
	}
	if (addr_parse_with_port(entry->target, TARGET_DEFAULT_PORT, &config->address) < 0 ||
	    host_identity_load("/etc/nvme", nqn, id, config, error) < 0)
		return (int)error->code;
	return 0;
}

static bool is_known(const struct nvme_entries *entries, const char *nqn, const char *target)
{
	for (unsigned i = 0; i < entries->n; i++)
		if (!strcmp(entries->list[i].nqn, nqn) && !strcmp(entries->list[i].target, target))
			return true;
	return false;
}

/* A record of the discovery log becomes an entry like that of its discovery service. */
static void add_record(struct run *run, unsigned from, const struct discover_record *record)
{
	const char *nqn = record->subtype == TYPE_SUBSYSTEM ? record->subnqn : "";
	char target[sizeof(record->traddr) + sizeof(record->trsvcid) + 8];
	char where[ADDR_STRING_MAX] = "";
	struct nvme_entry *entry, *parent;
	union addr addr;

	if (record->subtype != TYPE_SUBSYSTEM && record->subtype != TYPE_REFERRAL)
		return;
	snprintf(target, sizeof(target), record->address_family == 2 ? "[%s]:%s" : "%s:%s",
		 record->traddr, record->trsvcid);
	if (record->transport != TRANSPORT_RDMA ||
	    addr_parse_with_port(target, TARGET_DEFAULT_PORT, &addr) < 0) {
		nvme_entries_note(&run->entries,
				  "%s: %.223s at %s is left out: not RDMA, or no address",
				  run->entries.list[from].source, record->subnqn, target);
		return;
	}
	addr_format(where, &addr);
	if (is_known(&run->entries, nqn, where) || run->entries.n == TARGETS_MAX)
		return;
	entry = nvme_entries_add(&run->entries, where);
	if (!entry)
		return;
	parent = &run->entries.list[from];
	snprintf(entry->source, sizeof(entry->source), "%s", parent->source);
	snprintf(entry->nqn, sizeof(entry->nqn), "%s", nqn);
	memcpy(entry->target, where, sizeof(entry->target));
	memcpy(entry->hostnqn, parent->hostnqn, sizeof(entry->hostnqn));
	memcpy(entry->hostid, parent->hostid, sizeof(entry->hostid));
	for (unsigned i = 0; i < parent->n_words; i++) {
		entry->words[i] = strdup(parent->words[i]);
		entry->n_words += entry->words[i] != NULL;
	}
}

/* A target that does not answer is a failure of its own; the list goes on. */
static void ask_discovery(struct run *run, unsigned i)
{
	struct discover_result result = {0};
	struct error error = {0};
	struct volume_config config;

	if (set_identity(run->all, &run->entries.list[i], &config, &error) ||
	    discover(&config, &result, &error) < 0) {
		add_failure(run, run->entries.list[i].target, &error);
		return;
	}
	for (unsigned n = 0; n < result.n_records; n++)
		add_record(run, i, &result.records[n]);
	discover_result_release(&result);
}

/* ---- attaching ---- */

/* A volume's status is a few KiB; more than ANSWER_MAX is no answer. */
static struct json_object *read_answer(int fd)
{
	_autofree_ char *text = calloc(1, ANSWER_MAX);
	size_t n = 0;
	ssize_t got;

	while (text && n < ANSWER_MAX - 1 && (got = read(fd, text + n, ANSWER_MAX - 1 - n)) != 0) {
		if (got < 0 && errno != EINTR)
			break;
		n += got > 0 ? (size_t)got : 0;
	}
	return n ? json_tokener_parse(text) : NULL;
}

/* Returns what `rblk attach` prints; NULL: it could not be run. Its notes go to our standard error.
 * */
static struct json_object *run_attach(const char *const *argv, int *ret_code)
{
	posix_spawn_file_actions_t actions;
	struct json_object *answer = NULL;
	int fds[2], status = 0, r;
	pid_t pid;

	*ret_code = EXIT_FAILED;
	if (pipe2(fds, O_CLOEXEC) < 0)
		return NULL;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, fds[1], STDOUT_FILENO);
	r = posix_spawn(&pid, "/proc/self/exe", &actions, NULL, (char **)(uintptr_t)argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	close(fds[1]);
	if (r == 0) {
		answer = read_answer(fds[0]);
		waitpid(pid, &status, 0);
		*ret_code = WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILED;
	}
	close(fds[0]);
	return answer;
}

/* The line of a volume that is attached is printed at once: the others may take long. */
static void take_answer(struct run *run, const char *what, int code, struct json_object *answer)
{
	struct json_object *said = NULL;
	struct error error;

	if (code == EXIT_OK && answer) {
		if (!run->all->is_json)
			volume_print_line(answer);
		json_object_array_add(run->volumes, json_object_get(answer));
		return;
	}
	json_object_object_get_ex(answer, "error", &said);
	error_set(&error, code ? (enum exit_code)code : EXIT_FAILED,
		  said ? json_text(said, "hint") : "", "%s",
		  said ? json_text(said, "message") : "rblk attach has no answer");
	add_failure(run, what, &error);
}

/* Namespaces of an entry. */
struct offer {
	bool is_read, is_silent; /* silent: it does not answer now, and may be a path */
	struct ns_list list;
};

static bool has_namespace(const struct offer *offer, uint32_t nsid)
{
	for (unsigned i = 0; i < offer->list.n; i++)
		if (offer->list.nsids[i] == nsid)
			return true;
	return false;
}

/* One subsystem, and one host. */
static bool is_same(const struct nvme_entry *a, const struct nvme_entry *b)
{
	return !strcmp(a->nqn, b->nqn) && !strcmp(a->hostnqn, b->hostnqn) &&
	       !strcmp(a->hostid, b->hostid);
}

static bool is_among(const char *const *words, unsigned n, const char *target)
{
	for (unsigned i = 0; i < n; i++)
		if (!strcmp(words[i], target))
			return true;
	return false;
}

/* The words of further paths, at most VOLUME_PATHS_MAX - 1; borrowed from the entries. */
static unsigned add_paths(struct run *run, unsigned first, uint32_t nsid, const char **words)
{
	const struct nvme_entry *own = &run->entries.list[first];
	unsigned n = 0;

	for (unsigned i = 0; i < run->entries.n; i++) {
		const struct nvme_entry *entry = &run->entries.list[i];
		const struct offer *offer = &run->offers[i];

		if (i == first || !is_same(own, entry) || !strcmp(own->target, entry->target) ||
		    is_among(words, n, entry->target) ||
		    !(offer->is_silent || has_namespace(offer, nsid)))
			continue;
		if (n == 2 * (VOLUME_PATHS_MAX - 1)) {
			nvme_entries_note(&run->entries,
					  "%s/%u: %s is left out: a volume has at most %u paths",
					  own->nqn, nsid, entry->target, VOLUME_PATHS_MAX);
			continue;
		}
		words[n++] = "--path";
		words[n++] = entry->target;
	}
	return n;
}

/* The settings of the file come first, so that those of the command line win. */
static void attach_one(struct run *run, unsigned i, uint32_t nsid)
{
	static const struct option_drop drop[] = {
		{"all", 0, false}, {"from", 0, true}, {"output", 'o', true}, {0}};
	const struct nvme_entry *entry = &run->entries.list[i];
	_autofree_ const char **argv = calloc(
		run->all->n_words + entry->n_words + 2 * VOLUME_PATHS_MAX + 10, sizeof(*argv));
	char target[VOLUME_NQN_MAX + ADDR_STRING_MAX + 2], number[16];
	const char *first[] = {"rblk", "attach", "-o", "json", "--ns", number};
	unsigned n = 0, n_path_words;
	struct json_object *answer;
	int code;

	if (!argv)
		return;
	snprintf(target, sizeof(target), "%s@%s", entry->nqn, entry->target);
	snprintf(number, sizeof(number), "%u", nsid);
	for (unsigned k = 0; k < sizeof(first) / sizeof(first[0]); k++)
		argv[n++] = first[k];
	for (unsigned k = 0; k < entry->n_words; k++)
		argv[n++] = entry->words[k];
	n_path_words = add_paths(run, i, nsid, argv + n);
	n += n_path_words;
	if (n_path_words)
		argv[n++] = "--find-paths";
	n += option_words_keep(run->all->words, run->all->n_words, drop, argv + n);
	argv[n] = target;
	answer = run_attach(argv, &code);
	snprintf(target, sizeof(target), "%s/%u@%s", entry->nqn, nsid, entry->target);
	take_answer(run, target, code, answer);
	json_object_put(answer);
}

/* True for the first address of each namespace. */
static bool is_new(struct run *run, unsigned i, uint32_t nsid)
{
	const struct nvme_entry *entry = &run->entries.list[i];
	struct json_object *first = NULL;
	char key[VOLUME_NQN_MAX + 16];

	snprintf(key, sizeof(key), "%s/%u", entry->nqn, nsid);
	if (!json_object_object_get_ex(run->done, key, &first)) {
		json_object_object_add(run->done, key, json_object_new_int((int)i));
		return true;
	}
	if (!is_same(entry, &run->entries.list[json_object_get_int(first)]))
		nvme_entries_note(&run->entries,
				  "%s is reached through %s, too, as another host: a volume is one "
				  "host",
				  key, entry->target);
	return false;
}

/* Which namespaces there are is asked with the identity that is to attach them: a target shows each
 * host its own. */
static void read_namespaces(struct run *run, unsigned i)
{
	const struct nvme_entry *entry = &run->entries.list[i];
	char what[VOLUME_NQN_MAX + ADDR_STRING_MAX + 2];
	struct offer *offer = &run->offers[i];
	struct error error = {0};
	struct volume_config config;

	snprintf(what, sizeof(what), "%s@%s", entry->nqn, entry->target);
	if (set_identity(run->all, entry, &config, &error) == 0) {
		snprintf(config.subnqn, sizeof(config.subnqn), "%s", entry->nqn);
		offer->is_read = ns_list_read(&config, &offer->list, &error) == 0;
	}
	if (!offer->is_read) {
		offer->is_silent = error.code == EXIT_UNREACHABLE;
		add_failure(run, what, &error);
	} else if (!offer->list.n) {
		nvme_entries_note(&run->entries, "%s has no namespace for us", what);
	}
}

static void attach_subsystem(struct run *run, unsigned i)
{
	for (unsigned n = 0; n < run->offers[i].list.n; n++)
		if (is_new(run, i, run->offers[i].list.nsids[n]))
			attach_one(run, i, run->offers[i].list.nsids[n]);
}

/* The list grows while it is read: referrals, and the subsystems that were found. */
static int attach_each(struct run *run, struct error *error)
{
	for (unsigned i = 0; i < run->entries.n; i++)
		if (!*run->entries.list[i].nqn)
			ask_discovery(run, i);
	run->offers = calloc(run->entries.n + 1, sizeof(*run->offers));
	if (!run->offers) {
		error_set(error, EXIT_FAILED, NULL, "out of memory");
		return EXIT_FAILED;
	}
	for (unsigned i = 0; i < run->entries.n; i++)
		if (*run->entries.list[i].nqn)
			read_namespaces(run, i);
	for (unsigned i = 0; i < run->entries.n; i++)
		attach_subsystem(run, i);
	free(run->offers);
	return 0;
}

/* ---- all ---- */

/* One of the two files is enough: nvme-cli installs the first as an example, and not the second. */
static int read_files(struct run *run, struct error *error)
{
	static const char *const names[] = {"discovery.conf", "config.json"};
	char path[PATH_MAX];
	unsigned n_files = 0;

	for (unsigned i = 0; i < 2; i++) {
		int r;

		snprintf(path, sizeof(path), "%s/%s", run->all->directory, names[i]);
		r = i ? nvme_files_read_config(path, &run->entries, error)
		      : nvme_files_read_discovery(path, &run->entries, error);
		if (r > 0)
			return r;
		n_files += r == 0;
	}
	if (n_files)
		return 0;
	error_set(error, EXIT_CONFIG, "name a target: rblk attach --all ADDRESS",
		  "there is neither discovery.conf nor config.json in %.200s", run->all->directory);
	return EXIT_CONFIG;
}

static int read_sources(struct run *run, struct error *error)
{
	struct nvme_entry *entry;
	union addr addr;
	int r;

	if (!run->all->address)
		return read_files(run, error);
	r = target_address_parse(run->all->address, &addr, error);
	if (r)
		return r;
	entry = nvme_entries_add(&run->entries, run->all->address);
	if (entry)
		addr_format(entry->target, &addr);
	return 0;
}

/* Not even a failure: files without an entry, or targets without a namespace for this host. */
static void set_nothing(const struct run *run, struct error *error)
{
	if (!run->entries.n)
		error_set(error, EXIT_NOT_FOUND, "name a target: rblk attach --all ADDRESS",
			  "discovery.conf and config.json in %.200s name no target for rblk",
			  run->all->directory);
	else
		error_set(
			error, EXIT_NOT_FOUND,
			"`rblk discover ADDRESS` shows what a target offers; it may not allow this host",
			"there is no namespace for this host");
}

/* With JSON this is the whole answer, also if nothing was attached: a script finds its lists in any
 * case. error: of the whole, or empty. */
static void print_json(const struct run *run, const struct error *error)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "schema", json_object_new_int(1));
	json_object_object_add(o, "volumes", json_object_get(run->volumes));
	json_object_object_add(o, "failures", json_object_get(run->failures));
	json_object_object_add(o, "notes", json_object_get(run->entries.notes));
	if (error->code)
		output_add_error(o, program, error->code, error->hint, error->message);
	report_json(o);
}

/* Failures are known already. */
static int show(struct run *run)
{
	size_t n_failed = json_object_array_length(run->failures);
	size_t n_attached = json_object_array_length(run->volumes);
	int code = !n_failed ? EXIT_OK : n_attached ? EXIT_PARTIAL : run->code;
	struct error nothing = {0};

	if (!n_failed && !n_attached)
		set_nothing(run, &nothing);
	if (run->all->is_json) {
		print_json(run, &nothing);
		return nothing.code ? (int)nothing.code : code;
	}
	for (size_t i = 0; i < json_object_array_length(run->entries.notes); i++)
		fprintf(stderr, "rblk attach: note: %s\n",
			json_object_get_string(json_object_array_get_idx(run->entries.notes, i)));
	if (nothing.code)
		return report_error(program, &nothing);
	if (n_failed)
		fail_with(program, (enum exit_code)code, NULL, "%zu attached, %zu failed",
			  n_attached, n_failed);
	return code;
}

int attach_all(const struct attach_all *all)
{
	struct run run = {.all = all,
			  .volumes = json_object_new_array(),
			  .failures = json_object_new_array(),
			  .done = json_object_new_object()};
	struct error error = {0};
	int code;

	nvme_entries_init(&run.entries);
	code = read_sources(&run, &error);
	if (code == 0)
		code = attach_each(&run, &error);
	code = code ? report_error(program, &error) : show(&run);
	nvme_entries_release(&run.entries);
	json_object_put(run.volumes);
	json_object_put(run.failures);
	json_object_put(run.done);
	return code;
}
