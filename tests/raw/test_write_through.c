/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Namespaces with `cache: write-through`, over files whose syncs are counted (hung_disk.c): each
 * change is durable before it is answered, and the host sees no volatile cache. A host that has
 * seen none sends no Flush, so a namespace with a cache that is added later makes its writes
 * durable, too.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/rpc.h"
#include "tests/raw/group.h"
#include "tests/raw/host.h"

enum {
	THROUGH = 1, /* namespaces: file through/disk, write-through */
	MEMORY = 2,
	BACK = 3, /* back/disk, write-back; added by the test */
	N_CHANGES = 16,
	BLOCK = 4096,
	DISABLED = NVME_CC_ENABLE_VALUE & ~NVME_CC_EN,
	PATIENCE_MS = 60000,
};

static struct raw_host host;

/* ---- the target ----------------------------------------------------------------------------- */

static void touch(const char *folder, const char *name)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", d.folder, folder);
	mkdir(path, 0700);
	snprintf(path, sizeof(path), "%s/%s/%s", d.folder, folder, name);
	f = fopen(path, "w");
	assert_non_null(f);
	fclose(f);
}

static void write_config(const struct daemon *daemon)
{
	FILE *f = daemon_open_config(daemon);

	fprintf(f,
		"version: 1\ncontrol_socket: %s/sock\ntuning: {workers: 1, buffers: 8MiB}\n"
		"portals: [{name: p, address: 127.0.0.1, port: %u}, {name: q, address: 127.0.0.1, port: %u}]\n"
		"subsystems:\n"
		"  - nqn: %s\n    allow_any_host: true\n    namespaces:\n"
		"      - {nsid: 1, file: %s/through/disk, size: 1MiB, create: true, block_size: 4096, cache: write-through}\n"
		"      - {nsid: 2, ram: 1MiB, block_size: 4096}\n"
		"#     - {nsid: 3, file: %s/back/disk, size: 1MiB, create: true, block_size: 4096, cache: write-back}\n",
		daemon->folder, daemon->port, daemon->second_port, RAW_SUBNQN, daemon->folder,
		daemon->folder);
	fclose(f);
	touch("through", "syncs");
	touch("back", "syncs");
}

static int begin(void **state)
{
	char preload[8192];

	snprintf(preload, sizeof(preload), "%s:%s", getenv("LIBHUNG"), getenv("LD_PRELOAD"));
	setenv("LD_PRELOAD", preload, 1);
	daemon_start_configured(&d, write_config);
	return 0;
}

/* Asynchronous syncs and writes with RWF_DSYNC of that file, and calls of fdatasync. */
static unsigned n_syncs(const char *folder)
{
	char path[128];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s/syncs", d.folder, folder);
	assert_int_equal(stat(path, &st), 0);
	return (unsigned)st.st_size;
}

/* ---- the host ------------------------------------------------------------------------------- */

static bool sees_cache(void)
{
	struct nvme_id_ctrl *id = (void *)host.admin.data;
	struct nvme_sqe sqe = raw_sqe(&host.admin, NVME_ADMIN_IDENTIFY, 0);
	struct nvme_cqe cqe;
	bool has_cache;

	sqe.cdw10 = put_le32(NVME_CNS_CTRL);
	raw_describe(&host.admin, &sqe, 0, sizeof(*id));
	assert_int_equal(raw_run(&host.admin, &sqe, NULL, 0, &cqe), NVME_OK);
	has_cache = id->vwc & NVME_VWC_PRESENT;
	assert_int_equal(id->vwc & NVME_VWC_FLUSH_ALL, NVME_VWC_FLUSH_ALL);
	sqe = raw_sqe(&host.admin, NVME_ADMIN_GET_FEATURES, 0);
	sqe.cdw10 = put_le32(NVME_FEAT_VWC);
	assert_int_equal(raw_run(&host.admin, &sqe, NULL, 0, &cqe), NVME_OK);
	assert_int_equal(get_le32(cqe.dw0), has_cache);
	return has_cache;
}

static void write_block(uint32_t nsid, unsigned lba)
{
	memset(host.io.data, 'a', BLOCK);
	assert_int_equal(raw_io(&host.io, NVME_IO_WRITE, nsid, lba, 1, BLOCK), NVME_OK);
}

