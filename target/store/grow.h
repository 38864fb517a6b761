/* SPDX-License-Identifier: BSD-3-Clause */
/* A store that open or resize has made larger: it stays so, or is made small again. Control
 * thread. */
#pragma once

#include "target/store/backend.h"

/* The new size is published: it stays. So does a file that open has made. */
void backend_keep_grown(struct backend *backend);
/* It never was. False, and a warning in the log, where the store stays larger; true if nothing had
 * grown. */
bool backend_undo_grow(struct backend *backend);
