/* SPDX-License-Identifier: BSD-3-Clause */
/* See wake_up_kept.h. The file is the user's own, as all of the run directory; what it says is
 * checked nevertheless, and can change nothing but how long a loop polls. */
#include "base/wake_up_kept.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/cpus.h"
#include "base/run_dir.h"

enum {
	BOOT_BYTES = 40,
	LINE_BYTES = 96,
};

static bool read_line(const char *path, char *line, int n)
{
	_autofclose_ FILE *f = fopen(path, "re");

	if (!f || !fgets(line, n, f))
		return false;
	line[strcspn(line, "\n")] = '\0';
	return *line != '\0';
}

static bool find(char path[PATH_MAX], char boot[BOOT_BYTES])
{
	char base[PATH_MAX];

	return run_dir_base(base) == 0 &&
	       snprintf(path, PATH_MAX, "%s/wake-up", base) < PATH_MAX - LINE_BYTES &&
	       read_line("/proc/sys/kernel/random/boot_id", boot, BOOT_BYTES);
}

uint64_t wake_up_kept(uint64_t least_ns, uint64_t most_ns)
{
	char path[PATH_MAX], boot[BOOT_BYTES], its_boot[BOOT_BYTES], line[LINE_BYTES];
	unsigned n_cpus;
	uint64_t ns;

	if (!find(path, boot) || !read_line(path, line, sizeof(line)) ||
	    sscanf(line, "%39s %u %" SCNu64, its_boot, &n_cpus, &ns) != 3 ||
	    strcmp(boot, its_boot) != 0 || n_cpus != cpus_in_affinity())
		return 0;
	return ns >= least_ns && ns <= most_ns ? ns : 0;
}

static bool write_line(const char *path, const char *line)
{
	_autoclose_ int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
				  0644);
	ssize_t n = (ssize_t)strlen(line);

	return fd >= 0 && write(fd, line, (size_t)n) == n;
}

/* Readers see the old file or the new one, so each writer has a name of its own until the end. */
void wake_up_keep(uint64_t ns)
{
	char path[PATH_MAX], own[PATH_MAX + 16], boot[BOOT_BYTES], line[LINE_BYTES];

	if (!find(path, boot))
		return;
	snprintf(own, sizeof(own), "%s.%d", path, (int)getpid());
	snprintf(line, sizeof(line), "%s %u %" PRIu64 "\n", boot, cpus_in_affinity(), ns);
	if (!write_line(own, line) || rename(own, path) < 0)
		unlink(own);
}
