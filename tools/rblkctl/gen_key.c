/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rblkctl gen-key: a new secret for DH-HMAC-CHAP, as `nvme gen-dhchap-key` makes them, on standard
 * output or in a new file that only its owner may read. Needs no rblkd.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/output.h"
#include "tools/rblkctl/rblkctl.h"
#include "transport/auth_key.h"

static const char program[] = "rblkctl gen-key";

/* O_EXCL and 0600 from the start: the secret is never in a file that others can read, nor written
 * over another one. A file that is not whole on the disk is removed. */
static int write_file(const char *path, const char *text)
{
	_autoclose_ int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	ssize_t n = (ssize_t)strlen(text);

	if (fd < 0)
		return fail_with(program, errno == EEXIST ? EXIT_BUSY : EXIT_FAILED,
				 errno == EEXIST ? "a secret is never overwritten" : NULL, "%s: %s",
				 path, strerror(errno));
	if (write(fd, text, (size_t)n) == n && fsync(fd) == 0)
		return EXIT_OK;
	unlink(path);
	return fail_with(program, EXIT_FAILED, NULL, "%s: %s", path, strerror(errno));
}

/* Our copies are wiped. The buffer of stdio is not: the reader of stdout has the secret. */
static int make_key(unsigned n_bytes, unsigned hash, const char *path)
{
	static const unsigned lengths[] = {32, 32, 48, 64}; /* by hash */
	char text[AUTH_KEY_TEXT + 1];
	struct auth_key key;
	int code = EXIT_OK;

	if (auth_key_generate(n_bytes ? n_bytes : lengths[hash], (enum nvmf_auth_hash)hash, &key) <
	    0)
		return fail_with(program, EXIT_FAILED, NULL, "no random numbers");
	auth_key_format(&key, text);
	strcat(text, "\n");
	if (path)
		code = write_file(path, text);
	else if (fputs(text, stdout) == EOF || fflush(stdout) == EOF)
		code = fail_with(program, EXIT_FAILED, NULL, "%s", strerror(errno));
	auth_wipe(&key, sizeof(key));
	auth_wipe(text, sizeof(text));
	return code;
}

int run_gen_key(int argc, char **argv)
{
	static const char *const hashes[] = {"none", "sha256", "sha384", "sha512", NULL};
	static const char *const lengths[] = {"auto", "32", "48", "64", NULL};
	static const unsigned n_bytes[] = {0, 32, 48, 64};
	unsigned hash = NVMF_HASH_NONE, length = 0;
	const char *path = NULL;
	const struct arg table[] = {
		{"hash", 0, ARG_CHOICE, &hash, "HASH",
		 "bind the key to the NQN of its owner: none, sha256, sha384, sha512 (default: none)",
		 .choices = hashes},
		{"length", 'l', ARG_CHOICE, &length, "BYTES",
		 "32, 48 or 64 (default: that of the hash, or 32)", .choices = lengths},
		{"file", 'f', ARG_STRING, &path, "PATH",
		 "write it to this new file, readable by its owner only"},
		{0},
	};
	const struct args_usage usage = {
		.program = program,
		.positional = "",
		.summary = "Generate a secret for DH-HMAC-CHAP.",
	};
	int at, code = args_parse(&usage, table, argc, argv, &at);

	return code >= 0 ? code : make_key(n_bytes[length], hash, path);
}
