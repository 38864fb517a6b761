/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Limits for connections whose host is not known yet: before Connect, before authentication, and
 * always for discovery. So "per host" means here: per address. Control thread.
 *
 * An address is known if a host was admitted from there. Strangers share limits.pending and
 * limits.connect_rate. Requests that forge their sender cost nothing, so they can use up both;
 * known addresses together have the same limits once more.
 */
#pragma once

#include "base/addr.h"

struct admission;
struct target;

/* NULL: no memory. */
struct admission *admission_new(void);
void admission_free(struct admission *admission); /* accepts NULL */
/* Whether a limit forbids one more connection from that address. Returns the reason and the remedy
 * for rblkd's log; or NULL. */
const char *admission_refuse(const struct target *target, const union addr *remote);
/* The same for a discovery association, at its Connect. */
const char *admission_refuse_discovery(const struct target *target, const union addr *remote);
/* Whether no host was admitted from that address, or not recently. */
bool admission_is_stranger(const struct target *target, const union addr *remote);
/* A host was admitted from that address: it is known from now on. */
void admission_remember(struct target *target, const union addr *remote);
/* Counts a connection that was accepted towards the rates. */
void admission_pay(struct target *target, const union addr *remote);
