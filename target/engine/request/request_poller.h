/* SPDX-License-Identifier: BSD-3-Clause */
/* The pollers of commands. Control thread. */
#pragma once

struct poller;
struct target;

/* pollers_start, for pollers that serve commands. 0 or -errno (logged). */
int request_pollers_start(struct target *target);
/* For one that the caller has made by poller_init: sets what runs there on behalf of commands. */
void request_poller_prepare(struct poller *poller);
