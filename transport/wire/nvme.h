/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Structs and constants of the NVM Express Base Specification 2.0 and the NVM Command Set
 * Specification 1.0. Only names of the specification have the prefix nvme_. Section and figure
 * numbers are those of Base 2.0c unless a comment names another document.
 */
#pragma once

#include <assert.h>
#include <stddef.h>

#include "base/bytes.h"

/* ---- submission and completion queue entries (figures 88, 89, 92) ---- */

enum nvme_admin_opcode {
	NVME_ADMIN_GET_LOG_PAGE = 0x02,
	NVME_ADMIN_IDENTIFY = 0x06,
	NVME_ADMIN_ABORT = 0x08,
	NVME_ADMIN_SET_FEATURES = 0x09,
	NVME_ADMIN_GET_FEATURES = 0x0a,
	NVME_ADMIN_ASYNC_EVENT_REQUEST = 0x0c,
	NVME_ADMIN_KEEP_ALIVE = 0x18,
	NVME_ADMIN_CROSS_RESET = 0x38, /* nvme_cross_reset.h */
	NVME_ADMIN_GET_LBA_STATUS = 0x86,
	NVME_FABRICS = 0x7f, /* both on admin and I/O queues */
};

enum nvme_io_opcode {
	NVME_IO_FLUSH = 0x00,
	NVME_IO_WRITE = 0x01,
	NVME_IO_READ = 0x02,
	NVME_IO_WRITE_UNCORRECTABLE = 0x04,
	NVME_IO_COMPARE = 0x05,
	NVME_IO_WRITE_ZEROES = 0x08,
	NVME_IO_DSM = 0x09,
	NVME_IO_VERIFY = 0x0c,
	NVME_IO_RESERVATION_REGISTER = 0x0d,
	NVME_IO_RESERVATION_REPORT = 0x0e,
	NVME_IO_RESERVATION_ACQUIRE = 0x11,
	NVME_IO_RESERVATION_RELEASE = 0x15,
	NVME_IO_COPY = 0x19,
};

enum {
	NVME_FLAGS_FUSE_MASK = 0x03,
	NVME_FLAGS_FUSE_FIRST = 0x01,
	NVME_FLAGS_FUSE_SECOND = 0x02,
	NVME_FLAGS_PSDT_MASK = 0xc0,
	NVME_FLAGS_PSDT_SGL =
		0x40, /* SGLs used, MPTR is an address: the only legal value on fabrics */
};

/* SGL descriptor type (high nibble) and subtype (low nibble) in its last byte (4.1.2). */
enum nvme_sgl_type {
	NVME_SGL_DATA_BLOCK_OFFSET = 0x01, /* in-capsule data */
	NVME_SGL_KEYED_ADDRESS = 0x40,
	NVME_SGL_KEYED_INVALIDATE = 0x4f, /* address, and the target shall invalidate the key */
};

struct nvme_sgl {
	union {
		struct {
			le64 address;
			le24 length;
			le32 key;
			uint8_t type;
		} keyed;
		struct {
			le64 address;
			le64 rest; /* length, key and type of `keyed` as one number */
		} word;
		struct {
			le64 offset;
			le32 length;
			uint8_t rsvd[3];
			uint8_t type;
		} block;
		uint8_t bytes[16];
	};
};
static_assert(sizeof(struct nvme_sgl) == 16, "4.1.2");
static_assert(offsetof(struct nvme_sgl, keyed.key) == 11, "4.1.2");
static_assert(offsetof(struct nvme_sgl, keyed.type) == 15, "4.1.2");

struct nvme_sqe {
	uint8_t opcode;
	uint8_t flags;
	le16 cid;
	le32 nsid;
	le32 cdw2, cdw3;
	le64 mptr;
	struct nvme_sgl sgl;
	le32 cdw10, cdw11, cdw12, cdw13, cdw14, cdw15;
};
static_assert(sizeof(struct nvme_sqe) == 64, "figure 88");
static_assert(offsetof(struct nvme_sqe, cdw10) == 40, "figure 88");

