/* SPDX-License-Identifier: BSD-3-Clause */
/* The methods that rblkctl calls over the control socket. Control thread. */
#pragma once

struct target;

/* The RPC socket at config->control_socket. 0 or -errno (logged). */
int control_start(struct target *target);
void control_stop(struct target *target); /* accepts one that was not started */
