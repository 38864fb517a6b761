/* SPDX-License-Identifier: BSD-3-Clause */
/* Log pages that a host reads in pieces; see logs.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/hostile_target/fake.h"
#include "tests/hostile_target/logs.h"

enum {
	ENTRY_BYTES = 1024,
	FEW_ENTRIES = 3,
	MAX_ENTRIES = 64,
	GROUP_BYTES = 32,
	ANA_HEADER_BYTES = 16,
	MAX_GROUPS = 1024,
};

/* Ports of 127.0.0.1, by "list" and "refer". */
struct ports {
	unsigned list[MAX_ENTRIES / 2];
	unsigned n;
};

static struct ports listed, referred;
static bool is_scripted;
static unsigned n_reads;   /* of either page */
static uint64_t n_changes; /* of both */

static bool copy(struct slot *slot, const uint8_t *page, uint64_t size, uint64_t offset, uint32_t n)
{
	if (offset >= size)
		return false;
	memcpy(slot->data, page + offset, n < size - offset ? n : size - offset);
	return true;
}

/* Counts a read. true: the page is short by now. */
static bool next_read(uint64_t offset)
{
	n_reads++;
	if (n_reads == opt.shrinks || (opt.restless && !offset))
		n_changes++;
	return opt.shrinks && n_reads >= opt.shrinks;
}

static void entry(uint8_t *e, unsigned i)
{
	e[0] = 1;
	e[1] = 1;
	e[2] = i ? 2 : 3;
	wr16(e + 6, 0xffff);
	wr16(e + 8, 32);
	if (i == 1) { /* one padded with blanks, as SPDK pads */
		pad(e + 32, 32, "4420");
		pad(e + 512, 256, "127.0.0.1");
	} else {
		strcpy((char *)e + 32, "4420");
		strcpy((char *)e + 512, "127.0.0.1");
	}
	strcpy((char *)e + 256, i == 0 ? DISCOVERY_NQN : i == 1 ? opt.nqn : "nqn.2026-01.x:other");
}

static void scripted_entry(uint8_t *e, unsigned i)
{
	bool is_listed = i < listed.n;

	e[0] = 1;
	e[1] = 1;
	e[2] = is_listed ? 2 : 1;
	wr16(e + 6, 0xffff);
	wr16(e + 8, 32);
	snprintf((char *)e + 32, 32, "%u",
		 is_listed ? listed.list[i] : referred.list[i - listed.n]);
	strcpy((char *)e + 512, "127.0.0.1");
	strcpy((char *)e + 256, is_listed ? opt.nqn : DISCOVERY_NQN);
}

static void take_ports(struct ports *ports, const char *text)
{
	char *end;

	*ports = (struct ports){0};
	for (; *text && ports->n < MAX_ENTRIES / 2; text = end)
		ports->list[ports->n++] = (unsigned)strtoul(text, &end, 10);
}

bool logs_line(const char *line)
{
	if (strncmp(line, "list", 4) == 0)
		take_ports(&listed, line + 4);
	else if (strncmp(line, "refer", 5) == 0)
		take_ports(&referred, line + 5);
	else
		return false;
	is_scripted = true;
	n_changes++;
	return true;
}

unsigned logs_reads(void)
{
	return n_reads;
}

bool logs_discovery(struct slot *slot, uint64_t offset, uint32_t n)
{
	static uint8_t page[ENTRY_BYTES * (1 + MAX_ENTRIES)];
	unsigned n_entries = next_read(offset) ? FEW_ENTRIES : opt.entries;

	if (is_scripted)
		n_entries = listed.n + referred.n;

	memset(page, 0, sizeof(page));
	wr64(page, 1 + n_changes);
	wr64(page + 8, opt.claims ? opt.claims : n_entries);
	for (unsigned i = 0; i < n_entries; i++)
		(is_scripted ? scripted_entry : entry)(page + (size_t)ENTRY_BYTES * (i + 1), i);
	return copy(slot, page, (uint64_t)ENTRY_BYTES * (1 + n_entries), offset, n);
}

/* The groups without NSIDs: a host with one namespace does not need them. A short page has only
 * the last, which is that of the namespace. */
bool logs_ana(struct slot *slot, uint64_t offset, uint32_t n)
{
	static uint8_t page[ANA_HEADER_BYTES + GROUP_BYTES * MAX_GROUPS];
	unsigned first = next_read(offset) ? opt.ana_groups : 1;
	uint8_t *group = page + ANA_HEADER_BYTES;

	memset(page, 0, sizeof(page));
	wr64(page, 1 + n_changes);
	wr16(page + 8, opt.ana_groups ? opt.ana_groups + 1 - first : 0);
	for (unsigned i = first; i <= opt.ana_groups; i++, group += GROUP_BYTES) {
		wr32(group, i);
		group[16] = i < opt.ana_groups ? 1 : (uint8_t)opt.ana;
	}
	return copy(slot, page, (uint64_t)(group - page), offset, n);
}
