/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One exchange, in the order of its messages; see auth.h. A target that is asked to prove itself
 * and does not is never connected to: neither when its response is wrong or absent, nor when it
 * asks for no authentication at all, as an impostor would.
 */
#include <string.h>

#include "initiator/io/auth.h"

enum {
	ALL_HASHES = 1 << NVMF_HASH_SHA256 | 1 << NVMF_HASH_SHA384 | 1 << NVMF_HASH_SHA512,
	ALL_DHGROUPS = (1 << NVMF_DH_GROUPS) - 1,
};

/* ---- whether it is asked for ---------------------------------------------------------------- */

bool auth_host_is_asked(const struct auth_keys *keys, uint64_t connect_result,
			enum auth_host_failure *ret_failure)
{
	bool is_asked = connect_result & (NVMF_CONNECT_ATR | NVMF_CONNECT_ASCR);

	*ret_failure = AUTH_HOST_OK;
	if (is_asked && !(keys && keys->key.n))
		*ret_failure = AUTH_HOST_NO_KEY;
	if (!is_asked && keys && keys->ctrl_key.n)
		*ret_failure = AUTH_HOST_NOT_ASKED;
	return is_asked && *ret_failure == AUTH_HOST_OK;
}

/* ---- ends ---------------------------------------------------------------------------------- */

void auth_host_reset(struct auth_host *auth)
{
	auth_dh_deinit(&auth->dh);
	auth_wipe(auth, sizeof(*auth));
}

static enum auth_host_step fail(struct auth_host *auth, enum auth_host_failure failure,
				enum nvmf_auth_failure explanation)
{
	auth->failure = failure;
	auth->explanation = explanation;
	return AUTH_HOST_FAILED;
}

/* The target deserves to know. */
static enum auth_host_step refuse(struct auth_host *auth, enum auth_host_failure failure,
				  enum nvmf_auth_failure explanation)
{
	fail(auth, failure, explanation);
	auth->n_message = auth_write_failure(NVMF_AUTH_FAILURE2, auth->tid, explanation,
					     auth->message);
	return AUTH_HOST_SEND;
}

/* ---- Negotiate ----------------------------------------------------------------------------- */

enum auth_host_step auth_host_begin(struct auth_host *auth, const struct auth_keys *keys,
				    const char *hostnqn, const char *subnqn)
{
	struct auth_offer offer = {.hashes = ALL_HASHES, .dhgroups = ALL_DHGROUPS};

	auth_host_reset(auth);
	auth->keys = *keys;
	auth->hostnqn = hostnqn;
	auth->subnqn = subnqn;
	auth->wanted = AUTH_KIND_CHALLENGE;
	if (auth_random(&auth->tid, sizeof(auth->tid)) < 0)
		return fail(auth, AUTH_HOST_RESOURCES, NVMF_AUTH_FAILED);
	offer.tid = auth->tid;
	auth->n_message = auth_write_negotiate(&offer, auth->message);
	return AUTH_HOST_SEND;
}

/* ---- Challenge, Reply ---------------------------------------------------------------------- */

static struct auth_proof proof_of(const struct auth_host *auth)
{
	return (struct auth_proof){.hash = auth->hash,
				   .tid = auth->tid,
				   .secret = auth->secret,
				   .n_secret = auth->dh.n,
				   .hostnqn = auth->hostnqn,
				   .subnqn = auth->subnqn};
}

static int challenge_target(struct auth_host *auth, struct auth_reply *reply)
{
	reply->has_challenge = auth->keys.ctrl_key.n;
	if (!reply->has_challenge)
		return 0;
	do {
		if (auth_random(&auth->seqnum, sizeof(auth->seqnum)) < 0)
			return -1;
	} while (auth->seqnum == 0);
	reply->seqnum = auth->seqnum;
	reply->challenge = auth->challenge;
	return auth_random(auth->challenge, auth_hash_bytes(auth->hash));
}

static enum auth_host_step answer(struct auth_host *auth, const struct auth_challenge *c)
{
	struct auth_proof proof = proof_of(auth);
	uint8_t response[AUTH_HASH_MAX];
	struct auth_reply reply = {
		.tid = auth->tid, .response = response, .dh_value = auth->dh.public_value};

	proof.key = &auth->keys.key;
	proof.challenge = c->challenge;
	proof.seqnum = c->seqnum;
	if (auth_respond(&proof, response) < 0 || challenge_target(auth, &reply) < 0)
		return refuse(auth, AUTH_HOST_RESOURCES, NVMF_AUTH_FAILED);
	auth->n_message = auth_write_reply(&reply, c->hash, c->dhgroup, auth->message);
	auth->wanted = AUTH_KIND_SUCCESS1;
	return AUTH_HOST_SEND;
}