struct nvme_cqe {
	union {
		le64 result;
		struct {
			le32 dw0, dw1;
		};
	};
	le16 sqhd;
	le16 sqid;
	le16 cid;
	le16 status; /* enum nvme_status << 1; bit 0 is the phase, 0 on fabrics */
};
static_assert(sizeof(struct nvme_cqe) == 16, "figure 92");

/* SCT << 8 | SC, and DNR as bit 14: the status word of the wire, shifted right by one. */
enum nvme_status {
	NVME_OK = 0x0000,
	NVME_INVALID_OPCODE = 0x0001,
	NVME_INVALID_FIELD = 0x0002,
	NVME_CID_CONFLICT = 0x0003,
	NVME_DATA_TRANSFER_ERROR = 0x0004,
	NVME_INTERNAL_ERROR = 0x0006,
	NVME_ABORTED_BY_REQUEST = 0x0007,
	NVME_ABORTED_SQ_DELETION = 0x0008,
	NVME_ABORTED_FAILED_FUSED = 0x0009,
	NVME_ABORTED_MISSING_FUSED = 0x000a,
	NVME_INVALID_NSID = 0x000b,
	NVME_COMMAND_SEQUENCE = 0x000c,
	NVME_INVALID_SGL_SEGMENT = 0x000d,
	NVME_INVALID_SGL_COUNT = 0x000e,
	NVME_SGL_LENGTH_INVALID = 0x000f,
	NVME_SGL_TYPE_INVALID = 0x0011,
	NVME_SGL_OFFSET_INVALID = 0x0016,
	NVME_HOST_ID_INCONSISTENT = 0x0018,
	NVME_KATO_EXPIRED = 0x0019,
	NVME_KATO_INVALID = 0x001a,
	NVME_ABORTED_PREEMPT = 0x001b,
	NVME_NS_WRITE_PROTECTED = 0x0020,
	NVME_INTERRUPTED = 0x0021,
	NVME_TRANSIENT_TRANSPORT = 0x0022,
	NVME_LBA_OUT_OF_RANGE = 0x0080,
	NVME_CAPACITY_EXCEEDED = 0x0081,
	NVME_NS_NOT_READY = 0x0082,
	NVME_RESERVATION_CONFLICT = 0x0083,

	NVME_QUEUE_ID_INVALID = 0x0101,
	NVME_QUEUE_SIZE_INVALID = 0x0102,
	NVME_ABORT_LIMIT = 0x0103,
	NVME_AER_LIMIT = 0x0105,
	NVME_LOG_PAGE_INVALID = 0x0109,
	NVME_FEATURE_NOT_SAVEABLE = 0x010d,
	NVME_FEATURE_NOT_CHANGEABLE = 0x010e,
	NVME_FEATURE_NOT_NS_SPECIFIC = 0x010f,
	NVME_CROSS_RESET_BUSY = 0x013f,
	NVME_CROSS_RESET_LOG_FULL = 0x0140,
	NVME_CROSS_RESET_LIMIT = 0x0141,
	/* fabrics (Fabrics 1.1, figure 20) */
	NVME_CONNECT_FORMAT = 0x0180,
	NVME_CONNECT_BUSY = 0x0181,
	NVME_CONNECT_INVALID_PARAM = 0x0182,
	NVME_CONNECT_RESTART_DISCOVERY = 0x0183,
	NVME_CONNECT_INVALID_HOST = 0x0184,
	NVME_DISCOVERY_RESTART = 0x0190,
	NVME_AUTH_REQUIRED = 0x0191,
	/* I/O commands (NVM Command Set figure 23) */
	NVME_COMMAND_SIZE_LIMIT = 0x0183,

	NVME_WRITE_FAULT = 0x0280,
	NVME_UNRECOVERED_READ = 0x0281,
	NVME_COMPARE_FAILURE = 0x0285,

