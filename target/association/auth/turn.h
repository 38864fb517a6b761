/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Turns at the worker threads that compute proofs. A peer can make us compute without a key, so all
 * connections from one address have PROOFS_PER_ADDRESS worker threads at once; further ones of the address
 * wait, in order. Control decides; the poller requests a turn and returns it:
 *
 *   poller: turn_request -> control: now, or in line -> poller: on_turn, compute, turn_end
 *                           control: the next in line <----------------------------+
 */
#pragma once

struct connection;

/* Poller of the connection, which has a guest (auth_attach) and no turn: on_turn is called there,
 * once, when the turn comes; at once when the connection dies, and then it is to compute nothing.
 * Ends with turn_end. */
void turn_request(struct connection *c, void (*on_turn)(struct connection *c));
/* Poller of the connection: what on_turn began is over. */
void turn_end(struct connection *c);
/* Control thread, the connection dies: it waits in line no more. */
void turn_cancel(struct connection *c);
