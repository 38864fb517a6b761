/* SPDX-License-Identifier: BSD-3-Clause */
/* See wake_up_kept.h. The contents of the file are checked, and can only change how long a loop
 * polls. */
#include "base/wake_up_kept.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/cpus.h"
#include "base/run_dir.h"

enum {
	BOOT_BYTES = 40,
	LINE_BYTES = 96,
};

static bool read_line(FILE *f, char *line, int n)
{
	if (!f || !fgets(line, n, f))
		return false;
	line[strcspn(line, "\n")] = '\0';
	return *line != '\0';
}

static bool read_boot(char boot[BOOT_BYTES])
{
	_autofclose_ FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");

	return read_line(f, boot, BOOT_BYTES);
}

/* Other users may own files in the directory, too (its mode is 1775): only one of root or of this
 * user counts, and none blocks its reader. */
static bool read_kept(const char *path, char line[LINE_BYTES])
{
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	_autofclose_ FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
	struct stat st;

	if (fd >= 0 && !f)
		close(fd);
	return f && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	       (st.st_uid == 0 || st.st_uid == geteuid()) && read_line(f, line, LINE_BYTES);
}

static bool find(char path[PATH_MAX], char boot[BOOT_BYTES])
{
	char base[PATH_MAX];

	return run_dir_base(base) == 0 &&
	       snprintf(path, PATH_MAX, "%s/wake-up", base) < PATH_MAX - LINE_BYTES &&
	       read_boot(boot);
}

uint64_t wake_up_kept(uint64_t least_ns, uint64_t most_ns)
{
	char path[PATH_MAX], boot[BOOT_BYTES], its_boot[BOOT_BYTES], line[LINE_BYTES];
	unsigned n_cpus;
	uint64_t ns;

	if (!find(path, boot) || !read_kept(path, line) ||
	    sscanf(line, "%39s %u %" SCNu64, its_boot, &n_cpus, &ns) != 3 ||
	    strcmp(boot, its_boot) != 0 || n_cpus != cpus_in_affinity())
		return 0;
	return ns >= least_ns && ns <= most_ns ? ns : 0;
}

static bool write_line(const char *path, const char *line)
{
	_autoclose_ int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	ssize_t n = (ssize_t)strlen(line);

	return fd >= 0 && write(fd, line, (size_t)n) == n;
}

/* Readers see the old file or the new one, so each writer has a name of its own until the end; what
 * is there under that name is of a process that was killed, or foreign. */
void wake_up_keep(uint64_t ns)
{
	char path[PATH_MAX], own[PATH_MAX + 16], boot[BOOT_BYTES], line[LINE_BYTES];

	if (!find(path, boot))
		return;
	snprintf(own, sizeof(own), "%s.%d", path, (int)getpid());
	snprintf(line, sizeof(line), "%s %u %" PRIu64 "\n", boot, cpus_in_affinity(), ns);
	unlink(own);
	if (!write_line(own, line) || rename(own, path) < 0)
		unlink(own);
}
