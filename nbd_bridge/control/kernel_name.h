/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a volume process leaves for others about its block device: a file by the namespace's UUID that
 * says "NAME SOCKETS BLOCK-SIZE". udev reads the name from it, for the links in /dev/disk/by-rblk. A
 * successor of a process that died reads what the device was made with. And whoever has it locked is
 * the one process that may give the device connections. Control thread.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <uuid/uuid.h>

struct kernel_name {
	int fd; /* owned, and locked; -1: none */
	char path[PATH_MAX];
};

struct kernel_name_content {
	char volume[64]; /* "" when nothing, or nothing sensible, was written */
	unsigned n_sockets;
	uint32_t block_size;
};

/* Locks the file, which is made when it is missing, and reads what a predecessor left. -EBUSY: another
 * process has it; content says which volume. directory: NULL for none, always successful. */
int kernel_name_take(struct kernel_name *name, const char *directory, const uuid_t uuid,
		     struct kernel_name_content *ret_content);
/* Reads it, and says whether a process has it, without touching either. */
bool kernel_name_is_owned(const char *path, struct kernel_name_content *ret_content);
int kernel_name_write(const struct kernel_name *name, const struct kernel_name_content *content);
/* Unlocks; is_over: no device is left that somebody could take over, so the file goes too. */
void kernel_name_release(struct kernel_name *name, bool is_over);
