/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files that programs read beside verbs: /sys/class/infiniband, /sys/class/infiniband_verbs and
 * /dev/infiniband. UCX wants to see a device file, rdma-core's tests the network interface behind
 * the device. The files exist once for each user and content, in a folder below /tmp.
 */
#pragma once

#include <limits.h>

/* Where the file really is: path itself, or a path of that folder in `place`. Any thread. */
const char *sr_sysfs_place(const char *path, char place[PATH_MAX]);
