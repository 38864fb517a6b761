/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hosts (nvme-rdma of Linux 6.1 to 7.2, SPDK) require IOCCSZ, IORCSZ, ICDOFF 0, keyed SGLs, KAS and
 * MAXCMD that are not 0, the SUBNQN of their Connect and the CNTLID of its response. The buffer is
 * zeroed before it is filled, so no data of an earlier command leaks.
 */
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/rcu.h"
#include "target/command/admin/identify.h"
#include "target/command/admin/ns_features.h"
#include "target/command/io/copy.h"
#include "target/command/io/fused.h"
#include "target/engine/record/command_table.h"
#include "target/engine/record/controller.h"
#include "target/engine/request/parse.h"
#include "target/engine/queue/queue_path.h"
#include "target/export/ana.h"
#include "target/export/health/health.h"
#include "target/command/io/io.h"

enum {
	MDTS_UNIT_SHIFT = 12,
	EXTRA_CNS_MASK = 0xff,
	RAB = 6,
	FIRMWARE_SLOTS = 0x03, /* one slot, read only */
	LARGEST_BLOCK_SHIFT = 12,
	WZSL = 13,		 /* 32 MiB: 2^16 blocks of 512 bytes */
	DMRSL = 8 * 1024 * 1024, /* blocks; a longer range is legal, but takes long */
};

void put_ascii(uint8_t *field, size_t n, const char *s)
{
	size_t length = MIN(strlen(s), n);

	memset(field, ' ', n);
	memcpy(field, s, length);
}

/* ---- controllers --------------------------------------------------------------------------- */

static void fill_ctrl_common(const struct controller *controller, struct nvme_id_ctrl *id)
{
	const struct config_tuning *tuning = &controller->target->config->tuning;

	put_ascii(id->fr, sizeof(id->fr), RBLK_VERSION);
	id->rab = RAB;
	id->mdts = (uint8_t)(log2_floor(controller_max_transfer(controller)) - MDTS_UNIT_SHIFT);
	id->cntlid = put_le16(controller->id);
	id->ver = put_le32(NVME_VS_1_4);
	id->ctratt = put_le32(NVME_CTRATT_HOSTID_128 | NVME_CTRATT_TBKAS);
	id->acl = 3;
	id->aerl = CONTROLLER_AERS - 1;
	id->elpe = CONTROLLER_ERRORS - 1;
	id->frmw = FIRMWARE_SLOTS;
	id->lpa = NVME_LPA_EFFECTS | NVME_LPA_EXTENDED;
	id->kas = put_le16(KAS_MS / 100);
	id->maxcmd = put_le16((uint16_t)(controller_mqes(controller->target) + 1));
	id->sgls = put_le32(NVME_SGLS_DWORD | NVME_SGLS_KEYED | NVME_SGLS_OFFSET);
	snprintf((char *)id->subnqn, sizeof(id->subnqn), "%s", controller->subnqn);
	id->ioccsz = put_le32((uint32_t)(sizeof(struct nvme_sqe) + tuning->inline_data) / 16);
	id->iorcsz = put_le32(sizeof(struct nvme_cqe) / 16);
	id->msdbd = 1;
}

uint32_t controller_oaes(struct queue *queue)
{
	if (queue->controller->is_discovery)
		return NVME_OAES_DISCOVERY;
	return NVME_OAES_NS_ATTR | NVME_OAES_CROSS_RESET | NVME_OAES_LOST_HOST |
	       (queue_ana(queue) ? NVME_OAES_ANA : 0);
}

static void fill_ctrl_discovery(const struct controller *controller, struct nvme_id_ctrl *id)
{
	const struct snapshot *snapshot = rcu_get(&controller->target->snapshot);

	/* A host that connected to the well-known name learns the real one (TP 8013). */
	if (*snapshot->discovery_nqn)
		snprintf((char *)id->subnqn, sizeof(id->subnqn), "%s", snapshot->discovery_nqn);
	put_ascii(id->sn, sizeof(id->sn), "rblkd");
	put_ascii(id->mn, sizeof(id->mn), "rblk discovery");
	id->cntrltype = NVME_CNTRLTYPE_DISCOVERY;
	id->lpa = NVME_LPA_EXTENDED;
	id->dctype = 1; /* information about this system only */
}

bool controller_has_cache(struct queue *queue)
{
	const struct subsystem *subsystem = queue_subsystem(queue);
	struct namespace *ns = NULL;
	uint32_t nsid = 0;

	while (subsystem && (ns = subsystem_next_namespace(subsystem, nsid))) {
		if (ns->has_cache)
			return true;
		nsid = ns->nsid;
	}
	return false;
}

