/* SPDX-License-Identifier: BSD-3-Clause */
/* The effects of a host's proof on its association. Control thread. */
#pragma once

struct connection;

/* The host has authenticated on the connection, which belongs to a controller. From now on it
 * counts for that host; or, if a limit is reached by now, it is killed (logged). */
void proven_admit(struct connection *c);
