/* SPDX-License-Identifier: BSD-3-Clause */
/* SMART over restarts and crashes, in raw capsules: which counters exist, which survive, and
 * where. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/args.h"
#include "tests/raw/daemon.h"
#include "tests/raw/host.h"

enum {
	N_WRITES = 3,
	UNIT_BLOCKS = 250, /* 4096 bytes each: two data units */
};

static struct daemon d;

/* ---- the page ------------------------------------------------------------------------------- */

static void read_page(struct raw_queue *admin, unsigned id, uint32_t n)
{
	struct nvme_sqe sqe = raw_sqe(admin, NVME_ADMIN_GET_LOG_PAGE, NVME_NSID_ALL);
	struct nvme_cqe cqe;

	sqe.cdw10 = put_le32(id | (n / 4 - 1) << 16);
	memset(admin->data, 0xee, n);
	raw_describe(admin, &sqe, 0, n);
	assert_int_equal(raw_run(admin, &sqe, NULL, 0, &cqe), NVME_OK);
}

/* The low half of a counter, whose high half is zero. */
static uint64_t counter_at(const char *page, size_t at)
{
	le64 low, high;

	memcpy(&low, page + at, sizeof(low));
	memcpy(&high, page + at + 8, sizeof(high));
	assert_int_equal(get_le64(high), 0);
	return get_le64(low);
}

struct smart {
	uint64_t units_read, units_written, reads, writes, cycles, hours, unsafe, media, errors;
};

/* At the offsets of figure 196. */
static struct smart smart(struct raw_host *h)
{
	const char *page = h->admin.data;

	read_page(&h->admin, NVME_LOG_SMART, 512);
	return (struct smart){
		.units_read = counter_at(page, 32),
		.units_written = counter_at(page, 48),
		.reads = counter_at(page, 64),
		.writes = counter_at(page, 80),
		.cycles = counter_at(page, 112),
		.hours = counter_at(page, 128),
		.unsafe = counter_at(page, 144),
		.media = counter_at(page, 160),
		.errors = counter_at(page, 176),
	};
}

/* The newest entry's number. */
static uint64_t newest_error(struct raw_host *h)
{
	le64 count;

	read_page(&h->admin, NVME_LOG_ERROR, 64);
	memcpy(&count, h->admin.data, sizeof(count));
	return get_le64(count);
}

static enum nvme_status lose_block(struct raw_host *h)
{
	struct nvme_sqe sqe = raw_blocks(&h->io, NVME_IO_WRITE_UNCORRECTABLE, DAEMON_FILE, 4000, 1);
	struct nvme_cqe cqe;

	return raw_run(&h->io, &sqe, NULL, 0, &cqe);
}

/* Writes, one Read, a block that cannot be read, a namespace that does not exist. */
static void use(struct raw_host *h)
{
	for (unsigned i = 0; i < N_WRITES; i++)
		assert_int_equal(raw_io(&h->io, NVME_IO_WRITE, DAEMON_FILE, 0, UNIT_BLOCKS,
					UNIT_BLOCKS * 4096),
				 NVME_OK);
	assert_int_equal(
		raw_io(&h->io, NVME_IO_READ, DAEMON_FILE, 0, UNIT_BLOCKS, UNIT_BLOCKS * 4096),
		NVME_OK);
	assert_int_equal(lose_block(h), NVME_OK);
	assert_int_equal(raw_io(&h->io, NVME_IO_READ, DAEMON_FILE, 4000, 1, 4096),
			 NVME_UNRECOVERED_READ | NVME_DNR);
	assert_int_equal(raw_io(&h->io, NVME_IO_READ, 99, 0, 1, 4096),
			 NVME_INVALID_NSID | NVME_DNR);
}

static void expect_counts(const struct smart *s, unsigned n)
{
	assert_int_equal(s->writes, n * N_WRITES);
	assert_int_equal(s->reads, n);
	assert_int_equal(s->units_written, n * N_WRITES * UNIT_BLOCKS * 8 / 1000);
	assert_int_equal(s->units_read, n * UNIT_BLOCKS * 8 / 1000);
	assert_int_equal(s->media, n);
	assert_int_equal(s->errors, n * 2);
	assert_int_equal(s->hours, 0);
}

/* ---- lives ---------------------------------------------------------------------------------- */

static void lives_on(void **state)
{
	struct raw_host h;
	struct smart s;

	daemon_start_keeping(&d);
	raw_host_open(&h, d.port);
	s = smart(&h);
	assert_int_equal(s.cycles, 1);
	assert_int_equal(s.unsafe, 0);
	expect_counts(&s, 0);
	assert_int_equal(newest_error(&h), 0);
	use(&h);
	assert_int_equal(newest_error(&h), 2);
	s = smart(&h);
	expect_counts(&s, 1);
	raw_host_close(&h);
	daemon_restart(&d);
	raw_host_open(&h, d.port);
	s = smart(&h);
	assert_int_equal(s.cycles, 2);
	assert_int_equal(s.unsafe, 0);
	expect_counts(&s, 1);
	use(&h);
	/* Errors are numbered over restarts; the log itself belongs to the association. */
	assert_int_equal(newest_error(&h), 4);
	raw_host_close(&h);
	daemon_restart(&d);
	daemon_kill_and_restart(&d);
	raw_host_open(&h, d.port);
	s = smart(&h);
	assert_int_equal(s.cycles, 4);
	assert_int_equal(s.unsafe, 0); /* its machine kept its power */
	expect_counts(&s, 2);
	raw_host_close(&h);
	daemon_restart(&d);
	raw_host_open(&h, d.port);
	s = smart(&h);
	assert_int_equal(s.cycles, 5);
	assert_int_equal(s.unsafe, 0);
	raw_host_close(&h);
	daemon_stop(&d);
}

