/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * DH-HMAC-CHAP without a wire: secrets as text and in files; responses against values that another
 * implementation computed; messages whole and truncated; both sides' state machines against each
 * other and against a peer that violates the protocol.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/bits.h"
#include "initiator/io/auth.h"
#include "target/association/auth/session.h"

#define HOSTNQN "nqn.2014-08.org.nvmexpress:uuid:6f1b3a52-7f0e-4c4e-9d0c-0a4d5e6f7a8b"
#define SUBNQN	"nqn.2026-01.org.example:raw"
/* A secret in the textual form of the specification. */
#define KNOWN "DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:"

/* ---- secrets ------------------------------------------------------------------------------- */

static void known_secret(void **state)
{
	struct auth_key key;
	char text[AUTH_KEY_TEXT];

	assert_null(auth_key_parse(KNOWN, &key));
	assert_int_equal(key.n, 32);
	assert_int_equal(key.hash, NVMF_HASH_NONE);
	assert_int_equal(key.bytes[0], 0x89);
	auth_key_format(&key, text);
	assert_string_equal(text, KNOWN);
}

static void made_secrets_come_back(void **state)
{
	static const unsigned lengths[] = {32, 48, 64};
	char text[AUTH_KEY_TEXT], other[AUTH_KEY_TEXT];
	struct auth_key key, again;

	for (unsigned i = 0; i < ARRAY_LEN(lengths); i++) {
		for (unsigned hash = 0; hash < NVMF_HASHES; hash++) {
			assert_int_equal(auth_key_generate(lengths[i], hash, &key), 0);
			auth_key_format(&key, text);
			assert_null(auth_key_parse(text, &again));
			assert_memory_equal(&key, &again, sizeof(key));
			assert_int_equal(auth_key_generate(lengths[i], hash, &key), 0);
			auth_key_format(&key, other);
			assert_string_not_equal(text, other);
		}
	}
}

static void wrong_secrets(void **state)
{
	static const char *const texts[] = {
		"",
		"DHHC-1",
		"DHHC-1:",
		"DHHC-1:0",
		"DHHC-1:00",
		"DHHC-1:00:",
		"DHHC-1:00::",
		"DHHC-1:00:=:",
		"DHHC-1:00:====:",
		"DHHC-1:00:AAAA:",
		"DHHC-2:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:",
		"DHHC-1:04:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:",
		"DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n",
		"DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:x",
		"DHHC-1:00:ja6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:",
		"DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2:",
		"DHHC-1:00: a6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:",
	};
	struct auth_key key;

	for (unsigned i = 0; i < ARRAY_LEN(texts); i++) {
		assert_non_null(auth_key_parse(texts[i], &key));
		assert_int_equal(key.n, 0);
	}
}

static void write_file(const char *path, mode_t mode, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	assert_int_equal(chmod(path, mode), 0);
}

static void secret_files(void **state)
{
	char folder[] = "/tmp/test_auth.XXXXXX", path[64];
	struct auth_key keys[2];
	struct error error;

	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/key", folder);
	assert_int_equal(auth_key_read_file(path, keys, 2, &error), -ENOENT);
	write_file(path, 0600, "# of db1\n\n  " KNOWN "\r\n");
	assert_int_equal(auth_key_read_file(path, keys, 2, &error), 1);
	write_file(path, 0400, KNOWN "\n" KNOWN);
	assert_int_equal(auth_key_read_file(path, keys, 2, &error), 2);
	assert_int_equal(auth_key_read_file(path, keys, 1, &error), -EINVAL);
	assert_non_null(strstr(error.message, "more than 1 secret"));
	chmod(path, 0640);
	assert_int_equal(auth_key_read_file(path, keys, 2, &error), -EACCES);
	assert_non_null(strstr(error.message, "chmod 600"));
	write_file(path, 0600, "# nothing\n");
	assert_int_equal(auth_key_read_file(path, keys, 2, &error), -EINVAL);
	write_file(path, 0600, "\nsesame\n");
	assert_int_equal(auth_key_read_file(path, keys, 2, &error), -EINVAL);
	assert_non_null(strstr(error.message, "key:2: "));
	assert_null(strstr(error.message, "sesame"));
	assert_int_equal(auth_key_read_file(folder, keys, 2, &error), -EINVAL);
	unlink(path);
	rmdir(folder);
}

