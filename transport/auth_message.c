/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of DH-HMAC-CHAP; see auth_message.h. The parsers are fuzzed: they accept any bytes. */
#include <string.h>

#include "base/bits.h"
#include "transport/auth_message.h"

static struct nvmf_auth_header header(enum nvmf_auth_type type, enum nvmf_auth_id id, uint16_t tid)
{
	return (struct nvmf_auth_header){
		.type = (uint8_t)type, .id = (uint8_t)id, .tid = put_le16(tid)};
}

int auth_message_kind(const uint8_t *message, size_t n)
{
	if (n < sizeof(struct nvmf_auth_header))
		return -1;
	return AUTH_KIND(message[0], message[1]);
}

uint16_t auth_message_tid(const uint8_t *message)
{
	struct nvmf_auth_header h;

	memcpy(&h, message, sizeof(h));
	return get_le16(h.tid);
}

/* ---- Negotiate ----------------------------------------------------------------------------- */

/* A bit for each of n identifiers that is below a limit. */
static unsigned read_ids(const uint8_t *ids, unsigned n, unsigned limit)
{
	unsigned bits = 0;

	for (unsigned i = 0; i < n; i++)
		if (ids[i] < limit)
			bits |= 1u << ids[i];
	return bits;
}

static uint8_t write_ids(unsigned bits, uint8_t *ids)
{
	uint8_t n = 0;

	for (unsigned id = 0; bits >> id; id++)
		if (bits >> id & 1)
			ids[n++] = (uint8_t)id;
	return n;
}

enum nvmf_auth_failure auth_parse_negotiate(const uint8_t *message, size_t n,
					    struct auth_offer *ret_offer)
{
	struct nvmf_auth_negotiate m;
	struct nvmf_auth_descriptor d;

	if (n < sizeof(m))
		return NVMF_AUTH_PAYLOAD;
	memcpy(&m, message, sizeof(m));
	if (m.napd == 0 || n < sizeof(m) + m.napd * sizeof(d))
		return NVMF_AUTH_PAYLOAD;
	if (m.sc_c != NVMF_AUTH_SC_NONE)
		return NVMF_AUTH_SECURE_CHANNEL;
	for (unsigned i = 0; i < m.napd; i++) {
		memcpy(&d, message + sizeof(m) + i * sizeof(d), sizeof(d));
		if (d.authid != NVMF_AUTH_ID)
			continue;
		if (d.halen == 0 || d.halen > NVMF_AUTH_IDS || d.dhlen == 0 ||
		    d.dhlen > NVMF_AUTH_IDS)
			return NVMF_AUTH_PAYLOAD;
		ret_offer->tid = get_le16(m.header.tid);
		ret_offer->hashes = read_ids(d.hashes, d.halen, NVMF_HASHES) &
				    ~(1u << NVMF_HASH_NONE);
		ret_offer->dhgroups = read_ids(d.dhgroups, d.dhlen, NVMF_DH_GROUPS);
		return NVMF_AUTH_OK;
	}
	return NVMF_AUTH_PROTOCOL;
}

size_t auth_write_negotiate(const struct auth_offer *offer, uint8_t *ret_message)
{
	struct nvmf_auth_negotiate m = {
		.header = header(NVMF_AUTH_COMMON, NVMF_AUTH_NEGOTIATE, offer->tid),
		.sc_c = NVMF_AUTH_SC_NONE,
		.napd = 1};
	struct nvmf_auth_descriptor d = {.authid = NVMF_AUTH_ID};

	d.halen = write_ids(offer->hashes, d.hashes);
	d.dhlen = write_ids(offer->dhgroups, d.dhgroups);
	memcpy(ret_message, &m, sizeof(m));
	memcpy(ret_message + sizeof(m), &d, sizeof(d));
	return sizeof(m) + sizeof(d);
}

/* ---- Challenge ----------------------------------------------------------------------------- */

enum nvmf_auth_failure auth_parse_challenge(const uint8_t *message, size_t n,
					    struct auth_challenge *ret_challenge)
{
	struct nvmf_auth_challenge m;
	unsigned n_hash, n_dh;