/* The file that rblkd reads as the kernel's boot id. */
static void boot(const char *path, const char *id)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_true(fputs(id, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static void loss_of_power_is_told_from_a_crash(void **state)
{
	char path[] = "/tmp/rblk-boot-id.XXXXXX";
	struct raw_host h;
	struct smart s;
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(setenv("RBLKD_BOOT_ID_FILE", path, 1), 0);
	boot(path, "one\n");
	daemon_start_keeping(&d);
	daemon_kill_and_restart(&d);
	raw_host_open(&h, d.port);
	s = smart(&h);
	assert_int_equal(s.cycles, 2);
	assert_int_equal(s.unsafe, 0);
	raw_host_close(&h);
	boot(path, "two\n");
	daemon_kill_and_restart(&d);
	raw_host_open(&h, d.port);
	s = smart(&h);
	assert_int_equal(s.cycles, 3);
	assert_int_equal(s.unsafe, 1);
	raw_host_close(&h);
	/* The machine is shut down in order. */
	boot(path, "three\n");
	daemon_restart(&d);
	raw_host_open(&h, d.port);
	assert_int_equal(smart(&h).unsafe, 1);
	raw_host_close(&h);
	daemon_stop(&d);
	assert_int_equal(unsetenv("RBLKD_BOOT_ID_FILE"), 0);
	assert_int_equal(unlink(path), 0);
}

static void without_a_directory_it_begins_anew(void **state)
{
	struct raw_host h;
	struct smart s;

	daemon_start(&d, "");
	raw_host_open(&h, d.port);
	assert_int_equal(raw_io(&h.io, NVME_IO_READ, DAEMON_RAM, 0, 1, 512), NVME_OK);
	assert_int_equal(smart(&h).reads, 1);
	raw_host_close(&h);
	daemon_restart(&d);
	raw_host_open(&h, d.port);
	s = smart(&h);
	assert_int_equal(s.cycles, 1);
	assert_int_equal(s.unsafe, 0);
	assert_int_equal(s.reads, 0);
	raw_host_close(&h);
	daemon_stop(&d);
}

static void a_damaged_file_begins_again(void **state)
{
	struct raw_host h;
	char path[128];
	int status;
	FILE *f;

	daemon_start_keeping(&d);
	assert_int_equal(daemon_end(&d), 0);
	snprintf(path, sizeof(path), "%s/health.json", d.folder);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs("{\"version\": 1, \"subsystems\": [{\"power_cycles\": 1}]}", f);
	fclose(f);
	assert_true(daemon_try(&d, &status));
	assert_true(daemon_has_logged(&d, "health.json is damaged: what SMART counts begins at 0"));
	assert_true(daemon_has_logged(&d, "it is kept as health.json.damaged"));
	strcat(path, ".damaged");
	assert_int_equal(access(path, F_OK), 0);
	raw_host_open(&h, d.port);
	assert_int_equal(smart(&h).cycles, 1);
	assert_int_equal(smart(&h).unsafe, 1); /* nothing is known of the last end */
	raw_host_close(&h);
	daemon_stop(&d);
}

/* The disk itself fails, not the host's request: the file is truncated by another program. */
static void a_disk_that_fails_is_heard(void **state)
{
	struct nvme_error_entry entry;
	char path[160];
	struct raw_host h;

	daemon_start_keeping(&d);
	snprintf(path, sizeof(path), "%s/disk", d.folder);
	raw_host_open(&h, d.port);
	assert_int_equal(raw_io(&h.io, NVME_IO_READ, DAEMON_FILE, 1234, 8, 8 * 4096), NVME_OK);
	assert_int_equal(truncate(path, 4096), 0);
	assert_int_equal(raw_io(&h.io, NVME_IO_READ, DAEMON_FILE, 1234, 8, 8 * 4096),
			 NVME_UNRECOVERED_READ | NVME_DNR);
	read_page(&h.admin, NVME_LOG_ERROR, 64);
	memcpy(&entry, h.admin.data, sizeof(entry));
	assert_int_equal(get_le64(entry.lba), 1234);
	assert_int_equal(get_le32(entry.nsid), DAEMON_FILE);
	assert_int_equal(get_le16(entry.sqid), 1);
	assert_int_equal(get_le16(entry.status) >> 1 & 0x7ff,
			 nvme_status_code(NVME_UNRECOVERED_READ));
	assert_int_equal(smart(&h).media, 1);
	assert_int_equal(smart(&h).errors, 1);
	assert_true(
		daemon_has_logged(&d, "read of 8 blocks at LBA 1234 failed: it ends before that"));
	assert_true(daemon_has_logged(&d, "host " RAW_HOSTNQN));
	raw_host_close(&h);
	daemon_stop(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lives_on),
		cmocka_unit_test(loss_of_power_is_told_from_a_crash),
		cmocka_unit_test(without_a_directory_it_begins_anew),
		cmocka_unit_test(a_damaged_file_begins_again),
		cmocka_unit_test(a_disk_that_fails_is_heard),
	};

	return cmocka_run_group_tests_name("smart", tests, NULL, NULL);
}
