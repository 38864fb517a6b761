/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the kernel shows of its nbd devices outside netlink: sysfs and the device nodes. Calls about a
 * device may wait for I/O on it, so they are for the helper thread; the search is for any.
 */
#pragma once

#include <stdint.h>

#define KERNEL_SYS_BLOCK "/sys/block"

/* The device that is connected to this backend; of several, the one with the lowest number. -ENOENT:
 * none, or a kernel before 5.14, which does not keep the identifier. sys_block: KERNEL_SYS_BLOCK. */
int kernel_device_find(const char *sys_block, const char *backend, uint32_t *ret_index);
/* Writes /sys/block/nbdN/queue/SETTING; that the kernel refuses is no error. */
void kernel_device_set(uint32_t index, const char *setting, const char *value);
/* Opens the device in a way that keeps udev from looking at it, once it has finished a look it is at.
 * A file descriptor; -1 without. */
int kernel_device_quiet(uint32_t index);
