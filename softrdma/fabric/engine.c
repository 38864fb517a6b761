/* SPDX-License-Identifier: BSD-3-Clause */
/* The engines that parts list, and which one a queue pair gets. See engine.h. */
#include "softrdma/fabric/engine.h"

#include "softrdma/process/part.h"

static const struct sr_engine *for_the_rest;
const struct sr_engine *_Atomic sr_engine_reads;

const struct sr_engine *sr_engine(void)
{
	return for_the_rest;
}

const struct sr_engine *sr_engine_for(const struct ibv_qp_attr *attr)
{
	SR_FOR_EACH_PART(part)
	if (part->engine && part->engine->serves && part->engine->serves(attr))
		return part->engine;
	return for_the_rest;
}

const struct sr_engine *sr_engine_to(const union ibv_gid *local, const union ibv_gid *remote)
{
	SR_FOR_EACH_PART(part)
	if (part->engine && part->engine->reaches && part->engine->reaches(local, remote))
		return part->engine;
	return NULL;
}

void sr_engine_open(void)
{
	SR_FOR_EACH_PART(part)
	if (part->engine && part->engine->open)
		part->engine->open();
}

enum ibv_mtu sr_engine_path_mtu(void)
{
	SR_FOR_EACH_PART(part)
	if (part->engine && part->engine->path_mtu && part->engine->path_mtu())
		return part->engine->path_mtu();
	return IBV_MTU_4096;
}

static void choose(void)
{
	SR_FOR_EACH_PART(part)
	if (part->engine && !part->engine->serves)
		for_the_rest = part->engine;
}

static void forget(void)
{
	atomic_store(&sr_engine_reads, NULL);
}

static const struct sr_part part = {.start = choose, .forget = forget};
SR_PART(part);
