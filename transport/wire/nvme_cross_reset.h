/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cross-Controller Reset (TP 8028; Base 2.3, 5.4.3, 8.3.3, 9.6.2.2): a host that has lost one
 * controller has it reset through another one, and knows then that no old write of it is left.
 * Figure numbers are those of Base 2.3.
 */
#pragma once

#include "transport/wire/nvme.h"

/* Figure 522. Dword 0 of the answer: the reset is complete already. */
enum {
	NVME_CROSS_RESET_IMMEDIATE = 1,
};
static inline uint16_t nvme_cross_reset_icid(const struct nvme_sqe *sqe)
{
	return (uint16_t)get_le32(sqe->cdw10);
}
static inline uint8_t nvme_cross_reset_ciu(const struct nvme_sqe *sqe)
{
	return (uint8_t)(get_le32(sqe->cdw10) >> 16);
}
static inline uint64_t nvme_cross_reset_cirn(const struct nvme_sqe *sqe)
{
	return get_le32(sqe->cdw12) | (uint64_t)get_le32(sqe->cdw13) << 32;
}

enum nvme_cross_reset_status {
	NVME_CROSS_RESET_IN_PROGRESS = 0,
	NVME_CROSS_RESET_SUCCESS = 1,
	NVME_CROSS_RESET_FAILED = 2,
};

enum {
	NVME_CROSS_RESET_VALIDATED = 1 << 0, /* CCRF: the host may reset that controller */
	NVME_CROSS_RESET_INITIATED = 1 << 1,
	NVME_CROSS_RESET_NO_ALTERNATE = 0xffff, /* ACID: no other controller to ask */
	NVME_CROSS_RESET_RMC = 1 << 8,		/* cdw10 of Get Log Page: completed entries go */
	NVME_CROSS_RESET_PAGE_ENTRIES = 511,
};

/* The header of log pages 1Eh and 1Fh. */
struct nvme_cross_reset_log {
	le16 n_entries;
	uint8_t rsvd2[6];
};
static_assert(sizeof(struct nvme_cross_reset_log) == 8, "figure 304");

struct nvme_cross_reset_entry {
	le16 icid;
	uint8_t ciu;
	uint8_t rsvd3;
	le16 acid;
	uint8_t ccrs; /* enum nvme_cross_reset_status */
	uint8_t ccrf;
};
static_assert(sizeof(struct nvme_cross_reset_entry) == 8, "figure 305");

/* A controller that has lost the host. */
struct nvme_lost_host_entry {
	le16 cntlid;
	uint8_t loss_count;
	uint8_t ciu;
	uint8_t rsvd4[4];
};
static_assert(sizeof(struct nvme_lost_host_entry) == 8, "figure 307");
