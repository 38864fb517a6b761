/* SPDX-License-Identifier: BSD-3-Clause */
/* Sends a challenge, accepts any Reply, and answers it with a wrong proof of its own identity
 * (Base 2.0, 8.13.5). */
#include <string.h>

#include "tests/hostile_target/auth.h"

static unsigned n_said;
static uint16_t tid;

void auth_begin(void)
{
	n_said = 0;
}

void auth_take(const struct slot *slot)
{
	tid = rd16(slot->data + 4);
}

void auth_say(struct slot *slot)
{
	uint8_t *d = slot->data;
	bool is_first = n_said++ == 0;

	memset(d, 0, DATA_BYTES);
	d[0] = 1;
	d[1] = is_first ? 1 : 3; /* Challenge, Success1 */
	wr16(d + 4, tid);
	d[6] = 32;
	d[8] = 1;	  /* SHA-256; of Success1: a response is present */
	d[12] = is_first; /* the sequence number */
	slot->out = d;
	slot->n_out = 16 + 32;
}
