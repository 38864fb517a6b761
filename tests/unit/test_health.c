/* SPDX-License-Identifier: BSD-3-Clause */
/* SMART counters over restarts: what is added up, what the file holds, and malformed files. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/counter.h"
#include "target/export/health/health_file.h"
#include "target/export/health/record.h"
#include "target/export/state_file.h"
#include "target/export/health/health.h"
#include "target/export/snapshot.h"

#define NQN    "nqn.2026-01.org.example:one"
#define OTHER  "nqn.2026-01.org.example:two"
#define RECORD "\"is_on\": false, " NUMBERS
#define NUMBERS                                                                                    \
	"\"power_cycles\": 1, \"unsafe_shutdowns\": 0, "                                           \
	"\"power_on_seconds\": 0, \"reads\": 0, \"writes\": 0, \"read_units\": 0, "                \
	"\"written_units\": 0, \"media_errors\": 0"

enum {
	PATIENCE_S = 60,
	MANY = HEALTH_RECORDS_MAX + 500,
};

static char folder[] = "/tmp/test_health.XXXXXX", path[64], aside[64], boot_id_path[64];
static struct state_directory *directory;
static struct health *health;
static struct loop loop;
static struct list controllers;
static struct subsystem subsystems[2];
static struct snapshot snapshot;

/* ---- a life of rblkd ------------------------------------------------------------------------ */

static struct health *load(struct error *refused)
{
	return health_new(directory, refused);
}

/* rblkd reads this as the kernel's boot id from now on. */
static void boot(const char *id)
{
	FILE *file = fopen(boot_id_path, "w");

	assert_non_null(file);
	assert_int_equal(fprintf(file, "%s\n", id), strlen(id) + 1);
	assert_int_equal(fclose(file), 0);
}

static void begin(unsigned n_subsystems)
{
	static const char *const nqns[] = {NQN, OTHER};
	struct error refused;

	health = load(&refused);
	if (!health)
		fail_msg("%s", refused.message);
	for (unsigned i = 0; i < 2; i++)
		subsystems[i].health = health_find(health, nqns[i]);
	snapshot = (struct snapshot){.subsystems = subsystems, .n_subsystems = n_subsystems};
	memset(&loop, 0, sizeof(loop));
	assert_int_equal(loop_init(&loop, 0, NULL), 0);
	list_init(&controllers);
	health_begin(health, &loop, &snapshot, &controllers);
}

static void leave(bool in_order)
{
	if (in_order)
		health_end(health);
	else
		loop_timer_stop(&health->timer);
	health_free(health);
	health = NULL;
	loop_deinit(&loop);
}

static struct namespace *new_namespace(struct health_record *record)
{
	struct namespace *ns = aligned_alloc(_Alignof(struct namespace), sizeof(*ns));

	assert_non_null(ns);
	memset(ns, 0, sizeof(*ns));
	list_init(&ns->health_node);
	ns->block_shift = 12;
	health_add_namespace(record, ns);
	return ns;
}

static void use(struct namespace *ns)
{
	struct namespace_counters *c = &ns->counters[POLLERS_MAX - 1];

	counter_add(&c->n_reads, 1);
	counter_add(&c->n_writes, 2);
	counter_add(&c->read_blocks, 3);
	counter_add(&c->written_blocks, 4);
	counter_add(&c->n_media_errors, 5);
}

static struct health_figures figures(unsigned i)
{
	struct health_figures f;

	health_read(subsystems[i].health, &f);
	return f;
}

static char *read_file(void)
{
	char *text;

	assert_int_equal(state_file_read(directory, HEALTH_FILE, &text), 0);
	return text;
}

static bool file_has(const char *piece)
{
	char *text = read_file();
	bool has_it = text && strstr(text, piece);

	free(text);
	return has_it;
}

static int setup(void **state)
{
	struct error refused;

	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/" HEALTH_FILE, folder);
	snprintf(aside, sizeof(aside), "%s/" HEALTH_FILE ".new", folder);
	directory = state_directory_open(folder, &refused);
	assert_non_null(directory);
	snprintf(boot_id_path, sizeof(boot_id_path), "%s/boot_id", folder);
	boot("one");
	return setenv("RBLKD_BOOT_ID_FILE", boot_id_path, 1);
}

