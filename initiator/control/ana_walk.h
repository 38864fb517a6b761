/* SPDX-License-Identifier: BSD-3-Clause */
/* Log page 0Ch as a target sends it: the walk to our group; see ana_log.h. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* A walk through the page, piece by piece. */
struct ana_cursor {
	uint32_t group;	       /* wanted */
	uint64_t at;	       /* where the next piece begins; 0: with the header */
	unsigned n_left;       /* descriptors */
	uint64_t change_count; /* from the header */
	unsigned state;	       /* enum nvme_ana_state, once found; 0: it has none that is known */
};

enum ana_walk {
	ANA_WALK_FOUND,
	ANA_WALK_MORE, /* read from cursor->at on */
	ANA_WALK_END,  /* the group is not there */
};

/* Pure; the page is untrusted. data: n bytes of it from cursor->at on, 64 or more. */
enum ana_walk ana_log_walk(struct ana_cursor *cursor, const void *data, size_t n);

/* Pure. data: the page's header. */
uint64_t ana_log_change_count(const void *data);
