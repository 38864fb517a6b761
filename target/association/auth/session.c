/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One exchange, in the order of its messages; see session.h. An error becomes a Failure1 for the
 * host, with little detail, and a line for rblkd's log, with more; neither has anything secret. All
 * accepted keys are always tried, so that the time reveals nothing about them.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "target/association/auth/session.h"

static void forget(struct auth_session *s)
{
	auth_dh_deinit(&s->dh);
	auth_wipe(&s->credentials, sizeof(s->credentials));
	auth_wipe(s->challenge, sizeof(s->challenge));
	auth_wipe(s->secret, sizeof(s->secret));
	s->must_prove_us = false;
}

void auth_session_reset(struct auth_session *s)
{
	forget(s);
	auth_wipe(s->message, sizeof(s->message));
	s->n_message = 0;
	s->step = AUTH_STEP_IDLE;
}

void auth_session_begin(struct auth_session *s, const struct credentials *credentials)
{
	auth_session_reset(s);
	if (credentials)
		s->credentials = *credentials;
}

__attribute__((format(printf, 3, 4))) static enum auth_outcome
refuse(struct auth_session *s, enum nvmf_auth_failure failure, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(s->why, sizeof(s->why), fmt, ap);
	va_end(ap);
	forget(s);
	s->n_message = auth_write_failure(NVMF_AUTH_FAILURE1, s->tid, failure, s->message);
	s->step = AUTH_STEP_FAILURE1;
	return AUTH_REFUSED;
}

static enum auth_outcome refuse_message(struct auth_session *s, enum nvmf_auth_failure failure,
					const char *which)
{
	return refuse(s, failure, "its %s: %s", which, auth_failure_string(failure));
}

/* ---- Negotiate, Challenge ------------------------------------------------------------------ */

/* The index of the first of our choices that the host offers; n: none. */
static unsigned choose(const uint8_t *ours, unsigned n, unsigned offered)
{
	for (unsigned i = 0; i < n; i++)
		if (offered >> ours[i] & 1)
			return i;
	return n;
}

static int make_challenge(struct auth_session *s)
{
	struct auth_challenge challenge = {.tid = s->tid,
					   .hash = s->hash,
					   .dhgroup = s->dhgroup,
					   .challenge = s->challenge,
					   .dh_value = s->dh.public_value};
	int r = auth_random(s->challenge, auth_hash_bytes(s->hash));

	do {
		r = r ?: auth_random(&s->seqnum, sizeof(s->seqnum));
	} while (r == 0 && s->seqnum == 0);
	if (r < 0)
		return r;
	challenge.seqnum = s->seqnum;
	s->n_message = auth_write_challenge(&challenge, s->message);
	return 0;
}

static enum auth_outcome take_negotiate(struct auth_session *s, const uint8_t *message, size_t n)
{
	const struct credentials *c = &s->credentials;
	struct auth_offer offer;
	enum nvmf_auth_failure failure = auth_parse_negotiate(message, n, &offer);
	unsigned hash, dhgroup;

	s->tid = auth_message_tid(message);
	if (failure != NVMF_AUTH_OK)
		return refuse_message(s, failure, "Negotiate");
	if (!c->n_keys)
		return refuse(s, NVMF_AUTH_FAILED, "it has no key here any more");
	hash = choose(c->hashes, c->n_hashes, offer.hashes);
	dhgroup = choose(c->dhgroups, c->n_dhgroups, offer.dhgroups);
	if (hash == c->n_hashes)
		return refuse_message(s, NVMF_AUTH_HASH, "Negotiate");
	if (dhgroup == c->n_dhgroups)
		return refuse_message(s, NVMF_AUTH_DHGROUP, "Negotiate");
	s->hash = c->hashes[hash];
	s->dhgroup = c->dhgroups[dhgroup];
	auth_dh_deinit(&s->dh);
	if (auth_dh_init(&s->dh, s->dhgroup) < 0 || make_challenge(s) < 0)
		return refuse(s, NVMF_AUTH_FAILED, "no random numbers or memory here");
	s->step = AUTH_STEP_CHALLENGE;
	return AUTH_GOES_ON;
}

/* ---- Reply, Success1 ----------------------------------------------------------------------- */

static struct auth_proof proof_of(const struct auth_session *s)
{
	return (struct auth_proof){.hash = s->hash,
				   .tid = s->tid,
				   .secret = s->secret,
				   .n_secret = s->dh.n,
				   .hostnqn = s->hostnqn,
				   .subnqn = s->subnqn};
}

static bool is_host_right(struct auth_session *s, const struct auth_reply *reply)
{
	struct auth_proof proof = proof_of(s);
	uint8_t wanted[AUTH_HASH_MAX];
	bool is_right = false;

	proof.challenge = s->challenge;
	proof.seqnum = s->seqnum;
	for (unsigned i = 0; i < s->credentials.n_keys; i++) {
		proof.key = &s->credentials.keys[i];
		if (auth_respond(&proof, wanted) == 0 &&
		    auth_is_equal(wanted, reply->response, auth_hash_bytes(s->hash))) {
			is_right = true;
			s->has_used_second_key = i > 0;
			s->key_mark = auth_key_mark(proof.key);
		}
	}
	auth_wipe(wanted, sizeof(wanted));
	return is_right;
}

