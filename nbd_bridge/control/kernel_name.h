/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file in which a volume process publishes its block device. It is named by the namespace's
 * UUID and holds "NAME SOCKETS BLOCK-SIZE". udev reads the name, for the links in
 * /dev/disk/by-rblk. The successor of a process that died reads how the device was made. The
 * process that holds the file's lock is the only one that may give the device connections. Thread:
 * control.
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

/* Locks the file, which is made when it is missing, and reads what a predecessor left. -EBUSY:
 * another process has it, for the volume in *ret_content. directory: NULL for none, always
 * successful. */
int kernel_name_take(struct kernel_name *name, const char *directory, const uuid_t uuid,
		     struct kernel_name_content *ret_content);
/* Reads the file. Returns whether a process has it locked, without locking it. */
bool kernel_name_is_owned(const char *path, struct kernel_name_content *ret_content);
int kernel_name_write(const struct kernel_name *name, const struct kernel_name_content *content);
/* Unlocks. is_over: no device is left for a successor, so the file is removed, too. */
void kernel_name_release(struct kernel_name *name, bool is_over);
