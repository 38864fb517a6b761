/* SPDX-License-Identifier: BSD-3-Clause */
/* The numbers of controller instances. See incarnation.h. */
#include "target/engine/record/incarnation.h"

#include <ctype.h>

#include "base/random.h"

enum {
	PART_BITS = 24,
	PART_MASK = (1 << PART_BITS) - 1,
	INSTANCE_BITS = 16,
	INSTANCE_MASK = (1 << INSTANCE_BITS) - 1,
};

/* FNV-1a of all digits: 24 bits of the UUID alone would do, were it not for tests that number
 * boots. */
static uint32_t machine_of(const char *boot_id)
{
	uint64_t hash = 0;

	for (; *boot_id; boot_id++)
		if (isxdigit((unsigned char)*boot_id))
			hash = (hash ^ (unsigned char)*boot_id) * 0x100000001b3ULL;
	return (uint32_t)(hash >> PART_BITS) & PART_MASK;
}

void incarnation_init(struct incarnation *incarnation, const char *boot_id)
{
	uint32_t process;

	incarnation->machine = machine_of(boot_id);
	incarnation->process = random_bytes(&process, sizeof(process)) < 0 ? 0
									   : process & PART_MASK;
	atomic_init(&incarnation->n_instances, 0);
}

uint64_t incarnation_number(struct incarnation *incarnation)
{
	uint64_t maker = (uint64_t)incarnation->machine << PART_BITS | incarnation->process;

	if (!incarnation->process)
		return 0;
	return maker << INSTANCE_BITS |
	       (atomic_fetch_add(&incarnation->n_instances, 1) & INSTANCE_MASK);
}

enum incarnation_maker incarnation_maker_of(const struct incarnation *incarnation, uint64_t cirn)
{
	uint32_t machine = (uint32_t)(cirn >> (INSTANCE_BITS + PART_BITS));
	uint32_t process = (uint32_t)(cirn >> INSTANCE_BITS) & PART_MASK;

	if (!process || machine != incarnation->machine)
		return MADE_ELSEWHERE;
	if (process == incarnation->process)
		return MADE_HERE;
	return machine ? MADE_ON_MACHINE : MADE_ELSEWHERE;
}
