/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Something to be sent on a connection: a header of its own and, behind it, memory of its owner.
 * Embedded in the request, part or handshake that it answers; that owner keeps it, and the payload,
 * until sent is called.
 */
#pragma once

#include <stdint.h>

#include "base/list.h"
#include "nbd_bridge/io/nbd_wire.h"

struct nbd_out {
	struct list node;		   /* conn.output.outs while queued */
	void (*sent)(struct nbd_out *out); /* also when it was discarded */
	const void *payload;		   /* borrowed */
	uint32_t payload_length;
	uint32_t header_length;
	union {
		uint8_t header[40];
		struct nbd_chunk_data data; /* of a part that is a chunk */
	};
};