static int teardown(void **state)
{
	char lock[64], damaged[80];

	state_directory_close(directory);
	snprintf(damaged, sizeof(damaged), "%s.damaged", path);
	unlink(damaged);
	snprintf(lock, sizeof(lock), "%s/.lock", folder);
	unlink(lock);
	unlink(path);
	unlink(boot_id_path);
	return rmdir(folder);
}

static int forget(void **state)
{
	unlink(path);
	boot("one");
	return 0;
}

/* ---- counting ------------------------------------------------------------------------------- */

static void adds_up(void **state)
{
	struct namespace *a, *b;
	struct health_figures f;

	begin(1);
	a = new_namespace(subsystems[0].health);
	b = new_namespace(subsystems[0].health);
	use(a);
	use(b);
	f = figures(0);
	assert_int_equal(f.n_reads, 2);
	assert_int_equal(f.n_writes, 4);
	assert_int_equal(f.read_units, 2 * 3 * 8);
	assert_int_equal(f.written_units, 2 * 4 * 8);
	assert_int_equal(f.n_media_errors, 10);
	assert_int_equal(f.power_cycles, 1);
	assert_int_equal(f.unsafe_shutdowns, 0);
	/* The counts of a namespace stay when it is removed. */
	health_remove_namespace(a);
	free(a);
	use(b);
	f = figures(0);
	assert_int_equal(f.n_reads, 3);
	assert_int_equal(f.written_units, 3 * 4 * 8);
	assert_int_equal(health_count_error(subsystems[0].health), 1);
	assert_int_equal(health_count_error(subsystems[0].health), 2);
	assert_int_equal(figures(1).n_errors, 0);
	health_remove_namespace(b);
	free(b);
	leave(true);
	begin(1);
	f = figures(0);
	assert_int_equal(f.n_reads, 3);
	assert_int_equal(f.n_writes, 6);
	assert_int_equal(f.read_units, 3 * 3 * 8);
	assert_int_equal(f.written_units, 3 * 4 * 8);
	assert_int_equal(f.n_media_errors, 15);
	assert_int_equal(f.n_errors, 2);
	assert_int_equal(health_count_error(subsystems[0].health), 3);
	leave(true);
}

static void expect_life(unsigned i, unsigned power_cycles, unsigned unsafe_shutdowns)
{
	struct health_figures f = figures(i);

	assert_int_equal(f.power_cycles, power_cycles);
	assert_int_equal(f.unsafe_shutdowns, unsafe_shutdowns);
}

static void starts_and_ends(void **state)
{
	begin(1);
	assert_true(file_has("\"is_on\": true"));
	leave(true);
	assert_false(file_has("\"is_on\": true"));
	begin(1);
	expect_life(0, 2, 0);
	leave(false);
	boot("another");
	/* A subsystem that this rblkd does not export counts the loss when it is exported again. */
	begin(0);
	expect_life(0, 2, 0);
	leave(true);
	begin(1);
	expect_life(0, 3, 1);
	expect_life(1, 0, 0);
	assert_int_equal(figures(0).crashes, 0);
	leave(true);
	begin(1);
	expect_life(0, 4, 1);
	leave(true);
}

/* rblkd was killed, but the kernel kept running and wrote back all that rblkd had written. */
static void a_crash_is_no_loss_of_power(void **state)
{
	begin(1);
	leave(false);
	begin(1);
	expect_life(0, 2, 0);
	assert_int_equal(figures(0).crashes, 1);
	leave(true);
	assert_true(file_has("\"crashes\": 1"));
	/* An orderly shutdown before the machine goes down counts as neither. */
	boot("another");
	begin(1);
	expect_life(0, 3, 0);
	assert_int_equal(figures(0).crashes, 1);
	leave(true);
}

/* rblkd was killed and restarted without the subsystem; then the machine lost power. */
static void power_is_lost_long_after_a_crash(void **state)
{
	begin(1);
	leave(false);
	begin(0);
	leave(true);
	boot("another");
	begin(0);
	leave(true);
	begin(1);
	expect_life(0, 2, 1);
	assert_int_equal(figures(0).crashes, 0);
	leave(true);
}

