/* SPDX-License-Identifier: BSD-3-Clause */
/* Event logs of subsystems: which events are recorded, which are dropped for them, and malformed
 * files. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "target/export/health/event_log.h"
#include "target/export/health/record.h"
#include "target/export/state_file.h"
#include "target/export/health/health.h"
#include "target/export/snapshot.h"

#define NQN   "nqn.2026-01.org.example:one"
#define OTHER "nqn.2026-01.org.example:two"
/* A Power-on event as in a file: type, revision, EHL, EHAI, controller, time, rest, EL,
 * firmware. */
#define POWER_ON                                                                                   \
	"\"04011503ffff"                                                                           \
	"0102030405060000"                                                                         \
	"0000000000000000"                                                                         \
	"0800"                                                                                     \
	"302e312e30202020\""
#define FILE_OF(nqn, generation, events)                                                           \
	"{\"version\": 1, \"nqn\": \"" nqn "\", \"generation\": " generation                       \
	", \"events\": [" events "]}"

enum {
	PATIENCE_S = 100,
	SMART_BYTES = 24 + 512,
	START_BYTES = 24 + 8,
	RESET_BYTES = 24 + 8 + 36,
};

static char folder[] = "/tmp/test_event_log.XXXXXX", path[128];
static struct state_directory *directory;
static struct health *health;
static struct health_record *record;
static struct loop loop;
static struct list controllers;
static struct subsystem subsystem;
static struct snapshot snapshot;

/* ---- the disk -------------------------------------------------------------------------------- */

static struct {
	ino_t synced; /* what was synced last */
	unsigned n_renamed, n_unsynced;
} disk;

int fsync(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	disk.synced = st.st_ino;
	return (int)syscall(SYS_fsync, fd);
}

int renameat(int from_folder, const char *from, int to_folder, const char *to)
{
	struct stat st;

	disk.n_renamed++;
	disk.n_unsynced += fstatat(from_folder, from, &st, 0) || st.st_ino != disk.synced;
	return (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, 0);
}

/* ---- a life of rblkd ------------------------------------------------------------------------ */

static int open_log(struct error *refused)
{
	health = health_new(directory, refused);
	assert_non_null(health);
	record = health_find(health, NQN);
	assert_non_null(record);
	return event_log_open(record, refused);
}

static void begin(void)
{
	struct error refused;

	if (open_log(&refused) < 0)
		fail_msg("%s", refused.message);
	subsystem.health = record;
	snapshot = (struct snapshot){.subsystems = &subsystem, .n_subsystems = 1};
	memset(&loop, 0, sizeof(loop));
	assert_int_equal(loop_init(&loop, 0, NULL), 0);
	list_init(&controllers);
	health_begin(health, &loop, &snapshot, &controllers);
}

static void await_saver(void)
{
	uint64_t deadline = clock_ns() + PATIENCE_S * NSEC_PER_SEC;

	while (health->text && !atomic_load(&health->is_saved)) {
		assert_true(clock_ns() < deadline);
		usleep(1000);
	}
}

static void expire(void)
{
	loop_timer_stop(&health->timer);
	health->timer.on_expiry(&health->timer);
}

/* Runs until everything dirty is saved. */
static void save(void)
{
	while (health->text) {
		await_saver();
		expire();
	}
}

static void leave(bool in_order)
{
	if (in_order)
		health_end(health);
	else
		save();
	loop_timer_stop(&health->timer);
	health_free(health);
	health = NULL;
	loop_deinit(&loop);
}

static void reset_controller(uint16_t id)
{
	event_log_add_reset(record, id);
}

/* ---- the log -------------------------------------------------------------------------------- */

static const struct nvme_event *event_at(const struct event_image *image, unsigned i)
{
	size_t at = 0;

	assert_in_range(i, 0, image->n_events - 1);
	for (; i; i--)
		at += sizeof(struct nvme_event) +
		      get_le16(((const struct nvme_event *)(const void *)(image->bytes + at))->el);
	return (const void *)(image->bytes + at);
}

static void expect_types(const char *types)
{
	struct event_image *image = event_image_take(record);

	assert_non_null(image);
	assert_int_equal(image->n_events, strlen(types));
	for (unsigned i = 0; types[i]; i++)
		assert_int_equal(event_at(image, i)->type, types[i] - '0');
	event_image_give(image);
}

static void find_file(void)
{
	char name[96], *text;
	FILE *f;

	snprintf(name, sizeof(name), "ls %s/events-*.json", folder);
	f = popen(name, "r");
	assert_non_null(f);
	assert_non_null(fgets(path, sizeof(path), f));
	pclose(f);
	text = strchr(path, '\n');
	assert_non_null(text);
	*text = '\0';
}

static int setup(void **state)
{
	struct error refused;

	assert_non_null(mkdtemp(folder));
	directory = state_directory_open(folder, &refused);
	assert_non_null(directory);
	begin();
	leave(true);
	find_file();
	return unlink(path);
}