static bool is_offered(const struct nvme_command *command, const struct subsystem *subsystem)
{
	struct namespace *ns = NULL;
	uint32_t nsid = 0;

	if (!command->is_offered)
		return true;
	while (subsystem && (ns = subsystem_next_namespace(subsystem, nsid))) {
		if (command->is_offered(ns))
			return true;
		nsid = ns->nsid;
	}
	return false;
}

/* ONCS, OACS: the supported optional commands. */
static le16 optional_commands(enum command_set set, const struct subsystem *subsystem)
{
	unsigned bits = 0;

	for (unsigned opcode = 0; opcode <= UINT8_MAX; opcode++) {
		const struct nvme_command *command = command_of(set, (uint8_t)opcode);

		if (command->optional && is_offered(command, subsystem))
			bits |= command->optional;
	}
	return put_le16((uint16_t)bits);
}

/* 0's based: the longest atomic Compare and Write. */
static uint16_t fused_blocks(const struct target *target, unsigned block_shift)
{
	uint32_t n = fused_max_bytes(target) >> block_shift;

	return (uint16_t)(MIN(MAX(n, 1), UINT16_MAX) - 1);
}

static void fill_ctrl_ana(struct queue *queue, struct nvme_id_ctrl *id)
{
	if (!queue_ana(queue))
		return;
	id->cmic |= NVME_CMIC_ANA;
	id->anatt = ANA_TRANSITION_S;
	id->anacap = NVME_ANACAP_ALL_STATES;
	id->anagrpmax = put_le32(ANA_GROUP_ID_MAX);
	id->nanagrpid = put_le32(ANA_GROUPS_MAX);
}

static void fill_ctrl_fencing(struct queue *queue, const struct subsystem *subsystem,
			      struct nvme_id_ctrl *id)
{
	const struct controller_fencing *fencing = &queue->controller->fencing;

	id->ciu = (uint8_t)atomic_load(&fencing->ciu);
	id->cirn = put_le64(atomic_load(&fencing->cirn));
	id->ccrl = CROSS_RESETS;
	if (subsystem && !queue->target->has_peers && subsystem_others(subsystem) != OTHERS_ANY)
		id->cqt = put_le16((uint16_t)(queue->target->quiesce_ns / NSEC_PER_MSEC));
}

static void fill_ctrl_io(struct queue *queue, struct nvme_id_ctrl *id)
{
	const struct subsystem *subsystem = queue_subsystem(queue);

	put_ascii(id->sn, sizeof(id->sn), subsystem ? subsystem->serial : "");
	put_ascii(id->mn, sizeof(id->mn), subsystem ? subsystem->model : "");
	id->cmic = NVME_CMIC_MULTI_PORT | NVME_CMIC_MULTI_CTRL;
	fill_ctrl_ana(queue, id);
	fill_ctrl_fencing(queue, subsystem, id);
	id->cntrltype = NVME_CNTRLTYPE_IO;
	if (event_log_is_kept(queue->controller->health)) {
		id->lpa |= NVME_LPA_EVENTS;
		id->pels = put_le32(EVENT_LOG_UNITS);
	}
	id->sqes = 0x66;
	id->cqes = 0x44;
	id->nn = put_le32(NSID_MAX);
	id->mnan = put_le32(NSID_MAX);
	id->oacs = optional_commands(COMMANDS_ADMIN, subsystem);
	id->oncs = optional_commands(COMMANDS_IO, subsystem);
	id->fuses = put_le16(NVME_FUSES_COMPARE_WRITE);
	id->acwu = put_le16(fused_blocks(queue->target, LARGEST_BLOCK_SHIFT));
	id->ocfs = put_le16(NVME_OCFS_FORMAT_0);
	if (write_protect_is_offered(queue->target))
		id->nwpc = NVME_NWPC_WRITE_PROTECT | NVME_NWPC_UNTIL_POWER_CYCLE;
	id->vwc = NVME_VWC_FLUSH_ALL | (controller_has_cache(queue) ? NVME_VWC_PRESENT : 0);
	atomic_store(&queue->controller->sees_no_cache, !(id->vwc & NVME_VWC_PRESENT));
}

static enum request_state execute_ctrl(struct request *r)
{
	struct controller *controller = r->queue->controller;
	struct nvme_id_ctrl *id = r->data;

