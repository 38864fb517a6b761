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

#include <json-c/json.h>

#include "base/error.h"
#include "tests/raw/group.h"
#include "tests/raw/host.h"
#include "transport/wire/nvme_reservation.h"

#define OTHER_HOSTNQN "nqn.2026-01.org.example:other"
#define SECRET	      "DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:"

/* raw_connect_init's, "raw host 16 byte" */
#define RAW_HOSTID "72617720-686f-7374-2031-362062797465"

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
	h->cntlid = (uint16_t)get_le32(ret_cqe->dw0);
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

/* apply --if-unused of the edited file is refused, because this host would lose its access. */
static void expect_named(const char *edit, const char *hostnqn)
{
	struct json_object *params = json_object_new_object(), *result;
	const char *refusal;
	char path[128], command[512];

	snprintf(path, sizeof(path), "%s/edited.yaml", d.folder);
	snprintf(command, sizeof(command), "sed '%s' %s/target.yaml >%s", edit, d.folder, path);
	assert_int_equal(system(command), 0);
	json_object_object_add(params, "file", json_object_new_string(path));
	json_object_object_add(params, "if_unused", json_object_new_boolean(true));
	result = apply_as(params);
	assert_int_equal(json_object_get_int(json_object_object_get(result, "code")), EXIT_BUSY);
	refusal = json_object_get_string(json_object_object_get(result, "refusal"));
	assert_non_null(strstr(refusal, "its host identifier is another host"));
	assert_non_null(strstr(refusal, hostnqn));
	json_object_put(result);
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
	expect_named("s/^      #- {nsid: 2,/      - {nsid: 2,/", OTHER_HOSTNQN);
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

/* ---- bound by the configuration ------------------------------------------------------------- */

#define BIND "s/name: raw, nqn/name: raw, hostid: " RAW_HOSTID ", nqn/"

static void bind_it(void)
{
	apply_edited(BIND);
}

static void unbind_it(void)
{
	apply_edited("s/name: raw, hostid: [^,]*, nqn/name: raw, nqn/");
}

static enum nvme_status regist_as(const char *hostnqn, uint32_t cdw10, enum exit_code *ret_busy)
{
	struct raw_connect c;
	struct nvme_cqe cqe;
	struct raw_host h;
	enum nvme_status status;

	expect_let_in(hostnqn, NULL, &h);
	assert_int_equal(raw_property_set(&h.admin, NVME_PROP_CC, NVME_CC_ENABLE_VALUE), NVME_OK);
	assert_int_equal(raw_open(&h.io, d.port, 1, 32), 0);
	raw_connect_init(&c, &h.io, 1, 31, h.cntlid);
	memset(c.data.hostnqn, 0, sizeof(c.data.hostnqn));
	strcpy((char *)c.data.hostnqn, hostnqn);
	assert_int_equal(raw_connect(&h.io, &c, &cqe), NVME_OK);
	status = regist(&h, cdw10);
	if (ret_busy)
		*ret_busy = (enum exit_code)drop_registrant(DAEMON_FILE, RAW_HOSTID, false);
	raw_host_close(&h);
	daemon_wait_empty(&d);
	return status;
}

static void bound_by_the_configuration(void **state)
{
	static const char none[16];
	struct raw_host h;

	bind_it();
	expect_refused(OTHER_HOSTNQN, NULL, NVME_DNR,
		       "is that of host " RAW_HOSTNQN " by the key hostid");
	expect_refused(RAW_HOSTNQN, "another one   16", NVME_DNR,
		       "is not the one that the key hostid has for it");
	expect_refused(RAW_HOSTNQN, none, NVME_DNR,
		       "is not the one that the key hostid has for it");
	expect_let_in(RAW_HOSTNQN, NULL, &h);
	raw_host_close(&h);
	expect_let_in(OTHER_HOSTNQN, "another one   16", &h);
	raw_host_close(&h);
	unbind_it();
	expect_let_in(RAW_HOSTNQN, "another one   16", &h);
	raw_host_close(&h);
}

static void a_binding_ends_an_association(void **state)
{
	struct raw_host other, own;

	expect_let_in(OTHER_HOSTNQN, NULL, &other);
	expect_named(BIND, OTHER_HOSTNQN);
	expect_let_in(RAW_HOSTNQN, "another one   16", &own);
	bind_it();
	assert_true(raw_is_dropped(&other.admin));
	assert_true(raw_is_dropped(&own.admin));
	daemon_wait_logged(&d, "the configuration has another host identifier for it");
	raw_host_close(&other);
	raw_host_close(&own);
	unbind_it();
}

/* Another host has registered with the identifier, and so has locked its owner out. */
static void bound_after_another_registered(void **state)
{
	const uint32_t set = (uint32_t)NVME_CPTPL_SET << NVME_RESV_CPTPL_SHIFT;
	struct raw_host h;

	assert_int_equal(regist_as(OTHER_HOSTNQN, NVME_RREGA_REGISTER | set, NULL), NVME_OK);
	expect_refused(RAW_HOSTNQN, NULL, NVME_DNR, "is that of host " OTHER_HOSTNQN);
	bind_it();
	expect_refused(OTHER_HOSTNQN, NULL, NVME_DNR, "by the key hostid");
	assert_int_equal(regist_as(RAW_HOSTNQN, NVME_RREGA_REPLACE | NVME_RESV_IEKEY, NULL),
			 NVME_OK);
	/* It has acted, so the registration is its own, also without the binding. */
	unbind_it();
	expect_let_in(RAW_HOSTNQN, NULL, &h);
	raw_host_close(&h);
	daemon_wait_empty(&d);
	expect_refused(OTHER_HOSTNQN, NULL, NVME_DNR, "which has registered it");
	unregister_and_leave();
}

/* ---- dropped by an administrator ------------------------------------------------------------ */

static unsigned count_registrants(void)
{
	struct json_object *result = NULL;
	unsigned n;

	assert_int_equal(call_rblkd("registrant_list", NULL, &result), EXIT_OK);
	n = (unsigned)json_object_array_length(json_object_object_get(result, "registrants"));
	json_object_put(result);
	return n;
}

static void a_registrant_is_dropped(void **state)
{
	const uint32_t set = (uint32_t)NVME_CPTPL_SET << NVME_RESV_CPTPL_SHIFT;
	enum exit_code of_connected;
	struct raw_host h;

	assert_int_equal(drop_registrant(DAEMON_FILE, RAW_HOSTID, false), EXIT_NOT_FOUND);
	assert_int_equal(regist_as(OTHER_HOSTNQN, NVME_RREGA_REGISTER | set, &of_connected),
			 NVME_OK);
	assert_int_equal(of_connected, EXIT_BUSY);
	expect_refused(RAW_HOSTNQN, NULL, NVME_DNR, "is that of host " OTHER_HOSTNQN);
	assert_int_equal(count_registrants(), 1);
	assert_int_equal(drop_registrant(99, RAW_HOSTID, false), EXIT_NOT_FOUND);
	assert_int_equal(drop_registrant(DAEMON_FILE, "none", false), EXIT_USAGE);
	assert_int_equal(drop_registrant(DAEMON_FILE, RAW_HOSTID, false), EXIT_OK);
	daemon_wait_logged(&d, "dropped the registration of host " OTHER_HOSTNQN
			       " (identifier " RAW_HOSTID ")");
	assert_int_equal(count_registrants(), 0);
	expect_let_in(RAW_HOSTNQN, NULL, &h);
	raw_host_close(&h);
	daemon_wait_empty(&d);
	daemon_kill_and_restart(&d);
	assert_int_equal(count_registrants(), 0);
	expect_let_in(RAW_HOSTNQN, NULL, &h);
	raw_host_close(&h);
}

#define CASE(f) cmocka_unit_test_teardown(f, all_gone)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(of_a_connected_host),	     CASE(what_stays_legal),
		CASE(of_a_registered_host),	     CASE(registered_by_an_earlier_rblkd),
		CASE(a_namespace_that_is_added),     CASE(bound_by_the_configuration),
		CASE(a_binding_ends_an_association), CASE(bound_after_another_registered),
		CASE(a_registrant_is_dropped),	     CASE(a_claim_without_proof),
	};

	return cmocka_run_group_tests_name("host_ids", tests, start_open, stop);
}
