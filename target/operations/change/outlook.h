/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The outlook of an association that a host has now, under a new configuration: whether it stays,
 * and whether the host can make it again. It compares the outcome, not the text: a host whose name
 * moves from allow_hosts to its NQN there loses nothing. Control thread.
 */
#pragma once

#include "target/config/credentials.h"
#include "target/engine/record/controller.h"

/* Why the association ends, or cannot be made again. */
enum loss {
	LOSS_NOTHING,
	LOSS_SUBSYSTEM,	 /* the subsystem is removed */
	LOSS_NAMESPACE,	 /* a namespace that it uses is removed */
	LOSS_PERMISSION, /* the subsystem no longer allows the host */
	LOSS_PROOF,	 /* the host must prove its identity, and has not */
	LOSS_SECRET,	 /* the secret that it has proven is no longer accepted */
	LOSS_OUR_SECRET, /* the secret that it wanted of us is another one */
	LOSS_HOST_ID,	 /* its identifier is bound to another host, or registered by one */
	LOSS_PORTAL,	 /* its portal no longer leads to the subsystem */
	LOSS_PATH,	 /* the namespace is no longer accessible through its portal (ANA) */
	LOSSES,
};

/* Borrowed. */
struct outlook {
	const struct target *target;
	const struct target_config *after;
	const struct credentials_list *credentials; /* of the new configuration */
};

/* Whether the association counts: of a host that is connected, and that has authenticated if it
 * must. Discovery does not. */
bool outlook_counts(const struct controller *controller);
/* The first reason that concerns the whole association; LOSS_NOTHING: it stays. */
enum loss outlook_of(const struct outlook *o, const struct controller *controller);
/* Whether the host has the same by another association that stays: the namespace, which both use,
 * or with nsid 0 the subsystem. ana: of the subsystem in the new configuration; NULL: not asked. */
bool outlook_has_other_way(const struct outlook *o, const struct controller *controller,
			   uint32_t nsid, const struct ana *ana);