/* ---- responses ----------------------------------------------------------------------------- */

static void responses_of_another_implementation(void **state)
{
	static const struct {
		unsigned hash, transform, is_controllers, n_secret;
		const char *wanted;
	} vectors[] = {
		{1, 0, 0, 0, "970524c08880b7dd5c96e4187f1ff3cd8d07476c9280778e3118c2d7c8268a86"},
		{2, 1, 0, 0,
		 "ab3946e1735d1e06d29bf35710aa131ba1f72d6c67b611a1666ccdc7a5fce4dd3e657cd375dafb90e2495bcc77fa3a63"},
		{3, 3, 1, 0,
		 "a9fad8d9474d90fb70f72bd001918cab81f1664801666279f7511d31fc8deb54ba741478af13ccc113a8a9802138bb2eb7376c4f423d9e42ac17b7427cf9ea5a"},
		{1, 2, 1, 256, "7535b00e1e2e0b6471872bd97c475ae9558fbff99a0153da82357853df989302"},
		{3, 0, 0, 256,
		 "b0f9fe8274c2ba89179c502c814737a56a980cb881e9e58767f4733ea8ac4a76853da1af6bdeadf539b1b0336d711636baf9c359063464db1b6d9c730ca636de"},
	};
	uint8_t challenge[64], secret[256], response[AUTH_HASH_MAX];
	struct auth_key key = {.n = 32};
	char hex[2 * AUTH_HASH_MAX + 1];

	for (unsigned i = 0; i < 256; i++)
		secret[i] = (uint8_t)i;
	memcpy(key.bytes, secret, 32);
	for (unsigned i = 0; i < 64; i++)
		challenge[i] = (uint8_t)(0xa0 + i);
	for (unsigned i = 0; i < ARRAY_LEN(vectors); i++) {
		struct auth_proof proof = {.hash = vectors[i].hash,
					   .is_controllers = vectors[i].is_controllers,
					   .key = &key,
					   .challenge = challenge,
					   .seqnum = 0x01020304,
					   .tid = 0x0a0b,
					   .secret = secret,
					   .n_secret = vectors[i].n_secret,
					   .hostnqn = HOSTNQN,
					   .subnqn = SUBNQN};

		key.hash = (uint8_t)vectors[i].transform;
		assert_int_equal(auth_respond(&proof, response), 0);
		for (unsigned j = 0; j < auth_hash_bytes(proof.hash); j++)
			snprintf(hex + 2 * j, 3, "%02x", response[j]);
		assert_string_equal(hex, vectors[i].wanted);
	}
}

static void bad_public_values(void **state)
{
	uint8_t value[AUTH_DH_MAX], secret[AUTH_DH_MAX];
	struct auth_dh dh;

	for (unsigned group = NVMF_DH_2048; group < NVMF_DH_GROUPS; group++) {
		assert_int_equal(auth_dh_init(&dh, group), 0);
		memset(value, 0, sizeof(value));
		assert_int_equal(auth_dh_derive(&dh, value, secret), -EINVAL); /* 0 */
		value[dh.n - 1] = 1;
		assert_int_equal(auth_dh_derive(&dh, value, secret), -EINVAL); /* 1 */
		/* p - 1 and p: these primes begin and end with 64 ones. */
		memset(value, 0xff, sizeof(value));
		assert_int_equal(auth_dh_derive(&dh, value, secret), -EINVAL);
		assert_int_equal(auth_dh_derive(&dh, dh.public_value, secret), 0);
		auth_dh_deinit(&dh);
	}
}

/* ---- messages ------------------------------------------------------------------------------ */

