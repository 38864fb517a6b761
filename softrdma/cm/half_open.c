/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests whose senders have proved nothing; see half_open.h. */
#include "softrdma/cm/half_open.h"

#include <stddef.h>
#include <string.h>

/* The first 24 bits of an IPv4 address, or 64 of an IPv6 address. */
static uint64_t network_of(const uint8_t gid[16])
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	bool is_ip4 = !memcmp(gid, mapped, sizeof(mapped));
	uint64_t network = is_ip4;

	for (unsigned i = is_ip4 ? 12 : 0, end = is_ip4 ? 15 : 8; i < end; i++)
		network = network << 8 | gid[i];
	return network;
}

static void append(struct half_opens *t, struct half_open *h, enum half_open_kind kind)
{
	h->kind = kind;
	h->next = NULL;
	h->previous = t->last[kind];
	if (h->previous)
		h->previous->next = h;
	else
		t->first[kind] = h;
	t->last[kind] = h;
	t->n[kind]++;
}

void half_open_remove(struct half_opens *t, struct half_open *h)
{
	if (h->kind == HALF_OPEN_NOT)
		return;
	if (h->previous)
		h->previous->next = h->next;
	else
		t->first[h->kind] = h->next;
	if (h->next)
		h->next->previous = h->previous;
	else
		t->last[h->kind] = h->previous;
	t->n[h->kind]--;
	h->kind = HALF_OPEN_NOT;
}

bool half_open_is_known(const struct half_opens *t, const uint8_t gid[16])
{
	for (unsigned i = 0; i < t->n_known && i < HALF_OPEN_ADDRESSES; i++)
		if (!memcmp(t->known[i], gid, 16))
			return true;
	return false;
}

void half_open_know(struct half_opens *t, const uint8_t gid[16])
{
	if (!half_open_is_known(t, gid))
		memcpy(t->known[t->n_known++ % HALF_OPEN_ADDRESSES], gid, 16);
}

/* Whether that request was dropped a while ago; if not, it is from now on. */
static bool was_seen(struct half_opens *t, const uint8_t gid[16], uint32_t id)
{
	uint64_t hash = 14695981039346656037u ^ id;
	uint32_t *at, tag;

	for (unsigned i = 0; i < 16; i++)
		hash = (hash ^ gid[i]) * 1099511628211u;
	at = &t->seen[(hash ^ hash >> 29) % HALF_OPEN_SEEN];
	tag = (uint32_t)(hash >> 32) | 1;
	if (*at == tag)
		return true;
	*at = tag;
	return false;
}

bool half_open_may_come(struct half_opens *t, const uint8_t gid[16], uint32_t id, uint64_t now_ns)
{
	const uint64_t each = 1000000000 / HALF_OPEN_RATE;

	if (half_open_is_known(t, gid))
		return true;
	if (t->paid_ns > now_ns + HALF_OPEN_STRANGERS * each)
		return was_seen(t, gid, id);
	t->paid_ns = (t->paid_ns > now_ns ? t->paid_ns : now_ns) + each;
	return true;
}

/* The oldest request of a known address, if it has too many. */
static struct half_open *excess_of_known(const struct half_opens *t, const uint8_t gid[16])
{
	struct half_open *oldest = NULL;
	unsigned n = 0;

	for (struct half_open *h = t->first[HALF_OPEN_OF_KNOWN]; h; h = h->next) {
		if (memcmp(h->gid, gid, 16))
			continue;
		oldest = oldest ? oldest : h;
		n++;
	}
	return n > HALF_OPEN_KNOWN ? oldest : NULL;
}

/* How many strangers have the network of h, and the oldest of them. */
static unsigned count_network(const struct half_opens *t, const struct half_open *h,
			      struct half_open **ret_oldest)
{
	unsigned n = 0;

	for (struct half_open *k = t->first[HALF_OPEN_STRANGER]; k; k = k->next) {
		if (k->network != h->network)
			continue;
		if (!n++)
			*ret_oldest = k;
	}
	return n;
}

/* The oldest one of the networks that have the most. */
static struct half_open *oldest_of_largest(const struct half_opens *t)
{
	struct half_open *found = NULL, *oldest = NULL;
	unsigned most = 0;

	for (struct half_open *h = t->first[HALF_OPEN_STRANGER]; h; h = h->next) {
		unsigned n = count_network(t, h, &oldest);

		if (n > most)
			found = oldest;
		most = n > most ? n : most;
	}
	return found;
}

static struct half_open *excess_of_strangers(const struct half_opens *t, const struct half_open *h)
{
	struct half_open *oldest = NULL;

	if (count_network(t, h, &oldest) > HALF_OPEN_NETWORK)
		return oldest;
	return t->n[HALF_OPEN_STRANGER] > HALF_OPEN_STRANGERS ? oldest_of_largest(t) : NULL;
}

struct half_open *half_open_add(struct half_opens *t, struct half_open *h, const uint8_t gid[16])
{
	bool known = half_open_is_known(t, gid);

	memcpy(h->gid, gid, 16);
	h->network = network_of(gid);
	append(t, h, known ? HALF_OPEN_OF_KNOWN : HALF_OPEN_STRANGER);
	return known ? excess_of_known(t, gid) : excess_of_strangers(t, h);
}