static void what_is_not_known_counts_as_a_loss(void **state)
{
	begin(1);
	leave(false);
	assert_int_equal(unlink(boot_id_path), 0);
	begin(1);
	expect_life(0, 2, 1);
	leave(false);
	begin(1);
	expect_life(0, 3, 2);
	assert_int_equal(figures(0).crashes, 0);
	leave(true);
}

/* Such a file has neither a boot id nor crashes. */
static void file_of_an_earlier_rblkd(void **state)
{
	static const char text[] = "{\"version\": 1, \"subsystems\": [{\"nqn\": \"" NQN
				   "\", \"errors\": 0, \"is_on\": true, " NUMBERS "}]}";

	assert_int_equal(state_file_write(directory, HEALTH_FILE, text, strlen(text), NULL), 0);
	begin(1);
	expect_life(0, 2, 1);
	assert_int_equal(figures(0).crashes, 0);
	leave(true);
}

/* A subsystem that is removed and added again while rblkd runs has no power cycle. */
static void comes_and_goes(void **state)
{
	struct snapshot less;

	begin(2);
	less = (struct snapshot){.subsystems = subsystems, .n_subsystems = 1};
	health_follow(health, &less);
	expect_life(1, 1, 0);
	assert_int_equal(subsystems[1].health->on_since_ns, 0);
	health_follow(health, &snapshot);
	expect_life(1, 1, 0);
	assert_int_not_equal(subsystems[1].health->on_since_ns, 0);
	leave(true);
	begin(2);
	expect_life(1, 2, 0);
	leave(true);
}

static void a_change_is_saved_at_once(void **state)
{
	uint64_t deadline = clock_ns() + PATIENCE_S * NSEC_PER_SEC;
	struct snapshot more;

	begin(1);
	assert_false(file_has(OTHER));
	more = (struct snapshot){.subsystems = subsystems, .n_subsystems = 2};
	health_follow(health, &more);
	while (!file_has(OTHER)) {
		assert_true(clock_ns() < deadline);
		usleep(1000);
	}
	leave(true);
	begin(2);
	expect_life(1, 2, 0);
	leave(true);
}

/* ---- the timer ------------------------------------------------------------------------------ */

static void expire(void)
{
	loop_timer_stop(&health->timer);
	health->timer.on_expiry(&health->timer);
}

/* The timer expires; waits until the save is done. */
static void expire_and_save(void)
{
	uint64_t deadline = clock_ns() + PATIENCE_S * NSEC_PER_SEC;

	expire();
	assert_non_null(health->text);
	while (!atomic_load(&health->is_saved)) {
		assert_true(clock_ns() < deadline);
		usleep(1000);
	}
	expire();
	assert_null(health->text);
}

static uint64_t seconds_to_wait(void)
{
	assert_true(loop_timer_is_running(&health->timer));
	return (health->timer.deadline_ns - clock_ns()) / NSEC_PER_SEC;
}

static void saves_what_has_changed(void **state)
{
	struct namespace *ns;

	begin(1);
	assert_true(seconds_to_wait() > 600);
	health_note_host(health);
	assert_true(seconds_to_wait() <= 60);
	assert_int_equal(unlink(path), 0);
	ns = new_namespace(subsystems[0].health);
	expire();
	assert_null(health->text);
	assert_int_equal(access(path, F_OK), -1);
	assert_true(seconds_to_wait() > 600); /* no host is connected any more */
	use(ns);
	expire_and_save();
	assert_true(file_has("\"reads\": 1"));
	use(ns);
	health_count_error(subsystems[0].health);
	expire_and_save();
	/* A crash: the counts since the last save are lost. */
	use(ns);
	health_remove_namespace(ns);
	free(ns);
	leave(false);
	begin(1);
	assert_int_equal(figures(0).n_reads, 2);
	assert_int_equal(figures(0).n_errors, 1);
	assert_int_equal(figures(0).crashes, 1);
	leave(true);
}

static void tries_again(void **state)
{
	begin(1);
	assert_int_equal(mkdir(aside, 0700), 0);
	health_count_error(subsystems[0].health);
	expire_and_save();
	assert_int_equal(atomic_load(&health->error), -EISDIR);
	assert_true(seconds_to_wait() <= 60);
	assert_int_equal(rmdir(aside), 0);
	expire_and_save();
	assert_int_equal(atomic_load(&health->error), 0);
	assert_true(file_has("\"errors\": 1"));
	leave(true);
}