	NVME_PATH_INTERNAL = 0x0300,
	NVME_ANA_PERSISTENT_LOSS = 0x0301,
	NVME_ANA_INACCESSIBLE = 0x0302,
	NVME_ANA_TRANSITION = 0x0303,
	NVME_HOST_PATH_ERROR = 0x0370,
	NVME_HOST_ABORTED = 0x0371,

	NVME_DNR = 0x4000,
};

/* The status field of a completion and back; bit 0 is the phase tag, which fabrics do not use
 * (Base 2.0, 3.3.3.2). */
static inline le16 put_nvme_status(enum nvme_status status)
{
	return put_le16((uint16_t)((unsigned)status << 1));
}
static inline enum nvme_status get_nvme_status(le16 wire)
{
	return (enum nvme_status)(get_le16(wire) >> 1);
}

/* SCT and SC alone: without DNR, More and CRD. */
static inline enum nvme_status nvme_status_code(enum nvme_status status)
{
	return (enum nvme_status)((unsigned)status & 0x7ff);
}

/* Data, if any, goes from controller to host (Base 2.0, figure 87: bits 1:0 of an opcode). */
static inline bool nvme_is_c2h(uint8_t opcode)
{
	return (opcode & 3) == 2;
}

/* ---- commands supported and effects (log page 05h) ---- */

enum nvme_effect { /* bits of a command's dword */
	NVME_EFFECT_CSUPP = 1 << 0,
	NVME_EFFECT_LBCC = 1 << 1, /* changes the contents of blocks */
};

/* ---- properties (3.1.3) ---- */

enum nvme_property {
	NVME_PROP_CAP = 0x00,
	NVME_PROP_VS = 0x08,
	NVME_PROP_CC = 0x14,
	NVME_PROP_CSTS = 0x1c,
	NVME_PROP_NSSR = 0x20,
};

#define NVME_VS_1_4 0x00010400u

#define NVME_CAP_MQES(cap)	 ((unsigned)((cap)&0xffff))
#define NVME_CAP_TO_SHIFT	 24 /* units of 500 ms */
#define NVME_CAP_CSS_NVM	 (1ULL << 37)
#define NVME_CAP_CQR		 (1ULL << 16)
#define NVME_CC_EN		 0x1u
#define NVME_CC_CSS(cc)		 (((cc) >> 4) & 7)
#define NVME_CC_MPS(cc)		 (((cc) >> 7) & 15)
#define NVME_CC_AMS(cc)		 (((cc) >> 11) & 7)
#define NVME_CC_SHN(cc)		 (((cc) >> 14) & 3)
#define NVME_CC_SHN_NORMAL	 (1u << 14)
#define NVME_CC_IOSQES(cc)	 (((cc) >> 16) & 15)
#define NVME_CC_IOCQES(cc)	 (((cc) >> 20) & 15)
#define NVME_CC_ENABLE_VALUE	 0x00460001u /* EN, IOSQES 64 B, IOCQES 16 B */
#define NVME_CSTS_RDY		 0x1u
#define NVME_CSTS_CFS		 0x2u
#define NVME_CSTS_SHST(csts)	 (((csts) >> 2) & 3)
#define NVME_CSTS_SHST_OCCURRING (1u << 2)
#define NVME_CSTS_SHST_COMPLETE	 (2u << 2)

/* ---- Identify (5.17) ---- */

enum {
	NVME_IDENTIFY_BYTES = 4096,
	NVME_NSID_ALL = 0xffffffff,
};

enum nvme_cns {
	NVME_CNS_NS = 0x00,
	NVME_CNS_CTRL = 0x01,
	NVME_CNS_NS_LIST = 0x02,
	NVME_CNS_NS_DESCS = 0x03,
	NVME_CNS_CSI_NS = 0x05,
	NVME_CNS_CSI_CTRL = 0x06,
	NVME_CNS_CSI_NS_LIST = 0x07,
	NVME_CNS_NS_INDEPENDENT = 0x08,
	NVME_CNS_NS_CTRL_LIST = 0x12,
	NVME_CNS_CTRL_LIST = 0x13,
};

