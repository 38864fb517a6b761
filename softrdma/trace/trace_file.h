/* SPDX-License-Identifier: BSD-3-Clause */
/* The trace file: pcapng, one section, one Ethernet interface, nanoseconds. */
#pragma once

#include <stdbool.h>

struct trace_packet;

extern _Atomic bool trace_is_on;

/* In between, the calling thread owns the file; end writes the collected packets. */
void trace_begin(void);
void trace_end(void);
/* Queues one finished packet. */
void trace_put(const struct trace_packet *p);
