/* SPDX-License-Identifier: BSD-3-Clause */
/* See resets.h. Byte offsets as in NVMe Base 2.3, figures 304, 305, 328 and 522. */
#include <string.h>
#include <unistd.h>

#include "tests/hostile_target/resets.h"

enum {
	LOST_MAX = 64,
	REFUSED = 0x4002,
	NO_OPCODE = 0x4001,
};

static struct lost {
	uint16_t cntlid;
	uint64_t slba, n, at_ns;
} lost[LOST_MAX];
static unsigned n_lost;
static uint64_t kato_ms;
static uint16_t resetting; /* the controller; 0: none */
static bool is_finished;

static uint8_t ciu_of(uint16_t cntlid)
{
	return (uint8_t)(1 + cntlid % 255);
}

static uint64_t cirn_of(uint16_t cntlid)
{
	return (uint64_t)getpid() << 32 | (uint64_t)cntlid * 0x10001;
}

void resets_identify(uint8_t *data, uint16_t cntlid)
{
	wr32(data + 96, 1 | (opt.cqt ? 1 << 6 : 0)); /* TBKAS */
	wr16(data + 386, opt.cqt);
	if (opt.ccr == RESETS_NONE)
		return;
	data[135] = ciu_of(cntlid);
	wr64(data + 136, cirn_of(cntlid));
	data[1807] = 1;
}

static void prove(uint16_t cntlid)
{
	for (unsigned i = n_lost; i--;)
		if (lost[i].cntlid == cntlid)
			lost[i] = lost[--n_lost];
}

unsigned resets_command(const struct slot *slot, uint16_t n_cntlids, uint64_t *result)
{
	const uint8_t *c = slot->capsule;
	uint16_t icid = rd16(c + 40);

	if (opt.ccr == RESETS_NONE) {
		violation("Cross-Controller Reset of a target without it");
		return NO_OPCODE;
	}
	if (rd32(c + 4) || rd32(c + 44) || c[43] || icid == slot->conn->cntlid)
		violation("Cross-Controller Reset: NSID %u, cdw11 %08x, controller %u", rd32(c + 4),
			  rd32(c + 44), icid);
	if (slot->rule && slot->rule->action == ACT_STATUS)
		return REFUSED; /* the rule replaces it */
	if (icid >= n_cntlids)
		return REFUSED;
	if (c[42] != ciu_of(icid) || rd64(c + 48) != cirn_of(icid))
		violation("Cross-Controller Reset of %u: CIU %u, CIRN %llx", icid, c[42],
			  (unsigned long long)rd64(c + 48));
	*result = opt.ccr == RESETS_IMMEDIATE || is_finished;
	if (*result)
		prove(icid);
	else
		resetting = icid;
	return 0;
}

static void put_entry(uint8_t *data, unsigned i, uint16_t icid, uint8_t ciu, uint8_t ccrs)
{
	uint8_t *e = data + 8 + 8 * i;

	wr16(e, icid);
	e[2] = ciu;
	wr16(e + 4, 0xffff);
	e[6] = ccrs;
	e[7] = 3;
}

void resets_log(uint8_t *data, bool must_remove)
{
	uint8_t ciu = ciu_of(resetting);

	memset(data, 0, DATA_BYTES);
	if (!resetting)
		return;
	wr16(data, 1);
	put_entry(data, 0, resetting, ciu, is_finished);
	if (opt.ccr == RESETS_FAIL)
		put_entry(data, 0, resetting, ciu, 2);
	if (opt.ccr == RESETS_LIE && !is_finished) { /* the page is full of others that are over */
		wr16(data, 0xffff);
		for (unsigned i = 0; i < 511; i++)
			put_entry(data, i, i % 2 ? resetting : (uint16_t)(resetting + 1),
				  i % 2 ? (uint8_t)(ciu + 1) : ciu, 1);
	}
	if (is_finished)
		prove(resetting);
	if (is_finished && must_remove)
		resetting = 0;
}

void resets_finish(void)
{
	is_finished = true;
}

void resets_note_kato(uint32_t ms)
{
	kato_ms = ms;
}

void resets_lose(uint16_t cntlid, uint64_t slba, uint64_t n)
{
	if (n_lost < LOST_MAX && (opt.ccr || opt.cqt))
		lost[n_lost++] = (struct lost){cntlid, slba, n, now_ns()};
}

void resets_check(uint64_t slba, uint64_t n)
{
	uint64_t hold_ns = opt.cqt ? (3 * kato_ms + opt.cqt) * 1000000 : UINT64_MAX;

	for (unsigned i = 0; i < n_lost; i++)
		if (slba < lost[i].slba + lost[i].n && lost[i].slba < slba + n &&
		    now_ns() - lost[i].at_ns < hold_ns)
			violation("%llu blocks at %llu are written again without proof",
				  (unsigned long long)n, (unsigned long long)slba);
}
