/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rblk doctor: what the checks share. A check looks at one thing and records one finding; it
 * changes nothing. The sections are functions of one file each, called in the order below. Findings
 * are kept as the JSON that -o json prints. Thread: main.
 */
#pragma once

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>

#include "initiator/control/volume.h"

enum finding_level {
	FINDING_OK,
	FINDING_NOTE,	 /* worth knowing; nothing to do */
	FINDING_WARNING, /* works, but slower, or not in each case */
	FINDING_PROBLEM, /* does not work */
	FINDING_LEVELS,
};

struct doctor {
	struct json_object *findings; /* owned: objects with section, check, level, message, hint */
	unsigned counts[FINDING_LEVELS];
	const char *section; /* of the findings to come */

	/* As given on the command line; NULL: not given. */
	const char *target, *hostnqn, *hostid, *secret_file, *ctrl_secret_file;
	uint32_t nsid;
	bool has_fabric;   /* devices, or the software provider: connecting makes sense */
	bool has_identity; /* the next is valid */
	struct volume_config identity; /* hostnqn and hostid alone */
};

/* ---- the sections ---- */

/* The identity of this host, its limits, its CPUs, its run directory. Sets the identity. */
void doctor_machine(struct doctor *doctor);
/* RDMA devices: ports, addresses, device nodes. */
void doctor_fabric(struct doctor *doctor);
/* The nbd driver, and hosts of the kernel that are connected to the same subsystems. */
void doctor_kernel(struct doctor *doctor);
/* Connects to doctor->target, as discover and attach do. Blocks; the namespace is not written. */
void doctor_target(struct doctor *doctor);
/* Each attached volume. */
void doctor_volumes(struct doctor *doctor);
