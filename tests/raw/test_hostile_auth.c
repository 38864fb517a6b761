/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rblkd whose host has a key, and hosts that authenticate by hand, wrongly, late or not at all.
 * The test writes the bytes as specified, and computes the response with libcrypto alone, without
 * any code of the product.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <cmocka.h>

#include "base/bits.h"
#include "base/clock.h"
#include "tests/raw/good_host.h"
#include "tests/raw/group.h"
#include "tests/raw/host.h"

/* 32 bytes; used as it is (00). */
#define SECRET "DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:"

enum {
	PAGE = 4096,
	NEGOTIATE = 72,
	REPLY = 16 + 64,
	DH_NULL = 0,
	DH_8192 = 5,
	SEND = 5,
	RECEIVE = 6,
	FAILURE1 = 0xf1,
};

/* ---- commands ------------------------------------------------------------------------------ */

static struct nvme_sqe auth_sqe(struct raw_queue *q, uint8_t fctype, uint32_t n)
{
	struct nvme_sqe sqe = raw_sqe(q, NVME_FABRICS, fctype);
	uint8_t *bytes = (uint8_t *)&sqe;

	raw_describe(q, &sqe, 0, n);
	bytes[41] = bytes[42] = 0x01;
	bytes[43] = 0xe9;
	bytes[44] = (uint8_t)n;
	bytes[45] = (uint8_t)(n >> 8);
	return sqe;
}

static enum nvme_status auth_send(struct raw_queue *q, const void *message, uint32_t n)
{
	struct nvme_sqe sqe = auth_sqe(q, SEND, n);
	struct nvme_cqe cqe;

	memcpy(q->data, message, n);
	return raw_run(q, &sqe, NULL, 0, &cqe);
}

/* The message is in q->data then. */
static enum nvme_status auth_receive(struct raw_queue *q, uint32_t n)
{
	struct nvme_sqe sqe = auth_sqe(q, RECEIVE, n);
	struct nvme_cqe cqe;

	memset(q->data, 0xee, PAGE);
	return raw_run(q, &sqe, NULL, 0, &cqe);
}

static void negotiate(uint8_t message[NEGOTIATE], uint8_t dhgroup)
{
	memset(message, 0, NEGOTIATE);
	message[4] = 0x34; /* transaction 1234h */
	message[5] = 0x12;
	message[7] = 1;
	message[8] = 1;
	message[10] = 1; /* one hash */
	message[11] = 1; /* one group */
	message[12] = 1; /* SHA-256 */
	message[42] = dhgroup;
}

/* Answers the challenge in q->data, with an exchange of the null group. */
static void reply(const struct raw_queue *q, uint8_t message[REPLY])
{
	static const char words[] = "HostHost" RAW_HOSTNQN "\0" RAW_SUBNQN;
	uint8_t key[48], text[512];
	unsigned n = 32;

	assert_int_equal(EVP_DecodeBlock(key, (const unsigned char *)SECRET + 10, 48), 36);
	memset(message, 0, REPLY);
	message[0] = 1;
	message[1] = 2;
	memcpy(message + 4, q->data + 4, 2);
	message[6] = 32;
	memcpy(text, q->data + 16, 32);	    /* C1 */
	memcpy(text + 32, q->data + 12, 4); /* S1 */
	memcpy(text + 36, q->data + 4, 2);  /* the transaction */
	text[38] = 0;
	memcpy(text + 39, words, sizeof(words) - 1);
	assert_non_null(
		HMAC(EVP_sha256(), key, 32, text, 39 + sizeof(words) - 1, message + 16, &n));
}

static void must_be_failure(struct raw_queue *q, uint8_t explanation)
{
	assert_int_equal(auth_receive(q, PAGE), NVME_OK);
	assert_int_equal((uint8_t)q->data[0], 0);
	assert_int_equal((uint8_t)q->data[1], FAILURE1);
	assert_int_equal((uint8_t)q->data[6], 1);
	assert_int_equal((uint8_t)q->data[7], explanation);
	for (unsigned i = 8; i < PAGE; i++)
		assert_int_equal(q->data[i], 0);
}

