/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One life of a process, so that another process of the same machine can tell that it is over.
 * That is a reason to fence its client at once, and never a proof that its writes are over.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
	LIFE_BOOT_BYTES = 40,
	LIFE_TEXT_BYTES = 160,
};

struct life {
	char boot[LIFE_BOOT_BYTES]; /* identifier of the kernel's boot; "": not known */
	uint64_t pids;		    /* number of the PID namespace */
	uint64_t pid, start;	    /* start: in ticks after the boot */
};

/* The life of this process. Any thread. */
void life_read_own(struct life *ret_life);
/* As one line without spaces at its ends. Pure. */
void life_format(const struct life *life, char text[LIFE_TEXT_BYTES]);
/* Reads it from the beginning of a text, which may be of a stranger. False: there is none. Pure;
 * *ret_rest is what follows. */
bool life_parse(const char *text, struct life *ret_life, const char **ret_rest);
/* Whether it is this process's. Any thread. */
bool life_is_own(const struct life *life);
/* Whether it was of this machine and PID namespace, and no such process is there any more. Any
 * thread. */
bool life_is_over(const struct life *life);
