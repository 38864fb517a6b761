/* SPDX-License-Identifier: BSD-3-Clause */
/* The fake target's options and its start; see fake.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/hostile_target/fake.h"

struct options opt = {
	.block_size = 512,
	.blocks = 65536,
	.mdts = 5,
	.icd = 4096,
	.mqes = 127,
	.maxcmd = 128,
	.queues = 8,
	.nsid = 1,
	.cntlid = 1,
	.has_cns6 = true,
	.nqn = "nqn.2026-01.test:fake",
	.uuid_seed = 1,
	.ana_groups = 1,
	.entries = 3,
	.compare = 8,
};
uint8_t *ram;

static bool take_option(const char *arg)
{
	static const struct {
		const char *name;
		unsigned *value;
	} table[] = {
		{"port", &opt.port},	   {"block_size", &opt.block_size},
		{"mdts", &opt.mdts},	   {"icd", &opt.icd},
		{"mqes", &opt.mqes},	   {"maxcmd", &opt.maxcmd},
		{"crqsize", &opt.crqsize}, {"queues", &opt.queues},
		{"nsid", &opt.nsid},	   {"wzsl", &opt.wzsl},
		{"dmrsl", &opt.dmrsl},	   {"aocs", &opt.aocs},
		{"told", &opt.told},	   {"uuid", &opt.uuid_seed},
		{"seed", &opt.seed},	   {"cycles", &opt.cycles},
		{"unsafe", &opt.unsafe},   {"ana", &opt.ana},
		{"ccr", &opt.ccr},	   {"cqt", &opt.cqt},
		{"cntlid", &opt.cntlid},   {"ana_groups", &opt.ana_groups},
		{"compare", &opt.compare}, {"entries", &opt.entries},
		{"shrinks", &opt.shrinks}, {"restless", &opt.restless},
		{"fua", &opt.fua},	   {"claims", &opt.claims},
		{"chatty", &opt.chatty},
	};
	const char *equals = strchr(arg, '=');
	size_t n = equals ? (size_t)(equals - arg) : 0;

	for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (n == strlen(table[i].name) && memcmp(arg, table[i].name, n) == 0) {
			*table[i].value = (unsigned)strtoul(equals + 1, NULL, 10);
			return true;
		}
	if (strncmp(arg, "blocks=", 7) == 0)
		opt.blocks = strtoull(arg + 7, NULL, 10);
	else if (strncmp(arg, "nqn=", 4) == 0)
		opt.nqn = arg + 4;
	else if (strncmp(arg, "host=", 5) == 0)
		opt.host = arg + 5;
	else if (strcmp(arg, "no-cns6") == 0)
		opt.has_cns6 = false;
	else if (strcmp(arg, "read-only") == 0)
		opt.read_only = true;
	else if (strcmp(arg, "no-vwc") == 0)
		opt.no_vwc = true;
	else if (strcmp(arg, "impostor") == 0)
		opt.is_impostor = true;
	else
		return false;
	return true;
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (!take_option(argv[i]) && !rules_parse(argv[i])) {
			fprintf(stderr, "fake_target: what is '%s'?\n", argv[i]);
			return 2;
		}
	srand(opt.seed);
	command_begin();
	/* Fresh pages are zero. To clear them touches all, and their shadow under a sanitizer. */
	ram = mmap(NULL, opt.blocks * opt.block_size, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (ram == MAP_FAILED)
		return 4;
	if (fabric_listen() < 0) {
		perror("fake_target");
		return 4;
	}
	return fabric_run();
}
