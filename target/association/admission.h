/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which connections are let in: the limits that hold while it is not known which host it is, before
 * Connect, before the proof, and for discovery for ever. So "per host" means here: per address that
 * it comes from. Control thread.
 */
#pragma once

#include "base/addr.h"

struct admission;
struct target;

/* NULL without memory. */
struct admission *admission_new(void);
void admission_free(struct admission *admission); /* accepts NULL */
/* Whether one more connection from there is beyond a limit: why, and what to do, for our own log;
 * or NULL. */
const char *admission_refuse(const struct target *target, const union addr *remote);
/* The same of one more discovery association, at its Connect. */
const char *admission_refuse_discovery(const struct target *target, const union addr *remote);
/* It was let in. */
void admission_pay(struct target *target, const union addr *remote);
