/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A host identifier belongs to the host NQN that used it first. Reservations identify hosts by it,
 * so another host with the same identifier would pass them, and could change them.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/raw/group.h"
#include "tests/raw/host.h"
#include "transport/wire/nvme_reservation.h"

#define OTHER_HOSTNQN "nqn.2026-01.org.example:other"
#define SECRET	      "DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:"

#define IN_HOSTID ((uint32_t)offsetof(struct nvmf_connect_data, hostid) | NVMF_CONNECT_IATTR_DATA)

enum {
	KEY = 10,
};

static int start_open(void **state)
{
	start_keeping(state);
	apply_edited("s/allow_hosts: .raw./allow_any_host: true/");
	return 0;
}

static int all_gone(void **state)
{
	daemon_wait_empty(&d);
	return 0;
}

/* hostid: NULL for raw_connect_init's. Returns the status of Connect; *ret_cqe has the rest. */
static enum nvme_status come(struct raw_host *h, const char *hostnqn, const char *hostid,
			     const char *subnqn, struct nvme_cqe *ret_cqe)
{
	struct raw_connect c;
	enum nvme_status status;

	*h = (struct raw_host){0};
	assert_int_equal(raw_open(&h->admin, d.port, 0, NVMF_ADMIN_SQ_ENTRIES), 0);
	raw_connect_init(&c, &h->admin, 0, NVMF_ADMIN_SQ_ENTRIES - 1, NVMF_CNTLID_DYNAMIC);
	memset(c.data.hostnqn, 0, sizeof(c.data.hostnqn));
	strcpy((char *)c.data.hostnqn, hostnqn);
	memset(c.data.subnqn, 0, sizeof(c.data.subnqn));
	strcpy((char *)c.data.subnqn, subnqn);
	if (hostid)
		memcpy(c.data.hostid, hostid, sizeof(c.data.hostid));
	status = raw_connect(&h->admin, &c, ret_cqe);
	return status;
}

static void expect_let_in(const char *hostnqn, const char *hostid, struct raw_host *h)
{
	struct nvme_cqe cqe;

	assert_int_equal(come(h, hostnqn, hostid, RAW_SUBNQN, &cqe), NVME_OK);
}

static void expect_refused(const char *hostnqn, const char *hostid, unsigned dnr, const char *why)
{
	struct raw_host h;
	struct nvme_cqe cqe;

	assert_int_equal(come(&h, hostnqn, hostid, RAW_SUBNQN, &cqe),
			 NVME_CONNECT_INVALID_PARAM | dnr);
	assert_int_equal(get_le32(cqe.dw0), IN_HOSTID);
	daemon_wait_logged(&d, why);
	raw_host_close(&h);
}

static enum nvme_status regist(struct raw_host *h, uint32_t cdw10)
{
	struct nvme_sqe sqe = raw_sqe(&h->io, NVME_IO_RESERVATION_REGISTER, DAEMON_FILE);
	le64 keys[2] = {put_le64(0), put_le64(KEY)};
	struct nvme_cqe cqe;

	memcpy(h->io.data, keys, sizeof(keys));
	raw_describe(&h->io, &sqe, 0, sizeof(keys));
	sqe.cdw10 = put_le32(cdw10);
	return raw_run(&h->io, &sqe, NULL, 0, &cqe);
}

/* Registers a key, so that the identifier is kept, and disconnects. */
static void register_and_leave(void)
{
	const uint32_t set = (uint32_t)NVME_CPTPL_SET << NVME_RESV_CPTPL_SHIFT;
	struct raw_host h;

	raw_host_open(&h, d.port);
	assert_int_equal(regist(&h, NVME_RREGA_REGISTER | set), NVME_OK);
	raw_host_close(&h);
	daemon_wait_empty(&d);
}

static void unregister_and_leave(void)
{
	struct raw_host h;

	raw_host_open(&h, d.port);
	assert_int_equal(regist(&h, NVME_RREGA_UNREGISTER | NVME_RESV_IEKEY), NVME_OK);
	raw_host_close(&h);
	daemon_wait_empty(&d);
}

/* ---- tests ---------------------------------------------------------------------------------- */

