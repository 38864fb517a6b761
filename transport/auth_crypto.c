/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The arithmetic of DH-HMAC-CHAP; see auth_crypto.h. The groups are those of RFC 7919. libcrypto
 * checks each value of a peer (above 1, below p - 1) before it uses it.
 */
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/dh.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

#include "base/bits.h"
#include "base/random.h"
#include "transport/auth_crypto.h"

static const struct {
	const char *name;
	unsigned n;
	const EVP_MD *(*md)(void);
} hashes[NVMF_HASHES] = {
	[NVMF_HASH_NONE] = {"none", 0, NULL},
	[NVMF_HASH_SHA256] = {"sha256", 32, EVP_sha256},
	[NVMF_HASH_SHA384] = {"sha384", 48, EVP_sha384},
	[NVMF_HASH_SHA512] = {"sha512", 64, EVP_sha512},
};

static const struct {
	const char *name; /* of libcrypto, too */
	unsigned n;
} groups[NVMF_DH_GROUPS] = {
	[NVMF_DH_NULL] = {"null", 0},	     [NVMF_DH_2048] = {"ffdhe2048", 256},
	[NVMF_DH_3072] = {"ffdhe3072", 384}, [NVMF_DH_4096] = {"ffdhe4096", 512},
	[NVMF_DH_6144] = {"ffdhe6144", 768}, [NVMF_DH_8192] = {"ffdhe8192", 1024},
};

unsigned auth_hash_bytes(unsigned hash)
{
	return hash < NVMF_HASHES ? hashes[hash].n : 0;
}

unsigned auth_dh_bytes(unsigned dhgroup)
{
	return dhgroup < NVMF_DH_GROUPS ? groups[dhgroup].n : 0;
}

const char *auth_hash_name(unsigned hash)
{
	return hash < NVMF_HASHES ? hashes[hash].name : "unknown";
}

const char *auth_dh_name(unsigned dhgroup)
{
	return dhgroup < NVMF_DH_GROUPS ? groups[dhgroup].name : "unknown";
}

/* ---- Diffie-Hellman ------------------------------------------------------------------------ */

static int get_public_value(struct auth_dh *dh)
{
	unsigned char *value = NULL;
	size_t n = EVP_PKEY_get1_encoded_public_key(dh->key, &value);
	int r = n == dh->n ? 0 : -EIO;

	if (r == 0)
		memcpy(dh->public_value, value, n);
	OPENSSL_free(value);
	return r;
}

int auth_dh_init(struct auth_dh *dh, unsigned dhgroup)
{
	EVP_PKEY *key = NULL;
	EVP_PKEY_CTX *ctx;
	bool is_made;

	*dh = (struct auth_dh){.n = auth_dh_bytes(dhgroup)};
	if (!dh->n)
		return 0;
	ctx = EVP_PKEY_CTX_new_from_name(NULL, "DH", NULL);
	is_made = ctx && EVP_PKEY_keygen_init(ctx) == 1 &&
		  EVP_PKEY_CTX_set_group_name(ctx, groups[dhgroup].name) == 1 &&
		  EVP_PKEY_generate(ctx, &key) == 1;
	EVP_PKEY_CTX_free(ctx);
	dh->key = key;
	if (is_made && get_public_value(dh) == 0)
		return 0;
	auth_dh_deinit(dh);
	return -EIO;
}

void auth_dh_deinit(struct auth_dh *dh)
{
	EVP_PKEY_free(dh->key); /* wipes the private value */
	*dh = (struct auth_dh){0};
}

static EVP_PKEY *read_peer(const struct auth_dh *dh, const uint8_t *value)
{
	EVP_PKEY *peer = EVP_PKEY_new();

	if (peer && EVP_PKEY_copy_parameters(peer, dh->key) == 1 &&
	    EVP_PKEY_set1_encoded_public_key(peer, value, dh->n) == 1)
		return peer;
	EVP_PKEY_free(peer);
	return NULL;
}

int auth_dh_derive(const struct auth_dh *dh, const uint8_t *peer_value,
		   uint8_t ret_secret[AUTH_DH_MAX])
{
	EVP_PKEY *peer = read_peer(dh, peer_value);
	EVP_PKEY_CTX *ctx = peer ? EVP_PKEY_CTX_new(dh->key, NULL) : NULL;
	size_t n = dh->n;
	bool is_good = ctx && EVP_PKEY_derive_init(ctx) == 1 &&
		       EVP_PKEY_CTX_set_dh_pad(ctx, 1) == 1 &&
		       EVP_PKEY_derive_set_peer_ex(ctx, peer, 1) == 1 &&
		       EVP_PKEY_derive(ctx, ret_secret, &n) == 1 && n == dh->n;

	EVP_PKEY_CTX_free(ctx);
	EVP_PKEY_free(peer);
	return is_good ? 0 : -EINVAL;
}

