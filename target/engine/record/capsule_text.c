/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See capsule_text.h. snprintf may allocate and lock, which is illegal in the handler of a fatal
 * signal. So this file formats numbers itself.
 */
#include <string.h>

#include "target/engine/record/capsule_text.h"
#include "target/engine/record/command_table.h"
#include "transport/wire/strings.h"

struct text {
	char *at, *end; /* one more byte is reserved for the NUL */
};

static void put(struct text *t, const char *s)
{
	while (*s && t->at < t->end)
		*t->at++ = *s++;
	*t->at = '\0';
}

static void put_number(struct text *t, uint64_t value, unsigned base)
{
	char digits[24], *at = digits + sizeof(digits) - 1;

	*at = '\0';
	do {
		*--at = "0123456789abcdef"[value % base];
		value /= base;
	} while (value);
	put(t, base == 16 ? "0x" : "");
	put(t, at);
}

static void put_named(struct text *t, const char *name, uint64_t value)
{
	put(t, name);
	put_number(t, value, 10);
}

/* With one decimal. */
static void put_tenths(struct text *t, uint64_t tenths, const char *unit)
{
	put_number(t, tenths / 10, 10);
	put_named(t, ".", tenths % 10);
	put(t, unit);
}

static const struct nvme_command *find_entry(const struct capsule *capsule, bool is_admin)
{
	return command_find(command_table(is_admin ? COMMANDS_ADMIN : COMMANDS_IO), &capsule->sqe);
}

static void put_time(struct text *t, uint64_t ns)
{
	if (ns < NSEC_PER_MSEC)
		put_tenths(t, ns / (NSEC_PER_USEC / 10), "us");
	else if (ns < NSEC_PER_SEC)
		put_tenths(t, ns / (NSEC_PER_MSEC / 10), "ms");
	else
		put_tenths(t, ns / (NSEC_PER_SEC / 10), "s");
}

/* ---- the parts of a line -------------------------------------------------------------------- */

const char *capsule_command(const struct capsule *capsule, bool is_admin)
{
	const char *name = find_entry(capsule, is_admin)->name;

	return name ? name : "an unknown command";
}

bool capsule_has_range(const struct capsule *capsule, bool is_admin)
{
	return find_entry(capsule, is_admin)->flags & COMMAND_HAS_RANGE;
}

const char *capsule_sgl(const struct capsule *capsule, uint32_t *ret_length)
{
	const struct nvme_sgl *sgl = &capsule->sqe.sgl;

	*ret_length = get_le24(sgl->keyed.length);
	switch (sgl->keyed.type) {
	case NVME_SGL_DATA_BLOCK_OFFSET:
		*ret_length = get_le32(sgl->block.length);
		return *ret_length ? "in-capsule" : "none";
	case NVME_SGL_KEYED_ADDRESS:
		return *ret_length ? "keyed" : "none";
	case NVME_SGL_KEYED_INVALIDATE:
		return "keyed, to be invalidated";
	default:
		*ret_length = 0;
		return "unknown";
	}
}

uint64_t capsule_age_ns(const struct capsule *capsule, uint64_t now)
{
	return now > capsule->received ? ticks_to_ns_long(now - capsule->received) : 0;
}

/* ---- a line --------------------------------------------------------------------------------- */

static void put_place(struct text *t, const struct capsule *capsule, bool is_admin)
{
	const struct nvme_sqe *sqe = &capsule->sqe;
	uint64_t slba = get_le32(sqe->cdw10) | (uint64_t)get_le32(sqe->cdw11) << 32;

	if (sqe->opcode != NVME_FABRICS)
		put_named(t, ", NSID ", get_le32(sqe->nsid));
	if (capsule_has_range(capsule, is_admin)) {
		put_named(t, ", LBA ", slba);
		put_named(t, ", ", (get_le32(sqe->cdw12) & NVME_RW_NLB_MASK) + 1);
		put(t, " blocks");
		return;
	}
	put(t, ", CDW10 ");
	put_number(t, get_le32(sqe->cdw10), 16);
	put(t, ", CDW11 ");
	put_number(t, get_le32(sqe->cdw11), 16);
}

static void put_sgl(struct text *t, const struct capsule *capsule)
{
	uint32_t length;
	const char *sgl = capsule_sgl(capsule, &length);

	if (!length && capsule->sqe.sgl.keyed.type == NVME_SGL_KEYED_ADDRESS)
		return;
	put(t, ", SGL ");
	put(t, sgl);
	put_named(t, " ", length);
}

static void put_answer(struct text *t, const struct capsule *capsule)
{
	enum nvme_status status = (enum nvme_status)capsule->status;

	if (capsule->status == CAPSULE_UNANSWERED) {
		put(t, ": not answered");
		return;
	}
	put(t, ": ");
	put(t, nvme_status_string(status));
	put(t, status & NVME_DNR ? " (DNR), after " : ", after ");
	put_time(t, ticks_to_ns(capsule->took));
}

size_t capsule_line(const struct capsule *capsule, bool is_admin, uint64_t now,
		    char line[CAPSULE_LINE_MAX])
{
	struct text t = {line, line + CAPSULE_LINE_MAX - 1};

	put_time(&t, capsule_age_ns(capsule, now));
	put(&t, " ago: ");
	put(&t, capsule_command(capsule, is_admin));
	put(&t, " (");
	put_number(&t, capsule->sqe.opcode, 16);
	put_named(&t, "), CID ", get_le16(capsule->sqe.cid));
	put_place(&t, capsule, is_admin);
	put_sgl(&t, capsule);
	put_answer(&t, capsule);
	return (size_t)(t.at - line);
}

size_t capsule_heading(const struct capsule_ring *ring, char *text, size_t n)
{
	struct text t = {text, text + n - 1};

	put(&t, ring->remote);
	put_named(&t, ", queue ", ring->qid);
	if (ring->cntlid) {
		put_named(&t, " of controller ", ring->cntlid);
		put(&t, ", host ");
		put(&t, *ring->hostnqn ? ring->hostnqn : "(nameless)");
	}
	return (size_t)(t.at - text);
}
