/* SPDX-License-Identifier: BSD-3-Clause */
/* Creation and end of namespaces (namespace.h). */
#pragma once

#include <uuid/uuid.h>

struct backend;
struct conf_mark;
struct config_namespace;
struct error;
struct handover_namespace;
struct health_record;
struct namespace;
struct record_store;

/* The parts from which a namespace is made; all borrowed. */
struct namespace_origin {
	const char *subnqn;
	const struct handover_namespace *handover; /* of an earlier rblkd; NULL: nothing */
	const struct config_namespace *config;
	struct backend *backend;      /* its store; NULL: it is opened */
	struct record_store *state;   /* of this machine; NULL: nothing survives a restart */
	struct health_record *health; /* of the subsystem; NULL: nothing is counted */
};

/*
 * Control. Opens the backend, unless there is one, and restores the guard of a store that does not
 * stand by. The namespace owns from->backend, in any case: a failure closes it. NULL: *error, whose
 * line of the configuration is *ret_mark.
 */
struct namespace *namespace_new(const struct namespace_origin *from, struct error *error,
				struct conf_mark *ret_mark);
/* Control. No command of the namespace is under way, and none can arrive. Accepts NULL. */
void namespace_free(struct namespace *ns);
