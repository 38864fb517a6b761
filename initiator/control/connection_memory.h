/* SPDX-License-Identifier: BSD-3-Clause */
/* The registrations of a connected lane: buffers, commands, windows. Control loop only. */
#pragma once

struct error;
struct loop_msg;
struct lane;

/* Before the I/O loop attaches the queue pair. 0; or -errno with *error filled, and
 * connection_deregister_memory takes back what was registered. */
int connection_register_memory(struct lane *lane, struct error *error);
/* The queue pair is gone. */
void connection_deregister_memory(struct lane *lane);
/* The queue's slab asks for a segment more, or gives one back (slab.h). */
void connection_on_resize(struct loop_msg *msg);
