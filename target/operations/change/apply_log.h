/* SPDX-License-Identifier: BSD-3-Clause */
/* The outcome of an apply in the log, and SIGHUP. Control thread. */
#pragma once

#include <stdbool.h>

struct apply_report;
struct target;

/* Logs that the file at path was applied, and which hosts lost what. */
void apply_log(const char *path, const struct apply_report *report);
/* SIGHUP: applies the file of the start, and logs the result. False: stores are still opening, call
 * again within seconds. */
bool apply_and_log(struct target *target);
