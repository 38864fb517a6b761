/* SPDX-License-Identifier: BSD-3-Clause */
/* Findings: recorded, and printed as a checklist; see doctor.h. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/check.h"
#include "tools/rblk/doctor/doctor.h"

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
