/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The durability contract of each kind of store, as text; see durability.h. The backend chooses its
 * row when it has opened the store, and sets has_volatile_cache from the same facts. The key cache
 * of a namespace overrides the row.
 */
#include "base/bits.h"
#include "base/check.h"
#include "base/log.h"
#include "target/export/durability.h"
#include "target/store/standby.h"

#define WHOLE_BY_RBLKD	     "whole: rblkd sees to it"
#define WHOLE_BY_FILE_SYSTEM "whole if the file system keeps them so"
#define WHOLE_BY_DEVICE	     "whole if the device keeps them so"

static const struct durability meanings[] = {
	[DURABILITY_UNKNOWN] = {"unknown", "unknown", "unknown", "unknown"},
	[DURABILITY_NONE] = {"none", "nothing: what is written is dropped",
			     "nothing: what is written is dropped", "none is kept"},
	[DURABILITY_MEMORY] = {"none", "nothing: the contents end with rblkd",
			       "nothing: the contents end with rblkd", WHOLE_BY_RBLKD},
	[DURABILITY_TMPFS] = {"none", "nothing: a file in memory, gone with the machine",
			      "nothing: a file in memory, gone with the machine",
			      WHOLE_BY_FILE_SYSTEM},
	[DURABILITY_FILE] = {"of the disk", "fdatasync", "O_DSYNC write", WHOLE_BY_FILE_SYSTEM},
	[DURABILITY_PAGE_CACHE] = {"page cache", "fdatasync", "write, then fdatasync",
				   WHOLE_BY_RBLKD},
	[DURABILITY_WRITE_BACK] = {"write back", "fdatasync: the disk's cache is emptied",
				   "O_DSYNC write", WHOLE_BY_DEVICE},
	[DURABILITY_WRITE_THROUGH] = {"none", "nothing left to do: each write is safe when it ends",
				      "as every write", WHOLE_BY_DEVICE},
	[DURABILITY_UNKNOWN_CACHE] = {"unknown, taken for write back",
				      "fdatasync: the disk's cache is emptied", "O_DSYNC write",
				      WHOLE_BY_DEVICE},
	[DURABILITY_REPLICATED] = {"none", "nothing left to do: each write is on all replicas",
				   "as every write", "whole: the cluster sees to it"},
};

static const struct durability write_through = {
	"none: write-through", "nothing left to do: each write is durable when it ends",
	"as every write: O_DSYNC, or write, then fdatasync", NULL};

const struct durability *durability_of(const struct namespace *ns)
{
	enum backend_durability is = ns->backend->limits.durability;

	check((unsigned)is < ARRAY_LEN(meanings));
	if (ns->is_write_through)
		return &write_through;
	return &meanings[ns->has_cache && is == DURABILITY_WRITE_THROUGH ? DURABILITY_WRITE_BACK
									 : is];
}

const char *durability_blocks_of(const struct namespace *ns)
{
	check((unsigned)ns->backend->limits.durability < ARRAY_LEN(meanings));
	return meanings[ns->backend->limits.durability].blocks;
}

static bool is_new(const struct snapshot *before, const struct subsystem *subsystem,
		   const struct namespace *ns)
{
	const struct subsystem *was = before ? snapshot_find(before, subsystem->nqn) : NULL;

	return !was || subsystem_namespace(was, ns->nsid) != ns;
}

void durability_log(const struct snapshot *snapshot, const struct snapshot *before)
{
	for (struct namespace_at at = {0}; snapshot_next(snapshot, &at);) {
		const char *nqn = at.subsystem->nqn;
		const struct durability *is = durability_of(at.ns);

		if (is_new(before, at.subsystem, at.ns) && !backend_stands_by(at.ns->backend))
			log_info_about(LOG_ABOUT(.subsystem = nqn, .nsid = at.ns->nsid),
				       "%s, namespace %u (%s): cache: %s; Flush: %s; FUA: %s", nqn,
				       at.ns->nsid, at.ns->path ? at.ns->path : at.ns->kind,
				       is->cache, is->flush, is->fua);
	}
}