enum nvme_nidt {
	NVME_NIDT_EUI64 = 1,
	NVME_NIDT_NGUID = 2,
	NVME_NIDT_UUID = 3,
	NVME_NIDT_CSI = 4,
};

/* Figure 275. The assertions below check the offsets that we use. */
struct nvme_id_ctrl {
	le16 vid, ssvid;
	uint8_t sn[20], mn[40], fr[8];
	uint8_t rab;
	uint8_t ieee[3];
	uint8_t cmic;
	uint8_t mdts;
	le16 cntlid;
	le32 ver;
	le32 rtd3r, rtd3e;
	le32 oaes;
	le32 ctratt;
	le16 rrls;
	uint8_t rsvd102[9];
	uint8_t cntrltype;
	uint8_t fguid[16];
	le16 crdt1, crdt2, crdt3;
	uint8_t rsvd134;
	uint8_t ciu; /* Base 2.3, figure 328 */
	le64 cirn;
	uint8_t rsvd144[112];
	le16 oacs;
	uint8_t acl, aerl, frmw, lpa, elpe, npss, avscc, apsta;
	le16 wctemp, cctemp, mtfa;
	uint8_t rsvd272[48];
	le16 kas;
	uint8_t rsvd322[20];
	uint8_t anatt, anacap;
	le32 anagrpmax, nanagrpid;
	le32 pels;
	uint8_t rsvd356[30];
	le16 cqt; /* ms (TP 4129) */
	uint8_t rsvd388[124];
	uint8_t sqes, cqes;
	le16 maxcmd;
	le32 nn;
	le16 oncs, fuses;
	uint8_t fna, vwc;
	le16 awun, awupf;
	uint8_t icsvscc, nwpc;
	le16 acwu;
	le16 ocfs;
	le32 sgls;
	le32 mnan;
	uint8_t rsvd544[224];
	uint8_t subnqn[256];
	uint8_t rsvd1024[768];
	/* fabrics */
	le32 ioccsz, iorcsz;
	le16 icdoff;
	uint8_t fcatt, msdbd;
	le16 ofcs;
	uint8_t dctype;
	uint8_t ccrl;
	uint8_t rsvd1808[2288];
};
static_assert(sizeof(struct nvme_id_ctrl) == 4096, "figure 275");
static_assert(offsetof(struct nvme_id_ctrl, cntrltype) == 111, "figure 275");
static_assert(offsetof(struct nvme_id_ctrl, oacs) == 256, "figure 275");
static_assert(offsetof(struct nvme_id_ctrl, kas) == 320, "figure 275");
static_assert(offsetof(struct nvme_id_ctrl, anatt) == 342, "figure 275");
static_assert(offsetof(struct nvme_id_ctrl, pels) == 352, "figure 275");
static_assert(offsetof(struct nvme_id_ctrl, sqes) == 512, "figure 275");
static_assert(offsetof(struct nvme_id_ctrl, sgls) == 536, "figure 275");
static_assert(offsetof(struct nvme_id_ctrl, subnqn) == 768, "figure 275");
static_assert(offsetof(struct nvme_id_ctrl, ioccsz) == 1792, "figure 275");
static_assert(offsetof(struct nvme_id_ctrl, cirn) == 136, "Base 2.3, figure 328");
static_assert(offsetof(struct nvme_id_ctrl, cqt) == 386, "Base 2.3, figure 328");
static_assert(offsetof(struct nvme_id_ctrl, ccrl) == 1807, "Base 2.3, figure 328");

