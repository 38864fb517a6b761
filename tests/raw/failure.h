/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A failed assertion ends the program at once: the hosts and the disk that it leaves behind would
 * let every later case time out. The daemons get what they wait for and the time to end, so
 * that their logs are complete; then those logs are shown and their folders removed. cmocka has
 * said where the assertion is. The test's one thread.
 */
#pragma once

#include <sys/types.h>

/* A daemon runs in the folder, as this process; 0: it has ended. */
void failure_watch(const char *folder, pid_t pid);
/* The folder is gone. */
void failure_forget(const char *folder);