/* Every parser refuses a message truncated at any byte, and accepts it whole. */
static void cut_messages(void **state)
{
	uint8_t message[AUTH_MESSAGE_MAX], bytes[AUTH_DH_MAX] = {1};
	struct auth_offer offer = {.tid = 7, .hashes = 0xe, .dhgroups = 0x3f};
	struct auth_challenge challenge = {.hash = NVMF_HASH_SHA512,
					   .dhgroup = NVMF_DH_8192,
					   .seqnum = 1,
					   .challenge = bytes,
					   .dh_value = bytes};
	struct auth_reply reply = {.response = bytes,
				   .has_challenge = true,
				   .seqnum = 2,
				   .challenge = bytes,
				   .dh_value = bytes};
	const uint8_t *response;
	size_t n, cut;

	n = auth_write_negotiate(&offer, message);
	for (cut = 0; cut < n; cut++)
		assert_int_equal(auth_parse_negotiate(message, cut, &offer), NVMF_AUTH_PAYLOAD);
	assert_int_equal(auth_parse_negotiate(message, n, &offer), NVMF_AUTH_OK);
	assert_int_equal(offer.hashes, 0xe);
	assert_int_equal(offer.dhgroups, 0x3f);
	n = auth_write_challenge(&challenge, message);
	for (cut = 0; cut < n; cut++)
		assert_int_equal(auth_parse_challenge(message, cut, &challenge), NVMF_AUTH_PAYLOAD);
	assert_int_equal(auth_parse_challenge(message, n, &challenge), NVMF_AUTH_OK);
	n = auth_write_reply(&reply, NVMF_HASH_SHA512, NVMF_DH_8192, message);
	assert_int_equal(n, AUTH_MESSAGE_MAX);
	for (cut = 0; cut < n; cut++)
		assert_int_equal(
			auth_parse_reply(message, cut, NVMF_HASH_SHA512, NVMF_DH_8192, &reply),
			NVMF_AUTH_PAYLOAD);
	assert_int_equal(auth_parse_reply(message, n, NVMF_HASH_SHA256, NVMF_DH_8192, &reply),
			 NVMF_AUTH_PAYLOAD);
	assert_int_equal(auth_parse_reply(message, n, NVMF_HASH_SHA512, NVMF_DH_2048, &reply),
			 NVMF_AUTH_PAYLOAD);
	n = auth_write_success1(7, NVMF_HASH_SHA384, bytes, message);
	for (cut = 0; cut < n; cut++)
		assert_int_equal(auth_parse_success1(message, cut, NVMF_HASH_SHA384, &response),
				 NVMF_AUTH_PAYLOAD);
	assert_int_equal(auth_parse_success1(message, n, NVMF_HASH_SHA384, &response),
			 NVMF_AUTH_OK);
	assert_non_null(response);
}

static void spoilt_negotiates(void **state)
{
	static const struct {
		unsigned at;
		uint8_t value;
		enum nvmf_auth_failure wanted;
	} spoils[] = {
		{6, 1, NVMF_AUTH_SECURE_CHANNEL}, {7, 0, NVMF_AUTH_PAYLOAD},
		{7, 2, NVMF_AUTH_PAYLOAD},	  {7, 255, NVMF_AUTH_PAYLOAD},
		{8, 2, NVMF_AUTH_PROTOCOL},	  {10, 0, NVMF_AUTH_PAYLOAD},
		{10, 31, NVMF_AUTH_PAYLOAD},	  {11, 0, NVMF_AUTH_PAYLOAD},
		{11, 255, NVMF_AUTH_PAYLOAD},
	};
	struct auth_offer offer = {.hashes = 0xe, .dhgroups = 0x3f};
	uint8_t message[AUTH_MESSAGE_MAX];
	size_t n;

	for (unsigned i = 0; i < ARRAY_LEN(spoils); i++) {
		n = auth_write_negotiate(&offer, message);
		message[spoils[i].at] = spoils[i].value;
		assert_int_equal(auth_parse_negotiate(message, n, &offer), spoils[i].wanted);
	}
	/* Parsers skip unknown identifiers. */
	n = auth_write_negotiate(&offer, message);
	message[12] = 0;
	message[13] = 200;
	assert_int_equal(auth_parse_negotiate(message, n, &offer), NVMF_AUTH_OK);
	assert_int_equal(offer.hashes, 1 << NVMF_HASH_SHA512);
}

/* ---- both sides ---------------------------------------------------------------------------- */

struct world {
	struct auth_session session;
	struct auth_host host;
	struct credentials credentials;
	struct auth_keys keys;
	enum auth_outcome outcome; /* the target's last outcome that was not AUTH_GOES_ON */
};

static void world_init(struct world *w)
{
	memset(w, 0, sizeof(*w));
	w->session.hostnqn = HOSTNQN;
	w->session.subnqn = SUBNQN;
	w->credentials = (struct credentials){.n_keys = 1,
					      .hashes = {1, 2, 3},
					      .n_hashes = 3,
					      .dhgroups = {0, 1, 2, 3, 4, 5},
					      .n_dhgroups = 6};
	assert_int_equal(auth_key_generate(32, 0, &w->credentials.keys[0]), 0);
	w->keys.key = w->credentials.keys[0];
}