static void of_a_connected_host(void **state)
{
	struct raw_host owner, again, other;
	struct nvme_cqe cqe;

	raw_host_open(&owner, d.port);
	expect_refused(OTHER_HOSTNQN, NULL, 0, "host " OTHER_HOSTNQN ": refused at " RAW_SUBNQN);
	assert_true(daemon_has_logged(&d, "its host identifier is that of host " RAW_HOSTNQN
					  ", which is connected"));
	/* A second association of the same host; one without a host NQN belongs to another host. */
	expect_let_in(RAW_HOSTNQN, NULL, &again);
	raw_host_close(&again);
	expect_refused("", NULL, 0, "host without a name: refused");
	/* Discovery does not claim an identifier. */
	assert_int_equal(come(&other, OTHER_HOSTNQN, NULL, NVMF_DISCOVERY_NQN, &cqe), NVME_OK);
	raw_host_close(&other);
	raw_host_close(&owner);
	daemon_wait_empty(&d);
	expect_let_in(OTHER_HOSTNQN, NULL, &other);
	expect_refused(RAW_HOSTNQN, NULL, 0, "is that of host " OTHER_HOSTNQN);
	raw_host_close(&other);
}

static void what_stays_legal(void **state)
{
	static const char none[16];
	struct raw_host hosts[4];

	expect_let_in(RAW_HOSTNQN, "an identifier 16", &hosts[0]);
	expect_let_in(RAW_HOSTNQN, "another one   16", &hosts[1]);
	expect_let_in(RAW_HOSTNQN, none, &hosts[2]);
	expect_let_in(OTHER_HOSTNQN, none, &hosts[3]);
	for (unsigned i = 0; i < 4; i++)
		raw_host_close(&hosts[i]);
}

static void of_a_registered_host(void **state)
{
	struct raw_host other;

	register_and_leave();
	expect_refused(OTHER_HOSTNQN, NULL, NVME_DNR,
		       "is that of host " RAW_HOSTNQN ", which has registered it");
	expect_let_in(OTHER_HOSTNQN, "one of its own16", &other);
	raw_host_close(&other);
	daemon_kill_and_restart(&d);
	expect_refused(OTHER_HOSTNQN, NULL, NVME_DNR,
		       "is that of host " RAW_HOSTNQN ", which has registered it");
	unregister_and_leave();
	expect_let_in(OTHER_HOSTNQN, NULL, &other);
	raw_host_close(&other);
}

/* The state file lacks the owner of a registration: any host is admitted, and the first that
 * changes the registration owns it. */
static void registered_by_an_earlier_rblkd(void **state)
{
	struct raw_host other, owner;
	char command[256];

	register_and_leave();
	snprintf(command, sizeof(command),
		 "sed -i 's/, *\"nqn\": *\"[^\"]*\"//' $(ls %s/*-*.json | grep -v events)",
		 d.folder);
	kill(d.pid, SIGKILL);
	assert_int_equal(system(command), 0);
	daemon_kill_and_restart(&d);
	expect_let_in(OTHER_HOSTNQN, NULL, &other);
	raw_host_close(&other);
	daemon_wait_empty(&d);
	raw_host_open(&owner, d.port);
	assert_int_equal(regist(&owner, NVME_RREGA_REGISTER), NVME_OK);
	raw_host_close(&owner);
	daemon_wait_empty(&d);
	expect_refused(OTHER_HOSTNQN, NULL, NVME_DNR, "which has registered it");
	unregister_and_leave();
}

/* The namespace has a registration of an identifier with which another host is connected. */
static void a_namespace_that_is_added(void **state)
{
	struct raw_host other;

	register_and_leave();
	apply_edited("s/^      - {nsid: 2,/      #- {nsid: 2,/");
	expect_let_in(OTHER_HOSTNQN, NULL, &other);
	apply_edited("s/^      #- {nsid: 2,/      - {nsid: 2,/");
	assert_true(raw_is_dropped(&other.admin));
	daemon_wait_logged(&d, "host " OTHER_HOSTNQN
			       ": its host identifier is that of host " RAW_HOSTNQN);
	raw_host_close(&other);
	daemon_wait_empty(&d);
	unregister_and_leave();
}

/* A host NQN that was only claimed gets no identifier: else it could lock out the owner. */
static void a_claim_without_proof(void **state)
{
	struct raw_host claims, owner;
	struct nvme_cqe cqe;

	daemon_stop(&d);
	daemon_start_with_secret(&d, SECRET);
	apply_edited("s/allow_hosts: .raw./allow_any_host: true/");
	assert_int_equal(come(&claims, RAW_HOSTNQN, NULL, RAW_SUBNQN, &cqe), NVME_OK);
	expect_let_in(OTHER_HOSTNQN, NULL, &owner);
	raw_host_close(&owner);
	raw_host_close(&claims);
}

#define CASE(f) cmocka_unit_test_teardown(f, all_gone)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(of_a_connected_host),	 CASE(what_stays_legal),
		CASE(of_a_registered_host),	 CASE(registered_by_an_earlier_rblkd),
		CASE(a_namespace_that_is_added), CASE(a_claim_without_proof),
	};

	return cmocka_run_group_tests_name("host_ids", tests, start_open, stop);
}
