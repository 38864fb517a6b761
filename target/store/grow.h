/* SPDX-License-Identifier: BSD-3-Clause */
/* A store that open or resize has made larger stays so, or is made small again. Control thread. */
#pragma once

#include "target/store/backend.h"

/* The new size is published, so it stays. So does a file that open has created. */
void backend_keep_grown(struct backend *backend);
/* The new size was never published. False, with a warning in the log: the store stays larger. True
 * if nothing had grown. */
bool backend_undo_grow(struct backend *backend);