static void prove_both(struct world *w)
{
	assert_int_equal(auth_key_generate(64, NVMF_HASH_SHA512, &w->keys.ctrl_key), 0);
	w->credentials.ctrl_key = w->keys.ctrl_key;
}

static void note(struct world *w, enum auth_outcome outcome)
{
	if (outcome != AUTH_GOES_ON)
		w->outcome = outcome;
}

/* Carries messages between the two until the host is done. */
static enum auth_host_step run(struct world *w)
{
	enum auth_host_step step = auth_host_begin(&w->host, &w->keys, HOSTNQN, SUBNQN);

	w->outcome = AUTH_GOES_ON;
	for (unsigned i = 0; i < 10; i++) {
		uint8_t page[AUTH_BUFFER_BYTES] = {0};
		enum auth_outcome outcome;

		if (step == AUTH_HOST_SEND) {
			if (i == 0)
				auth_session_begin(&w->session, &w->credentials);
			note(w, auth_session_take(&w->session, w->host.message, w->host.n_message));
			step = auth_host_sent(&w->host);
		} else if (step == AUTH_HOST_RECEIVE) {
			assert_int_equal(
				auth_session_give(&w->session, page, sizeof(page), &outcome), 0);
			note(w, outcome);
			step = auth_host_take(&w->host, page);
		} else {
			return step;
		}
	}
	fail_msg("it does not end");
	return AUTH_HOST_FAILED;
}

static void world_end(struct world *w)
{
	auth_host_reset(&w->host);
	auth_session_reset(&w->session);
}

static void each_hash_and_group(void **state)
{
	for (uint8_t hash = NVMF_HASH_SHA256; hash < NVMF_HASHES; hash++) {
		for (uint8_t group = NVMF_DH_NULL; group < NVMF_DH_GROUPS; group++) {
			struct world w;

			world_init(&w);
			w.credentials.hashes[0] = hash;
			w.credentials.dhgroups[0] = group;
			w.credentials.keys[0].hash = w.keys.key.hash = group & 3;
			if ((hash + group) & 1)
				prove_both(&w);
			assert_int_equal(run(&w), AUTH_HOST_DONE);
			assert_int_equal(w.outcome, AUTH_PROVEN);
			assert_int_equal(w.host.hash, hash);
			assert_int_equal(w.host.dh.n, auth_dh_bytes(group));
			world_end(&w);
		}
	}
}

static void wrong_keys(void **state)
{
	struct world w;

	world_init(&w);
	prove_both(&w);
	w.keys.key.bytes[31] ^= 1;
	assert_int_equal(run(&w), AUTH_HOST_FAILED);
	assert_int_equal(w.host.failure, AUTH_HOST_REFUSED);
	assert_int_equal(w.outcome, AUTH_REFUSED);
	w.keys.key.bytes[31] ^= 1;
	w.keys.key.hash = NVMF_HASH_SHA256;
	assert_int_equal(run(&w), AUTH_HOST_FAILED);
	w.keys.key.hash = NVMF_HASH_NONE;
	w.keys.ctrl_key.bytes[0] ^= 1;
	assert_int_equal(run(&w), AUTH_HOST_FAILED);
	assert_int_equal(w.host.failure, AUTH_HOST_WRONG_TARGET);
	assert_int_equal(w.outcome, AUTH_REFUSED);
	w.credentials.ctrl_key.n = 0;
	assert_int_equal(run(&w), AUTH_HOST_FAILED);
	assert_int_equal(w.host.failure, AUTH_HOST_REFUSED);
	w.credentials.n_keys = 0; /* the key is removed meanwhile */
	assert_int_equal(run(&w), AUTH_HOST_FAILED);
	world_end(&w);
}

static void two_keys(void **state)
{
	struct world w;

	world_init(&w);
	w.credentials.keys[1] = w.credentials.keys[0];
	assert_int_equal(auth_key_generate(32, 0, &w.credentials.keys[0]), 0);
	w.credentials.n_keys = 2;
	assert_int_equal(run(&w), AUTH_HOST_DONE);
	assert_true(w.session.has_used_second_key);
	w.keys.key = w.credentials.keys[0];
	assert_int_equal(run(&w), AUTH_HOST_DONE);
	assert_int_equal(auth_key_generate(32, 0, &w.keys.key), 0);
	assert_int_equal(run(&w), AUTH_HOST_FAILED);
	world_end(&w);
}