	if (n < sizeof(m))
		return NVMF_AUTH_PAYLOAD;
	memcpy(&m, message, sizeof(m));
	n_hash = auth_hash_bytes(m.hashid);
	n_dh = auth_dh_bytes(m.dhgid);
	if (!n_hash)
		return NVMF_AUTH_HASH;
	if (m.dhgid >= NVMF_DH_GROUPS)
		return NVMF_AUTH_DHGROUP;
	if (m.hl != n_hash || get_le16(m.dhvlen) != n_dh || n < sizeof(m) + n_hash + n_dh ||
	    get_le32(m.seqnum) == 0)
		return NVMF_AUTH_PAYLOAD;
	*ret_challenge = (struct auth_challenge){
		.tid = get_le16(m.header.tid),
		.hash = m.hashid,
		.dhgroup = m.dhgid,
		.seqnum = get_le32(m.seqnum),
		.challenge = message + sizeof(m),
		.dh_value = message + sizeof(m) + n_hash,
	};
	return NVMF_AUTH_OK;
}

size_t auth_write_challenge(const struct auth_challenge *challenge, uint8_t *ret_message)
{
	unsigned n_hash = auth_hash_bytes(challenge->hash);
	unsigned n_dh = auth_dh_bytes(challenge->dhgroup);
	struct nvmf_auth_challenge m = {
		.header = header(NVMF_AUTH_CHAP, NVMF_AUTH_CHALLENGE, challenge->tid),
		.hl = (uint8_t)n_hash,
		.hashid = (uint8_t)challenge->hash,
		.dhgid = (uint8_t)challenge->dhgroup,
		.dhvlen = put_le16((uint16_t)n_dh),
		.seqnum = put_le32(challenge->seqnum)};

	memcpy(ret_message, &m, sizeof(m));
	memcpy(ret_message + sizeof(m), challenge->challenge, n_hash);
	if (n_dh)
		memcpy(ret_message + sizeof(m) + n_hash, challenge->dh_value, n_dh);
	return sizeof(m) + n_hash + n_dh;
}

/* ---- Reply --------------------------------------------------------------------------------- */

enum nvmf_auth_failure auth_parse_reply(const uint8_t *message, size_t n, unsigned hash,
					unsigned dhgroup, struct auth_reply *ret_reply)
{
	unsigned n_hash = auth_hash_bytes(hash), n_dh = auth_dh_bytes(dhgroup);
	struct nvmf_auth_reply m;

	if (n < sizeof(m))
		return NVMF_AUTH_PAYLOAD;
	memcpy(&m, message, sizeof(m));
	if (m.hl != n_hash || m.cvalid > 1 || get_le16(m.dhvlen) != n_dh ||
	    n < sizeof(m) + 2 * n_hash + n_dh)
		return NVMF_AUTH_PAYLOAD;
	*ret_reply = (struct auth_reply){
		.tid = get_le16(m.header.tid),
		.response = message + sizeof(m),
		.has_challenge = m.cvalid,
		.seqnum = get_le32(m.seqnum),
		.challenge = message + sizeof(m) + n_hash,
		.dh_value = message + sizeof(m) + 2 * n_hash,
	};
	return NVMF_AUTH_OK;
}

size_t auth_write_reply(const struct auth_reply *reply, unsigned hash, unsigned dhgroup,
			uint8_t *ret_message)
{
	unsigned n_hash = auth_hash_bytes(hash), n_dh = auth_dh_bytes(dhgroup);
	struct nvmf_auth_reply m = {.header = header(NVMF_AUTH_CHAP, NVMF_AUTH_REPLY, reply->tid),
				    .hl = (uint8_t)n_hash,
				    .cvalid = reply->has_challenge,
				    .dhvlen = put_le16((uint16_t)n_dh),
				    .seqnum = put_le32(reply->has_challenge ? reply->seqnum : 0)};
	uint8_t *at = ret_message + sizeof(m);

	memcpy(ret_message, &m, sizeof(m));
	memcpy(at, reply->response, n_hash);
	memset(at + n_hash, 0, n_hash);
	if (reply->has_challenge)
		memcpy(at + n_hash, reply->challenge, n_hash);
	if (n_dh)
		memcpy(at + 2 * n_hash, reply->dh_value, n_dh);
	return sizeof(m) + 2 * n_hash + n_dh;
}