static void run(const struct nvme_sqe *sqe)
{
	struct nvme_cqe cqe;

	assert_int_equal(raw_run(&host.io, sqe, NULL, 0, &cqe), NVME_OK);
}

static void deallocate(uint32_t nsid, unsigned lba)
{
	struct nvme_dsm_range range = {.slba = put_le64(lba), .nlb = put_le32(1)};
	struct nvme_sqe sqe = raw_sqe(&host.io, NVME_IO_DSM, nsid);

	memcpy(host.io.data, &range, sizeof(range));
	sqe.cdw11 = put_le32(NVME_DSM_AD);
	raw_describe(&host.io, &sqe, 0, sizeof(range));
	run(&sqe);
}

static void copy_block(uint32_t nsid, unsigned from, unsigned to)
{
	struct nvme_copy_range range = {.slba = put_le64(from)};
	struct nvme_sqe sqe = raw_sqe(&host.io, NVME_IO_COPY, nsid);

	memcpy(host.io.data, &range, sizeof(range));
	sqe.cdw10 = put_le32(to);
	raw_describe(&host.io, &sqe, 0, sizeof(range));
	run(&sqe);
}

static void add_namespace_back(void)
{
	apply_edited("s/^#/ /");
}

/* ---- tests ---------------------------------------------------------------------------------- */

static int come(void **state)
{
	raw_host_open(&host, d.port);
	return 0;
}

static int leave(void **state)
{
	raw_host_close(&host);
	return 0;
}

/* One sync for each change, and the change is not answered before it. */
static void each_change_is_durable(void **state)
{
	unsigned n;

	assert_true(daemon_has_logged(&d, "cache: none: write-through; Flush: nothing left"));
	assert_false(sees_cache());
	n = n_syncs("through");
	for (unsigned i = 0; i < N_CHANGES; i++) {
		write_block(THROUGH, i);
		assert_int_equal(n_syncs("through"), ++n);
	}
	write_block(MEMORY, 0);
	assert_int_equal(raw_io(&host.io, NVME_IO_READ, THROUGH, 0, 1, BLOCK), NVME_OK);
	assert_int_equal(n_syncs("through"), n);
	assert_int_equal(raw_io(&host.io, NVME_IO_WRITE_ZEROES, THROUGH, 1, 1, 0), NVME_OK);
	assert_int_equal(n_syncs("through"), ++n);
	deallocate(THROUGH, 2);
	assert_int_equal(n_syncs("through"), ++n);
	copy_block(THROUGH, 0, 3);
	assert_int_equal(n_syncs("through"), ++n);
}

/* Hosts that send a Flush all the same are served. */
static void a_flush_is_a_sync(void **state)
{
	struct nvme_sqe sqe = raw_sqe(&host.io, NVME_IO_FLUSH, THROUGH);
	unsigned n = n_syncs("through");

	run(&sqe);
	assert_int_equal(n_syncs("through"), n + 1);
}

/* The host that saw no cache sends no Flush. Once it asks again it sees the cache, and flushes. */
static void a_cache_that_is_added_loses_no_write(void **state)
{
	unsigned n = n_syncs("back");

	assert_false(sees_cache());
	add_namespace_back();
	write_block(BACK, 0);
	assert_int_equal(n_syncs("back"), n + 1);
	deallocate(BACK, 0);
	assert_int_equal(n_syncs("back"), n + 2);
	assert_true(sees_cache());
	write_block(BACK, 0);
	assert_int_equal(n_syncs("back"), n + 2);
	n = n_syncs("through");
	write_block(THROUGH, 0);
	assert_int_equal(n_syncs("through"), n + 1);
}

/* VWC is of the controller: one namespace with a cache is enough. */
static void a_new_host_sees_the_cache(void **state)
{
	unsigned n = n_syncs("back");

	assert_true(sees_cache());
	write_block(BACK, 1);
	assert_int_equal(n_syncs("back"), n);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, come, leave)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(each_change_is_durable),
		CASE(a_flush_is_a_sync),
		CASE(a_cache_that_is_added_loses_no_write),
		CASE(a_new_host_sees_the_cache),
	};

	return cmocka_run_group_tests_name("write_through", tests, begin, stop);
}