static void without_a_directory(void **state)
{
	struct state_directory *there = directory;

	directory = NULL;
	begin(1);
	expect_life(0, 1, 0);
	assert_false(loop_timer_is_running(&health->timer));
	leave(true);
	directory = there;
	assert_int_equal(access(path, F_OK), -1);
}

static void cannot_be_written(void **state)
{
	begin(1);
	leave(true);
	assert_int_equal(mkdir(aside, 0700), 0);
	begin(1);
	expect_life(0, 2, 0);
	assert_int_equal(atomic_load(&health->error), -EISDIR);
	assert_true(health->has_news);
	assert_int_equal(rmdir(aside), 0);
	leave(true);
	begin(1);
	expect_life(0, 3, 0);
	assert_int_equal(atomic_load(&health->error), 0);
	leave(true);
}

/* ---- the file ------------------------------------------------------------------------------- */

/* The file keeps all exported subsystems, and as many others as fit. */
static void stays_small(void **state)
{
	struct subsystem *many = calloc(MANY, sizeof(*many));
	struct snapshot all = {.subsystems = many, .n_subsystems = MANY};
	char nqn[NVMF_NQN_MAX + 1];
	struct error refused;
	struct stat st;

	assert_non_null(many);
	begin(1);
	for (unsigned i = 0; i < MANY; i++) {
		memset(nqn, '/', NVMF_NQN_MAX);
		snprintf(nqn + NVMF_NQN_MAX - 5, 6, "%05u", i);
		many[i].health = health_find(health, nqn);
	}
	health_follow(health, &all);
	health_follow(health, &snapshot);
	leave(true);
	free(many);
	assert_int_equal(stat(path, &st), 0);
	assert_in_range(st.st_size, HEALTH_RECORDS_MAX * NVMF_NQN_MAX, 1024 * 1024);
	health = load(&refused);
	assert_non_null(health);
	health_free(health);
}

/* Counters at their maximum are read back as written. */
static void the_highest_numbers(void **state)
{
	struct health_figures f;

	begin(1);
	memset(&subsystems[0].health->past, 0xff, sizeof(struct health_figures));
	atomic_store(&subsystems[0].health->n_errors, UINT64_MAX);
	leave(true);
	begin(1);
	f = figures(0);
	assert_true(f.n_reads > INT64_MAX / 8 && f.n_errors > INT64_MAX / 8);
	assert_int_equal(f.n_reads, f.written_units);
	leave(true);
	begin(1);
	assert_int_equal(figures(0).n_reads, f.n_reads);
	leave(true);
}

static void write_file(const char *text, size_t n)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, n, f), n);
	assert_int_equal(fclose(f), 0);
}

static void expect_set_aside(const char *text, size_t n)
{
	struct error refused;
	char damaged[200];

	snprintf(damaged, sizeof(damaged), "%s.damaged", path);
	unlink(damaged);
	write_file(text, n);
	health = load(&refused);
	if (!health)
		fail_msg("%s: %s", text, refused.message);
	assert_true(list_is_empty(&health->records));
	health_free(health);
	if (rename(damaged, path) < 0)
		fail_msg("taken for sound: %s", text);
}

