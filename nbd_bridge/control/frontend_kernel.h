/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The front end /dev/nbdN: the kernel is the NBD client. Each of its connections is a socketpair:
 * netlink (kernel_nbd.c) hands one end to the kernel, a worker serves the other like any client,
 * but without a handshake, as netlink carries the same parameters.
 */
#pragma once

struct error;
struct frontend;
struct frontend_host;
struct frontend_kernel_config;

struct frontend *frontend_kernel_new(struct frontend_host *host,
				     const struct frontend_kernel_config *config);
/* "/dev/nbd0", or "" while it is not attached. */
const char *frontend_kernel_device(struct frontend *frontend);
/* Does this machine have the driver and the privilege? 0, or an exit code with *error filled. */
int frontend_kernel_check(struct error *error);
