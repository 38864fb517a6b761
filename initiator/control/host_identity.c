/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Host NQN and host identifier. Any thread; blocking file access, done once at the start.
 *
 * Order for the NQN: argument, /etc/nvme/hostnqn, the state directory, a new one that is
 * kept in the state directory. For the identifier: argument, /etc/nvme/hostid when the
 * NQN is that file's neighbour; else it is derived from the NQN, because one identifier
 * with two NQNs (or the other way round) is refused by targets: the UUID in an NQN of the
 * form nqn.2014-08...:uuid:UUID, or a name-based UUID of any other.
 *
 * Failures: a file that exists and says nonsense is an error that names it; nothing is
 * guessed.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/random.h"
#include "base/run_dir.h"
#include "initiator/control/errors.h"
#include "initiator/control/host_identity.h"
#include "transport/wire/strings.h"

#define UUID_NQN "nqn.2014-08.org.nvmexpress:uuid:"
#define NQN_HINT                                                                                   \
	"an NQN is like nqn.2014-08.org.nvmexpress:uuid:UUID; 'nvme gen-hostnqn' makes "           \
	"one"
#define NQN_FILE_HINT "'nvme gen-hostnqn' prints one for it; or remove the file"

enum {
	LINE_MAX_BYTES = 512,
};

/* The first line of directory/name without blanks around it. 0, -ENOENT, other -errno. */
static int read_line(const char *path, char *buf, size_t n)
{
	_autofclose_ FILE *f = fopen(path, "re");
	size_t len;
	char *start;

	if (!f)
		return errno == ENOTDIR ? -ENOENT : -errno;
	if (!fgets(buf, (int)n, f))
		return ferror(f) ? -errno : -EINVAL;
	start = buf + strspn(buf, " \t");
	len = strcspn(start, " \t\r\n");
	memmove(buf, start, len);
	buf[len] = '\0';
	return len ? 0 : -EINVAL;
}

static int bad_file(struct error *error, const char *path, int r, const char *why, const char *hint)
{
	error_set(error, EXIT_CONFIG, hint, "%s: %s", path, r == -EINVAL ? why : strerror(-r));
	return -1;
}

static int set_nqn(const char *nqn, const char *where, enum exit_code code, const char *hint,
		   struct volume_config *config, struct error *error)
{
	const char *wrong = nqn_check(nqn);

	if (wrong) {
		error_set(error, code, hint, "%s: not a host NQN: %s", where, wrong);
		return -1;
	}
	memcpy(config->hostnqn, nqn, strlen(nqn) + 1); /* it fits: nqn_check said so */
	return 0;
}

/* From a file if there is one: 1 taken, 0 absent, -1 error. */
static int take_nqn(const char *path, struct volume_config *config, struct error *error)
{
	char line[LINE_MAX_BYTES];
	int r = read_line(path, line, sizeof(line));

	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return bad_file(error, path, r, "it is empty", NQN_FILE_HINT);
	return set_nqn(line, path, EXIT_CONFIG, NQN_FILE_HINT, config, error) < 0 ? -1 : 1;
}

/* Writes text to a new file beside path and moves it there, unless another process was
 * first. */
