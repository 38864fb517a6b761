/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The steps of an I/O: what begins and ends each of them, whether libaio, a worker thread or
 * neither carries it out. A result that is known at once goes through `over`, a deferred call,
 * because no io is given back from inside the call that submitted it. All of it runs on the
 * poller's loop.
 */
#pragma once

struct backend;
struct backend_io;
struct backend_thread;
struct loop_call;

/* First in a submit: takes over the io; its last step will call done. backend NULL: work that is no
 * I/O of a backend. */
void backend_take(struct backend *backend, struct backend_thread *thread, struct backend_io *io);
/* Gives the io back: error 0 or -errno. From a step's then; for submit see backend_skip. */
void backend_done(struct backend_io *io, int error);
/* Ends a step with -EIO: the transfer cannot continue. */
void backend_end_short(struct backend_io *io);
/* A step without work: calls then on the next turn of the loop. error: 0 or -errno. */
void backend_skip(struct backend_io *io, int error);
/* thread->call: calls then of the steps in thread->over. */
void backend_run_over(struct loop_call *call);
