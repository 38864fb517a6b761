/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Limits for connections whose host is not known yet: before Connect, before authentication, and
 * always for discovery. So "per host" means here: per address. Control thread.
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
/* Counts a connection that was accepted towards the rates. */
void admission_pay(struct target *target, const union addr *remote);
