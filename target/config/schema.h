/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every key of target.yaml: its type, range, default, and its line of the manual page. conf_read
 * reads a file against this table on the control thread; check.c then makes the checks across keys.
 */
#pragma once

struct conf_schema;

extern const struct conf_schema config_schema;
extern const struct conf_schema config_qos_schema; /* of a struct config_qos */

/* The states as written in the file, NULL at the end. */
extern const char *const config_ana_states[];