static void prove(struct raw_queue *q)
{
	uint8_t message[NEGOTIATE], answer[REPLY];

	negotiate(message, DH_NULL);
	assert_int_equal(auth_send(q, message, sizeof(message)), NVME_OK);
	assert_int_equal(auth_receive(q, PAGE), NVME_OK);
	assert_int_equal(q->data[0], 1);
	assert_int_equal(q->data[1], 1);
	assert_int_equal(q->data[6], 32);
	assert_int_equal(q->data[8], 1);
	assert_int_equal(q->data[9], 0);
	reply(q, answer);
	assert_int_equal(auth_send(q, answer, sizeof(answer)), NVME_OK);
	assert_int_equal(auth_receive(q, PAGE), NVME_OK);
	assert_int_equal(q->data[0], 1);
	assert_int_equal(q->data[1], 3);
	assert_int_equal(q->data[8], 0); /* no mutual authentication requested */
}

/* A connected admin queue whose host has not authenticated yet. */
static uint16_t open_admin(struct raw_queue *q)
{
	struct raw_connect c;
	struct nvme_cqe cqe;

	assert_int_equal(raw_open(q, d.port, 0, NVMF_ADMIN_SQ_ENTRIES), 0);
	raw_connect_init(&c, q, 0, NVMF_ADMIN_SQ_ENTRIES - 1, NVMF_CNTLID_DYNAMIC);
	assert_int_equal(raw_connect(q, &c, &cqe), NVME_OK);
	assert_int_equal(get_le32(cqe.dw0) >> 16, 2); /* ATR */
	return (uint16_t)get_le32(cqe.dw0);
}

/* The same for an I/O queue; *q is closed already. */
static void open_io(struct raw_queue *q, uint16_t cntlid)
{
	struct raw_connect c;
	struct nvme_cqe cqe;

	assert_int_equal(raw_open(q, d.port, 1, 32), 0);
	raw_connect_init(&c, q, 1, 31, cntlid);
	assert_int_equal(raw_connect(q, &c, &cqe), NVME_OK);
	assert_int_equal(get_le32(cqe.dw0) >> 16, 2);
}

/* A host with its admin queue. */
static void open_proven(struct raw_host *h)
{
	h->cntlid = open_admin(&h->admin);
	prove(&h->admin);
	assert_int_equal(raw_property_set(&h->admin, NVME_PROP_CC, NVME_CC_ENABLE_VALUE), NVME_OK);
}

static void visit(void)
{
	struct raw_host h = {0};

	open_proven(&h);
	raw_host_close(&h);
	daemon_wait_empty(&d);
}

static struct good_host before;

static int start_with_secret(void **state)
{
	daemon_start_with_secret(&d, SECRET);
	visit();
	good_host_remember(&before, &d);
	return 0;
}

static void must_serve_good_host(void)
{
	visit();
	good_host_check(&before);
}

/* ---- tests --------------------------------------------------------------------------------- */

static void nothing_before_the_proof(void **state)
{
	static const uint8_t admin[] = {NVME_ADMIN_IDENTIFY, NVME_ADMIN_GET_LOG_PAGE,
					NVME_ADMIN_KEEP_ALIVE, NVME_ADMIN_ASYNC_EVENT_REQUEST};
	struct raw_queue q, io;
	struct raw_connect c;
	struct nvme_cqe cqe;
	uint16_t cntlid = open_admin(&q);
	uint64_t value;

	assert_int_equal(raw_property_get(&q, NVME_PROP_CAP, true, &value),
			 NVME_AUTH_REQUIRED | NVME_DNR);
	assert_int_equal(raw_property_set(&q, NVME_PROP_CC, NVME_CC_ENABLE_VALUE),
			 NVME_AUTH_REQUIRED | NVME_DNR);
	for (unsigned i = 0; i < ARRAY_LEN(admin); i++) {
		struct nvme_sqe sqe = raw_sqe(&q, admin[i], 0);

		assert_int_equal(raw_run(&q, &sqe, NULL, 0, &cqe), NVME_AUTH_REQUIRED | NVME_DNR);
	}
	assert_int_equal(raw_open(&io, d.port, 1, 32), 0);
	raw_connect_init(&c, &io, 1, 31, cntlid);
	assert_int_equal(raw_connect(&io, &c, &cqe), NVME_CONNECT_INVALID_PARAM | NVME_DNR);
	raw_close(&io);
	raw_close(&q);
	must_serve_good_host();
}

