/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The keeper: control reconnects a volume only after each queue has let go of its old connection,
 * and that needs the queue's loop. A caller may be busy elsewhere. So while a volume is not wholly
 * connected, and while a path comes or goes, the control thread itself runs the loop of each queue
 * that no call has taken. I/O that ends thereby is reported when the caller polls. Control thread.
 */
#pragma once

struct rblk_volume;

/* Looks after the queues of a volume until all of them are connected. */
void keeper_start(struct rblk_volume *volume);
void keeper_init(struct rblk_volume *volume);
