/* SPDX-License-Identifier: BSD-3-Clause */
/*
 *   rblk-associations 1
 *   boot d6fdb6f8-...               the machine's boot: lost_ns of another one says nothing
 *   namespace NSID SUBNQN HOSTNQN
 *   controller CNTLID CIU CIRN HOLD_NS LOST_NS ADDRESS      LOST_NS 0: it was live
 *
 * The file is the user's own, in the run directory; a line that cannot be read ends it. An
 * association that was live may have written until this moment, so its hold begins now. A line
 * without an address is of an earlier version: the volume's first address is taken for it.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "initiator/control/proof_file.h"
#include "initiator/control/path_impl.h"
#include "initiator/control/proof.h"
#include "initiator/control/volume_impl.h"

#define TITLE "rblk-associations 1\n"

enum {
	LINE_MAX_BYTES = 640,
	BOOT_BYTES = 40,
};

static void read_boot(char boot[BOOT_BYTES])
{
	_autofclose_ FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");

	boot[0] = '\0';
	if (f && fgets(boot, BOOT_BYTES, f))
		boot[strcspn(boot, "\n")] = '\0';
}

static void format_namespace(const struct volume *volume, char line[LINE_MAX_BYTES])
{
	const struct volume_config *config = &volume->config;

	snprintf(line, LINE_MAX_BYTES, "namespace %" PRIu32 " %s %s\n", config->nsid,
		 config->subnqn, config->hostnqn);
}

/* "" of an earlier version. */
static bool read_address(const struct volume *volume, char *text, union addr *ret_address)
{
	text[strcspn(text, "\n")] = '\0';
	if (*text)
		return addr_parse_with_port(text, 0, ret_address) == 0;
	*ret_address = volume->config.address;
	return true;
}

static bool take_controller(struct volume *volume, char *line, bool is_same_boot)
{
	struct proof *proof = &volume->proof;
	struct predecessor p = {0};
	uint64_t now = clock_ns();
	int at = 0;

	if (proof->n == UNPROVEN_MAX ||
	    sscanf(line, "controller %" SCNu16 " %" SCNu8 " %" SCNx64 " %" SCNu64 " %" SCNu64 " %n",
		   &p.subject.cntlid, &p.subject.ciu, &p.subject.cirn, &p.subject.hold_ns,
		   &p.lost_ns, &at) != 5 ||
	    !read_address(volume, line + at, &p.subject.address))
		return false;
	if (!is_same_boot || !p.lost_ns || p.lost_ns > now)
		p.lost_ns = now;
	proof->predecessors[proof->n++] = p;
	return true;
}

static void read_lines(struct volume *volume, FILE *f)
{
	char line[LINE_MAX_BYTES], boot[BOOT_BYTES], wanted[LINE_MAX_BYTES];
	bool is_same_boot;

	read_boot(boot);
	format_namespace(volume, wanted);
	if (!fgets(line, sizeof(line), f) || strcmp(line, TITLE) != 0 ||
	    !fgets(line, sizeof(line), f) || strncmp(line, "boot ", 5) != 0)
		return;
	is_same_boot = strncmp(line + 5, boot, strlen(boot)) == 0;
	if (!fgets(line, sizeof(line), f) || strcmp(line, wanted) != 0)
		return; /* of another volume that had the name */
	while (fgets(line, sizeof(line), f) && take_controller(volume, line, is_same_boot))
		;
}

void proof_file_read(struct volume *volume)
{
	const char *path = volume->config.state_file;
	_autofclose_ FILE *f = *path ? fopen(path, "re") : NULL;

	if (f)
		read_lines(volume, f);
	else if (*path && errno != ENOENT)
		log_warn("cannot read %s: %s", path, strerror(errno));
}

static void write_controller(FILE *f, const struct proof_subject *subject, uint64_t lost_ns)
{
	char address[ADDR_STRING_MAX];

	fprintf(f, "controller %u %u %" PRIx64 " %" PRIu64 " %" PRIu64 " %s\n", subject->cntlid,
		subject->ciu, subject->cirn, subject->hold_ns, lost_ns,
		addr_format(address, &subject->address));
}

static int write_all(const struct volume *volume, const char *path)
{
	const struct proof *proof = &volume->proof;
	char line[LINE_MAX_BYTES], boot[BOOT_BYTES];
	FILE *f = fopen(path, "we");

	if (!f)
		return -errno;
	read_boot(boot);
	format_namespace(volume, line);
	fprintf(f, "%sboot %s\n%s", TITLE, boot, line);
	for (unsigned i = 0; i < proof->n; i++)
		write_controller(f, &proof->predecessors[i].subject,
				 proof->predecessors[i].lost_ns);
	for_each_path(live, volume) if (live->phase == PATH_LIVE)
		write_controller(f, &live->subject, 0);
	return fclose(f) ? -errno : 0;
}

void proof_file_write(struct volume *volume)
{
	const char *path = volume->config.state_file;
	char temporary[VOLUME_PATH_MAX + 8];
	int r;

	if (!*path)
		return;
	snprintf(temporary, sizeof(temporary), "%s.new", path);
	r = write_all(volume, temporary);
	if (r == 0 && rename(temporary, path) < 0)
		r = -errno;
	if (r < 0)
		log_warn(
			"cannot write %s: %s; a process after this one will not know what to wait for",
			path, strerror(-r));
}

void proof_file_remove(struct volume *volume)
{
	if (*volume->config.state_file)
		unlink(volume->config.state_file);
}