static void io_queues_need_a_proof_too(void **state)
{
	struct raw_host h = {0};

	open_proven(&h);
	open_io(&h.io, h.cntlid);
	assert_int_equal(raw_io(&h.io, NVME_IO_READ, DAEMON_RAM, 0, 8, PAGE),
			 NVME_AUTH_REQUIRED | NVME_DNR);
	prove(&h.io);
	assert_int_equal(raw_io(&h.io, NVME_IO_READ, DAEMON_RAM, 0, 8, PAGE), NVME_OK);
	/* Authenticates again while live; then fails to, and no command is served until it
	 * succeeds. */
	prove(&h.io);
	assert_int_equal(raw_io(&h.io, NVME_IO_READ, DAEMON_RAM, 0, 8, PAGE), NVME_OK);
	assert_int_equal(auth_send(&h.io, (const uint8_t[16]){1, 2, 0, 0, 064, 022}, 16), NVME_OK);
	must_be_failure(&h.io, 7);
	assert_int_equal(raw_io(&h.io, NVME_IO_READ, DAEMON_RAM, 0, 8, PAGE),
			 NVME_AUTH_REQUIRED | NVME_DNR);
	prove(&h.io);
	assert_int_equal(raw_io(&h.io, NVME_IO_READ, DAEMON_RAM, 0, 8, PAGE), NVME_OK);
	raw_host_close(&h);
	must_serve_good_host();
}

/* An unproven claim of an identifier blocks no host. The first host to authenticate gets it,
 * also before one that authenticates later. */
static void an_identifier_taken_before_the_proof(void **state)
{
	uint8_t message[NEGOTIATE], answer[REPLY];
	struct raw_queue late, first;
	struct raw_connect c;
	struct nvme_sqe sqe;
	struct nvme_cqe cqe;

	apply_edited("s/allow_hosts: .raw./allow_any_host: true/");
	open_admin(&late);
	assert_int_equal(raw_open(&first, d.port, 0, NVMF_ADMIN_SQ_ENTRIES), 0);
	raw_connect_init(&c, &first, 0, NVMF_ADMIN_SQ_ENTRIES - 1, NVMF_CNTLID_DYNAMIC);
	strcpy((char *)c.data.hostnqn, "nqn.2026-01.org.example:first");
	assert_int_equal(raw_connect(&first, &c, &cqe), NVME_OK);
	negotiate(message, DH_NULL);
	assert_int_equal(auth_send(&late, message, sizeof(message)), NVME_OK);
	assert_int_equal(auth_receive(&late, PAGE), NVME_OK);
	reply(&late, answer);
	assert_int_equal(auth_send(&late, answer, sizeof(answer)), NVME_OK);
	sqe = auth_sqe(&late, RECEIVE, PAGE); /* it may be dropped before the response comes */
	raw_send(&late, &sqe, sizeof(sqe));
	assert_true(raw_is_dropped(&late));
	assert_true(daemon_has_logged(
		&d, "host " RAW_HOSTNQN
		    ": its host identifier is that of host nqn.2026-01.org.example:first"));
	assert_int_equal(raw_property_set(&first, NVME_PROP_CC, NVME_CC_ENABLE_VALUE), NVME_OK);
	raw_close(&late);
	raw_close(&first);
	apply_edited("s/allow_any_host: true/allow_hosts: [raw]/");
	must_serve_good_host();
}