enum {
	NVME_CMIC_MULTI_PORT = 1,
	NVME_CMIC_MULTI_CTRL = 2,
	NVME_CMIC_ANA = 8,
	NVME_OAES_NS_ATTR = 1 << 8,
	NVME_OAES_FW_ACTIVATION = 1 << 9,
	NVME_OAES_ANA = 1 << 11,
	NVME_OAES_CROSS_RESET = 1 << 20,
	NVME_OAES_LOST_HOST = 1 << 21,
	NVME_ANACAP_ALL_STATES = 0x1f,
	NVME_CTRATT_HOSTID_128 = 1,
	NVME_CTRATT_TBKAS = 1 << 6,
	NVME_LPA_SMART_NS = 1,
	NVME_LPA_EFFECTS = 2,
	NVME_LPA_EXTENDED = 4,
	NVME_LPA_EVENTS = 1 << 4,
	NVME_ONCS_COMPARE = 1 << 0,
	NVME_ONCS_WRITE_UNCORRECTABLE = 1 << 1,
	NVME_ONCS_DSM = 1 << 2,
	NVME_ONCS_WRITE_ZEROES = 1 << 3,
	NVME_ONCS_RESERVATIONS = 1 << 5,
	NVME_ONCS_VERIFY = 1 << 7,
	NVME_ONCS_COPY = 1 << 8,
	NVME_FUSES_COMPARE_WRITE = 1,
	NVME_NWPC_WRITE_PROTECT = 1,
	NVME_NWPC_UNTIL_POWER_CYCLE = 2,
	NVME_OCFS_FORMAT_0 = 1,
	NVME_VWC_PRESENT = 1,
	NVME_VWC_FLUSH_ALL = 3 << 1, /* Flush takes NSID FFFFFFFFh */
	NVME_SGLS_DWORD = 1,
	NVME_SGLS_KEYED = 1 << 2,
	NVME_SGLS_OFFSET = 1 << 20,
	NVME_CNTRLTYPE_IO = 1,
	NVME_CNTRLTYPE_DISCOVERY = 2,
};
#define NVME_OAES_DISCOVERY 0x80000000u

struct nvme_lbaf {
	le16 ms;
	uint8_t lbads;
	uint8_t rp;
};

/* NVM Command Set figure 97. */
struct nvme_id_ns {
	le64 nsze, ncap, nuse;
	uint8_t nsfeat, nlbaf, flbas, mc, dpc, dps, nmic, rescap, fpi, dlfeat;
	le16 nawun, nawupf, nacwu, nabsn, nabo, nabspf, noiob;
	uint8_t nvmcap[16];
	le16 npwg, npwa, npdg, npda, nows, mssrl;
	le32 mcl;
	uint8_t msrc;
	uint8_t rsvd81[11];
	le32 anagrpid;
	uint8_t rsvd96[3];
	uint8_t nsattr;
	le16 nvmsetid, endgid;
	uint8_t nguid[16];
	uint8_t eui64[8];
	struct nvme_lbaf lbaf[64];
	uint8_t vendor[3712];
};
static_assert(sizeof(struct nvme_id_ns) == 4096, "NVM figure 97");
static_assert(offsetof(struct nvme_id_ns, nguid) == 104, "NVM figure 97");
static_assert(offsetof(struct nvme_id_ns, lbaf) == 128, "NVM figure 97");

enum {
	NVME_NSFEAT_THIN = 1,
	NVME_NSFEAT_ATOMICS = 2,
	NVME_NSFEAT_OPTPERF = 1 << 4,
	NVME_NMIC_SHARED = 1,
	NVME_DLFEAT_READS_ZERO = 1,
	NVME_DLFEAT_WZ_DEAC = 1 << 3,
	NVME_NSATTR_WRITE_PROTECTED = 1,
};

struct nvme_ns_id_desc {
	uint8_t nidt, nidl;
	uint8_t rsvd[2];
	uint8_t nid[];
};

/* NVM Command Set figure 100 (I/O command set specific Identify Controller, CNS 06h). */
struct nvme_id_ctrl_nvm {
	uint8_t vsl, wzsl, wusl, dmrl;
	le32 dmrsl;
	le64 dmsl;
	uint8_t kpiocap, wzdsl;
	le16 aocs;
	uint8_t rsvd20[4076];
};
static_assert(sizeof(struct nvme_id_ctrl_nvm) == 4096, "NVM figure 100");

enum {
	NVME_AOCS_ALLOCATED_BLOCKS = 1, /* Get LBA Status has ATYPE 02h (RALBAS) */
};

