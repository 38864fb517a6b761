/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A volume's options in the form of the command line: names and texts. The process reports them in
 * its status; `rblk attach` makes the same object from its own command line and compares the two.
 * Those of the volume itself are in the table of volume_config.c, and the others have a line here.
 */
#pragma once

struct bridge_config;
struct json_object;

/* {option: text}; the caller owns it. Control thread. */
struct json_object *bridge_options(const struct bridge_config *config);
