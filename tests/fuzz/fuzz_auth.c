/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * DH-HMAC-CHAP. The first byte chooses.
 *
 * Even: each parser, and the controller's and the host's state machine, get the rest as one
 * message.
 *
 * Odd: a host and a controller run a whole exchange, and the messages between them are edited. The
 * second byte chooses their configuration (bits of enum setting). The rest is edits of four bytes:
 * the number of the message, the offset in it (2 bytes), and the value XORed there; 0 truncates the
 * message at that offset.
 */
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/check.h"
#include "initiator/io/auth.h"
#include "target/association/auth/session.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* ---- one message ---------------------------------------------------------------------------- */

static void parse(unsigned which, const uint8_t *message, size_t n)
{
	struct auth_challenge challenge;
	struct auth_offer offer;
	struct auth_reply reply;
	const uint8_t *response;

	for (unsigned hash = NVMF_HASH_SHA256; hash < NVMF_HASHES; hash++)
		auth_parse_success1(message, n, hash, &response);
	auth_parse_negotiate(message, n, &offer);
	auth_parse_challenge(message, n, &challenge);
	auth_parse_reply(message, n, 1 + which % 3, which % NVMF_DH_GROUPS, &reply);
	auth_parse_failure(message, n);
}

static void tell_controller(unsigned which, const uint8_t *message, size_t n)
{
	static struct auth_session session = {.hostnqn = "nqn.a", .subnqn = "nqn.b"};
	struct credentials credentials = {.keys = {{.n = 32}},
					  .n_keys = 1,
					  .hashes = {1, 2, 3},
					  .n_hashes = 3,
					  .n_dhgroups = 1};
	uint8_t page[AUTH_BUFFER_BYTES];
	enum auth_outcome outcome;

	auth_session_begin(&session, which & 4 ? NULL : &credentials);
	if (which & 2) { /* as if it waited for a Reply */
		session.hash = NVMF_HASH_SHA256;
		session.step = AUTH_STEP_REPLY;
	}
	auth_session_take(&session, message, n);
	auth_session_give(&session, page, which & 8 ? 8 : sizeof(page), &outcome);
	auth_session_reset(&session);
}

static void tell_host(unsigned which, const uint8_t *message, size_t n)
{
	static const struct auth_keys keys = {.key.n = 32, .ctrl_key.n = 32};
	static struct auth_host host;
	uint8_t page[AUTH_BUFFER_BYTES] = {0};

	auth_host_begin(&host, &keys, "nqn.a", "nqn.b");
	memcpy(page, message, n < sizeof(page) ? n : sizeof(page));
	page[9] = NVMF_DH_NULL; /* the arithmetic is not what is looked for */
	memcpy(page + 4, &host.tid, sizeof(host.tid));
	if (which & 2) {
		host.hash = NVMF_HASH_SHA256;
		host.wanted = AUTH_KIND_SUCCESS1;
	}
	auth_host_take(&host, page);
	auth_host_reset(&host);
}

/* Authentication, by the result of a Connect. */
static void read_connect(unsigned which)
{
	static const struct auth_keys keys = {.key.n = 32}, both = {.key.n = 32, .ctrl_key.n = 32};
	static const struct auth_keys *const choices[] = {NULL, &keys, &both, &both};
	uint64_t result = which & 2 ? NVMF_CONNECT_ATR : 0;
	enum auth_host_failure failure;

	if (auth_host_is_asked(choices[which >> 2 & 3], result, &failure))
		check(failure == AUTH_HOST_OK && which & 2);
}

/* ---- both sides ----------------------------------------------------------------------------- */

enum setting {
	HAS_CTRL_KEY = 1 << 0,
	WANTS_PROOF = 1 << 1,
	IS_SECOND_KEY = 1 << 2,
	IS_WRONG_KEY = 1 << 3,
	HAS_DH = 1 << 4,
	HASH_SHIFT = 5, /* 2 bits */
};

struct talk {
	const uint8_t *edits; /* of 4 bytes */
	size_t n_edits;
	unsigned n_messages; /* so far */
};

/* The bytes that are left. */
static size_t edit(struct talk *talk, uint8_t *message, size_t n)
{
	unsigned which = talk->n_messages++;

	for (size_t i = 0; i < talk->n_edits; i++) {
		const uint8_t *e = talk->edits + 4 * i;
		size_t at = e[1] | (size_t)e[2] << 8;

		if (e[0] != which || at >= n)
			continue;
		if (e[3])
			message[at] ^= e[3];
		else
			n = at;
	}
	return n;
}