static enum auth_host_step take_challenge(struct auth_host *auth, const uint8_t *bytes)
{
	struct auth_challenge c;
	enum nvmf_auth_failure failure = auth_parse_challenge(bytes, AUTH_BUFFER_BYTES, &c);

	if (failure != NVMF_AUTH_OK)
		return refuse(auth, AUTH_HOST_PROTOCOL, failure);
	auth->hash = c.hash;
	if (auth_dh_init(&auth->dh, c.dhgroup) < 0)
		return refuse(auth, AUTH_HOST_RESOURCES, NVMF_AUTH_FAILED);
	if (auth->dh.n && auth_dh_derive(&auth->dh, c.dh_value, auth->secret) < 0)
		return refuse(auth, AUTH_HOST_PROTOCOL, NVMF_AUTH_PAYLOAD);
	return answer(auth, &c);
}

/* ---- Success1, Success2 -------------------------------------------------------------------- */

static bool is_target_right(const struct auth_host *auth, const uint8_t *response)
{
	struct auth_proof proof = proof_of(auth);
	uint8_t wanted[AUTH_HASH_MAX];
	bool is_right;

	proof.is_controllers = true;
	proof.key = &auth->keys.ctrl_key;
	proof.challenge = auth->challenge;
	proof.seqnum = auth->seqnum;
	is_right = auth_respond(&proof, wanted) == 0 &&
		   auth_is_equal(wanted, response, auth_hash_bytes(auth->hash));
	auth_wipe(wanted, sizeof(wanted));
	return is_right;
}

static enum auth_host_step take_success1(struct auth_host *auth, const uint8_t *bytes)
{
	const uint8_t *response;
	enum nvmf_auth_failure failure = auth_parse_success1(bytes, AUTH_BUFFER_BYTES, auth->hash,
							     &response);

	if (failure != NVMF_AUTH_OK)
		return refuse(auth, AUTH_HOST_PROTOCOL, failure);
	if (!auth->keys.ctrl_key.n)
		return AUTH_HOST_DONE;
	if (!response || !is_target_right(auth, response))
		return refuse(auth, AUTH_HOST_WRONG_TARGET, NVMF_AUTH_FAILED);
	auth->must_prove_us = true;
	auth->n_message = auth_write_success2(auth->tid, auth->message);
	return AUTH_HOST_SEND;
}

/* ---- all ----------------------------------------------------------------------------------- */

enum auth_host_step auth_host_sent(struct auth_host *auth)
{
	if (auth->failure != AUTH_HOST_OK)
		return AUTH_HOST_FAILED;
	return auth->must_prove_us ? AUTH_HOST_DONE : AUTH_HOST_RECEIVE;
}

enum auth_host_step auth_host_take(struct auth_host *auth, const uint8_t *bytes)
{
	int kind = auth_message_kind(bytes, AUTH_BUFFER_BYTES);

	if (kind == AUTH_KIND_FAILURE1)
		return fail(auth, AUTH_HOST_REFUSED, auth_parse_failure(bytes, AUTH_BUFFER_BYTES));
	if (kind != auth->wanted || auth_message_tid(bytes) != auth->tid)
		return refuse(auth, AUTH_HOST_PROTOCOL, NVMF_AUTH_MESSAGE);
	return kind == AUTH_KIND_CHALLENGE ? take_challenge(auth, bytes)
					   : take_success1(auth, bytes);
}

uint32_t auth_host_fill_command(const struct auth_host *auth, enum auth_host_step step,
				struct nvme_sqe *ret_sqe)
{
	bool is_send = step == AUTH_HOST_SEND;
	uint32_t n = is_send ? (uint32_t)auth->n_message : AUTH_BUFFER_BYTES;
	struct nvmf_auth_cmd cmd;

	static_assert(sizeof(cmd) == sizeof(*ret_sqe), "both are 64 bytes");
	memcpy(&cmd, ret_sqe, sizeof(cmd));
	cmd.opcode = NVME_FABRICS;
	cmd.flags = NVME_FLAGS_PSDT_SGL;
	cmd.fctype = is_send ? NVMF_AUTH_SEND : NVMF_AUTH_RECEIVE;
	cmd.secp = NVMF_AUTH_SECP;
	cmd.spsp0 = cmd.spsp1 = NVMF_AUTH_SPSP;
	cmd.length = put_le32(n);
	memcpy(ret_sqe, &cmd, sizeof(*ret_sqe));
	return n;
}
