/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parsing of Identify data structures (Base 2.0, 5.17) as a host reads them.
 *
 * Called by the controller's states on the control loop, and by the fuzzers. Every data
 * structure is 4096 bytes, so there is no length to check; what must be checked are the
 * values: shift counts, indices into the table of formats, products that could overflow,
 * strings without an end.
 *
 * The refusals are those of the Linux host where it has them
 * (nvmf_validate_identify_ctrl): what breaks it should not half work here.
 */
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/log.h"
#include "initiator/control/identify.h"
#include "transport/wire/strings.h"

enum {
	BLOCK_SHIFT_MIN = 9,
	BLOCK_SHIFT_MAX = 12,
	LIST_ENTRIES = NVME_IDENTIFY_BYTES / 4,
};

/* ASCII, padded with blanks or (wrongly) NULs; anything unprintable becomes '?'. */
static void copy_text(char *dst, const uint8_t *src, size_t n)
{
	size_t end = 0;

	for (size_t i = 0; i < n && src[i]; i++) {
		dst[i] = (char)(src[i] < 0x20 || src[i] > 0x7e ? '?' : src[i]);
		if (src[i] != ' ')
			end = i + 1;
	}
	dst[end] = '\0';
}

/* MDTS counts in units of CAP.MPSMIN, which the controller states insist is 4 KiB. */
static uint32_t transfer_bytes(uint8_t mdts)
{
	if (!mdts || mdts >= log2_floor(IDENTIFY_TRANSFER_MAX / 4096))
		return IDENTIFY_TRANSFER_MAX;
	return 4096u << mdts;
}

static const char *parse_fabrics(const struct nvme_id_ctrl *id, const char *subnqn,
				 struct identify_controller *ret)
{
	uint32_t capsule = get_le32(id->ioccsz);
	char nqn[NVMF_NQN_MAX + 1];

	if (capsule < 4 || get_le32(id->iorcsz) < 1)
		return "its capsules are smaller than a command";
	if (get_le16(id->icdoff))
		return "its in-capsule data has an offset";
	if (nqn_from_field(id->subnqn, sizeof(id->subnqn), nqn) || strcmp(nqn, subnqn) != 0)
		return "it belongs to another subsystem than was asked for";
	if (id->cntrltype != 0 && id->cntrltype != NVME_CNTRLTYPE_IO)
		return "it is not an I/O controller";
	if (get_le32(id->sgls) & NVME_SGLS_OFFSET)
		ret->in_capsule_bytes = (uint32_t)MIN((capsule - 4) * 16ull,
						      (uint64_t)IDENTIFY_TRANSFER_MAX);
	return NULL;
}

const char *identify_parse_controller(const void *data, bool is_io, const char *subnqn,
				      struct identify_controller *ret)
{
	const struct nvme_id_ctrl *id = data;
	uint16_t oncs = get_le16(id->oncs);

	*ret = (struct identify_controller){
		.cntlid = get_le16(id->cntlid),
		.version = get_le32(id->ver),
		.max_transfer_bytes = transfer_bytes(id->mdts),
		.max_commands = get_le16(id->maxcmd),
		.async_events = get_le32(id->oaes),
		.quiesce_ms = get_le16(id->cqt),
		.has_traffic_keep_alive = get_le32(id->ctratt) & NVME_CTRATT_TBKAS,
		.has_ana = id->cmic & NVME_CMIC_ANA,
		.has_keep_alive = get_le16(id->kas) != 0,
		.has_volatile_cache = id->vwc & NVME_VWC_PRESENT,
		.has_write_zeroes = oncs & NVME_ONCS_WRITE_ZEROES,
		.has_trim = oncs & NVME_ONCS_DSM,
	};
	if (get_le16(id->fuses) & NVME_FUSES_COMPARE_WRITE)
		ret->max_compare_blocks = get_le16(id->acwu) + 1u;
	if (id->ciu && get_le64(id->cirn)) {
		ret->uniquifier = id->ciu;
		ret->instance = get_le64(id->cirn);
	}
	copy_text(ret->serial, id->sn, sizeof(id->sn));
	copy_text(ret->model, id->mn, sizeof(id->mn));
	copy_text(ret->firmware, id->fr, sizeof(id->fr));
	if (!(get_le32(id->sgls) & NVME_SGLS_KEYED))
		return "it does not take keyed data descriptors";
	return is_io ? parse_fabrics(id, subnqn, ret) : NULL;
}

/* The index of the LBA format in use: bits 3:0, and 6:5 above them when there are more
 * than 16. */
static unsigned format_index(const struct nvme_id_ns *id)
{
	unsigned index = id->flbas & 0xf;

	if (id->nlbaf >= 16)
		index |= (id->flbas >> 5 & 3u) << 4;
	return index;
}