/* ---- Get LBA Status (NVM Command Set 1.1, 5.2.1) ---- */

enum nvme_lba_status_action {
	NVME_LBA_STATUS_ALLOCATED = 0x02, /* the ranges that are allocated */
};

enum nvme_lba_status_condition {
	NVME_LBA_STATUS_INCOMPLETE = 1, /* more descriptors than the answer has */
	NVME_LBA_STATUS_COMPLETE = 2,
};

enum {
	NVME_LBARS_ALLOCATED = 2, /* of ATYPE 02h */
};

struct nvme_lba_status_desc {
	le64 dslba;
	le32 nlb; /* not 0's based */
	uint8_t rsvd12;
	uint8_t status;
	uint8_t rsvd14[2];
};
static_assert(sizeof(struct nvme_lba_status_desc) == 16, "a descriptor");

struct nvme_lba_status {
	le32 nlsd;
	uint8_t cmpc; /* enum nvme_lba_status_condition */
	uint8_t rsvd5[3];
	struct nvme_lba_status_desc descs[];
};
static_assert(sizeof(struct nvme_lba_status) == 8, "the header");

/* ---- features and log pages (5.27, 5.16) ---- */

enum nvme_feature {
	NVME_FEAT_ARBITRATION = 0x01,
	NVME_FEAT_POWER = 0x02,
	NVME_FEAT_TEMPERATURE = 0x04,
	NVME_FEAT_ERROR_RECOVERY = 0x05,
	NVME_FEAT_VWC = 0x06,
	NVME_FEAT_QUEUES = 0x07,
	NVME_FEAT_INTERRUPT_COALESCING = 0x08,
	NVME_FEAT_INTERRUPT_VECTOR = 0x09,
	NVME_FEAT_WRITE_ATOMICITY = 0x0a,
	NVME_FEAT_ASYNC_EVENT = 0x0b,
	NVME_FEAT_TIMESTAMP = 0x0e,
	NVME_FEAT_KATO = 0x0f,
	NVME_FEAT_HOST_BEHAVIOR = 0x16,
	NVME_FEAT_HOST_ID = 0x81,
	NVME_FEAT_RESV_MASK = 0x82,
	NVME_FEAT_RESV_PERSIST = 0x83,
	NVME_FEAT_WRITE_PROTECT = 0x84,
};

enum nvme_log {
	NVME_LOG_SUPPORTED = 0x00,
	NVME_LOG_ERROR = 0x01,
	NVME_LOG_SMART = 0x02,
	NVME_LOG_FIRMWARE = 0x03,
	NVME_LOG_CHANGED_NS = 0x04,
	NVME_LOG_EFFECTS = 0x05,
	NVME_LOG_ANA = 0x0c,
	NVME_LOG_EVENTS = 0x0d, /* persistent: nvme_event.h */
	NVME_LOG_CROSS_RESET = 0x1e,
	NVME_LOG_LOST_HOST = 0x1f,
	NVME_LOG_DISCOVERY = 0x70,
	NVME_LOG_RESERVATION = 0x80,
};

struct nvme_error_entry {
	le64 count;
	le16 sqid, cid, status, location;
	le64 lba;
	le32 nsid;
	uint8_t vendor, trtype;
	uint8_t rsvd30[2];
	le64 csi;
	le16 trtype_info;
	uint8_t rsvd42[22];
};
static_assert(sizeof(struct nvme_error_entry) == 64, "figure 195");

struct nvme_smart_log {
	uint8_t critical_warning;
	le16 temperature; /* Kelvin */
	uint8_t avail_spare, spare_thresh, percent_used, endgrp_warning;
	uint8_t rsvd7[25];
	uint8_t data_units_read[16], data_units_written[16]; /* thousands of 512 B, rounded up */
	uint8_t host_reads[16], host_writes[16];
	uint8_t busy_minutes[16], power_cycles[16], power_on_hours[16], unsafe_shutdowns[16];
	uint8_t media_errors[16], n_error_entries[16];
	uint8_t rsvd192[320];
};
static_assert(sizeof(struct nvme_smart_log) == 512, "figure 196");

