/* SPDX-License-Identifier: BSD-3-Clause */
/* The states of a volume as its users see them (volume.h; reconnect.c has the drawing). */
#pragma once

#include <stdbool.h>

enum volume_state {
	VOLUME_CONNECTING, /* the first time */
	VOLUME_LIVE,
	VOLUME_RECONNECTING, /* I/O is held, and so in the next two */
	VOLUME_DENIED,	     /* the target answers, but says that it never takes us (DNR) */
	VOLUME_GONE,	     /* the target has no such namespace any more */
	VOLUME_FAILED,	     /* ctrl_loss_tmo passed, or the contents are others */
	VOLUME_CLOSING,
};
/* I/O is held until the association is back. */
static inline bool volume_state_holds(enum volume_state state)
{
	return state == VOLUME_RECONNECTING || state == VOLUME_DENIED || state == VOLUME_GONE;
}
