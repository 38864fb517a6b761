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

/* Records a finding. check is the name of what was looked at, for people and scripts: words joined
 * by '_'. The message is one line, without a full stop; hint says what to do, or is NULL. */
__attribute__((format(printf, 5, 6))) void doctor_found(struct doctor *doctor,
							enum finding_level level, const char *check,
							const char *hint, const char *fmt, ...);
/* The same for a failure that a function below has worded. */
void doctor_failed(struct doctor *doctor, enum finding_level level, const char *check,
		   const struct error *error);
/* Prints the findings on stdout, as text that fits 80 columns. is_quiet: warnings and problems
 * alone, and nothing at all without those. */
void doctor_print(const struct doctor *doctor, bool is_quiet);
/* "ok", "note", "warning", "problem". */
const char *finding_level_name(enum finding_level level);

/* The first line of the file whose name fmt makes, without white space at its end. 0 or -errno. */
__attribute__((format(printf, 3, 4))) int doctor_read_line(char *buf, size_t n, const char *fmt,
							   ...);

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
