/* SPDX-License-Identifier: BSD-3-Clause */
/* Log page 1Eh as a target sends it; see proof_log.h. */
#include <string.h>

#include "base/bits.h"
#include "initiator/control/proof_log.h"
#include "transport/wire/nvme_cross_reset.h"

static enum proof_word word_of(const struct nvme_cross_reset_entry *entry)
{
	switch ((enum nvme_cross_reset_status)entry->ccrs) {
	case NVME_CROSS_RESET_IN_PROGRESS:
		return PROOF_UNDER_WAY;
	case NVME_CROSS_RESET_SUCCESS:
		return PROOF_OVER;
	case NVME_CROSS_RESET_FAILED:
		break;
	}
	return PROOF_REFUSED;
}

enum proof_word proof_log_find(const void *data, size_t n, uint16_t icid, uint8_t ciu)
{
	const uint8_t *at = data, *end = at + n;
	struct nvme_cross_reset_log header;
	unsigned n_entries;

	if (n < sizeof(header))
		return PROOF_LATER;
	memcpy(&header, at, sizeof(header));
	at += sizeof(header);
	n_entries = MIN(get_le16(header.n_entries), NVME_CROSS_RESET_PAGE_ENTRIES);
	for (unsigned i = 0; i < n_entries; i++) {
		struct nvme_cross_reset_entry entry;

		if (end - at < (ptrdiff_t)sizeof(entry))
			return PROOF_LATER;
		memcpy(&entry, at, sizeof(entry));
		if (get_le16(entry.icid) == icid && entry.ciu == ciu)
			return word_of(&entry);
		at += sizeof(entry);
	}
	return PROOF_LATER;
}