static void malformed_commands(void **state)
{
	static const struct {
		unsigned at;
		uint8_t value;
	} spoils[] = {{41, 0}, {42, 2}, {43, 0}, {44, 0xff}, {45, 0x10}, {46, 1}, {47, 0x80}};
	uint8_t message[NEGOTIATE];
	struct raw_queue q;
	struct nvme_cqe cqe;

	open_admin(&q);
	for (unsigned i = 0; i < ARRAY_LEN(spoils); i++) {
		for (uint8_t fctype = SEND; fctype <= RECEIVE; fctype++) {
			struct nvme_sqe sqe = auth_sqe(&q, fctype, NEGOTIATE);
			enum nvme_status status;

			((uint8_t *)&sqe)[spoils[i].at] = spoils[i].value;
			status = raw_run(&q, &sqe, NULL, 0, &cqe);
			assert_true(status == (NVME_INVALID_FIELD | NVME_DNR) ||
				    status == (NVME_SGL_LENGTH_INVALID | NVME_DNR));
		}
	}
	assert_int_equal(auth_receive(&q, PAGE), NVME_COMMAND_SEQUENCE | NVME_DNR);
	negotiate(message, DH_NULL);
	assert_int_equal(auth_send(&q, message, sizeof(message)), NVME_OK);
	assert_int_equal(auth_receive(&q, 47), NVME_INVALID_FIELD | NVME_DNR);
	assert_int_equal(auth_receive(&q, 48), NVME_OK); /* just the Challenge */
	assert_int_equal((uint8_t)q.data[48], 0xee);
	assert_int_equal(auth_receive(&q, PAGE), NVME_COMMAND_SEQUENCE | NVME_DNR);
	raw_close(&q);
	must_serve_good_host();
}

/* Each failure costs a refusal, and a queue has three. */
static void malformed_messages(void **state)
{
	uint8_t message[NEGOTIATE], answer[REPLY];
	struct raw_queue q;

	open_admin(&q);
	negotiate(message, DH_NULL);
	assert_int_equal(auth_send(&q, message, NEGOTIATE - 1), NVME_OK);
	must_be_failure(&q, 6);
	message[12] = 9;
	assert_int_equal(auth_send(&q, message, NEGOTIATE), NVME_OK);
	must_be_failure(&q, 4);
	raw_close(&q);

	open_admin(&q);
	negotiate(message, 77);
	assert_int_equal(auth_send(&q, message, NEGOTIATE), NVME_OK);
	must_be_failure(&q, 5);
	negotiate(message, DH_NULL);
	assert_int_equal(auth_send(&q, message, NEGOTIATE), NVME_OK);
	assert_int_equal(auth_receive(&q, PAGE), NVME_OK);
	reply(&q, answer);
	answer[10] = 1; /* a Diffie-Hellman value where there is none */
	assert_int_equal(auth_send(&q, answer, REPLY), NVME_OK);
	must_be_failure(&q, 6);
	raw_close(&q);

	open_admin(&q);
	negotiate(message, DH_8192);
	assert_int_equal(auth_send(&q, message, NEGOTIATE), NVME_OK);
	assert_int_equal(auth_receive(&q, PAGE), NVME_OK);
	memset(q.data + 16, 0, 32);
	reply(&q, answer);
	assert_int_equal(auth_send(&q, answer, REPLY), NVME_OK);
	must_be_failure(&q, 6);
	raw_close(&q);
	must_serve_good_host();
}

/* Lengths in a Reply that do not match its hash, its group or its size. */
static void lengths_that_a_reply_claims(void **state)
{
	static const struct {
		unsigned at;
		uint8_t value;
	} spoils[] = {{6, 0},  {6, 31}, {6, 33},   {6, 48}, {6, 64},   {6, 255},
		      {10, 4}, {11, 1}, {11, 255}, {8, 1},  {10, 255}, {8, 0xff}};
	uint8_t message[NEGOTIATE], answer[REPLY];

	negotiate(message, DH_NULL);
	for (unsigned i = 0; i < ARRAY_LEN(spoils); i++) {
		struct raw_queue q;

		open_admin(&q);
		assert_int_equal(auth_send(&q, message, NEGOTIATE), NVME_OK);
		assert_int_equal(auth_receive(&q, PAGE), NVME_OK);
		reply(&q, answer);
		answer[spoils[i].at] = spoils[i].value;
		/* The claimed length lies beyond the message. */
		assert_int_equal(auth_send(&q, answer, REPLY), NVME_OK);
		assert_int_equal(auth_receive(&q, PAGE), NVME_OK);
		assert_int_equal((uint8_t)q.data[1], FAILURE1);
		raw_close(&q);
		daemon_wait_empty(&d);
	}
	must_serve_good_host();
}

