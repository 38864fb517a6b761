/* SPDX-License-Identifier: BSD-3-Clause */
/* Restores what a target gets from its predecessor: export/handover.h. Control thread. */
#pragma once

#include "target/engine/record/target.h"
#include "target/export/handover.h"
#include "target/operations/succession/message.h"

/* The parts of a handover that have come. */
struct handover_parts {
	char *text;  /* owned; NULL: none */
	int *memory; /* owned, with the descriptors */
	unsigned n_memory;
};

/* Takes the descriptors of MESSAGE_HANDOVER and MESSAGE_MEMORY. 0 or -ENOMEM. */
int parts_add(struct handover_parts *parts, struct message *message);
/* Opens it: empty then. 0; or -errno (logged), and there is no handover: what no file has is lost,
 * but the stores are whole. */
int parts_open(struct handover_parts *parts, struct handover *ret_handover);
void parts_free(struct handover_parts *parts); /* accepts a zeroed one */

/* Once the stores are open: what an administrator has set, and hosts must find as it was. */
void restore_settings(struct target *target, const struct handover *handover);
