/* SPDX-License-Identifier: BSD-3-Clause */
/* The rblkd that a group of tests shares: its setup and teardown, for cmocka. */
#pragma once

#include "tests/raw/daemon.h"

extern struct daemon d;

int start(void **state);
/* tuning: as for daemon_start. */
int start_tuned(const char *tuning);
/* limits: as for daemon_start_limited. */
int start_limited(const char *tuning, const char *limits);
/* With a state directory; not for next_good_host. */
int start_keeping(void **state);
int stop(void **state);
/* Teardown of a test of hostile hosts: checks that nothing has leaked, and that a good host is
 * served at once. */
int next_good_host(void **state);
/* Edits the configuration by a command of sed without ', and applies it. */
void apply_edited(const char *edit);
/* Sets the limits of rates in the line of the configuration with this word; NULL: none. */
void limit_rate(const char *word, const char *qos);