static void nothing_in_common(void **state)
{
	struct auth_offer offer = {
		.tid = 1, .hashes = 1 << NVMF_HASH_SHA384, .dhgroups = 1 << NVMF_DH_2048};
	uint8_t message[AUTH_MESSAGE_MAX];
	struct world w;
	size_t n = auth_write_negotiate(&offer, message);

	world_init(&w);
	w.credentials.n_hashes = 1;
	auth_session_begin(&w.session, &w.credentials);
	assert_int_equal(auth_session_take(&w.session, message, n), AUTH_REFUSED);
	assert_int_equal(w.session.message[7], NVMF_AUTH_HASH);
	w.credentials.n_hashes = 3;
	w.credentials.n_dhgroups = 1;
	auth_session_begin(&w.session, &w.credentials);
	assert_int_equal(auth_session_take(&w.session, message, n), AUTH_REFUSED);
	assert_int_equal(w.session.message[7], NVMF_AUTH_DHGROUP);
	world_end(&w);
}

/* A message out of order is refused, and ends the exchange. */
static void out_of_order(void **state)
{
	static const uint8_t kinds[][2] = {{1, 1},    {1, 2},	 {1, 3}, {1, 4},
					   {0, 0xf0}, {0, 0xf1}, {7, 7}};
	uint8_t page[AUTH_BUFFER_BYTES];
	enum auth_outcome outcome;
	struct world w;

	world_init(&w);
	for (unsigned i = 0; i < ARRAY_LEN(kinds); i++) {
		memset(page, 0, sizeof(page));
		memcpy(page, kinds[i], 2);
		auth_session_begin(&w.session, &w.credentials);
		assert_int_equal(auth_session_take(&w.session, page, sizeof(page)), AUTH_REFUSED);
		assert_int_equal(auth_session_give(&w.session, page, 7, &outcome), -EMSGSIZE);
		assert_int_equal(auth_session_give(&w.session, page, 8, &outcome), 0);
		assert_int_equal(page[1], NVMF_AUTH_FAILURE1);
		assert_int_equal(auth_session_give(&w.session, page, 8, &outcome), -EPROTO);
	}
	assert_int_equal(auth_session_take(&w.session, page, 5), AUTH_REFUSED);
	assert_int_equal(run(&w), AUTH_HOST_DONE); /* the host may always start a new exchange */
	world_end(&w);
}

/* A Reply of an earlier exchange is refused in the next; so is our own challenge sent back. */
static void replayed(void **state)
{
	uint8_t old[AUTH_MESSAGE_MAX], page[AUTH_BUFFER_BYTES] = {0};
	enum auth_outcome outcome;
	struct world w;
	size_t n;

	world_init(&w);
	auth_host_begin(&w.host, &w.keys, HOSTNQN, SUBNQN);
	auth_session_begin(&w.session, &w.credentials);
	auth_session_take(&w.session, w.host.message, w.host.n_message);
	memcpy(old, w.host.message, w.host.n_message);
	n = w.host.n_message;
	auth_session_give(&w.session, page, sizeof(page), &outcome);
	assert_int_equal(auth_host_take(&w.host, page), AUTH_HOST_SEND);
	assert_int_equal(auth_session_take(&w.session, w.host.message, w.host.n_message),
			 AUTH_GOES_ON);
	auth_session_begin(&w.session, &w.credentials);
	auth_session_take(&w.session, old, n);
	auth_session_give(&w.session, page, sizeof(page), &outcome);
	assert_int_equal(auth_session_take(&w.session, w.host.message, w.host.n_message),
			 AUTH_REFUSED);
	prove_both(&w);
	auth_host_begin(&w.host, &w.keys, HOSTNQN, SUBNQN);
	auth_session_begin(&w.session, &w.credentials);
	auth_session_take(&w.session, w.host.message, w.host.n_message);
	auth_session_give(&w.session, page, sizeof(page), &outcome);
	auth_host_take(&w.host, page);
	memcpy(w.host.message + 16 + 32, page + 16, 32);
	assert_int_equal(auth_session_take(&w.session, w.host.message, w.host.n_message),
			 AUTH_REFUSED);
	assert_string_equal(w.session.why, "it sent our own challenge back");
	world_end(&w);
}

