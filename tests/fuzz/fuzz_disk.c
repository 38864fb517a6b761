/* SPDX-License-Identifier: BSD-3-Clause */
/* See fuzz_disk.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "target/export/guard/guard_state.h"
#include "target/export/guard/guard_text.h"
#include "target/export/health/health_file.h"
#include "target/export/state_file.h"
#include "target/export/health/health.h"
#include "target/export/bad_blocks.h"
#include "tests/fuzz/fuzz_disk.h"

enum {
	RECORD_MAX = 1 << 10,
};

static struct {
	struct backend backend;
	struct loop *loop;
	struct loop_call call;
	struct list submitted; /* of struct backend_io (node) */
	int error;
	unsigned n_errors;
	bool is_held;
	uint8_t bytes[DISK_BYTES];
} disk;

int disk_take_error(void)
{
	if (!disk.n_errors)
		return 0;
	disk.n_errors--;
	return -disk.error;
}

static int execute(const struct backend_io *io)
{
	uint8_t *at = disk.bytes + io->offset;
	int r = disk_take_error();

	if (r < 0)
		return r;
	if (io->op == BACKEND_FLUSH)
		return 0;
	check(io->offset <= DISK_BYTES && io->length <= DISK_BYTES - io->offset);
	if (io->op == BACKEND_READ)
		memcpy(io->buffer, at, io->length);
	else if (io->op == BACKEND_WRITE)
		memcpy(at, io->buffer, io->length);
	else
		memset(at, 0, io->length);
	return 0;
}

static void finish(struct list *node)
{
	struct backend_io *io = list_entry(node, struct backend_io, node);

	io->is_out = false;
	io->done(io, execute(io));
}

static void run(struct loop_call *call)
{
	struct list now, *node;

	list_init(&now);
	list_splice_tail(&now, &disk.submitted);
	while ((node = list_take_first(&now)))
		finish(node);
}

static void run_oldest(struct loop_call *call)
{
	finish(list_take_first(&disk.submitted));
}

static void disk_submit(struct backend *backend, struct backend_thread *thread,
			struct backend_io *io)
{
	list_add_tail(&disk.submitted, &io->node);
	if (!disk.is_held)
		loop_defer(disk.loop, &disk.call);
}

static void disk_close(struct backend *backend)
{
	check(list_is_empty(&disk.submitted));
}

static const struct backend_ops disk_ops = {
	.name = "disk",
	.close = disk_close,
	.submit = disk_submit,
};

struct backend *disk_open(struct loop *loop)
{
	memset(disk.bytes, 0, sizeof(disk.bytes));
	disk.loop = loop;
	disk.call.run = run;
	list_init(&disk.submitted);
	disk.backend = (struct backend){
		.ops = &disk_ops,
		.limits = {.size_bytes = DISK_BYTES,
			   .min_block = 512,
			   .physical_block = 4096,
			   .optimal_bytes = 65536,
			   .has_volatile_cache = true,
			   .can_discard = true,
			   .can_write_zeroes = true},
	};
	return &disk.backend;
}

void disk_say(int error, unsigned n, bool is_held)
{
	disk.error = error;
	disk.n_errors = error ? n : 0;
	disk.is_held = is_held;
	disk.call.run = run;
	if (disk.loop && !is_held)
		loop_defer(disk.loop, &disk.call);
}

bool disk_is_held(void)
{
	return disk.is_held;
}

unsigned disk_n_held(void)
{
	unsigned n = 0;

	list_for_each (node, &disk.submitted)
		n++;
	return n;
}

void disk_end_oldest(void)
{
	check(disk.is_held && disk_n_held());
	disk.call.run = run_oldest;
	loop_defer(disk.loop, &disk.call);
}

/* ---- guard_state.h ---- */

struct state_directory {
	bool can_write, is_full;
	const char *left; /* the text of each record; "": there is none */
};

static struct state_directory directory = {.left = ""};
static char left[RECORD_MAX];

struct state_directory *disk_state(bool can_write, bool is_full)
{
	directory.can_write = can_write;
	directory.is_full = is_full;
	return &directory;
}

struct state_directory *disk_groups(void)
{
	static struct state_directory groups = {.can_write = true, .left = left};

	*left = '\0';
	return &groups;
}

void disk_leave(const uint8_t *text, size_t n)
{
	snprintf(left, sizeof(left), "%.*s", (int)n, (const char *)text);
}

const char *state_directory_path(const struct state_directory *d)
{
	return "/nowhere";
}

int state_file_write(const struct state_directory *d, const char *name, const char *text, size_t n,
		     bool *ret_is_old)
{
	check(!text || strnlen(text, n + 1) == n);
	if (ret_is_old)
		*ret_is_old = !d->can_write;
	return d->can_write ? 0 : -EROFS;
}

void state_file_set_aside(const struct state_directory *d, const char *name, const char *lost)
{
}

int state_file_read(const struct state_directory *d, const char *name, char **ret_text)
{
	FILE *f;
	size_t n;

	*ret_text = *d->left ? strdup(d->left) : NULL;
	check(*ret_text || !*d->left);
	if (!d->is_full || !strncmp(name, "events-", 7) || !strcmp(name, HEALTH_FILE))
		return 0;
	f = open_memstream(ret_text, &n);
	check(f);
	/* Blocks beyond the end of the disk, with gaps, so that none merge into one range. */
	fprintf(f, "{\"version\": %d, \"uncorrectable\": [", GUARD_FORMAT);
	for (unsigned i = 0; i < BAD_RANGES_MAX; i++)
		fprintf(f, "%s[%u, 1]", i ? ", " : "", DISK_BYTES + 2 * i);
	fprintf(f, "]}");
	fclose(f);
	return 0;
}

int state_file_list(const struct state_directory *d, const char *prefix, unsigned n_max,
		    char **ret_text)
{
	*ret_text = NULL;
	return -ENOTDIR;
}
