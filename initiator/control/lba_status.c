/* SPDX-License-Identifier: BSD-3-Clause */
/* See lba_status.h. */
#include "base/bits.h"
#include "initiator/control/lba_status.h"

enum {
	DESCS_MAX = (ADMIN_DATA_BYTES - sizeof(struct nvme_lba_status)) /
		    sizeof(struct nvme_lba_status_desc),
	RANGE_MAX = 0xffff, /* RL; 0: up to the end of the namespace */
};

struct admin_command lba_status_ask(uint32_t nsid, uint64_t slba, uint64_t n_blocks)
{
	uint32_t rl = n_blocks <= RANGE_MAX ? (uint32_t)n_blocks : 0;

	return (struct admin_command){
		.sqe = {.opcode = NVME_ADMIN_GET_LBA_STATUS,
			.nsid = put_le32(nsid),
			.cdw10 = put_le32((uint32_t)slba),
			.cdw11 = put_le32((uint32_t)(slba >> 32)),
			.cdw12 = put_le32(ADMIN_DATA_BYTES / 4 - 1),
			.cdw13 = put_le32(rl | (uint32_t)NVME_LBA_STATUS_ALLOCATED << 24)},
		.n_read = ADMIN_DATA_BYTES,
	};
}

/* The range, as far as it is described. */
struct walk {
	uint64_t at, end;
	struct volume_run *runs;
	unsigned n, n_max;
};

/* The blocks up to here, cut to the range, while there is room for a run. */
static void go_to(struct walk *walk, uint64_t to, bool is_hole)
{
	struct volume_run *last = walk->n ? &walk->runs[walk->n - 1] : NULL;

	to = MIN(to, walk->end);
	if (to <= walk->at)
		return;
	if (!last || last->is_hole != is_hole) {
		if (walk->n == walk->n_max) {
			walk->end = walk->at; /* the rest is for another question */
			return;
		}
		last = &walk->runs[walk->n++];
		*last = (struct volume_run){.is_hole = is_hole};
	}
	last->length += to - walk->at;
	walk->at = to;
}

/* Descriptors ascend and have blocks; otherwise the answer is not what was asked for. */
static bool walk_descs(struct walk *walk, const struct nvme_lba_status *status, unsigned n)
{
	uint64_t before = 0;

	for (unsigned i = 0; i < n; i++) {
		const struct nvme_lba_status_desc *desc = &status->descs[i];
		uint64_t first = get_le64(desc->dslba), n_blocks = get_le32(desc->nlb), end;

		if (!n_blocks || first < before || __builtin_add_overflow(first, n_blocks, &end))
			return false;
		go_to(walk, first, true);
		go_to(walk, end, false);
		before = end;
	}
	return true;
}

unsigned lba_status_read(const void *data, uint64_t slba, uint64_t n_blocks,
			 struct volume_run *runs, unsigned n_max)
{
	const struct nvme_lba_status *status = data;
	uint32_t n = get_le32(status->nlsd);
	bool is_complete = status->cmpc == NVME_LBA_STATUS_COMPLETE && n <= DESCS_MAX;
	struct walk walk = {.at = slba, .end = slba + n_blocks, .runs = runs, .n_max = n_max};
	bool is_sound = walk_descs(&walk, status, MIN(n, (uint32_t)DESCS_MAX));

	if (is_sound && is_complete)
		go_to(&walk, slba + n_blocks, true);
	if (is_sound && walk.n)
		return walk.n;
	runs[0] = (struct volume_run){.length = n_blocks};
	return 1;
}