	fill_ctrl_common(controller, id);
	id->oaes = put_le32(controller_oaes(r->queue));
	if (controller->is_discovery)
		fill_ctrl_discovery(controller, id);
	else
		fill_ctrl_io(r->queue, id);
	return request_end(r, NVME_OK);
}

/* ---- namespaces ---------------------------------------------------------------------------- */

/* 0's based number of blocks for a preferred size in bytes. */
static le16 preferred(const struct namespace *ns, uint32_t bytes)
{
	uint32_t n = bytes >> ns->block_shift;

	return put_le16((uint16_t)(MIN(MAX(n, 1), UINT16_MAX) - 1));
}

static void fill_ns_preferences(const struct namespace *ns, struct nvme_id_ns *id)
{
	const struct backend_limits *limits = &ns->backend->limits;

	if (!limits->physical_block && !limits->optimal_bytes)
		return;
	id->nsfeat |= NVME_NSFEAT_OPTPERF;
	id->npwg = id->npwa = preferred(ns, limits->physical_block);
	id->npdg = id->npda = limits->discard_bytes ? preferred(ns, limits->discard_bytes)
						    : id->npwg;
	id->nows = preferred(ns, MAX(limits->optimal_bytes, limits->physical_block));
}

/*
 * For other hosts, and after a loss of power, a write is atomic block by block and no further: no
 * backend promises more. rblkd ensures this itself for memory (store/whole.h), and for the readers
 * of a file without O_DIRECT (store/region.h). With O_DIRECT, and after a loss of power, a file or
 * a device relies on its file system or its hardware. Compare and Write is atomic up to its longest
 * length.
 */
static void fill_ns_commands(const struct target *target, const struct namespace *ns,
			     struct nvme_id_ns *id)
{
	id->nsfeat |= NVME_NSFEAT_ATOMICS;
	id->nacwu = put_le16(fused_blocks(target, ns->block_shift));
	id->rescap = NVME_RESCAP_ALL_TYPES | NVME_RESCAP_IEKEY_1_3;
	if (ns->guard->store)
		id->rescap |= NVME_RESCAP_PTPL;
	id->mssrl = put_le16((uint16_t)copy_max_range_blocks(ns));
	id->mcl = put_le32(copy_max_blocks(ns));
	id->msrc = COPY_RANGES_MAX - 1;
}

static void fill_ns(const struct target *target, const struct namespace *ns, struct nvme_id_ns *id)
{
	const struct backend_limits *limits = &ns->backend->limits;

	id->nsze = id->ncap = id->nuse = put_le64(ns->n_blocks);
	id->nmic = NVME_NMIC_SHARED;
	if (limits->discard_reads_zero)
		id->dlfeat |= NVME_DLFEAT_READS_ZERO;
	if (limits->discard_reads_zero && limits->can_write_zeroes)
		id->dlfeat |= NVME_DLFEAT_WZ_DEAC;
	if (ns->is_read_only || atomic_load(&ns->guard->write_protect))
		id->nsattr |= NVME_NSATTR_WRITE_PROTECTED;
	fill_ns_preferences(ns, id);
	fill_ns_commands(target, ns, id);
	memcpy(id->nguid, ns->nguid, sizeof(id->nguid));
	memcpy(id->eui64, ns->eui64, sizeof(id->eui64));
	id->lbaf[0].lbads = ns->block_shift;
}

/* A namespace that this controller does not reach has an identity and a size, but no other figures.
 * While its state changes it has them (8.1). */
static void fill_ns_ana(struct queue *queue, const struct namespace *ns, struct nvme_id_ns *id)
{
	const struct ana *ana = queue_ana(queue);
	const struct ana_group *group = ana ? ana_group_of(ana, ns->nsid) : NULL;
	enum nvme_status status;

	if (!group)
		return;
	id->anagrpid = put_le32(group->id);
	status = queue_check_path(queue, ns->nsid);
	if (status == NVME_ANA_INACCESSIBLE || status == NVME_ANA_PERSISTENT_LOSS)
		id->nuse = put_le64(0);
}

static struct namespace *find_ns(struct request *r)
{
	const struct subsystem *subsystem = queue_subsystem(r->queue);

	return subsystem ? subsystem_namespace(subsystem, get_le32(r->sqe.nsid)) : NULL;
}

static bool is_possible_nsid(uint32_t nsid)
{
	return nsid >= 1 && nsid <= NSID_MAX;
}

static enum request_state execute_ns(struct request *r)
{
	struct namespace *ns = find_ns(r);

