/* SPDX-License-Identifier: BSD-3-Clause */
/* A store that open or resize has made larger stays so, or is made small again. Control thread. */
#pragma once

#include "target/store/backend.h"

/* The new size is published, so it stays. So does a file that open has created. */
void backend_keep_grown(struct backend *backend);
/* The new size was never published. False, with a warning in the log: the store stays larger. True
 * if nothing had grown. */
bool backend_undo_grow(struct backend *backend);

/* Any thread: sets has_changed, then calls the function of backend_on_change. */
void backend_changed(struct backend *backend);
/* Control, while no backend is open: sets the function, or NULL. It runs on any thread and may run
 * again before the change is handled. */
void backend_on_change(void (*on_change)(void *context), void *context);
