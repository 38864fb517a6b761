/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of DH-HMAC-CHAP, as a hostile peer sends them: each parser, then the controller's and the
 * host's machine. The first byte chooses, the rest is the message.
 */
#include <stdlib.h>
#include <string.h>

#include "initiator/auth.h"
#include "target/auth/session.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

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

	auth_session_begin(&session, &credentials);
	if (which & 1) { /* as if it waited for a Reply */
		session.hash = NVMF_HASH_SHA256;
		session.step = AUTH_STEP_REPLY;
	}
	auth_session_take(&session, message, n);
	auth_session_give(&session, page, sizeof(page), &outcome);
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
	if (which & 1) {
		host.hash = NVMF_HASH_SHA256;
		host.wanted = AUTH_KIND_SUCCESS1;
	}
	auth_host_take(&host, page);
	auth_host_reset(&host);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	uint8_t *message;
	unsigned which;

	if (n == 0)
		return 0;
	which = data[0];
	message = malloc(n); /* of its very size, so that a sanitizer sees the end */
	if (!message)
		return 0;
	memcpy(message, data + 1, n - 1);
	parse(which, message, n - 1);
	tell_controller(which, message, n - 1);
	tell_host(which, message, n - 1);
	free(message);
	return 0;
}
