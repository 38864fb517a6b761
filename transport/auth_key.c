/* SPDX-License-Identifier: BSD-3-Clause */
/* Secrets as text, in files and in memory; see auth_key.h. Any thread. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/cleanup.h"
#include "base/crc32.h"
#include "base/random.h"
#include "transport/auth_key.h"

enum {
	CRC_BYTES = 4,
	FILE_BYTES = 4096,
	BASE64_MAX = (AUTH_KEY_MAX + CRC_BYTES + 2) / 3 * 4,
};

static const char prefix[] = "DHHC-1:";
static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* ---- text ---------------------------------------------------------------------------------- */

static bool is_base64(const char *text, size_t n)
{
	size_t n_plain = strspn(text, alphabet);

	if (n_plain > n)
		return false;
	return n % 4 == 0 && n - n_plain <= 2 && strspn(text + n_plain, "=") == n - n_plain;
}

/* The number of decoded bytes; 0: the text is not the base64 of a key with its CRC. */
static unsigned decode(const char *text, size_t n, uint8_t ret_bytes[BASE64_MAX])
{
	int r;

	if (!n || n > BASE64_MAX || !is_base64(text, n))
		return 0;
	r = EVP_DecodeBlock(ret_bytes, (const unsigned char *)text, (int)n);
	/* EVP_DecodeBlock counts the padding, too. */
	r -= (text[n - 1] == '=') + (text[n - 2] == '=');
	return r < 0 ? 0 : (unsigned)r;
}

static const char *parse_bytes(const char *text, size_t n, struct auth_key *key)
{
	uint8_t bytes[BASE64_MAX];
	unsigned got = decode(text, n, bytes), n_key = got - CRC_BYTES;
	const char *wrong = NULL;
	le32 crc;

	if (!got)
		return "its base64 part is not base64";
	if (got <= CRC_BYTES || (n_key != 32 && n_key != 48 && n_key != 64)) {
		wrong = "it must hold a key of 32, 48 or 64 bytes";
	} else {
		memcpy(crc.b, bytes + n_key, sizeof(crc.b));
		if (get_le32(crc) != crc32_add(0, bytes, n_key))
			wrong = "its checksum is wrong: a character was lost or changed";
		key->n = (uint8_t)n_key;
		memcpy(key->bytes, bytes, n_key);
	}
	auth_wipe(bytes, sizeof(bytes));
	return wrong;
}

const char *auth_key_parse(const char *text, struct auth_key *ret_key)
{
	const char *body = text + strlen(prefix) + 3, *end;
	const char *wrong;

	*ret_key = (struct auth_key){0};
	if (strncmp(text, prefix, strlen(prefix)) != 0)
		return "it does not begin with DHHC-1:";
	if (strlen(text) < strlen(prefix) + 3 || body[-3] != '0' || body[-2] < '0' ||
	    body[-2] > '3' || body[-1] != ':')
		return "its hash must be 00, 01, 02 or 03";
	end = strchr(body, ':');
	if (!end || end[1])
		return "it does not end with ':'";
	wrong = parse_bytes(body, (size_t)(end - body), ret_key);
	if (wrong)
		auth_wipe(ret_key, sizeof(*ret_key));
	else
		ret_key->hash = (uint8_t)(body[-2] - '0');
	return wrong;
}

void auth_key_format(const struct auth_key *key, char ret_text[AUTH_KEY_TEXT])
{
	uint8_t bytes[AUTH_KEY_MAX + CRC_BYTES];
	le32 crc = put_le32(crc32_add(0, key->bytes, key->n));
	int n = snprintf(ret_text, AUTH_KEY_TEXT, "%s%02u:", prefix, key->hash & 3u);

	memcpy(bytes, key->bytes, key->n);
	memcpy(bytes + key->n, crc.b, sizeof(crc.b));
	n += EVP_EncodeBlock((unsigned char *)ret_text + n, bytes, key->n + CRC_BYTES);
	ret_text[n] = ':';
	ret_text[n + 1] = '\0';
	auth_wipe(bytes, sizeof(bytes));
}

int auth_key_generate(unsigned n, enum nvmf_auth_hash hash, struct auth_key *ret_key)
{
	*ret_key = (struct auth_key){.n = (uint8_t)n, .hash = (uint8_t)hash};
	return random_bytes(ret_key->bytes, n);
}