/* An exchange that fails after its key was made, and the next one over the same connection. */
static void keys_are_freed_once(void **state)
{
	static const uint8_t groups[] = {1, 2, DH_NULL}; /* ffdhe2048, 3072 */
	uint8_t message[NEGOTIATE], answer[REPLY];

	for (unsigned round = 0; round < 6; round++) {
		struct raw_queue q;

		open_admin(&q);
		for (unsigned i = 0; i < 2; i++) {
			negotiate(message, groups[(round + i) % ARRAY_LEN(groups)]);
			assert_int_equal(auth_send(&q, message, NEGOTIATE), NVME_OK);
			assert_int_equal(auth_receive(&q, PAGE), NVME_OK);
			assert_int_equal((uint8_t)q.data[1], 1); /* a Challenge */
			if (round & 1) /* a new exchange in the middle of it */
				continue;
			memcpy(answer, q.data, REPLY); /* the target's own bytes come back */
			answer[1] = 2;
			assert_int_equal(auth_send(&q, answer, REPLY), NVME_OK);
			assert_int_equal(auth_receive(&q, PAGE), NVME_OK);
			assert_int_equal((uint8_t)q.data[1], FAILURE1);
		}
		if (round < 4)
			prove(&q);
		raw_close(&q);
		daemon_wait_empty(&d);
	}
	must_serve_good_host();
}

static void replayed_reply(void **state)
{
	uint8_t message[NEGOTIATE], old[REPLY];
	struct raw_queue q;

	open_admin(&q);
	prove(&q);
	negotiate(message, DH_NULL);
	assert_int_equal(auth_send(&q, message, NEGOTIATE), NVME_OK);
	assert_int_equal(auth_receive(&q, PAGE), NVME_OK);
	reply(&q, old);
	assert_int_equal(auth_send(&q, message, NEGOTIATE), NVME_OK);
	assert_int_equal(auth_receive(&q, PAGE), NVME_OK);
	assert_int_equal(auth_send(&q, old, REPLY), NVME_OK);
	must_be_failure(&q, 1);
	assert_int_equal(auth_send(&q, old, REPLY), NVME_OK);
	must_be_failure(&q, 7);
	raw_close(&q);
	must_serve_good_host();
}

static void three_failures_are_enough(void **state)
{
	uint8_t message[NEGOTIATE], answer[REPLY];
	struct raw_queue q;
	struct nvme_sqe sqe;

	open_admin(&q);
	negotiate(message, DH_NULL);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(auth_send(&q, message, NEGOTIATE), NVME_OK);
		assert_int_equal(auth_receive(&q, PAGE), NVME_OK);
		reply(&q, answer);
		answer[16 + i * 31 / 2] ^= 1; /* in its first, a middle and its last byte */
		assert_int_equal(auth_send(&q, answer, REPLY), NVME_OK);
		must_be_failure(&q, 1);
	}
	daemon_wait_logged(&d, "its response is wrong");
	memcpy(q.data, message, NEGOTIATE);
	sqe = auth_sqe(&q, SEND, NEGOTIATE);
	raw_send(&q, &sqe, sizeof(sqe));
	assert_true(raw_is_dropped(&q));
	daemon_wait_logged(&d, "3 failed authentications");
	raw_close(&q);
	must_serve_good_host();
}

static void no_proof_in_time(void **state)
{
	uint8_t message[NEGOTIATE];
	struct raw_queue silent, slow;

	open_admin(&silent);
	open_admin(&slow);
	negotiate(message, DH_NULL);
	assert_int_equal(auth_send(&slow, message, NEGOTIATE), NVME_OK);
	assert_true(raw_is_dropped(&silent));
	assert_true(raw_is_dropped(&slow));
	daemon_wait_logged(&d, "did not authenticate in time");
	raw_close(&silent);
	raw_close(&slow);
	must_serve_good_host();
}

