/* SPDX-License-Identifier: BSD-3-Clause */
/* Which RDMA devices this program runs on: real ones, or the software provider. */
#pragma once

/*
 * Called at the start of main, before threads. fabric is "auto" (NULL is the same),
 * "soft" or a device's name. When it is "auto" and there is no RDMA device, or when it is
 * "soft", says so in one line on stderr and runs this program again, with argv, under the
 * software provider; that does not return. Returns 0 when all is well, else an exit code
 * (the reason has been said): the named device does not exist, or the provider's library
 * was not found.
 */
int fabric_select(const char *program, const char *fabric, char **argv);