/* ---- files --------------------------------------------------------------------------------- */

static int check_access(const char *path, int fd, struct error *error)
{
	struct stat st;

	if (fstat(fd, &st) < 0) {
		error_set(error, EXIT_CONFIG, NULL, "%s: %s", path, strerror(errno));
		return -errno;
	}
	if (!S_ISREG(st.st_mode)) {
		error_set(error, EXIT_CONFIG, NULL, "%s is not a file", path);
		return -EINVAL;
	}
	if (st.st_mode & (S_IRWXG | S_IRWXO)) {
		error_set(
			error, EXIT_CONFIG, NULL,
			"%s holds a secret, but others have access to it (mode %04o): chmod 600 it",
			path, st.st_mode & 07777U);
		return -EACCES;
	}
	if (st.st_uid != 0 && st.st_uid != geteuid()) {
		error_set(error, EXIT_CONFIG, NULL,
			  "%s belongs to user %u: neither to root nor to our user (%u)", path,
			  st.st_uid, geteuid());
		return -EACCES;
	}
	return 0;
}

static ssize_t read_all(int fd, char *text, size_t n)
{
	size_t at = 0;
	ssize_t got;

	while (at < n && (got = read(fd, text + at, n - at)) != 0) {
		if (got < 0 && errno != EINTR)
			return -errno;
		at += got > 0 ? (size_t)got : 0;
	}
	return (ssize_t)at;
}

static int parse_lines(const char *path, char *text, struct auth_key *keys, unsigned max,
		       struct error *error)
{
	unsigned n_keys = 0, number = 0;
	char *line;

	while ((line = strsep(&text, "\n"))) {
		const char *wrong;

		number++;
		line += strspn(line, " \t");
		line[strcspn(line, " \t\r")] = '\0';
		if (!*line || *line == '#')
			continue;
		if (n_keys == max) {
			error_set(error, EXIT_CONFIG, NULL, "%s:%u: more than %u secret%s", path,
				  number, max, max == 1 ? "" : "s");
			return -EINVAL;
		}
		wrong = auth_key_parse(line, &keys[n_keys++]);
		if (wrong) {
			error_set(error, EXIT_CONFIG, NULL,
				  "%s:%u: not a secret as 'rblkctl gen-key' makes them: %s", path,
				  number, wrong);
			return -EINVAL;
		}
	}
	if (!n_keys)
		error_set(error, EXIT_CONFIG, NULL,
			  "%s holds no secret; 'rblkctl gen-key' makes one", path);
	return n_keys ? (int)n_keys : -EINVAL;
}

int auth_key_read_file(const char *path, struct auth_key *ret_keys, unsigned max,
		       struct error *error)
{
	_autoclose_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	char text[FILE_BYTES + 1];
	ssize_t got;
	int r;

	memset(ret_keys, 0, max * sizeof(*ret_keys));
	if (fd < 0) {
		r = -errno;
		error_set(error, EXIT_CONFIG, NULL, "%s: %s", path, strerror(-r));
		return r;
	}
	r = check_access(path, fd, error);
	if (r < 0)
		return r;
	got = read_all(fd, text, FILE_BYTES);
	if (got < 0 || got == FILE_BYTES) {
		r = got < 0 ? (int)got : -EFBIG;
		error_set(error, EXIT_CONFIG, NULL, "%s: %s", path, strerror(-r));
	} else {
		text[got] = '\0';
		r = parse_lines(path, text, ret_keys, max, error);
	}
	auth_wipe(text, sizeof(text));
	if (r < 0)
		auth_wipe(ret_keys, max * sizeof(*ret_keys));
	return r;
}

/* ---- memory -------------------------------------------------------------------------------- */

void *auth_alloc(size_t n)
{
	void *memory = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return NULL;
	madvise(memory, n, MADV_DONTDUMP);
	mlock(memory, n); /* may fail: then the memory can be paged out like any other */
	return memory;
}

void auth_free(void *memory, size_t n)
{
	if (!memory)
		return;
	auth_wipe(memory, n);
	munmap(memory, n);
}

void auth_wipe(void *memory, size_t n)
{
	OPENSSL_cleanse(memory, n);
}