/* ---- responses ----------------------------------------------------------------------------- */

static bool hmac(unsigned hash, const uint8_t *key, unsigned n_key, const void *data, size_t n,
		 uint8_t ret_mac[AUTH_HASH_MAX])
{
	unsigned n_mac = AUTH_HASH_MAX;

	return HMAC(hashes[hash].md(), key, (int)n_key, data, n, ret_mac, &n_mac);
}

/* A buffer for concatenations. The longest: a challenge, numbers, a word, two NQNs. */
struct text {
	uint8_t bytes[AUTH_HASH_MAX + 32 + 2 * NVMF_NQN_MAX];
	size_t n;
};

static void append(struct text *text, const void *bytes, size_t n)
{
	n = MIN(n, sizeof(text->bytes) - text->n);
	memcpy(text->bytes + text->n, bytes, n);
	text->n += n;
}

/* 8.13.5.8: transforms the key with the NQN of its owner, unless its hash is 00. */
static bool transform_key(const struct auth_proof *p, struct auth_key *ret_key)
{
	const char *nqn = p->is_controllers ? p->subnqn : p->hostnqn;
	struct text text = {.n = 0};

	*ret_key = *p->key;
	if (!p->key->hash)
		return true;
	append(&text, nqn, strlen(nqn));
	append(&text, "NVMe-over-Fabrics", 17);
	ret_key->n = (uint8_t)auth_hash_bytes(p->key->hash);
	return hmac(p->key->hash, p->key->bytes, p->key->n, text.bytes, text.n, ret_key->bytes);
}

/* The challenge itself, or with the secret of the exchange mixed in. */
static bool augment(const struct auth_proof *p, uint8_t ret_challenge[AUTH_HASH_MAX])
{
	uint8_t key[AUTH_HASH_MAX];
	unsigned n = auth_hash_bytes(p->hash), n_key = sizeof(key);
	bool is_good;

	if (!p->n_secret) {
		memcpy(ret_challenge, p->challenge, n);
		return true;
	}
	is_good = EVP_Digest(p->secret, p->n_secret, key, &n_key, hashes[p->hash].md(), NULL) ==
			  1 &&
		  hmac(p->hash, key, n, p->challenge, n, ret_challenge);
	auth_wipe(key, sizeof(key));
	return is_good;
}

static void concatenate(const struct auth_proof *p, const uint8_t challenge[AUTH_HASH_MAX],
			struct text *text)
{
	const char *word = p->is_controllers ? "Controller" : "HostHost";
	const char *first = p->is_controllers ? p->subnqn : p->hostnqn;
	const char *second = p->is_controllers ? p->hostnqn : p->subnqn;
	le32 seqnum = put_le32(p->seqnum);
	le16 tid = put_le16(p->tid);

	append(text, challenge, auth_hash_bytes(p->hash));
	append(text, seqnum.b, sizeof(seqnum.b));
	append(text, tid.b, sizeof(tid.b));
	append(text, (uint8_t[]){NVMF_AUTH_SC_NONE}, 1);
	append(text, word, strlen(word));
	append(text, first, strlen(first));
	append(text, "", 1);
	append(text, second, strlen(second));
}

int auth_respond(const struct auth_proof *proof, uint8_t ret_response[AUTH_HASH_MAX])
{
	uint8_t challenge[AUTH_HASH_MAX];
	struct text text = {.n = 0};
	struct auth_key key;
	bool is_good = transform_key(proof, &key) && augment(proof, challenge);

	if (is_good) {
		concatenate(proof, challenge, &text);
		is_good = hmac(proof->hash, key.bytes, key.n, text.bytes, text.n, ret_response);
	}
	auth_wipe(&key, sizeof(key));
	auth_wipe(challenge, sizeof(challenge));
	auth_wipe(&text, sizeof(text));
	return is_good ? 0 : -EIO;
}

bool auth_is_equal(const uint8_t *a, const uint8_t *b, unsigned n)
{
	return CRYPTO_memcmp(a, b, n) == 0;
}

int auth_random(void *bytes, unsigned n)
{
	return random_bytes(bytes, n);
}

/* ---- marks --------------------------------------------------------------------------------- */

/* Secrets are random, 256 bits and more: a hash of one is no way to it. */
uint64_t auth_key_mark(const struct auth_key *key)
{
	uint8_t digest[EVP_MAX_MD_SIZE];
	uint64_t mark = 0;

	if (EVP_Digest(key, sizeof(*key), digest, NULL, EVP_sha256(), NULL) == 1)
		memcpy(&mark, digest, sizeof(mark));
	return mark ?: 1;
}
