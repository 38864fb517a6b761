/* SPDX-License-Identifier: BSD-3-Clause */
/* The states of a command, from its capsule to its response; request_run.c has the moves. */
#pragma once

enum request_state {
	REQUEST_FREE,
	REQUEST_PARSE,	   /* checks the command and finds what it needs */
	REQUEST_THROTTLED, /* in a line of throttle.c */
	REQUEST_TAKE_BUFFER,
	REQUEST_WAIT_BUFFER, /* arena->waiters */
	REQUEST_READ_DATA,
	REQUEST_WAIT_READ, /* queue->read_waiters */
	REQUEST_READING,   /* the device fetches the host's data */
	REQUEST_PARKED,	   /* guard->locals[].parked: another command has its range alone */
	REQUEST_EXECUTE,
	REQUEST_BACKEND, /* the backend has it */
	REQUEST_TURN,	 /* in guard->turns, or it has its turn */
	REQUEST_PAIR,	 /* first of a fused pair: waits for the second, or travels with it */
	REQUEST_CONTROL, /* the control thread has it (Connect, Abort) */
	REQUEST_HELD,	 /* an Asynchronous Event Request without an event */
	REQUEST_RESPOND,
	REQUEST_WAIT_SLOT, /* queue->slot_waiters */
	REQUEST_FINISH,
	REQUEST_GONE, /* not a state: the request is finished, do not touch it */
};
