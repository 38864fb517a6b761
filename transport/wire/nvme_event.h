/* SPDX-License-Identifier: BSD-3-Clause */
/* Persistent Event log (0Dh): structs and constants of the NVM Express Base Specification 2.1
 * (5.1.12.1.14). */
#pragma once

#include "transport/wire/nvme.h"

/* cdw10: what to do with the reporting context. */
enum {
	NVME_EVENT_ACTION_SHIFT = 8,
	NVME_EVENT_ACTION_MASK = 3,
	NVME_EVENT_READ = 0,
	NVME_EVENT_ESTABLISH = 1, /* and read */
	NVME_EVENT_RELEASE = 2,
	NVME_EVENT_HEADER = 3, /* establish a context if there is none, and read the header */
};

enum {
	NVME_EVENT_LOG_REVISION = 3,
	NVME_EVENT_LHL = 492, /* bytes after byte 19 of the header */
	NVME_EVENT_EHL = 21,  /* bytes after byte 2 of an event's header */
	NVME_EVENT_REVISION = 1,
	NVME_EVENT_NO_PORT = 3, /* EHAI: of no port, so PELPID is meaningless */
	NVME_EVENT_NO_CONTROLLER = 0xffff,
	NVME_EVENT_RCE = 1 << 18,	 /* RCI: a context existed already, */
	NVME_EVENT_RCPIT_PORT = 1 << 16, /* established by this port of the subsystem */
	NVME_EVENT_UNIT = 64 * 1024,	 /* of PELS */
};

enum nvme_event_type {
	NVME_EVENT_SMART = 0x01,    /* a struct nvme_smart_log */
	NVME_EVENT_POWER_ON = 0x04, /* or a reset: struct nvme_event_reset */
};

struct nvme_event_log_header {
	uint8_t lid;
	uint8_t rsvd1[3];
	le32 tnev;
	le64 tll; /* with this header */
	uint8_t lrev;
	uint8_t rsvd17;
	le16 lhl;
	le64 timestamp; /* ms since 1970 */
	uint8_t poh[16];
	le64 pwrcc;
	le16 vid, ssvid;
	uint8_t sn[20];
	uint8_t mn[40];
	uint8_t subnqn[256];
	le16 gnum;
	le32 rci;
	uint8_t rsvd378[102];
	uint8_t seb[32]; /* a bit for each supported type */
};
static_assert(sizeof(struct nvme_event_log_header) == 512, "figure 226");
static_assert(offsetof(struct nvme_event_log_header, subnqn) == 116, "figure 226");
static_assert(offsetof(struct nvme_event_log_header, gnum) == 372, "figure 226");
static_assert(offsetof(struct nvme_event_log_header, seb) == 480, "figure 226");

/* Newest first. The next one begins at EHL + 3 + EL; EL includes the VSIL bytes before the data. */
struct nvme_event {
	uint8_t type, revision, ehl, ehai;
	le16 cntlid;
	le64 timestamp;
	le16 pelpid;
	uint8_t rsvd16[4];
	le16 vsil, el;
};
static_assert(sizeof(struct nvme_event) == NVME_EVENT_EHL + 3, "figure 227");

/* The event of one controller that was reset. */
struct nvme_event_reset {
	le16 cntlid;
	uint8_t firmware, in_progress;
	uint8_t rsvd4[12];
	le32 power_cycle;
	le64 power_on_ms;
	le64 timestamp;
};
static_assert(sizeof(struct nvme_event_reset) == 36, "figure 235");

/* The data of a power-on or reset event. A struct nvme_event_reset of each controller follows. */
struct nvme_event_power_on {
	uint8_t firmware[8];
};
