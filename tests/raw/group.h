/* SPDX-License-Identifier: BSD-3-Clause */
/* The rblkd that a group of tests shares: its setup and teardown, for cmocka. */
#pragma once

#include "tests/raw/daemon.h"

extern struct daemon d;

int start(void **state);
/* With a state directory. */
int start_keeping(void **state);
int stop(void **state);
/* Teardown of a test of hostile hosts: nothing has leaked, and a good host is served at once. */
int next_good_host(void **state);
