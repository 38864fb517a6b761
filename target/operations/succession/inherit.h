/* SPDX-License-Identifier: BSD-3-Clause */
/* What a target gets from its predecessor: export/estate.h. Control thread. */
#pragma once

#include "target/engine/target.h"
#include "target/export/estate.h"
#include "target/operations/succession/message.h"

/* The parts of an estate that have come. */
struct parcel {
	char *text;  /* owned; NULL: none */
	int *memory; /* owned, with the descriptors */
	unsigned n_memory;
};

/* Takes the descriptors of MESSAGE_ESTATE and MESSAGE_MEMORY. 0 or -ENOMEM. */
int parcel_add(struct parcel *parcel, struct message *message);
/* Opens it: empty then. 0; or -errno (logged), and there is no estate: a loss of what no file has,
 * but the stores are whole. */
int parcel_open(struct parcel *parcel, struct estate *ret_estate);
void parcel_free(struct parcel *parcel); /* accepts a zeroed one */

/* Once the stores are open: what an administrator has set, and hosts must find as it was. */
void inherit_settings(struct target *target, const struct estate *estate);