const char *identify_parse_namespace(const void *data, struct identify_namespace *ret)
{
	const struct nvme_id_ns *id = data;
	unsigned index = format_index(id), dlfeat = id->dlfeat;
	uint64_t n_blocks = get_le64(id->nsze);
	const struct nvme_lbaf *format;

	*ret = (struct identify_namespace){0};
	if (!n_blocks)
		return NULL;
	if (index > id->nlbaf || index >= ARRAY_LEN(id->lbaf))
		return "its block format is out of range";
	format = &id->lbaf[index];
	if (format->lbads < BLOCK_SHIFT_MIN || format->lbads > BLOCK_SHIFT_MAX)
		return "its block size is not 512, 1024, 2048 or 4096 bytes";
	if (get_le16(format->ms))
		return "its blocks carry metadata";
	/* Sizes and offsets are signed 64-bit numbers further up (loff_t). */
	if (n_blocks > (uint64_t)INT64_MAX >> format->lbads)
		return "its size is out of range";
	ret->n_blocks = n_blocks;
	ret->block_shift = format->lbads;
	ret->ana_group = get_le32(id->anagrpid);
	ret->is_read_only = id->nsattr & NVME_NSATTR_WRITE_PROTECTED;
	if (id->nsfeat & NVME_NSFEAT_ATOMICS && get_le16(id->nacwu))
		ret->max_compare_blocks = get_le16(id->nacwu) + 1u;
	ret->reads_zero_after_trim = (dlfeat & 7) == NVME_DLFEAT_READS_ZERO;
	ret->can_unmap_zeroes = ret->reads_zero_after_trim && (dlfeat & NVME_DLFEAT_WZ_DEAC);
	memcpy(ret->nguid, id->nguid, sizeof(ret->nguid));
	memcpy(ret->eui64, id->eui64, sizeof(ret->eui64));
	return NULL;
}

static bool is_zero(const uint8_t *p, size_t n)
{
	while (n--)
		if (*p++)
			return false;
	return true;
}

static void take_id(const struct nvme_ns_id_desc *desc, struct identify_ids *ret)
{
	switch (desc->nidt) {
	case NVME_NIDT_EUI64:
		if (desc->nidl == sizeof(ret->eui64))
			memcpy(ret->eui64, desc->nid, sizeof(ret->eui64));
		break;
	case NVME_NIDT_NGUID:
		if (desc->nidl == sizeof(ret->nguid))
			memcpy(ret->nguid, desc->nid, sizeof(ret->nguid));
		break;
	case NVME_NIDT_UUID:
		if (desc->nidl == sizeof(ret->uuid))
			memcpy(ret->uuid, desc->nid, sizeof(ret->uuid));
		break;
	}
}

void identify_parse_ids(const void *data, struct identify_ids *ret)
{
	const uint8_t *at = data, *end = at + NVME_IDENTIFY_BYTES;

	*ret = (struct identify_ids){0};
	while (end - at >= (ptrdiff_t)sizeof(struct nvme_ns_id_desc)) {
		const struct nvme_ns_id_desc *desc = (const void *)at;

		if (!desc->nidl || desc->nidl > end - at - (ptrdiff_t)sizeof(*desc))
			return;
		take_id(desc, ret);
		at += sizeof(*desc) + desc->nidl;
	}
}

void identify_merge_ids(struct identify_ids *ids, const struct identify_namespace *ns)
{
	if (is_zero(ids->nguid, sizeof(ids->nguid)))
		memcpy(ids->nguid, ns->nguid, sizeof(ids->nguid));
	if (is_zero(ids->eui64, sizeof(ids->eui64)))
		memcpy(ids->eui64, ns->eui64, sizeof(ids->eui64));
}

void identify_parse_limits(const void *data, struct identify_limits *ret)
{
	const struct nvme_id_ctrl_nvm *id = data;

	*ret = (struct identify_limits){
		.max_trim_blocks = get_le32(id->dmrsl),
		.reports_allocated = get_le16(id->aocs) & NVME_AOCS_ALLOCATED_BLOCKS,
	};
	if (id->wzsl && id->wzsl < 32)
		ret->max_zero_bytes = 4096ull << id->wzsl;
}

static bool one_matches(const uint8_t *a, const uint8_t *b, size_t n)
{
	return is_zero(a, n) || is_zero(b, n) || memcmp(a, b, n) == 0;
}

bool identify_ids_match(const struct identify_ids *a, const struct identify_ids *b)
{
	return one_matches(a->uuid, b->uuid, sizeof(a->uuid)) &&
	       one_matches(a->nguid, b->nguid, sizeof(a->nguid)) &&
	       one_matches(a->eui64, b->eui64, sizeof(a->eui64));
}

bool identify_ids_are_empty(const struct identify_ids *ids)
{
	return is_zero((const uint8_t *)ids, sizeof(*ids));
}

static uint32_t list_entry_at(const void *data, unsigned i)
{
	le32 entry;

	memcpy(&entry, (const uint8_t *)data + i * sizeof(entry), sizeof(entry));
	return get_le32(entry);
}

const char *identify_format_list(const void *data, char *buf, size_t n)
{
	size_t used = 0;

	snprintf(buf, n, "none");
	for (unsigned i = 0; i < LIST_ENTRIES && list_entry_at(data, i); i++) {
		int r;

		if (n - used < 24)
			r = snprintf(buf + used, n - used, ", ...");
		else
			r = snprintf(buf + used, n - used, "%s%u", i ? ", " : "",
				     list_entry_at(data, i));
		if (r < 0 || n - used < 24)
			break;
		used += (size_t)r;
	}
	return buf;
}

bool identify_list_has(const void *data, uint32_t nsid)
{
	if (list_entry_at(data, 0) == NVME_NSID_ALL)
		return true;
	for (unsigned i = 0; i < LIST_ENTRIES && list_entry_at(data, i); i++)
		if (list_entry_at(data, i) == nsid)
			return true;
	return false;
}
