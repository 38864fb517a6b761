/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Turns at the worker threads that compute proofs. A peer without a key can make rblkd compute, so
 * all connections of one address have PROOFS_PER_ADDRESS worker threads together; further ones of
 * that address wait, in order. Control decides; the poller requests a turn and returns it:
 *
 *   poller: turn_request -> control: now, or in line -> poller: on_turn, compute, turn_end
 *                           control: the next in line <----------------------------+
 */
#pragma once

struct connection;

/* Poller of the connection, which has a guest (auth_attach) and no turn. on_turn is called there
 * once, when the turn comes; or at once if the connection dies, and then it must compute nothing.
 * turn_end follows. */
void turn_request(struct connection *c, void (*on_turn)(struct connection *c));
/* Poller of the connection: ends what on_turn began. */
void turn_end(struct connection *c);
/* Control: the connection dies and leaves the line. */
void turn_cancel(struct connection *c);
