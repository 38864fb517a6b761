/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cross-Controller Reset of an id that no controller of this rblkd has. Where this rblkd alone
 * gives ids, such a controller is over, and the answer says so at once. A controller of another
 * rblkd may be alive there, with a write on its way to the store that both share: this one must not
 * vouch for it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "tests/raw/group.h"
#include "tests/raw/host.h"
#include "transport/wire/nvme_cross_reset.h"

enum {
	FIRST_ID = 100,
	LAST_ID = 199,
};

static struct {
	const char *ids; /* the key controller_ids with its line end, or "" */
	bool is_shared;	 /* the store */
} config;

static void write_config(const struct daemon *daemon)
{
	FILE *f = daemon_open_config(daemon);

	fprintf(f,
		"version: 1\ncontrol_socket: %s/sock\n%s"
		"portals: [{name: p, address: 127.0.0.1, port: %u}, {name: q, address: 127.0.0.1, port: %u}]\n"
		"subsystems:\n"
		"  - nqn: %s\n    allow_any_host: true\n    serial: both\n    namespaces:\n"
		"      - {nsid: 1, file: %s/disk, size: 1MiB, create: true, shared: %s, uuid: 0b1e6c5e-5a55-4c0e-9b0c-2f6f4b5d1a11}\n",
		daemon->folder, config.ids, daemon->port, daemon->second_port, RAW_SUBNQN,
		daemon->folder, config.is_shared ? "true" : "false");
	fclose(f);
}

static void begin(const char *ids, bool is_shared, struct raw_host *ret_host)
{
	config.ids = ids;
	config.is_shared = is_shared;
	daemon_start_configured(&d, write_config);
	raw_host_open(ret_host, d.port);
}

/* Of an instance that this rblkd has never heard of. */
static enum nvme_status reset(struct raw_host *h, uint16_t id, bool *ret_is_immediate)
{
	struct nvme_sqe sqe = raw_sqe(&h->admin, NVME_ADMIN_CROSS_RESET, 0);
	struct nvme_cqe cqe;
	enum nvme_status status;

	sqe.cdw10 = put_le32(id | 1u << 16);
	sqe.cdw12 = put_le32(0x5eed);
	status = raw_run(&h->admin, &sqe, NULL, 0, &cqe);
	*ret_is_immediate = get_le32(cqe.dw0) & NVME_CROSS_RESET_IMMEDIATE;
	return status;
}

static void expect_over(struct raw_host *h, uint16_t id)
{
	bool is_immediate;

	assert_int_equal(reset(h, id, &is_immediate), NVME_OK);
	assert_true(is_immediate);
}

static void expect_refused(struct raw_host *h, uint16_t id)
{
	bool is_immediate;

	assert_int_equal(reset(h, id, &is_immediate), NVME_INVALID_FIELD | NVME_DNR);
	assert_false(is_immediate);
}

static void an_id_that_is_nobodys_is_over(void **state)
{
	struct raw_host h;

	begin("", false, &h);
	expect_over(&h, (uint16_t)(h.cntlid + 1));
	raw_host_close(&h);
}

static void an_id_of_this_rblkd_is_over(void **state)
{
	struct raw_host h;

	begin("controller_ids: {min: 100, max: 199}\n", true, &h);
	assert_in_range(h.cntlid, FIRST_ID, LAST_ID);
	expect_over(&h, h.cntlid == LAST_ID ? FIRST_ID : LAST_ID);
	raw_host_close(&h);
}

static void an_id_of_another_rblkd_is_refused(void **state)
{
	struct raw_host h;

	begin("controller_ids: {min: 100, max: 199}\n", true, &h);
	expect_refused(&h, FIRST_ID - 1);
	expect_refused(&h, LAST_ID + 1);
	raw_host_close(&h);
}

static void any_id_may_be_of_another_rblkd(void **state)
{
	struct raw_host h;

	begin("", true, &h);
	expect_refused(&h, (uint16_t)(h.cntlid + 1));
	raw_host_close(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(an_id_that_is_nobodys_is_over, stop),
		cmocka_unit_test_teardown(an_id_of_this_rblkd_is_over, stop),
		cmocka_unit_test_teardown(an_id_of_another_rblkd_is_refused, stop),
		cmocka_unit_test_teardown(any_id_may_be_of_another_rblkd, stop),
	};

	return cmocka_run_group_tests_name("cross_reset", tests, NULL, NULL);
}