static enum auth_outcome write_success1(struct auth_session *s, const struct auth_reply *reply)
{
	struct auth_proof proof = proof_of(s);
	uint8_t response[AUTH_HASH_MAX];

	s->must_prove_us = reply->has_challenge;
	s->ctrl_key_mark = reply->has_challenge ? auth_key_mark(&s->credentials.ctrl_key) : 0;
	if (reply->has_challenge) {
		proof.is_controllers = true;
		proof.key = &s->credentials.ctrl_key;
		proof.challenge = reply->challenge;
		proof.seqnum = reply->seqnum;
		if (auth_respond(&proof, response) < 0)
			return refuse(s, NVMF_AUTH_FAILED, "no memory here");
	}
	s->n_message = auth_write_success1(s->tid, s->hash, reply->has_challenge ? response : NULL,
					   s->message);
	s->step = AUTH_STEP_SUCCESS1;
	return AUTH_GOES_ON;
}

static enum auth_outcome take_reply(struct auth_session *s, const uint8_t *message, size_t n)
{
	unsigned n_hash = auth_hash_bytes(s->hash);
	struct auth_reply reply;
	enum nvmf_auth_failure failure = auth_parse_reply(message, n, s->hash, s->dhgroup, &reply);

	if (failure != NVMF_AUTH_OK)
		return refuse_message(s, failure, "Reply");
	if (reply.tid != s->tid)
		return refuse(s, NVMF_AUTH_PAYLOAD, "its Reply belongs to another transaction");
	if (s->dh.n && auth_dh_derive(&s->dh, reply.dh_value, s->secret) < 0)
		return refuse(s, NVMF_AUTH_PAYLOAD, "its Diffie-Hellman value is none");
	if (!is_host_right(s, &reply))
		return refuse(s, NVMF_AUTH_FAILED,
			      "its response is wrong: its key is not the one in dhchap_key_file");
	if (!reply.has_challenge)
		return write_success1(s, &reply);
	if (!s->credentials.ctrl_key.n)
		return refuse(s, NVMF_AUTH_FAILED,
			      "it wants us to prove ourselves: set dhchap_ctrl_key_file");
	/* A peer that returns our own challenge tries to make us compute its answer. */
	if (auth_is_equal(reply.challenge, s->challenge, n_hash))
		return refuse(s, NVMF_AUTH_FAILED, "it sent our own challenge back");
	return write_success1(s, &reply);
}

/* ---- Success2, Failure2, all --------------------------------------------------------------- */

static enum auth_outcome take_last(struct auth_session *s, const uint8_t *message, size_t n,
				   int kind)
{
	if (kind == AUTH_KIND_FAILURE2) {
		enum nvmf_auth_failure failure = auth_parse_failure(message, n);

		return refuse(s, NVMF_AUTH_FAILED, "it refuses us: %s",
			      auth_failure_string(failure));
	}
	if (kind != AUTH_KIND_SUCCESS2 || s->step != AUTH_STEP_SUCCESS2)
		return refuse_message(s, NVMF_AUTH_MESSAGE, "order");
	if (n < sizeof(struct nvmf_auth_success2) || auth_message_tid(message) != s->tid)
		return refuse_message(s, NVMF_AUTH_PAYLOAD, "Success2");
	auth_session_reset(s);
	return AUTH_PROVEN;
}

enum auth_outcome auth_session_take(struct auth_session *s, const uint8_t *message, size_t n)
{
	int kind = auth_message_kind(message, n);

	if (kind == AUTH_KIND_NEGOTIATE)
		return take_negotiate(s, message, n);
	if (kind < 0)
		return refuse_message(s, NVMF_AUTH_PAYLOAD, "message");
	if (kind == AUTH_KIND_REPLY && s->step == AUTH_STEP_REPLY)
		return take_reply(s, message, n);
	return take_last(s, message, n, kind);
}

int auth_session_give(struct auth_session *s, uint8_t *ret_bytes, size_t n,
		      enum auth_outcome *ret_outcome)
{
	*ret_outcome = AUTH_GOES_ON;
	if (s->step != AUTH_STEP_CHALLENGE && s->step != AUTH_STEP_SUCCESS1 &&
	    s->step != AUTH_STEP_FAILURE1)
		return -EPROTO;
	if (n < s->n_message)
		return -EMSGSIZE;
	memcpy(ret_bytes, s->message, s->n_message);
	switch (s->step) {
	case AUTH_STEP_CHALLENGE:
		s->step = AUTH_STEP_REPLY;
		break;
	case AUTH_STEP_SUCCESS1:
		if (s->must_prove_us) {
			s->step = AUTH_STEP_SUCCESS2;
			break;
		}
		auth_session_reset(s);
		*ret_outcome = AUTH_PROVEN;
		break;
	default:
		auth_session_reset(s);
	}
	return 0;
}
