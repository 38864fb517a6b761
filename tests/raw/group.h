/* SPDX-License-Identifier: BSD-3-Clause */
/* The rblkd that a group of tests shares: its setup and teardown, for cmocka. */
#pragma once

#include "tests/raw/daemon.h"

struct json_object;

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
/* rblkctl apply: repeats the call while stores are opening. Uses params up, which may be NULL; the
 * answer is the caller's. */
struct json_object *apply_as(struct json_object *params);
/* Edits the configuration by a command of sed without ', and applies it. */
void apply_edited(const char *edit);
/* Calls rblkd as rblkctl does: params is used up. The exit code; *ret_result, if there is one, is
 * the caller's. ret_result may be NULL. */
int call_rblkd(const char *method, struct json_object *params, struct json_object **ret_result);
/* rblkctl registrant drop, of a namespace of RAW_SUBNQN: waits until it is over. The exit code. */
int drop_registrant(uint32_t nsid, const char *hostid, bool is_forced);
/* Sets the limits of rates in the line of the configuration with this word; NULL: none. */
void limit_rate(const char *word, const char *qos);