enum {
	NVME_CRITICAL_READ_ONLY = 1 << 3,
};

/* Asymmetric Namespace Access (8.1, figure 211). */
enum nvme_ana_state {
	NVME_ANA_STATE_OPTIMIZED = 0x1,
	NVME_ANA_STATE_NON_OPTIMIZED = 0x2,
	NVME_ANA_STATE_INACCESSIBLE = 0x3,
	NVME_ANA_STATE_PERSISTENT_LOSS = 0x4,
	NVME_ANA_STATE_CHANGE = 0xf,
};

/* Log page 0Ch: the header, then descriptors, each followed by its NSIDs. */
struct nvme_ana_log {
	le64 chgcnt;
	le16 ngrps;
	uint8_t rsvd10[6];
};
static_assert(sizeof(struct nvme_ana_log) == 16, "figure 210");

struct nvme_ana_group {
	le32 grpid;
	le32 nnsids;
	le64 chgcnt;
	uint8_t state; /* enum nvme_ana_state in bits 3:0 */
	uint8_t rsvd17[15];
};
static_assert(sizeof(struct nvme_ana_group) == 32, "figure 211");
enum {
	NVME_ANA_STATE_MASK = 0xf,
	NVME_ANA_RGO = 1 << 8, /* cdw10: groups without their NSIDs */
};

/* Asynchronous event results, dword 0 (figure 146): type | information << 8 | log page << 16. */
enum {
	/* Error status: Persistent Internal Error. Linux 6.0 and later reset the controller. */
	NVME_AER_PERSISTENT_ERROR = 0x00010300,
	NVME_AER_NS_CHANGED = 0x00040002,
	NVME_AER_ANA_CHANGED = 0x000c0302,
	NVME_AER_CROSS_RESET = 0x001ef402,
	NVME_AER_LOST_HOST = 0x001ff502,
	NVME_AER_DISCOVERY_CHANGED = 0x0070f002,
	NVME_AER_RESERVATION = 0x00800006,
};

/* ---- NVM commands ---- */

#define NVME_RW_NLB_MASK 0xffffu    /* cdw12; 0's based */
#define NVME_RW_FUA	 (1u << 30) /* cdw12 */
#define NVME_RW_LR	 (1u << 31)
#define NVME_RW_PRINFO	 (0xfu << 26)
#define NVME_WZ_DEAC	 (1u << 25) /* cdw12 */
#define NVME_DSM_NR_MASK 0xffu	    /* cdw10; 0's based */
#define NVME_DSM_AD	 (1u << 2)  /* cdw11: deallocate */

struct nvme_dsm_range {
	le32 cattr;
	le32 nlb; /* 1-based */
	le64 slba;
};
static_assert(sizeof(struct nvme_dsm_range) == 16, "NVM figure 34");
enum {
	NVME_DSM_RANGES_MAX = 256,
};

/* Copy, source range of descriptor format 0 (NVM figure 42). */
struct nvme_copy_range {
	uint8_t rsvd0[8];
	le64 slba;
	le16 nlb; /* 0's based */
	uint8_t rsvd18[6];
	le32 eilbrt;
	le16 elbat, elbatm;
};
static_assert(sizeof(struct nvme_copy_range) == 32, "NVM figure 42");
#define NVME_COPY_NR_MASK	0xffu /* cdw12; 0's based */
#define NVME_COPY_FORMAT(cdw12) (((cdw12) >> 8) & 0xf)
#define NVME_COPY_PRINFO	(0xfu << 12 | 0xfu << 26)

/* Namespace Write Protection, feature 84h (Base 5.27.1.30). */
enum nvme_write_protect {
	NVME_WP_NONE = 0,
	NVME_WP_PROTECTED = 1,
	NVME_WP_UNTIL_POWER_CYCLE = 2,
	NVME_WP_PERMANENT = 3,
};
