/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernel's nbd devices outside netlink: sysfs and the device nodes. A call about a device may
 * wait for I/O on it, so only the helper thread may call it; any thread may search.
 */
#pragma once

#include <stdint.h>

#define KERNEL_SYS_BLOCK "/sys/block"

/* The device that is connected to this backend; of several, the one with the lowest number.
 * -ENOENT: none, or a kernel before 5.14, which does not keep the identifier. sys_block:
 * KERNEL_SYS_BLOCK. */
int kernel_device_find(const char *sys_block, const char *backend, uint32_t *ret_index);
/* Writes /sys/block/nbdN/queue/SETTING; a refusal of the kernel is only logged (debug). */
void kernel_device_set(uint32_t index, const char *setting, const char *value);
/* Opens the device and locks udev out, after udev has finished a probe that is under way. A file
 * descriptor, owned by the caller; -1: none. */
int kernel_device_quiet(uint32_t index);