static int teardown(void **state)
{
	char command[64];

	state_directory_close(directory);
	snprintf(command, sizeof(command), "rm -r %s", folder);
	return system(command);
}

static int forget(void **state)
{
	unlink(path);
	return 0;
}

/* ---- what is written down ------------------------------------------------------------------- */

static void starts_and_ends(void **state)
{
	begin();
	expect_types("14");
	leave(true);
	begin();
	expect_types("14114");
	leave(false);
	begin();
	expect_types("1414114");
	leave(true);
}

/* A subsystem that is removed and added again while rblkd runs gets no second Power-on event. */
static void comes_and_goes(void **state)
{
	struct snapshot none = {.n_subsystems = 0};

	begin();
	health_follow(health, &none);
	expect_types("114");
	health_follow(health, &snapshot);
	expect_types("1114");
	leave(true);
}

static void each_day(void **state)
{
	begin();
	expire();
	expect_types("14");
	save();
	record->events.snapshot_ns -= 23ULL * 3600 * NSEC_PER_SEC;
	expire();
	expect_types("114");
	save();
	expire();
	expect_types("114");
	leave(false);
	begin();
	expect_types("14114");
	leave(true);
}

static void resets_are_saved_at_once(void **state)
{
	struct event_image *image;

	begin();
	reset_controller(7);
	expect_types("414");
	/* The second while the first is being saved. */
	reset_controller(8);
	leave(false);
	begin();
	expect_types("144414");
	image = event_image_take(record);
	assert_int_equal(get_le16(event_at(image, 2)->cntlid), 8);
	assert_int_equal(get_le16(event_at(image, 3)->cntlid), 7);
	event_image_give(image);
	leave(true);
}

static void not_too_many_resets(void **state)
{
	begin();
	for (unsigned i = 0; i < 100; i++)
		reset_controller(1);
	expect_types("444444444444444414");
	record->events.tokens_ns -= 2 * 600 * NSEC_PER_SEC;
	for (unsigned i = 0; i < 100; i++)
		reset_controller(1);
	expect_types("44444444444444444414");
	leave(false);
}

/* The oldest events go, and a reader keeps the image that it holds. */
static void stays_small(void **state)
{
	struct event_image *held, *image;
	uint16_t generation;

	begin();
	held = event_image_take(record);
	generation = held->generation;
	for (unsigned i = 0; i < 500; i++)
		event_log_add_smart(record);
	image = event_image_take(record);
	assert_in_range(image->n_bytes, EVENT_LOG_BYTES - SMART_BYTES + 1, EVENT_LOG_BYTES);
	assert_int_equal(image->n_events, EVENT_LOG_BYTES / SMART_BYTES);
	assert_int_equal(image->generation, (uint16_t)(generation + 500));
	assert_int_equal(held->n_events, 2);
	assert_int_equal(held->generation, generation);
	event_image_give(held);
	leave(true);
	/* A full log can be loaded again. */
	begin();
	expect_types(
		"14111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111");
	event_image_give(image);
	leave(true);
}

static void without_a_directory(void **state)
{
	struct state_directory *there = directory;

	directory = NULL;
	begin();
	assert_false(event_log_is_kept(record));
	reset_controller(1);
	assert_null(event_image_take(record));
	leave(true);
	directory = there;
	assert_int_equal(access(path, F_OK), -1);
}

static void tries_again(void **state)
{
	char aside[140];

	snprintf(aside, sizeof(aside), "%s.new", path);
	assert_int_equal(mkdir(aside, 0700), 0);
	begin();
	save();
	assert_int_equal(atomic_load(&health->error), -EISDIR);
	reset_controller(1);
	save();
	assert_int_equal(atomic_load(&health->error), -EISDIR);
	assert_int_equal(rmdir(aside), 0);
	expire();
	save();
	assert_int_equal(atomic_load(&health->error), 0);
	leave(false);
	begin();
	expect_types("14414");
	leave(true);
}

/* ---- the file ------------------------------------------------------------------------------- */

static void write_file(const char *text, size_t n)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, n, f), n);
	assert_int_equal(fclose(f), 0);
}

static bool is_accepted(const char *text, size_t n, struct error *refused)
{
	int r;

	write_file(text, n);
	r = open_log(refused);
	health_free(health);
	return r == 0;
}

static void expect_set_aside(const char *text, size_t n)
{
	char aside[320];
	struct error refused;

	snprintf(aside, sizeof(aside), "%s.damaged", path);
	unlink(aside);
	if (!is_accepted(text, n, &refused))
		fail_msg("%.*s: %s", (int)n, text, refused.message);
	if (access(aside, F_OK) != 0)
		fail_msg("taken for sound: %.*s", (int)n, text);
}

