/* SPDX-License-Identifier: BSD-3-Clause */
/* I/O of an image. */
#pragma once

struct backend;
struct backend_io;
struct backend_thread;

/* ops.submit: the poller of thread. */
void image_submit(struct backend *backend, struct backend_thread *thread, struct backend_io *io);
