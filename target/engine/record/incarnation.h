/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which process made a controller. A host that has lost a controller names it by its instance
 * number (CIRN, TP 8028), through whichever controller it still has, and so maybe to another rblkd.
 * That one must not call over what it has never known. So the number tells its maker:
 *
 *     63        40 39        16 15         0
 *     | machine   |  process   |  instance  |
 *
 * machine comes from the kernel's identifier of its boot, process is random, instance counts. 0 is
 * no instance. Two machines, or two processes of one, have the same part by chance once in 2^24.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

struct incarnation {
	/* Thread: control, before pollers start */
	uint32_t machine; /* 24 bits; 0: not known */
	uint32_t process; /* 24 bits; 0: there were no random numbers, so nothing has a number */
	/* Thread: any */
	_Atomic unsigned n_instances;
};

enum incarnation_maker {
	MADE_HERE,	 /* by this process */
	MADE_ON_MACHINE, /* by another process under this kernel */
	MADE_ELSEWHERE,	 /* or not known */
};

/* Control. boot_id: of the running kernel, a UUID as text; "": not known. */
void incarnation_init(struct incarnation *incarnation, const char *boot_id);
/* Any thread. For a controller that becomes ready; 0: there is none. */
uint64_t incarnation_number(struct incarnation *incarnation);
/* Any thread. cirn: from a host. */
enum incarnation_maker incarnation_maker_of(const struct incarnation *incarnation, uint64_t cirn);
