/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Identify data of a hostile target: the first byte chooses the data structure, the rest is its
 * beginning, zeros follow. Values that the parser passes must be safe to calculate with.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "initiator/control/ana_log.h"
#include "initiator/control/ana_walk.h"
#include "initiator/control/identify.h"
#include "initiator/control/lba_status.h"
#include "initiator/control/proof_log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum {
	CONTROLLER,
	IO_CONTROLLER,
	NAMESPACE,
	IDS,
	LIMITS,
	LIST,
	STRUCTURES,
};

static void parse_controller(const uint8_t *page, bool is_io)
{
	struct identify_controller controller;

	if (identify_parse_controller(page, is_io, "nqn.2026-01.a", &controller))
		return;
	check(controller.max_transfer_bytes >= 4096 &&
	      controller.max_transfer_bytes <= IDENTIFY_TRANSFER_MAX);
	check(controller.in_capsule_bytes <= IDENTIFY_TRANSFER_MAX);
	check(strlen(controller.serial) < sizeof(controller.serial));
	check(strlen(controller.model) < sizeof(controller.model));
	check(strlen(controller.firmware) < sizeof(controller.firmware));
}

static void parse_namespace(const uint8_t *page)
{
	struct identify_ids ids = {0}, other = {0};
	struct identify_namespace ns;

	if (identify_parse_namespace(page, &ns) || !ns.n_blocks)
		return;
	check(ns.block_shift >= 9 && ns.block_shift <= 12);
	check((int64_t)(ns.n_blocks << ns.block_shift) > 0);
	identify_merge_ids(&ids, &ns);
	check(identify_ids_match(&ids, &other));
}

static void parse_ids(const uint8_t *page)
{
	struct identify_ids ids;

	identify_parse_ids(page, &ids);
	check(identify_ids_match(&ids, &ids));
	identify_ids_are_empty(&ids);
}

/* As a whole page, and as the second piece of a page read in pieces. */
static void parse_ana_log(const uint8_t *page)
{
	struct ana_cursor cursor = {.group = page[1]};

	for (unsigned i = 0; i < 2; i++) {
		uint64_t at = cursor.at;
		enum ana_walk next = ana_log_walk(&cursor, page, NVME_IDENTIFY_BYTES);

		check(next == ANA_WALK_FOUND || next == ANA_WALK_END || cursor.at > at);
		check(ana_log_change_count(page) == cursor.change_count);
	}
}

/* The runs lie within the range, whatever the answer says. The range comes from reserved bytes of
 * the answer, so that it does not depend on the descriptors. */
static void read_lba_status(const uint8_t *page)
{
	uint64_t slba = page[5], n_blocks = 1 + page[6] * 1000ull, sum = 0;
	struct volume_run runs[VOLUME_RUNS_MAX];
	unsigned n = lba_status_read(page, slba, n_blocks, runs, VOLUME_RUNS_MAX);

	check(n >= 1 && n <= VOLUME_RUNS_MAX);
	for (unsigned i = 0; i < n; i++) {
		check(runs[i].length > 0 && runs[i].length <= n_blocks - sum);
		check(!i || runs[i].is_hole != runs[i - 1].is_hole);
		sum += runs[i].length;
	}
	check(lba_status_ask(1, slba, n_blocks).n_read == NVME_IDENTIFY_BYTES);
}

/* The second entry is looked for, in a page that may be cut: a reserved byte of it says where.
 * An entry that is not listed proves nothing. */
static void read_resets(const uint8_t *page)
{
	uint16_t icid = (uint16_t)(page[16] | page[17] << 8);
	size_t n = page[19] ? page[19] * 4u : NVME_IDENTIFY_BYTES;
	uint8_t *cut = malloc(n);
	enum proof_word word;

	check(cut);
	memcpy(cut, page, n);
	word = proof_log_find(cut, n, icid, page[18]);
	check(((page[0] || page[1]) && n >= 16) || word == PROOF_LATER);
	free(cut);
}

static void parse_list(const uint8_t *page)
{
	char text[128];

	check(strlen(identify_format_list(page, text, sizeof(text))) < sizeof(text));
	identify_list_has(page, page[0]);
	parse_ana_log(page);
	read_lba_status(page);
	read_resets(page);
}

static void parse(unsigned which, const uint8_t *page)
{
	struct identify_limits limits;

	switch (which) {
	case CONTROLLER:
	case IO_CONTROLLER:
		parse_controller(page, which == IO_CONTROLLER);
		break;
	case NAMESPACE:
		parse_namespace(page);
		break;
	case IDS:
		parse_ids(page);
		break;
	case LIMITS:
		identify_parse_limits(page, &limits);
		break;
	default:
		parse_list(page);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	uint8_t *page = n ? calloc(1, NVME_IDENTIFY_BYTES) : NULL;

	if (!page)
		return 0;
	memcpy(page, data + 1, n - 1 < NVME_IDENTIFY_BYTES ? n - 1 : NVME_IDENTIFY_BYTES);
	parse(data[0] % STRUCTURES, page);
	free(page);
	return 0;
}