static int keep(const char *path, const char *text)
{
	char temporary[PATH_MAX];
	_autoclose_ int fd = -1;
	size_t n = strlen(text);
	int r = 0;

	if (snprintf(temporary, sizeof(temporary), "%s.XXXXXX", path) >= (int)sizeof(temporary))
		return -ENAMETOOLONG;
	fd = mkostemp(temporary, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (write(fd, text, n) != (ssize_t)n || fchmod(fd, 0644) || fsync(fd))
		r = -EIO;
	else if (link(temporary, path) && errno != EEXIST)
		r = -errno;
	unlink(temporary);
	return r;
}

/* mkdir -p */
static int make_directory(const char *path)
{
	char partial[PATH_MAX];

	if (snprintf(partial, sizeof(partial), "%s", path) >= (int)sizeof(partial))
		return -ENAMETOOLONG;
	for (char *p = partial + 1; *p; p++) {
		if (*p != '/')
			continue;
		*p = '\0';
		if (mkdir(partial, 0755) && errno != EEXIST)
			return -errno;
		*p = '/';
	}
	return mkdir(partial, 0755) && errno != EEXIST ? -errno : 0;
}

static int generate(const char *directory, struct volume_config *config, struct error *error)
{
	char path[PATH_MAX], line[LINE_MAX_BYTES], text[UUID_STR_LEN];
	uuid_t uuid;
	int r;

	r = random_uuid(uuid);
	uuid_unparse_lower(uuid, text);
	snprintf(line, sizeof(line), UUID_NQN "%s\n", text);
	snprintf(path, sizeof(path), "%.4000s/hostnqn", directory);
	if (r == 0)
		r = make_directory(directory);
	if (r == 0)
		r = keep(path, line);
	if (r < 0) {
		error_set(
			error, EXIT_FAILED,
			"set RBLK_STATE_DIR to a directory that can be written, or make /etc/nvme/hostnqn with 'nvme gen-hostnqn'",
			"%s: cannot keep a host NQN there: %s", path, strerror(-r));
		return -1;
	}
	/* Read back: another process may have been first. */
	r = take_nqn(path, config, error);
	if (r == 0)
		error_set(error, EXIT_FAILED, NULL, "%s: it has vanished", path);
	return r == 1 ? 0 : -1;
}

static int find_nqn(const char *directory, struct volume_config *config, struct error *error)
{
	const char *state = getenv("RBLK_STATE_DIR");
	char path[PATH_MAX], base[PATH_MAX];
	int r;

	snprintf(path, sizeof(path), "%s/hostnqn", directory);
	r = take_nqn(path, config, error);
	if (r)
		return r == 1 ? 0 : -1;
	if (!state || !*state)
		state = run_dir_base(base) == 0 ? base : RUN_DIR_SYSTEM;
	snprintf(path, sizeof(path), "%.4000s/hostnqn", state);
	r = take_nqn(path, config, error);
	if (r)
		return r == 1 ? 0 : -1;
	return generate(state, config, error);
}

static void derive_id(struct volume_config *config)
{
	const char *nqn = config->hostnqn;

	if (strncmp(nqn, UUID_NQN, strlen(UUID_NQN)) == 0 &&
	    uuid_parse(nqn + strlen(UUID_NQN), config->hostid) == 0)
		return;
	uuid_generate_sha1(config->hostid, *uuid_get_template("url"), nqn, strlen(nqn));
}

/* The hostid file belongs to the hostnqn file: it counts when that says our NQN. */
static int find_id(const char *directory, struct volume_config *config, struct error *error)
{
	char path[PATH_MAX], line[LINE_MAX_BYTES];
	int r;

	derive_id(config);
	snprintf(path, sizeof(path), "%s/hostnqn", directory);
	if (read_line(path, line, sizeof(line)) < 0 || strcmp(line, config->hostnqn) != 0)
		return 0;
	snprintf(path, sizeof(path), "%s/hostid", directory);
	r = read_line(path, line, sizeof(line));
	if (r == -ENOENT)
		return 0;
	if (r == 0 && uuid_parse(line, config->hostid))
		r = -EINVAL;
	if (r < 0)
		return bad_file(error, path, r, "not a UUID",
				"write a UUID there (uuidgen), or remove the file");
	return 0;
}

int host_identity_load(const char *directory, const char *hostnqn, const char *hostid,
		       struct volume_config *config, struct error *error)
{
	int r = hostnqn ? set_nqn(hostnqn, "--hostnqn", EXIT_USAGE, NQN_HINT, config, error)
			: find_nqn(directory, config, error);

	if (r < 0)
		return -1;
	if (!hostid)
		return find_id(directory, config, error);
	if (uuid_parse(hostid, config->hostid)) {
		error_set(error, EXIT_USAGE,
			  "uuidgen makes one; without --hostid it comes from the NQN",
			  "--hostid: '%.100s' is not a host identifier (a UUID)", hostid);
		return -1;
	}
	return 0;
}