	if (!is_possible_nsid(get_le32(r->sqe.nsid)))
		return request_end(r, NVME_INVALID_NSID | NVME_DNR);
	if (ns) { /* an inactive one is all zeroes */
		uses_note(&r->queue->controller->uses, ns->nsid);
		fill_ns(r->queue->target, ns, r->data);
		fill_ns_ana(r->queue, ns, r->data);
	}
	return request_end(r, NVME_OK);
}

static enum request_state execute_ns_list(struct request *r)
{
	const struct subsystem *subsystem = queue_subsystem(r->queue);
	uint32_t after = get_le32(r->sqe.nsid);
	le32 *list = r->data;
	struct namespace *ns;

	if (after >= NVME_NSID_ALL - 1)
		return request_end(r, NVME_INVALID_NSID | NVME_DNR);
	for (unsigned i = 0; subsystem && i < NVME_IDENTIFY_BYTES / sizeof(le32); i++) {
		ns = subsystem_next_namespace(subsystem, after);
		if (!ns)
			break;
		list[i] = put_le32(ns->nsid);
		after = ns->nsid;
	}
	return request_end(r, NVME_OK);
}

static uint8_t *put_desc(uint8_t *at, enum nvme_nidt type, const void *id, uint8_t n)
{
	at[0] = (uint8_t)type;
	at[1] = n;
	memcpy(at + sizeof(struct nvme_ns_id_desc), id, n);
	return at + sizeof(struct nvme_ns_id_desc) + n;
}

static enum request_state execute_ns_descs(struct request *r)
{
	static const uint8_t none[sizeof(((struct namespace *)0)->eui64)];
	struct namespace *ns = find_ns(r);
	uint8_t *at = r->data;

	if (!ns)
		return request_end(r, NVME_INVALID_NSID | NVME_DNR);
	at = put_desc(at, NVME_NIDT_UUID, ns->uuid, sizeof(ns->uuid));
	at = put_desc(at, NVME_NIDT_NGUID, ns->nguid, sizeof(ns->nguid));
	if (memcmp(ns->eui64, none, sizeof(none)) != 0)
		put_desc(at, NVME_NIDT_EUI64, ns->eui64, sizeof(ns->eui64));
	return request_end(r, NVME_OK);
}

/* The NVM command set's page of a namespace: without protection information it is all zeroes. */
static enum request_state execute_csi_ns(struct request *r)
{
	if (!find_ns(r))
		return request_end(r, NVME_INVALID_NSID | NVME_DNR);
	return request_end(r, NVME_OK);
}

static enum request_state execute_csi_ctrl(struct request *r)
{
	struct nvme_id_ctrl_nvm *id = r->data;

	id->wzsl = WZSL;
	id->dmrsl = put_le32(DMRSL);
	id->aocs = put_le16(NVME_AOCS_ALLOCATED_BLOCKS);
	return request_end(r, NVME_OK); /* Verify and Write Uncorrectable have no limits */
}

/* ---- the command --------------------------------------------------------------------------- */

static enum request_state execute(struct request *r)
{
	bool is_nvm = get_le32(r->sqe.cdw11) >> 24 == 0;
	bool is_discovery = r->queue->controller->is_discovery;
	unsigned cns = get_le32(r->sqe.cdw10) & EXTRA_CNS_MASK;

	memset(r->data, 0, r->length);
	if (cns == NVME_CNS_CTRL)
		return execute_ctrl(r);
	if (is_discovery)
		return request_end(r, NVME_INVALID_FIELD | NVME_DNR);
	if (cns == NVME_CNS_NS)
		return execute_ns(r);
	if (cns == NVME_CNS_NS_LIST || (cns == NVME_CNS_CSI_NS_LIST && is_nvm))
		return execute_ns_list(r);
	if (cns == NVME_CNS_NS_DESCS)
		return execute_ns_descs(r);
	if (cns == NVME_CNS_CSI_NS && is_nvm)
		return execute_csi_ns(r);
	if (cns == NVME_CNS_CSI_CTRL && is_nvm)
		return execute_csi_ctrl(r);
	return request_end(r, NVME_INVALID_FIELD | NVME_DNR);
}

static enum nvme_status parse(struct request *r)
{
	r->direction = DIRECTION_C2H;
	r->length = NVME_IDENTIFY_BYTES;
	return parse_check_sgl(r, false);
}

const struct nvme_command identify_command = {
	.opcode = NVME_ADMIN_IDENTIFY,
	.name = "Identify",
	.parse = parse,
	.execute = execute,
	.effects = NVME_EFFECT_CSUPP,
};
