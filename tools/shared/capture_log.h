/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The exchanges of a capture, and the pcapng file of them: each exchange as two SENDs over RoCE v2,
 * in the order of time; before the first of a connection the messages of the connection manager,
 * which tell Wireshark that NVMe over Fabrics follows. Queue pair and packet numbers are made up.
 * Thread: main.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/capture.h"

struct capture_log {
	struct capture_entry *entries; /* owned: exchanges; stream is an index of streams */
	size_t n, n_allocated;
	struct log_stream *streams; /* owned */
	size_t n_streams, n_streams_allocated;
	size_t n_admin; /* exchanges of admin queues */
};

/* 0, or -ENOMEM. An exchange beyond max is left out. */
int capture_log_add(struct capture_log *log, const struct capture_entry *entry, size_t max);
/* 0, or -ENOMEM. Errors of the file: see ferror. */
int capture_log_write(struct capture_log *log, FILE *file, const char *interface);
/* The port of a stream's target that is not NVMe's own, or 0: Wireshark has to be told of it. */
unsigned capture_log_other_port(const struct capture_log *log);
void capture_log_release(struct capture_log *log);
