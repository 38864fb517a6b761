/* SPDX-License-Identifier: BSD-3-Clause */
/* The fake target's log pages that a host reads in pieces: discovery and ANA groups. They may
 * change between two reads: see `shrinks` and `restless` in struct options. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct slot;

#define DISCOVERY_NQN "nqn.2014-08.org.nvmexpress.discovery"

/* Copies n bytes from offset on into slot->data, which is zero. false: nothing is there. */
bool logs_discovery(struct slot *slot, uint64_t offset, uint32_t n);
bool logs_ana(struct slot *slot, uint64_t offset, uint32_t n);
/* "list PORT...": from now on the discovery log has the subsystem at these ports of 127.0.0.1;
 * "refer PORT...": and refers to discovery there. False: it is another line. */
bool logs_line(const char *line);
unsigned logs_reads(void); /* so far, of pieces */