static void damaged_files(void **state)
{
	static const char *const texts[] = {
		"",
		"null",
		"[]",
		"{}",
		"{\"version\": 1}",
		FILE_OF(OTHER, "1", ""),
		FILE_OF(NQN "\\u0000", "1", ""),
		FILE_OF(NQN, "-1", ""),
		FILE_OF(NQN, "65536", ""),
		FILE_OF(NQN, "\"1\"", ""),
		FILE_OF(NQN, "1", "null"),
		FILE_OF(NQN, "1", "5"),
		FILE_OF(NQN, "1", "\"\""),
		FILE_OF(NQN, "1", "\"0\""),
		FILE_OF(NQN, "1", "\"04011503ffff\""),
		/* wrong type, revision, EHL, VSIL, EL; not hexadecimal, truncated, too long */
		FILE_OF(NQN, "1",
			"\"05011503ffff010203040506000000000000000000000800302e312e30202020\""),
		FILE_OF(NQN, "1",
			"\"04021503ffff010203040506000000000000000000000800302e312e30202020\""),
		FILE_OF(NQN, "1",
			"\"04011603ffff010203040506000000000000000000000800302e312e30202020\""),
		FILE_OF(NQN, "1",
			"\"04011503ffff010203040506000000000000000001000800302e312e30202020\""),
		FILE_OF(NQN, "1",
			"\"04011503ffff010203040506000000000000000000000900302e312e30202020\""),
		FILE_OF(NQN, "1",
			"\"04011503ffff0102030405060000000000000000000G0800302e312e30202020\""),
		FILE_OF(NQN, "1",
			"\"04011503ffff010203040506000000000000000000000800302e312e302020\""),
		FILE_OF(NQN, "1",
			"\"04011503ffff010203040506000000000000000000000900302e312e3020202020\""),
		FILE_OF(NQN, "1",
			"\"01011503ffff010203040506000000000000000000000800302e312e30202020\""),
	};
	struct error refused;

	for (unsigned i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		expect_set_aside(texts[i], strlen(texts[i]));
	assert_true(is_accepted(FILE_OF(NQN, "65535", POWER_ON),
				strlen(FILE_OF(NQN, "65535", POWER_ON)), &refused));
	assert_true(is_accepted(FILE_OF(NQN, "1", ""), strlen(FILE_OF(NQN, "1", "")), &refused));
}

/* More than fit: 65024 bytes hold 2032 such events. */
static void too_many(void **state)
{
	char *text = NULL;
	struct error refused;
	size_t n;

	for (unsigned more = 0; more < 2; more++) {
		FILE *f = open_memstream(&text, &n);

		fprintf(f,
			"{\"version\": 1, \"nqn\": \"" NQN "\", \"generation\": 1, \"events\": [");
		for (unsigned i = 0; i < EVENT_LOG_BYTES / START_BYTES + more; i++)
			fprintf(f, "%s" POWER_ON, i ? ", " : "");
		fprintf(f, "]}");
		fclose(f);
		if (more)
			expect_set_aside(text, n);
		else
			assert_true(is_accepted(text, n, &refused));
		free(text);
	}
}

/* A truncated file is refused. With one byte changed it is refused or holds other values.
 * Neither crashes. */
static void spoilt_files(void **state)
{
	static const char text[] = FILE_OF(NQN, "7", POWER_ON ", " POWER_ON);
	char spoilt[sizeof(text)];
	struct error refused;

	for (size_t i = 0; i < sizeof(text) - 1; i++)
		expect_set_aside(text, i);
	for (size_t i = 0; i < sizeof(text) - 1; i++) {
		memcpy(spoilt, text, sizeof(text));
		spoilt[i] ^= 0x11;
		is_accepted(spoilt, sizeof(text) - 1, &refused);
	}
}

static void cannot_be_read(void **state)
{
	struct error refused;

	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(open_log(&refused), -EINVAL);
	assert_non_null(strstr(refused.message, "cannot read"));
	health_free(health);
	assert_int_equal(rmdir(path), 0);
}

/* A crash leaves the old file or the new one, and no empty one in its place. */
static void synced_before_renamed(void **state)
{
	struct stat st;

	disk.n_renamed = disk.n_unsynced = 0;
	assert_int_equal(state_file_write(directory, "one", "text", 4, NULL), 0);
	assert_int_equal(disk.n_renamed, 1);
	assert_int_equal(disk.n_unsynced, 0);
	assert_int_equal(stat(folder, &st), 0);
	assert_true(disk.synced == st.st_ino);
	disk.synced = 0;
	assert_int_equal(state_file_write(directory, "one", NULL, 0, NULL), 0);
	assert_true(disk.synced == st.st_ino);
}

#define CASE(f) cmocka_unit_test_teardown(f, forget)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(starts_and_ends),
		CASE(comes_and_goes),
		CASE(each_day),
		CASE(resets_are_saved_at_once),
		CASE(not_too_many_resets),
		CASE(stays_small),
		CASE(without_a_directory),
		CASE(tries_again),
		CASE(damaged_files),
		CASE(too_many),
		CASE(spoilt_files),
		CASE(cannot_be_read),
		cmocka_unit_test(synced_before_renamed),
	};

	return cmocka_run_group_tests_name("event_log", tests, setup, teardown);
}
