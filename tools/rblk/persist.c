/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See persist.h, and tools/systemd/rblk-volume@.service.in for the reader of the file: systemd
 * takes a line for a variable, and splits OPTIONS at blanks. So the words have none, nor what
 * systemd would take for a quote or a variable.
 *
 * The file is complete or not there: it is written under another name first.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tools/rblk/option_words.h"
#include "tools/rblk/persist.h"

enum {
	TEXT_MAX = 8192,
};

#define PLAIN "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:@/,=+-[]%"

static int fail(struct error *error, enum exit_code code, const char *path, const char *why)
{
	error_set(error, code,
		  code == EXIT_PRIVILEGE ? "run as root, or set RBLK_CONFIG_DIR" : NULL,
		  "%.200s: %s", path, why);
	return (int)code;
}

static int fail_errno(struct error *error, const char *path)
{
	return fail(error, errno == EACCES || errno == EROFS ? EXIT_PRIVILEGE : EXIT_FAILED, path,
		    strerror(errno));
}

static bool is_plain(const char *word)
{
	return *word && !word[strspn(word, PLAIN)];
}

/* The unit sets the name and the frontend, and reads no answer. */
static const struct option_drop drop[] = {{"name", 0, true},
					  {"frontend", 0, true},
					  {"output", 'o', true},
					  {"persist", 0, false},
					  {0}};

/* 0, or an exit code: a word that the file cannot hold. */
static int make_text(const char *target, char **words, unsigned n, char text[TEXT_MAX],
		     struct error *error)
{
	_autofree_ const char **kept = calloc((size_t)n + 1, sizeof(*kept));
	unsigned n_kept = kept ? option_words_keep(words, n, drop, kept) : 0;
	size_t at = (size_t)snprintf(text, TEXT_MAX,
				     "# Written by rblk attach --persist.\n"
				     "TARGET=%s\nOPTIONS=",
				     target);

	if (!kept)
		return fail(error, EXIT_FAILED, target, strerror(ENOMEM));
	if (!is_plain(target))
		return fail(error, EXIT_USAGE, target, "cannot stand in the file of a unit");
	for (unsigned i = 0; i < n_kept; i++) {
		if (!is_plain(kept[i]))
			return fail(error, EXIT_USAGE, kept[i],
				    "cannot stand in the file of a unit");
		if (at < TEXT_MAX)
			at += (size_t)snprintf(text + at, TEXT_MAX - at, "%s%s", i ? " " : "",
					       kept[i]);
	}
	if (at < TEXT_MAX)
		at += (size_t)snprintf(text + at, TEXT_MAX - at, "\n");
	return at < TEXT_MAX ? 0 : fail(error, EXIT_USAGE, target, "has too many options");
}

/* 0: it can be written; else an exit code, or -EEXIST: it says the same. */
static int compare_file(const char *path, const char *text, struct error *error)
{
	char old[TEXT_MAX + 1] = "";
	_autofclose_ FILE *f = fopen(path, "re");
	size_t n;

	if (!f)
		return errno == ENOENT ? 0 : fail_errno(error, path);
	n = fread(old, 1, sizeof(old) - 1, f);
	old[n] = '\0';
	if (!strcmp(old, text))
		return -EEXIST;
	error_set(error, EXIT_BUSY, "remove the file, or change it by hand",
		  "%.200s exists, and is not the same", path);
	return EXIT_BUSY;
}

/* Synced before it gets its name: after a loss of power the file is whole, or not there. */
static int write_file(const char *path, const char *text, struct error *error)
{
	char temporary[PATH_MAX + sizeof(".new")];
	FILE *f;
	bool is_written;

	snprintf(temporary, sizeof(temporary), "%s.new", path);
	f = fopen(temporary, "we");
	if (!f)
		return fail_errno(error, temporary);
	is_written = fputs(text, f) >= 0 && fflush(f) == 0 && fsync(fileno(f)) == 0;
	is_written = fclose(f) == 0 && is_written;
	if (is_written && rename(temporary, path) == 0)
		return 0;
	fail_errno(error, path);
	unlink(temporary);
	return (int)error->code;
}

/* The packages make it, but a build from source does not. */
static int make_directory(char path[PATH_MAX], struct error *error)
{
	const char *etc = getenv("RBLK_CONFIG_DIR");
	int n = snprintf(path, PATH_MAX - 80, "%s", etc && *etc ? etc : "/etc/rblk");

	if (n >= PATH_MAX - 100)
		return fail(error, EXIT_USAGE, "RBLK_CONFIG_DIR", "is too long");
	if (mkdir(path, 0755) < 0 && errno != EEXIST)
		return fail_errno(error, path);
	strcat(path, "/volumes");
	return mkdir(path, 0755) < 0 && errno != EEXIST ? fail_errno(error, path) : 0;
}

/* systemctl needs no running systemd for this: it makes a link. */
static int enable_unit(const char *name, struct error *error)
{
	char unit[128];
	char *argv[] = {(char[]){"systemctl"}, (char[]){"--quiet"}, (char[]){"enable"}, unit, NULL};
	int r, status = 0;
	pid_t pid;

	snprintf(unit, sizeof(unit), "rblk-volume@%s.service", name);
	r = posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ);
	if (r == 0)
		waitpid(pid, &status, 0);
	if (r == 0 && WIFEXITED(status) && !WEXITSTATUS(status))
		return 0;
	error_set(error, EXIT_PARTIAL, "enable it by hand: see rblk(8), --persist",
		  "systemctl does not enable %s%s%s", unit, r ? ": " : "", r ? strerror(r) : "");
	return EXIT_PARTIAL;
}

int persist_volume(const char *name, const char *target, char **words, unsigned n,
		   struct error *error)
{
	char path[PATH_MAX], text[TEXT_MAX];
	int r = make_text(target, words, n, text, error) ?: make_directory(path, error);

	if (r)
		return r;
	strcat(strcat(strcat(path, "/"), name), ".conf");
	r = compare_file(path, text, error);
	if (r == 0)
		r = write_file(path, text, error);
	return r > 0 ? r : enable_unit(name, error);
}
