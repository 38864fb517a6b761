/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "base/bits.h"
#include "initiator/control/ana_walk.h"
#include "transport/wire/nvme.h"

static unsigned known_state(uint8_t state)
{
	switch ((enum nvme_ana_state)(state & NVME_ANA_STATE_MASK)) {
	case NVME_ANA_STATE_OPTIMIZED:
	case NVME_ANA_STATE_NON_OPTIMIZED:
	case NVME_ANA_STATE_INACCESSIBLE:
	case NVME_ANA_STATE_PERSISTENT_LOSS:
	case NVME_ANA_STATE_CHANGE:
		return state & NVME_ANA_STATE_MASK;
	}
	return 0;
}

uint64_t ana_log_change_count(const void *data)
{
	struct nvme_ana_log header;

	memcpy(&header, data, sizeof(header));
	return get_le64(header.chgcnt);
}

static uint64_t begin(struct ana_cursor *cursor, const uint8_t *data)
{
	struct nvme_ana_log header;

	memcpy(&header, data, sizeof(header));
	cursor->n_left = get_le16(header.ngrps);
	cursor->change_count = get_le64(header.chgcnt);
	return sizeof(header);
}

enum ana_walk ana_log_walk(struct ana_cursor *cursor, const void *data, size_t n)
{
	const uint8_t *bytes = data;
	uint64_t pos = cursor->at ? 0 : begin(cursor, bytes);

	while (cursor->n_left && pos + sizeof(struct nvme_ana_group) <= n) {
		struct nvme_ana_group group;

		memcpy(&group, bytes + pos, sizeof(group));
		if (get_le32(group.grpid) == cursor->group) {
			cursor->state = known_state(group.state);
			return ANA_WALK_FOUND;
		}
		/* Some targets list the NSIDs although RGO excludes them: skip them. */
		pos += sizeof(group) + (uint64_t)get_le32(group.nnsids) * sizeof(le32);
		cursor->n_left--;
	}
	cursor->at += pos;
	return cursor->n_left ? ANA_WALK_MORE : ANA_WALK_END;
}
