/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parts of the library as the helper thread and a forked child call them.
 *
 * Lower folders do not call upper ones. Events that upper folders must receive (a timer, a socket,
 * a peer that died, a fault of chaos) go to the functions that each part lists here. The linker
 * collects the parts in one section, so there is no list to maintain and no order of
 * initialisation: the table exists before the first call of the program.
 */
#pragma once

#include <stdint.h>

#include "softrdma/process/helper.h"

struct sr_engine;
struct sr_peer;

/* The kind of a shared object that its owner's helper is to look at; the index is its slot. */
enum sr_attention {
	SR_ATTENTION_QP,
	SR_ATTENTION_CQ,
	SR_ATTENTION_SRQ,
	SR_ATTENTION_VIEW, /* slot 0: of any peer */
	SR_N_ATTENTION
};

/* A fault that concerns the device as a whole; see chaos/chaos.h for its present value. */
enum sr_fault {
	SR_FAULT_PORT,	 /* the link went down or came back */
	SR_FAULT_GID,	 /* the GID table changed */
	SR_FAULT_REMOVE, /* the device is to be removed, or may come back */
};

/* Every member may be NULL. */
struct sr_part {
	/* Once in a process, before the helper runs; in no particular order. */
	void (*start)(void);
	/* Before start, once: which bits of the process' bases (fabric/node.h) must have which
	 * value. */
	void (*constrain_bases)(uint16_t *mask, uint16_t *value);
	/* In a forked child: closes what was inherited, and resets the part to its state before
	 * start. */
	void (*forget)(void);
	/* Helper thread. */
	void (*on_watch[SR_N_WATCH])(uint64_t id);
	void (*on_attention[SR_N_ATTENTION])(uint32_t slot);
	void (*on_peer_died)(struct sr_peer *peer);
	void (*on_fault)(enum sr_fault fault);
	/* Helper thread: the device begins to leave; its queue pairs have failed already. */
	void (*on_removal)(void);
	/* moves data between queue pairs */
	const struct sr_engine *engine;
};

#define SR_PART(part)                                                                              \
	static const struct sr_part *const part##_entry                                            \
		__attribute__((used, section("sr_parts"))) = &part

extern const struct sr_part *const __start_sr_parts[] __attribute__((visibility("hidden")));
extern const struct sr_part *const __stop_sr_parts[] __attribute__((visibility("hidden")));

#define SR_FOR_EACH_PART(part)                                                                     \
	for (const struct sr_part *const *sr_at_ = __start_sr_parts, *part;                        \
	     sr_at_ < __stop_sr_parts && (part = *sr_at_, true); sr_at_++)