/* Many at once, which disconnect while the workers compute. */
static void in_a_hurry(void **state)
{
	uint8_t message[NEGOTIATE];

	negotiate(message, DH_8192);
	for (unsigned i = 0; i < 8; i++) {
		struct raw_queue q;

		open_admin(&q);
		memcpy(q.data, message, NEGOTIATE);
		for (unsigned j = 0; j < 6; j++) {
			struct nvme_sqe sqe = auth_sqe(&q, j == 3 ? RECEIVE : SEND, NEGOTIATE);

			raw_send(&q, &sqe, sizeof(sqe));
		}
		raw_close(&q);
	}
	daemon_wait_empty(&d);
	must_serve_good_host();
	assert_false(daemon_has_logged(&d, "ia6zGodOr4SE"));
}

/* A Negotiate makes the target compute a key: a connection has four without authentication, and
 * the count restarts with one. */
static void negotiations_without_end(void **state)
{
	uint8_t message[NEGOTIATE];
	struct nvme_sqe sqe;
	struct raw_queue q;

	open_admin(&q);
	negotiate(message, DH_NULL);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(auth_send(&q, message, NEGOTIATE), NVME_OK);
	prove(&q);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(auth_send(&q, message, NEGOTIATE), NVME_OK);
	memcpy(q.data, message, NEGOTIATE);
	sqe = auth_sqe(&q, SEND, NEGOTIATE);
	raw_send(&q, &sqe, sizeof(sqe));
	assert_true(raw_is_dropped(&q));
	daemon_wait_logged(&d, "4 negotiations without a proof");
	raw_close(&q);
	must_serve_good_host();
}

enum {
	N_PROVERS = 7,
	LEAVES = 5,
};

/* All at once, and one of them disconnects; the others have their turn and continue. */
static void compute_at_once(void)
{
	struct raw_queue queues[N_PROVERS];
	uint8_t message[NEGOTIATE];

	negotiate(message, DH_8192);
	for (unsigned i = 0; i < N_PROVERS; i++)
		open_admin(&queues[i]);
	for (unsigned i = 0; i < N_PROVERS; i++) {
		struct nvme_sqe sqe = auth_sqe(&queues[i], SEND, NEGOTIATE);

		memcpy(queues[i].data, message, NEGOTIATE);
		raw_send(&queues[i], &sqe, sizeof(sqe));
	}
	raw_close(&queues[LEAVES]);
	for (unsigned i = 0; i < N_PROVERS; i++) {
		if (i == LEAVES)
			continue;
		assert_true(raw_collect(&queues[i], 1, 60000));
		prove(&queues[i]);
	}
	for (unsigned i = 0; i < N_PROVERS; i++)
		raw_close(&queues[i]);
	daemon_wait_empty(&d);
}

/* Two of one address compute at once; tries again if the requests came one after the other. */
static void proofs_take_turns(void **state)
{
	uint64_t deadline = clock_ns() + 60 * NSEC_PER_SEC;
	struct daemon shared = d;

	daemon_start_with_secret_limited(&d, SECRET, ", auth_timeout: 300s");
	do
		compute_at_once();
	while (!daemon_has_logged(&d, "waits until others of 127.0.0.1 have proven") &&
	       clock_ns() < deadline);
	daemon_wait_logged(&d, "waits until others of 127.0.0.1 have proven");
	daemon_stop(&d);
	d = shared;
}

static enum nvme_status discover_as_the_host(struct raw_queue *q)
{
	struct raw_connect c;
	struct nvme_cqe cqe;

	assert_int_equal(raw_open(q, d.port, 0, 32), 0);
	raw_connect_init(&c, q, 0, 31, NVMF_CNTLID_DYNAMIC);
	memset(c.data.subnqn, 0, sizeof(c.data.subnqn));
	strcpy((char *)c.data.subnqn, NVMF_DISCOVERY_NQN);
	return raw_connect(q, &c, &cqe);
}

/* All messages are right, but the limit is reached: timing decides whether the last response
 * arrives. */
