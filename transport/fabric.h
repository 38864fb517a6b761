/* SPDX-License-Identifier: BSD-3-Clause */
/* Which RDMA devices this program uses: real ones, or the software provider. Main thread. */
#pragma once

#include <limits.h>
#include <stdbool.h>

/*
 * Call at the start of main, before threads start. fabric is "auto" (as NULL), "soft", "soft-roce"
 * (the same, which also reaches other hosts by RoCE v2 over UDP) or the name of a device. With
 * "soft" and "soft-roce", and with "auto" if there is no RDMA device, this prints one line on
 * stderr, runs the program again with argv under the software provider, and does not return.
 * Returns 0 on success, else an exit code after a message: there is no device, or not the named
 * one, the library of the provider was not found, or SOFTRDMA_ROCE is no address.
 */
int fabric_select(const char *program, const char *fabric, char **argv);
/*
 * The same for a program that uses no RDMA itself, and starts one that does: it is not run again.
 * The environment is then that of a program under the software provider, which the one that it
 * starts inherits. Main thread, before threads start.
 */
int fabric_choose(const char *program, const char *fabric);
/* Whether "auto" includes the software provider. With RBLK_FABRIC_AUTO=device, as in the services'
 * environment, it does not: a service waits for its device, and what it served through the provider
 * instead, no other machine would reach. */
bool fabric_auto_may_be_soft(void);
/* Whether there is an RDMA device; with that name, if name is not NULL. Any thread. */
bool fabric_has_device(const char *name);
/* Whether fabric_select would succeed. Changes and prints nothing. */
bool fabric_is_there(const char *fabric);
/* The provider's library: $SOFTRDMA_LIB, that of the build tree in which self (a path, or NULL)
 * lies, or the installed one. Any thread. */
bool fabric_find_provider(char path[PATH_MAX], const char *self);
/* Whether this program runs under the software provider. */
bool fabric_is_soft(void);

/* The fabric that this program uses, by its environment. Any thread. */
enum fabric_kind {
	FABRIC_DEVICES,
	FABRIC_SOFT,	  /* the software provider within this machine */
	FABRIC_SOFT_ROCE, /* the same, and to other hosts */
};
enum fabric_kind fabric_kind(void);
