/* SPDX-License-Identifier: BSD-3-Clause */
/* See life.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "target/store/rbd/life.h"

enum {
	STAT_BYTES = 1024,
	FIELDS_TO_START = 19, /* of /proc/PID/stat, from the state on */
};

static bool read_line(const char *path, char *line, size_t n)
{
	FILE *f = fopen(path, "re");
	bool is_there = f && fgets(line, (int)n, f);

	if (f)
		fclose(f);
	if (is_there)
		line[strcspn(line, "\n")] = '\0';
	return is_there;
}

/* Sets the state, and the start of the process. False: there is none. */
static bool read_stat(uint64_t pid, char *ret_state, uint64_t *ret_start)
{
	char path[64], line[STAT_BYTES], *at;

	snprintf(path, sizeof(path), "/proc/%" PRIu64 "/stat", pid);
	if (!read_line(path, line, sizeof(line)))
		return false;
	at = strrchr(line, ')'); /* the name before may have any character */
	if (!at || at[1] != ' ')
		return false;
	at += 2;
	*ret_state = *at;
	for (unsigned i = 0; i < FIELDS_TO_START && at; i++) {
		at = strchr(at, ' ');
		at += !!at;
	}
	if (!at)
		return false;
	*ret_start = strtoull(at, NULL, 10);
	return true;
}

static uint64_t read_pids(void)
{
	char text[64] = "", *digits;
	ssize_t n = readlink("/proc/self/ns/pid", text, sizeof(text) - 1);

	digits = n > 0 ? strchr(text, '[') : NULL;
	return digits ? strtoull(digits + 1, NULL, 10) : 0;
}

void life_read_own(struct life *ret_life)
{
	char state;

	*ret_life = (struct life){.pid = (uint64_t)getpid(), .pids = read_pids()};
	if (!read_line("/proc/sys/kernel/random/boot_id", ret_life->boot, LIFE_BOOT_BYTES) ||
	    !ret_life->pids || !read_stat(ret_life->pid, &state, &ret_life->start))
		strcpy(ret_life->boot, "-"); /* of no boot */
}

void life_format(const struct life *life, char text[LIFE_TEXT_BYTES])
{
	snprintf(text, LIFE_TEXT_BYTES, "%s %" PRIu64 " %" PRIu64 " %" PRIu64, life->boot,
		 life->pids, life->pid, life->start);
}

bool life_parse(const char *text, struct life *ret_life, const char **ret_rest)
{
	int n = 0;

	*ret_life = (struct life){0};
	if (sscanf(text, "%39s %" SCNu64 " %" SCNu64 " %" SCNu64 "%n", ret_life->boot,
		   &ret_life->pids, &ret_life->pid, &ret_life->start, &n) != 4 ||
	    !n)
		return false;
	*ret_rest = text + n;
	return true;
}

/* False: nothing can be known of it here. */
static bool is_of_here(const struct life *life, const struct life *own)
{
	return strcmp(own->boot, "-") != 0 && !strcmp(own->boot, life->boot) &&
	       own->pids == life->pids;
}

bool life_is_own(const struct life *life)
{
	struct life own;

	life_read_own(&own);
	return is_of_here(life, &own) && own.pid == life->pid && own.start == life->start;
}

bool life_is_over(const struct life *life)
{
	struct life own;
	uint64_t start;
	char state;

	life_read_own(&own);
	if (!is_of_here(life, &own))
		return false;
	if (!read_stat(life->pid, &state, &start))
		return true;
	return start != life->start || state == 'Z' || state == 'X';
}
