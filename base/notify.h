/* SPDX-License-Identifier: BSD-3-Clause */
/* Notices to the service manager, as sd_notify(3) documents them. */
#pragma once

/* Sends state, such as "READY=1", to $NOTIFY_SOCKET: a path, or "@" and an abstract name. Any thread
 * while no other changes the environment. 0: sent, or there is no such manager; or -errno. */
int notify_manager(const char *state);
