/* SPDX-License-Identifier: BSD-3-Clause */
/* The specifications' names of status codes, and the rules for NVMe Qualified Names. Pure. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "transport/wire/fabrics.h"
#include "transport/wire/nvme.h"
#include "transport/wire/rdma_cm.h"

/*
 * Reads an NQN from a field of n bytes of a peer (4.5). The field must contain a NUL, and in front
 * of it at most 223 characters of printable UTF-8 without blanks that begin with "nqn.". Returns 0
 * with a terminated copy, or -EINVAL.
 */
int nqn_from_field(const uint8_t *field, size_t n, char ret_nqn[NVMF_NQN_MAX + 1]);
/*
 * Reads a host's NQN from a Connect. It accepts more than the specification: SPDK's tools send an
 * empty name if none is configured, and hosts of other vendors have names of their own. An allow
 * list contains only valid names, so such a host gets only what any host may use.
 */
int hostnqn_from_field(const uint8_t *field, size_t n, char ret_nqn[NVMF_NQN_MAX + 1]);
/* The name for log records: never empty. */
const char *hostnqn_label(const char *hostnqn);
/* NULL: s is a valid NQN; else what is wrong with it, static, for a message. */
const char *nqn_check(const char *s);

/* The specification's name: "Invalid Field in Command". Never NULL. */
const char *nvme_status_string(enum nvme_status status);
/* Which blocks a log record is about: " of 8 blocks at LBA 16"; "" for none. Any thread. */
void nvme_range_format(char *text, size_t n, uint64_t lba, uint64_t n_blocks);

/* "optimized", "non_optimized"...; "unknown" for any other value. */
const char *nvme_ana_state_string(unsigned state);

/* The status as text; never NULL. */
const char *nvmf_cm_status_string(enum nvmf_cm_status status);