/* Each message names the transaction that it belongs to. */
static void of_another_transaction(void **state)
{
	uint8_t page[AUTH_BUFFER_BYTES] = {0};
	enum auth_outcome outcome;
	struct world w;

	world_init(&w);
	auth_host_begin(&w.host, &w.keys, HOSTNQN, SUBNQN);
	auth_session_begin(&w.session, &w.credentials);
	auth_session_take(&w.session, w.host.message, w.host.n_message);
	auth_session_give(&w.session, page, sizeof(page), &outcome);
	assert_int_equal(auth_host_take(&w.host, page), AUTH_HOST_SEND);
	w.host.message[4] ^= 1;
	assert_int_equal(auth_session_take(&w.session, w.host.message, w.host.n_message),
			 AUTH_REFUSED);
	assert_string_equal(w.session.why, "its Reply belongs to another transaction");
	world_end(&w);
}

/* The host's state machine against targets that send malformed answers. */
static void hostile_target(void **state)
{
	uint8_t page[AUTH_BUFFER_BYTES] = {0};
	struct world w;

	world_init(&w);
	prove_both(&w);
	for (unsigned type = 0; type < 2; type++) {
		for (unsigned id = 0; id < 256; id++) {
			enum auth_host_step step;

			auth_host_begin(&w.host, &w.keys, HOSTNQN, SUBNQN);
			memset(page, 0xff, sizeof(page));
			page[0] = (uint8_t)type;
			page[1] = (uint8_t)id;
			memcpy(page + 4, &w.host.tid, 2);
			step = auth_host_take(&w.host, page);
			if (step == AUTH_HOST_SEND)
				step = auth_host_sent(&w.host);
			assert_int_equal(step, AUTH_HOST_FAILED);
		}
	}
	/* Success1 without a proof: instead of the challenge, and at its proper place. */
	auth_host_begin(&w.host, &w.keys, HOSTNQN, SUBNQN);
	auth_write_success1(w.host.tid, NVMF_HASH_SHA256, NULL, page);
	auth_host_take(&w.host, page);
	assert_int_equal(auth_host_sent(&w.host), AUTH_HOST_FAILED);
	w.host.failure = AUTH_HOST_OK;
	w.host.wanted = AUTH_KIND_SUCCESS1;
	w.host.hash = NVMF_HASH_SHA256;
	auth_host_take(&w.host, page);
	assert_int_equal(auth_host_sent(&w.host), AUTH_HOST_FAILED);
	assert_int_equal(w.host.failure, AUTH_HOST_WRONG_TARGET);
	world_end(&w);
}

static void who_is_asked(void **state)
{
	struct auth_keys none = {0}, some = {.key.n = 32}, both = {.key.n = 32, .ctrl_key.n = 32};
	enum auth_host_failure failure;

	assert_false(auth_host_is_asked(NULL, 1, &failure));
	assert_int_equal(failure, AUTH_HOST_OK);
	assert_false(auth_host_is_asked(&none, NVMF_CONNECT_ATR, &failure));
	assert_int_equal(failure, AUTH_HOST_NO_KEY);
	assert_false(auth_host_is_asked(&some, 1, &failure));
	assert_int_equal(failure, AUTH_HOST_OK);
	assert_true(auth_host_is_asked(&some, NVMF_CONNECT_ATR, &failure));
	assert_false(auth_host_is_asked(&both, 1, &failure));
	assert_int_equal(failure, AUTH_HOST_NOT_ASKED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_secret),
		cmocka_unit_test(made_secrets_come_back),
		cmocka_unit_test(wrong_secrets),
		cmocka_unit_test(secret_files),
		cmocka_unit_test(responses_of_another_implementation),
		cmocka_unit_test(bad_public_values),
		cmocka_unit_test(cut_messages),
		cmocka_unit_test(spoilt_negotiates),
		cmocka_unit_test(each_hash_and_group),
		cmocka_unit_test(wrong_keys),
		cmocka_unit_test(two_keys),
		cmocka_unit_test(nothing_in_common),
		cmocka_unit_test(out_of_order),
		cmocka_unit_test(replayed),
		cmocka_unit_test(of_another_transaction),
		cmocka_unit_test(hostile_target),
		cmocka_unit_test(who_is_asked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