static struct credentials make_credentials(unsigned setting)
{
	struct credentials credentials = {
		.keys = {{.n = 32, .bytes = {1}}, {.n = 32, .bytes = {2}}},
		.n_keys = 2,
		.hashes = {(uint8_t)(1 + (setting >> HASH_SHIFT) % 3)},
		.n_hashes = 1,
		.dhgroups = {setting & HAS_DH ? NVMF_DH_2048 : NVMF_DH_NULL},
		.n_dhgroups = 1,
	};

	if (setting & HAS_CTRL_KEY)
		credentials.ctrl_key = (struct auth_key){.n = 32, .bytes = {3}};
	return credentials;
}

static struct auth_keys make_keys(unsigned setting)
{
	struct auth_keys keys = {.key = {.n = 32, .bytes = {1}}};

	if (setting & IS_SECOND_KEY)
		keys.key.bytes[0] = 2;
	if (setting & IS_WRONG_KEY)
		keys.key.bytes[0] = 9;
	if (setting & WANTS_PROOF)
		keys.ctrl_key = (struct auth_key){.n = 32, .bytes = {3}};
	return keys;
}

/* A message of the host, in memory of its very size. */
static enum auth_outcome send_message(struct talk *talk, struct auth_host *host,
				      struct auth_session *session)
{
	uint8_t *message = malloc(host->n_message);
	enum auth_outcome outcome;
	size_t n;

	check(message && host->n_message > 0);
	memcpy(message, host->message, host->n_message);
	n = edit(talk, message, host->n_message);
	message = realloc(message, n ? n : 1);
	check(message);
	outcome = auth_session_take(session, message, n);
	free(message);
	return outcome;
}

static enum auth_host_step receive(struct talk *talk, struct auth_host *host,
				   struct auth_session *session, bool *ret_is_proven)
{
	uint8_t page[AUTH_BUFFER_BYTES] = {0};
	enum auth_outcome outcome;

	if (auth_session_give(session, page, sizeof(page), &outcome) < 0)
		return AUTH_HOST_FAILED;
	*ret_is_proven = outcome == AUTH_PROVEN;
	edit(talk, page, sizeof(page));
	return auth_host_take(host, page);
}

static void talk_on(struct talk *talk, struct auth_host *host, struct auth_session *session,
		    unsigned setting)
{
	enum auth_host_step step = AUTH_HOST_SEND;
	struct nvme_sqe sqe = {0};
	bool is_proven = false;

	while (step == AUTH_HOST_SEND || step == AUTH_HOST_RECEIVE) {
		check(auth_host_fill_command(host, step, &sqe) <= AUTH_BUFFER_BYTES);
		if (step == AUTH_HOST_RECEIVE) {
			step = receive(talk, host, session, &is_proven);
		} else {
			is_proven = send_message(talk, host, session) == AUTH_PROVEN;
			step = auth_host_sent(host);
		}
	}
	if (is_proven)
		check(!(setting & IS_WRONG_KEY));
	if (step == AUTH_HOST_DONE && setting & WANTS_PROOF)
		check(setting & HAS_CTRL_KEY);
	if (!talk->n_edits && !(setting & IS_WRONG_KEY) &&
	    (!(setting & WANTS_PROOF) || setting & HAS_CTRL_KEY))
		check(step == AUTH_HOST_DONE && is_proven);
}

static void converse(unsigned setting, const uint8_t *edits, size_t n)
{
	static struct auth_session session = {.hostnqn = "nqn.a", .subnqn = "nqn.b"};
	static struct auth_host host;
	struct talk talk = {.edits = edits, .n_edits = MIN(n / 4, 16)};
	struct credentials credentials = make_credentials(setting);
	struct auth_keys keys = make_keys(setting);

	auth_session_begin(&session, &credentials);
	check(auth_host_begin(&host, &keys, "nqn.a", "nqn.b") == AUTH_HOST_SEND);
	talk_on(&talk, &host, &session, setting);
	auth_host_reset(&host);
	auth_session_reset(&session);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	uint8_t *message;

	if (n < 2)
		return 0;
	if (data[0] & 1) {
		converse(data[1], data + 2, n - 2);
		return 0;
	}
	message = malloc(n - 1); /* of its very size, so that a sanitizer sees the end */
	check(message);
	memcpy(message, data + 1, n - 1);
	parse(data[0] >> 1, message, n - 1);
	tell_controller(data[0], message, n - 1);
	tell_host(data[0], message, n - 1);
	read_connect(data[0]);
	free(message);
	return 0;
}
