/* SPDX-License-Identifier: BSD-3-Clause */
/* The engine for processes of one host; see fabric/engine.h and shm_execute.c. */
#include "softrdma/fabric/shm/shm.h"
#include "softrdma/fabric/shm/shm_connect.h"
#include "softrdma/fabric/shm/shm_datagram.h"
#include "softrdma/fabric/shm/shm_execute.h"
#include "softrdma/process/part.h"

static const struct sr_engine engine = {
	.find = sr_shm_find,
	.connect = sr_shm_connect,
	.disconnect = sr_shm_disconnect,
	.is_connected = sr_shm_is_connected,
	.execute = sr_shm_execute,
	.kick = sr_shm_kick,
	.rnr_timer = sr_shm_rnr_timer,
	.send = sr_shm_send,
	.introduce = sr_hello_fill,
	.admit = sr_peer_admit,
	.verify = sr_peer_verify,
	.hold = sr_peer_ref,
	.release = sr_peer_unref,
};

static const struct sr_part part = {.engine = &engine};
SR_PART(part);