/* ---- Success and failure ------------------------------------------------------------------- */

enum nvmf_auth_failure auth_parse_success1(const uint8_t *message, size_t n, unsigned hash,
					   const uint8_t **ret_response)
{
	unsigned n_hash = auth_hash_bytes(hash);
	struct nvmf_auth_success1 m;

	*ret_response = NULL;
	if (n < sizeof(m))
		return NVMF_AUTH_PAYLOAD;
	memcpy(&m, message, sizeof(m));
	if (m.rvalid > 1)
		return NVMF_AUTH_PAYLOAD;
	if (!m.rvalid)
		return NVMF_AUTH_OK;
	if (m.hl != n_hash || n < sizeof(m) + n_hash)
		return NVMF_AUTH_PAYLOAD;
	*ret_response = message + sizeof(m);
	return NVMF_AUTH_OK;
}

size_t auth_write_success1(uint16_t tid, unsigned hash, const uint8_t *response,
			   uint8_t *ret_message)
{
	unsigned n_hash = auth_hash_bytes(hash);
	/* Linux requires the length of the hash even where there is no response. */
	struct nvmf_auth_success1 m = {.header = header(NVMF_AUTH_CHAP, NVMF_AUTH_SUCCESS1, tid),
				       .hl = (uint8_t)n_hash,
				       .rvalid = response != NULL};

	memcpy(ret_message, &m, sizeof(m));
	if (response)
		memcpy(ret_message + sizeof(m), response, n_hash);
	return sizeof(m) + (response ? n_hash : 0);
}

size_t auth_write_success2(uint16_t tid, uint8_t *ret_message)
{
	struct nvmf_auth_success2 m = {.header = header(NVMF_AUTH_CHAP, NVMF_AUTH_SUCCESS2, tid)};

	memcpy(ret_message, &m, sizeof(m));
	return sizeof(m);
}

enum nvmf_auth_failure auth_parse_failure(const uint8_t *message, size_t n)
{
	struct nvmf_auth_failure_message m;

	if (n < sizeof(m))
		return NVMF_AUTH_PAYLOAD;
	memcpy(&m, message, sizeof(m));
	return m.explanation >= NVMF_AUTH_FAILED && m.explanation <= NVMF_AUTH_MESSAGE
		       ? m.explanation
		       : NVMF_AUTH_FAILED;
}

size_t auth_write_failure(enum nvmf_auth_id id, uint16_t tid, enum nvmf_auth_failure explanation,
			  uint8_t *ret_message)
{
	struct nvmf_auth_failure_message m = {.header = header(NVMF_AUTH_COMMON, id, tid),
					      .reason = NVMF_AUTH_REASON_FAILED,
					      .explanation = (uint8_t)explanation};

	memcpy(ret_message, &m, sizeof(m));
	return sizeof(m);
}

const char *auth_failure_string(enum nvmf_auth_failure explanation)
{
	static const char *const strings[] = {
		[NVMF_AUTH_OK] = "success",
		[NVMF_AUTH_FAILED] = "the response is wrong",
		[NVMF_AUTH_PROTOCOL] = "no protocol in common",
		[NVMF_AUTH_SECURE_CHANNEL] = "a secure channel is wanted",
		[NVMF_AUTH_HASH] = "no hash in common",
		[NVMF_AUTH_DHGROUP] = "no Diffie-Hellman group in common",
		[NVMF_AUTH_PAYLOAD] = "a message that makes no sense",
		[NVMF_AUTH_MESSAGE] = "a message out of order",
	};

	return explanation < ARRAY_LEN(strings) ? strings[explanation] : "unknown";
}
