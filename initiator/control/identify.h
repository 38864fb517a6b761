/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading of what a controller says about itself and its namespaces. Pure: nothing of the
 * answer is trusted, everything out of range is refused with a reason or ignored. The
 * buffers are private copies, since the controller can write to registered memory
 * whenever it likes.
 */
#pragma once

#include <stdbool.h>

#include "transport/wire/fabrics.h"

enum {
	IDENTIFY_TRANSFER_MAX = 1 << 20, /* we never move more by one command */
};

struct identify_controller {
	uint16_t cntlid;
	uint32_t version;
	uint32_t max_transfer_bytes; /* MDTS, at most IDENTIFY_TRANSFER_MAX */
	uint32_t in_capsule_bytes;   /* data room of an I/O capsule; 0: none */
	uint16_t max_commands;	     /* MAXCMD; 0: not told */
	uint32_t async_events;	     /* OAES */
	uint16_t quiesce_ms;	     /* CQT; 0: not told */
	uint64_t instance;	     /* CIRN; 0: no Cross-Controller Reset */
	uint8_t uniquifier;	     /* CIU; 0: as above */
	bool has_traffic_keep_alive; /* TBKAS */
	bool has_ana;		     /* namespaces belong to groups: log page 0Ch */
	bool has_keep_alive;
	bool has_volatile_cache;
	bool has_write_zeroes, has_trim;
	uint32_t max_compare_blocks; /* ACWU, of a Compare and Write; 0: has none */
	char serial[21], model[41], firmware[9];
};

struct identify_namespace {
	uint64_t n_blocks; /* 0: no such namespace */
	unsigned block_shift;
	uint32_t ana_group;	     /* 0: none */
	uint32_t max_compare_blocks; /* NACWU; 0: the controller's holds */
	bool is_read_only;
	bool reads_zero_after_trim;
	bool can_unmap_zeroes; /* DEAC in Write Zeroes is honoured, and reads back as zeroes */
	uint8_t nguid[16], eui64[8];
};

/* The lasting identity of a namespace: compared at each reconnect. All zero: not given. */
struct identify_ids {
	uint8_t uuid[16], nguid[16], eui64[8];
};

struct identify_limits {
	uint64_t max_zero_bytes; /* 0: no limit */
	uint64_t max_trim_blocks;
	bool reports_allocated; /* by Get LBA Status */
};

/* NULL, or why this controller cannot be used. is_io: an I/O controller of subsystem
 * subnqn. */
const char *identify_parse_controller(const void *data, bool is_io, const char *subnqn,
				      struct identify_controller *ret);
/* NULL (n_blocks 0 when the namespace does not exist), or why it cannot be used. */
const char *identify_parse_namespace(const void *data, struct identify_namespace *ret);
/* Descriptor list (CNS 03h); malformed entries end it. */
void identify_parse_ids(const void *data, struct identify_ids *ret);
/* The namespace's own fields stand in for descriptors that the list lacks. */
void identify_merge_ids(struct identify_ids *ids, const struct identify_namespace *ns);
/* Limits of the NVM command set (CNS 06h). */
void identify_parse_limits(const void *data, struct identify_limits *ret);

/* True when a and b may be one namespace: no identifier that both have differs. */
bool identify_ids_match(const struct identify_ids *a, const struct identify_ids *b);
bool identify_ids_are_empty(const struct identify_ids *ids);

/* Namespace list (CNS 02h, changed namespace list). "1, 2, 5, ..." into buf, cut at n. */
const char *identify_format_list(const void *data, char *buf, size_t n);
/* Log 04h: nsid is in the list, or the list has overflowed. */
bool identify_list_has(const void *data, uint32_t nsid);