static void prove_in_vain(struct raw_queue *q)
{
	uint8_t message[NEGOTIATE], answer[REPLY];
	struct nvme_sqe sqe;

	negotiate(message, DH_NULL);
	assert_int_equal(auth_send(q, message, sizeof(message)), NVME_OK);
	assert_int_equal(auth_receive(q, PAGE), NVME_OK);
	reply(q, answer);
	assert_int_equal(auth_send(q, answer, sizeof(answer)), NVME_OK);
	sqe = auth_sqe(q, RECEIVE, PAGE);
	raw_send(q, &sqe, sizeof(sqe));
	assert_true(raw_is_dropped(q));
	raw_close(q);
}

/* A peer that only claims to be the host uses none of its limits: as many peers as one address
 * may have claim its NQN, and the host still gets all its associations, queues and queue
 * numbers. */
static void claimed_names_take_nothing(void **state)
{
	struct raw_queue looking[4], claiming[3], extra, in_its_place;
	struct raw_host h[2] = {0}, third = {0};
	struct daemon shared = d;
	struct raw_connect c;
	struct nvme_cqe cqe;

	daemon_start_with_secret_limited(
		&d, SECRET,
		", controllers_per_host: 2, io_queues_per_host: 2, discovery_per_address: 4, pending_per_host: 3, auth_timeout: 300s");
	raw_come_from(9);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(discover_as_the_host(&looking[i]), NVME_OK);
	assert_int_equal(discover_as_the_host(&extra), NVME_CONNECT_BUSY);
	raw_close(&extra);
	for (unsigned i = 0; i < 3; i++)
		open_admin(&claiming[i]);
	assert_int_equal(raw_open(&extra, d.port, 0, 32), NVMF_CM_NO_RESOURCES);
	raw_close(&extra);
	raw_come_from(0);
	for (unsigned i = 0; i < 2; i++)
		open_proven(&h[i]);
	/* A place that is given back is free at once: this peer claims a queue of the host's. */
	raw_close(&claiming[2]);
	while (daemon_n_connections(&d) > 8)
		usleep(1000);
	raw_come_from(9);
	open_io(&in_its_place, h[0].cntlid);
	raw_come_from(0);
	for (unsigned i = 0; i < 2; i++) {
		open_io(&h[i].io, h[i].cntlid);
		prove(&h[i].io);
		assert_int_equal(raw_io(&h[i].io, NVME_IO_READ, DAEMON_RAM, 0, 8, PAGE), NVME_OK);
	}
	/* Even an authenticated queue would exceed the limit now. */
	prove_in_vain(&in_its_place);
	/* Authenticated queues count. */
	assert_int_equal(raw_open(&third.admin, d.port, 0, NVMF_ADMIN_SQ_ENTRIES), 0);
	raw_connect_init(&c, &third.admin, 0, NVMF_ADMIN_SQ_ENTRIES - 1, NVMF_CNTLID_DYNAMIC);
	assert_int_equal(raw_connect(&third.admin, &c, &cqe), NVME_CONNECT_BUSY);
	raw_host_close(&third);
	for (unsigned i = 0; i < 2; i++)
		raw_host_close(&h[i]);
	for (unsigned i = 0; i < 2; i++)
		raw_close(&claiming[i]);
	for (unsigned i = 0; i < 4; i++)
		raw_close(&looking[i]);
	daemon_wait_empty(&d);
	daemon_stop(&d);
	d = shared;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		/* Runs first: its log lines are rate limited. */
		cmocka_unit_test(three_failures_are_enough),
		cmocka_unit_test(nothing_before_the_proof),
		cmocka_unit_test(io_queues_need_a_proof_too),
		cmocka_unit_test(an_identifier_taken_before_the_proof),
		cmocka_unit_test(malformed_commands),
		cmocka_unit_test(malformed_messages),
		cmocka_unit_test(lengths_that_a_reply_claims),
		cmocka_unit_test(keys_are_freed_once),
		cmocka_unit_test(replayed_reply),
		cmocka_unit_test(no_proof_in_time),
		cmocka_unit_test(in_a_hurry),
		cmocka_unit_test(negotiations_without_end),
		cmocka_unit_test(proofs_take_turns),
		cmocka_unit_test(claimed_names_take_nothing),
	};

	return cmocka_run_group_tests(tests, start_with_secret, stop);
}
