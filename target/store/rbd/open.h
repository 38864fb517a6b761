/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The backend "rbd": its table, and the wait for an image to open. Calls into librados may wait
 * for as long as the cluster is away, and cannot be cancelled. So a thread makes them. Control asks
 * for that early (prepare), goes on with other work, and later takes what the thread has opened.
 */
#pragma once

struct backend_plugin;

/* In the library: of default visibility. */
extern const struct backend_plugin rblk_backend_plugin;
