/* SPDX-License-Identifier: BSD-3-Clause */
/* A work request as a requester sees it, and how it may end. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum roce_kind {
	ROCE_SEND,
	ROCE_WRITE,
	ROCE_READ,
	ROCE_SWAP,
	ROCE_ADD,
	ROCE_LOCAL, /* executed here in its turn: sends nothing */
};

/* Why a request failed. The caller gives it the number of a completion status. */
enum roce_failure {
	ROCE_NO_FAILURE,
	ROCE_FAILED_HERE, /* the caller's own status, given with roce_requester_fail() */
	ROCE_RETRIES_OVER,
	ROCE_RNR_RETRIES_OVER,
	ROCE_REMOTE_REQUEST,
	ROCE_REMOTE_ACCESS,
	ROCE_REMOTE_OPERATION,
	ROCE_BAD_RESPONSE,
};

/* A work request. The caller fills the first part; the second is the requester's. */
struct roce_request {
	uint8_t kind; /* enum roce_kind */
	bool has_imm, has_invalidate, is_solicited;
	bool is_fenced; /* begins when the READs and atomics before it are done */
	uint32_t imm;	/* network order, or the key to invalidate */
	uint32_t rkey;
	uint32_t length;
	uint64_t va;
	uint64_t swap_add, compare;

	uint8_t failure; /* enum roce_failure: it fails when all before it are done */
	bool has_begun;
	uint32_t psn, n_packets;
};
