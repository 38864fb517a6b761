/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registered memory in the shared segment: the keys, and which memory peers may map. The owner
 * writes it; peers read it under the locks that deregistration waits for (verbs/mr.h).
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#define SEG_MAX_MR    65536u
#define SEG_MAX_SHARE 1024u

enum seg_mr_kind {
	SEG_MR,
	SEG_MW1,
	SEG_MW2
};

struct seg_mr {
	_Atomic uint32_t rkey; /* 0 = no remote use of this entry */
	_Atomic uint32_t lkey; /* 0 = no local use */
	uint32_t pd;
	uint32_t access;
	uint32_t kind;	      /* enum seg_mr_kind */
	_Atomic uint32_t qpn; /* type 2 window: the QP it is bound to */
	uint64_t iova;	      /* the address of the first byte in work requests */
	uint64_t va;	      /* its address in the owner's memory */
	uint64_t length;
	_Atomic uint32_t share; /* where peers find the memory to map: slot + 1; 0: nowhere */
	uint64_t share_at;	/* the place of the first byte there */
};

/*
 * A memfd that registered memory lies in (fabric/share.h). A peer duplicates the descriptor and
 * checks that it still is the same file, sealed against shrinking.
 */
struct seg_share {
	_Atomic uint64_t serial; /* 0 = free; never used again. Written last */
	int32_t fd;		 /* the program's */
	uint64_t dev, ino;
	uint64_t size; /* of the file when it was shared; it may have grown */
};
