/* SPDX-License-Identifier: BSD-3-Clause */
/* Reservations: structs and constants of the NVM Express Base Specification 2.0 (7.2 to 7.5,
 * 8.19). */
#pragma once

#include "transport/wire/nvme.h"

enum nvme_reservation_type {
	NVME_RTYPE_NONE = 0,
	NVME_RTYPE_WRITE_EXCLUSIVE = 1,
	NVME_RTYPE_EXCLUSIVE_ACCESS = 2,
	NVME_RTYPE_WRITE_EXCLUSIVE_REGISTRANTS = 3,
	NVME_RTYPE_EXCLUSIVE_ACCESS_REGISTRANTS = 4,
	NVME_RTYPE_WRITE_EXCLUSIVE_ALL = 5, /* every registrant is a holder */
	NVME_RTYPE_EXCLUSIVE_ACCESS_ALL = 6,
};

/* cdw10 of Register, Acquire and Release: the action in bits 2:0 of each. */
enum {
	NVME_RESV_ACTION_MASK = 0x7,
	NVME_RREGA_REGISTER = 0,
	NVME_RREGA_UNREGISTER = 1,
	NVME_RREGA_REPLACE = 2,
	NVME_RACQA_ACQUIRE = 0,
	NVME_RACQA_PREEMPT = 1,
	NVME_RACQA_PREEMPT_ABORT = 2,
	NVME_RRELA_RELEASE = 0,
	NVME_RRELA_CLEAR = 1,
	NVME_RESV_IEKEY = 1 << 3,
	NVME_RESV_RTYPE_SHIFT = 8,
	NVME_RESV_CPTPL_SHIFT = 30,
	NVME_CPTPL_KEEP = 0,
	NVME_CPTPL_CLEAR = 2,
	NVME_CPTPL_SET = 3,
	NVME_RESV_EDS = 1, /* cdw11 of Report: extended data structure */
};

struct nvme_resv_register {
	le64 crkey, nrkey;
};
static_assert(sizeof(struct nvme_resv_register) == 16, "7.3");

struct nvme_resv_acquire {
	le64 crkey, prkey;
};
static_assert(sizeof(struct nvme_resv_acquire) == 16, "7.2");

struct nvme_resv_release {
	le64 crkey;
};
static_assert(sizeof(struct nvme_resv_release) == 8, "7.4");

/* Reservation Status, extended data structure (7.5). */
struct nvme_resv_status {
	le32 gen;
	uint8_t rtype;
	uint8_t regctl[2]; /* a 16-bit number that is not aligned */
	uint8_t rsvd7[2];
	uint8_t ptpls;
	uint8_t rsvd10[54];
};
static_assert(sizeof(struct nvme_resv_status) == 64, "7.5");

struct nvme_resv_registrant {
	le16 cntlid;
	uint8_t rcsts; /* bit 0: holds the reservation */
	uint8_t rsvd3[5];
	le64 rkey;
	uint8_t hostid[16];
	uint8_t rsvd32[32];
};
static_assert(sizeof(struct nvme_resv_registrant) == 64, "7.5");

/* Reservation Notification, log page 80h (5.16.1.24). */
enum nvme_resv_notice {
	NVME_RESV_NOTICE_NONE = 0,
	NVME_RESV_REGISTRATION_PREEMPTED = 1,
	NVME_RESV_RELEASED = 2,
	NVME_RESV_PREEMPTED = 3,
};

struct nvme_resv_log {
	le64 count;
	uint8_t type;
	uint8_t n_pages; /* further notifications in the queue */
	uint8_t rsvd10[2];
	le32 nsid;
	uint8_t rsvd16[48];
};
static_assert(sizeof(struct nvme_resv_log) == 64, "5.16.1.24");

/* RESCAP of Identify Namespace. */
enum {
	NVME_RESCAP_PTPL = 1,
	NVME_RESCAP_ALL_TYPES = 0x3f << 1,
	NVME_RESCAP_IEKEY_1_3 = 1 << 7,
};