static void damaged_files(void **state)
{
	static const char *const texts[] = {
		"",
		"null",
		"[]",
		"{}",
		"{\"version\": 1",
		"{\"version\": 1}",
		"{\"version\": 2, \"subsystems\": []}",
		"{\"version\": 4294967297, \"subsystems\": []}",
		"{\"version\": \"1\", \"subsystems\": []}",
		"{\"version\": 1, \"subsystems\": {}}",
		"{\"version\": 1, \"subsystems\": [null]}",
		"{\"version\": 1, \"subsystems\": [[]]}",
		"{\"version\": 1, \"subsystems\": [{}]}",
		/* lacks errors; not a number; negative; too many; no name; twice */
		"{\"version\": 1, \"subsystems\": [{\"nqn\": \"a\", " RECORD "}]}",
		"{\"version\": 1, \"subsystems\": [{\"nqn\": \"a\", " RECORD ", \"errors\": 1.5}]}",
		"{\"version\": 1, \"subsystems\": [{\"nqn\": \"a\", " RECORD ", \"errors\": -1}]}",
		"{\"version\": 1, \"subsystems\": [{\"nqn\": \"a\", " RECORD
		", \"errors\": 99999999999999999999}]}",
		"{\"version\": 1, \"subsystems\": [{\"nqn\": \"\", " RECORD ", \"errors\": 0}]}",
		"{\"version\": 1, \"subsystems\": [{\"nqn\": \"a\\u0000b\", " RECORD
		", \"errors\": 0}]}",
		"{\"version\": 1, \"subsystems\": [{\"nqn\": 5, " RECORD ", \"errors\": 0}]}",
		"{\"version\": 1, \"subsystems\": [{\"nqn\": \"a\", " RECORD
		", \"errors\": 0}, {\"nqn\": \"a\", " RECORD ", \"errors\": 0}]}",
		"{\"version\": 1, \"subsystems\": [{\"nqn\": \"a\", " RECORD
		", \"errors\": 0, \"crashes\": -1}]}",
		"{\"version\": 1, \"subsystems\": [{\"nqn\": \"a\", " RECORD
		", \"errors\": 0, \"boot_id\": 1}]}",
		"{\"version\": 1, \"subsystems\": [{\"nqn\": \"a\", " RECORD
		", \"errors\": 0, \"boot_id\": \"0123456789012345678901234567890123456789\"}]}",
	};
	struct error refused;
	char long_one[1024];
	int n;

	for (unsigned i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		expect_set_aside(texts[i], strlen(texts[i]));
	n = snprintf(long_one, sizeof(long_one),
		     "{\"version\": 1, \"subsystems\": [{\"nqn\": \"%0224d\", " RECORD
		     ", \"errors\": 0}]}",
		     0);
	expect_set_aside(long_one, (size_t)n);
	/* Optional fields may be missing; unknown fields are ignored. */
	n = snprintf(long_one, sizeof(long_one),
		     "{\"version\": 1, \"more\": 1, \"subsystems\": [{\"nqn\": \"%0223d\", " RECORD
		     ", \"errors\": 7}]}",
		     0);
	write_file(long_one, (size_t)n);
	health = load(&refused);
	assert_non_null(health);
	health_free(health);
}

/* A truncated file is set aside. With one byte changed it is set aside or holds another number.
 * Neither crashes. */
static void spoilt_files(void **state)
{
	struct error refused;
	char *text;
	size_t n;

	begin(2);
	leave(true);
	text = read_file();
	n = strlen(text);
	for (size_t i = 0; i < n; i++)
		if (strspn(text + i, " \n") != n - i)
			expect_set_aside(text, i);
	for (size_t i = 0; i < n; i++) {
		char was = text[i];

		text[i] ^= 0x11;
		write_file(text, n);
		health_free(load(&refused));
		text[i] = was;
	}
	free(text);
}

static void too_large(void **state)
{
	enum {
		N = 1024 * 1024 + 1
	};
	struct error refused;
	char *text = malloc(N);

	assert_non_null(text);
	memset(text, ' ', N);
	write_file(text, N);
	free(text);
	assert_null(load(&refused));
	assert_non_null(strstr(refused.message, "cannot read"));
}

#define CASE(f) cmocka_unit_test_teardown(f, forget)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(adds_up),
		CASE(starts_and_ends),
		CASE(a_crash_is_no_loss_of_power),
		CASE(power_is_lost_long_after_a_crash),
		CASE(what_is_not_known_counts_as_a_loss),
		CASE(file_of_an_earlier_rblkd),
		CASE(comes_and_goes),
		CASE(a_change_is_saved_at_once),
		CASE(saves_what_has_changed),
		CASE(tries_again),
		CASE(without_a_directory),
		CASE(cannot_be_written),
		CASE(stays_small),
		CASE(the_highest_numbers),
		CASE(damaged_files),
		CASE(spoilt_files),
		CASE(too_large),
	};

	return cmocka_run_group_tests_name("health", tests, setup, teardown);
}
