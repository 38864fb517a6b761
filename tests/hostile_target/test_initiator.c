/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The initiator against the fake target: the good path in several sizes, and every kind of
 * misbehaviour at every step of connecting (test_recovery.c covers later steps). After each test
 * the target's exit code shows whether the initiator followed the protocol.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/log.h"
#include "initiator/control/discover.h"
#include "tests/hostile_target/world.h"
#include "transport/auth_key.h"

#define ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* ---- the good path ---- */

static void expect_zeroes(struct client *client, uint64_t offset, size_t n)
{
	uint8_t *in = volume_buffer_take(client->queue, n);

	memset(in, 0xee, n);
	assert_int_equal(do_io(client, VOLUME_READ, offset, n, in), 0);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(in[i], 0);
	volume_buffer_give(client->queue, in);
}

static void use(struct client *client)
{
	struct volume_info info;
	uint64_t far;

	volume_get_info(client->volume, &info);
	far = info.size_bytes - info.max_io_bytes;
	write_and_read(client, 0, info.block_size, 1);
	write_and_read(client, 4096, 4096, 2);
	write_and_read(client, 8192, 8192, 3);
	write_and_read(client, far, info.max_io_bytes, 4);
	assert_int_equal(do_io(client, VOLUME_FLUSH, 0, 0, NULL), 0);
	if (info.has_write_zeroes) {
		assert_int_equal(do_io(client, VOLUME_WRITE_ZEROES, far, info.max_io_bytes, NULL),
				 0);
		expect_zeroes(client, far, info.max_io_bytes);
	}
	write_and_read(client, 65536, 8192, 5);
	assert_int_equal(do_io(client, VOLUME_TRIM, 65536, 8192, NULL), 0);
	expect_zeroes(client, 65536, 8192);
	assert_int_equal(do_io(client, VOLUME_WRITE_ZEROES, 0, info.size_bytes, NULL), 0);
	assert_int_equal(do_io(client, VOLUME_TRIM, 0, info.size_bytes, NULL), 0);
}

static void good_path(const char *const *args)
{
	struct target target;
	struct client client;

	target_start(&target, 0, args);
	client_init(&client, target.port);
	client_open_with_queue(&client);
	use(&client);
	assert_int_equal(client.n_lost, 0);
	client_close(&client);
	target_stop(&target);
}

static void test_good_path(void **state)
{
	good_path(NULL);
}

static void test_block_size_4096(void **state)
{
	good_path(ARGS("block_size=4096", "blocks=8192"));
}

static void test_no_data_in_capsules(void **state)
{
	good_path(ARGS("icd=0"));
}

static void test_data_of_16k_in_capsules(void **state)
{
	good_path(ARGS("icd=16384"));
}

static void test_small_queue(void **state)
{
	good_path(ARGS("mqes=3", "maxcmd=4"));
}

static void test_few_receives(void **state)
{
	good_path(ARGS("crqsize=2"));
}

static void test_no_transfer_limit(void **state)
{
	good_path(ARGS("mdts=0"));
}

static void test_small_transfers(void **state)
{
	good_path(ARGS("mdts=1"));
}

static void test_limits_of_zeroes_and_trim(void **state)
{
	good_path(ARGS("wzsl=3", "dmrsl=1000"));
}

static void test_no_limits_page_no_cache(void **state)
{
	good_path(ARGS("no-cns6", "no-vwc"));
}

/* ---- holes ---- */

struct question {
	struct volume_extents extents;
	bool is_done;
};

static void on_extents(struct volume_extents *extents)
{
	container_of(extents, struct question, extents)->is_done = true;
}

static void begin_question(struct question *q, struct client *client, uint64_t offset,
			   uint64_t length)
{
	*q = (struct question){.extents = {.offset = offset, .length = length, .done = on_extents}};
	volume_extents_ask(client->queue, &q->extents);
	assert_false(q->is_done);
}

/* Two runs at most; length 0: there is no second. */
static void expect_runs(struct question *q, uint64_t first, bool is_hole, uint64_t second)
{
	world_wait(&q->is_done, 15000, "the answer about holes");
	assert_int_equal(q->extents.n, second ? 2 : 1);
	assert_int_equal(q->extents.runs[0].length, first);
	assert_int_equal(q->extents.runs[0].is_hole, is_hole);
	if (!second)
		return;
	assert_int_equal(q->extents.runs[1].length, second);
	assert_int_equal(q->extents.runs[1].is_hole, !is_hole);
}

static void begin_holes(struct target *target, struct client *client, const char *const *args)
{
	target_start(target, 0, args);
	client_init(client, target->port);
	client_open_with_queue(client);
}

static void end_holes(struct target *target, struct client *client)
{
	client_close(client);
	target_stop(target);
}

static void test_holes(void **state)
{
	struct question q, others[20];
	struct volume_info info;
	struct target target;
	struct client client;

	begin_holes(&target, &client, ARGS("aocs=1"));
	volume_get_info(client.volume, &info);
	begin_question(&q, &client, 0, info.size_bytes);
	expect_runs(&q, info.size_bytes, true, 0);
	write_and_read(&client, 8192, 4096, 1);
	begin_question(&q, &client, 0, info.size_bytes);
	expect_runs(&q, 8192, true, 4096);
	begin_question(&q, &client, 8192, 8192);
	expect_runs(&q, 4096, false, 4096);
	begin_question(&q, &client, 8192, 512);
	expect_runs(&q, 512, false, 0);
	for (unsigned i = 0; i < ARRAY_LEN(others); i++)
		begin_question(&others[i], &client, 4096 * i, 4096);
	for (unsigned i = 0; i < ARRAY_LEN(others); i++)
		expect_runs(&others[i], 4096, i != 2, 0);
	assert_int_equal(client.n_lost, 0);
	end_holes(&target, &client);
}

/* Whatever the target says, the answer lies within the question, and no lie makes a hole. */
static void test_lies_about_holes(void **state)
{
	static const char *const table[] = {"told=1",
					    "told=2",
					    "told=3",
					    "told=4",
					    "told=5",
					    "get-blocks=status,4002",
					    "get-blocks=status,1"};
	struct target target;
	struct client client;
	struct question q;

	for (unsigned i = 0; i < ARRAY_LEN(table); i++) {
		begin_holes(&target, &client, ARGS("aocs=1", table[i]));
		begin_question(&q, &client, MIB, MIB);
		expect_runs(&q, MIB, false, 0);
		assert_int_equal(client.n_lost, 0);
		end_holes(&target, &client);
	}
	begin_holes(&target, &client, NULL); /* a target without the command is not asked */
	begin_question(&q, &client, MIB, MIB);
	expect_runs(&q, MIB, false, 0);
	end_holes(&target, &client);
	begin_holes(&target, &client, ARGS("aocs=1", "get-blocks=garbage", "seed=3"));
	for (unsigned i = 0; i < 50; i++) {
		begin_question(&q, &client, MIB, MIB);
		world_wait(&q.is_done, 15000, "the answer about holes");
		assert_in_range(q.extents.n, 1, VOLUME_RUNS_MAX);
		for (unsigned k = 0; k < q.extents.n; k++)
			assert_in_range(q.extents.runs[k].length, 1, MIB);
	}
	end_holes(&target, &client);
}

/* The connection ends under a question: it has an answer at once, and so have those behind it. */
static void test_questions_of_a_lost_target(void **state)
{
	struct question first, second, third;
	struct target target;
	struct client client;

	begin_holes(&target, &client, ARGS("aocs=1", "get-blocks:1=silence"));
	begin_question(&first, &client, 0, MIB);
	begin_question(&second, &client, MIB, MIB);
	write_and_read(&client, 0, 4096, 1); /* I/O goes on */
	assert_false(first.is_done || second.is_done);
	target_say(&target, "drop");
	expect_runs(&first, MIB, false, 0);
	expect_runs(&second, MIB, false, 0);
	client_wait_state(&client, VOLUME_LIVE, 60000);
	begin_question(&third, &client, 0, MIB);
	expect_runs(&third, 4096, false, MIB - 4096);
	end_holes(&target, &client);
}

static void test_no_private_data(void **state)
{
	good_path(ARGS("cm-io=no-private", "cm-admin=no-private"));
}

static void test_info(void **state)
{
	struct target target;
	struct client client;
	struct volume_info info;
	struct volume_status status;

	target_start(&target, 0, ARGS("blocks=10000", "read-only"));
	client_init(&client, target.port);
	client_open_with_queue(&client);
	volume_get_info(client.volume, &info);
	assert_int_equal(info.size_bytes, 10000 * 512);
	assert_int_equal(info.block_size, 512);
	assert_int_equal(info.max_io_bytes, 128 * 1024);
	assert_true(info.is_read_only && info.has_flush && info.has_trim);
	assert_true(info.has_write_zeroes && info.reads_zero_after_trim);
	assert_string_equal(info.serial, "FAKE0001");
	assert_string_equal(info.model, "fake target");
	assert_int_equal(info.n_queues_granted, 1);
	assert_int_equal(info.uuid[0], 32);
	assert_int_equal(do_io(&client, VOLUME_WRITE_ZEROES, 0, 512, NULL), -EPERM);
	assert_int_equal(do_io(&client, VOLUME_WRITE_ZEROES, 10000 * 512, 512, NULL), -ENOSPC);
	volume_get_status(client.volume, &status);
	assert_int_equal(status.state, VOLUME_LIVE);
	assert_int_equal(status.n_queues_live, 1);
	assert_int_not_equal(status.device[0], 0);
	client_close(&client);
	target_stop(&target);
}

/* More I/O than the queue has entries, submitted before the queue is even connected. */
static void test_many_at_once(void **state)
{
	static struct job jobs[200];
	struct target target;
	struct client client;
	uint8_t *buffers[ARRAY_LEN(jobs)];

	target_start(&target, 0, NULL);
	client_init(&client, target.port);
	client_open_with_queue(&client);
	for (unsigned i = 0; i < ARRAY_LEN(jobs); i++) {
		size_t n = i % 3 ? 4096 : 16384;

		buffers[i] = volume_buffer_take(client.queue, n);
		assert_non_null(buffers[i]);
		fill_pattern(buffers[i], n, i);
		job_start(&jobs[i], &client, VOLUME_WRITE, i * 16384, n, buffers[i]);
	}
	for (unsigned i = 0; i < ARRAY_LEN(jobs); i++) {
		assert_int_equal(job_wait(&jobs[i], 5000), 0);
		volume_buffer_give(client.queue, buffers[i]);
	}
	for (unsigned i = 0; i < ARRAY_LEN(jobs); i++) {
		size_t n = i % 3 ? 4096 : 16384;
		uint8_t *want = malloc(n), *got = volume_buffer_take(client.queue, n);

		fill_pattern(want, n, i);
		assert_int_equal(do_io(&client, VOLUME_READ, i * 16384, n, got), 0);
		assert_memory_equal(got, want, n);
		volume_buffer_give(client.queue, got);
		free(want);
	}
	client_close(&client);
	target_stop(&target);
}

struct waiter {
	struct loop_call call;
	bool was_called;
};

static void on_buffer(struct loop_call *call)
{
	container_of(call, struct waiter, call)->was_called = true;
}

/* As many buffers as there are: whenever none is left, the slab grows. */
static unsigned take_all(struct client *client, void **buffers, size_t n_bytes, unsigned n)
{
	struct waiter grown = {.call.run = on_buffer};

	for (unsigned i = 0; i < n;) {
		buffers[i] = volume_buffer_take(client->queue, n_bytes);
		if (buffers[i]) {
			i++;
			continue;
		}
		grown.was_called = false;
		volume_buffer_wait(client->queue, &grown.call);
		world_wait(&grown.was_called, 5000, "the slab grows");
	}
	return n;
}

static void test_buffers_run_out(void **state)
{
	struct target target;
	struct client client;
	struct waiter first = {.call.run = on_buffer}, second = {.call.run = on_buffer};
	void *buffers[2048];
	unsigned n = 0;

	target_start(&target, 0, NULL);
	client_init(&client, target.port);
	client_open_with_queue(&client);
	n = take_all(&client, buffers, 65536, 128);
	assert_null(volume_buffer_take(client.queue, 65536));
	volume_buffer_wait(client.queue, &first.call);
	volume_buffer_wait(client.queue, &second.call);
	world_run(20);
	assert_false(first.was_called || second.was_called);
	volume_buffer_give(client.queue, buffers[--n]);
	world_run(20);
	assert_true(first.was_called && !second.was_called);
	volume_buffer_wait_cancel(client.queue, &second.call);
	while (n)
		volume_buffer_give(client.queue, buffers[--n]);
	world_run(20);
	assert_false(second.was_called);
	client_close(&client);
	target_stop(&target);
}

/* ---- misbehaviour while connecting for the first time ---- */

struct refusal {
	const char *rule;
	enum exit_code code;
	const char *message; /* a part of it */
	struct target target;
	struct client client;
};

static void run_refusals(struct refusal *table, unsigned n)
{
	/* all targets first: clients count the time from their own start */
	for (unsigned i = 0; i < n; i++)
		target_start(&table[i].target, 0, ARGS(table[i].rule));
	for (unsigned i = 0; i < n; i++) {
		client_init(&table[i].client, table[i].target.port);
		client_open(&table[i].client);
	}
	for (unsigned i = 0; i < n; i++) {
		struct client *client = &table[i].client;

		world_wait(&client->is_opened, 30000, table[i].rule);
		if (!client->has_failed)
			fail_msg("%s: it opened", table[i].rule);
		if (client->error.code != table[i].code ||
		    !strstr(client->error.message, table[i].message))
			fail_msg("%s: %d: %s", table[i].rule, client->error.code,
				 client->error.message);
		client_close(client);
		target_stop(&table[i].target);
	}
}

static void test_refusals(void **state)
{
	struct refusal table[] = {
		{"cm-admin=reject,4", EXIT_FAILED, "NVMe/RDMA status 4"},
		{"cm-admin=bad-private", EXIT_FAILED, "private data"},
		{"cm-admin=disconnect", EXIT_FAILED, "cannot connect"},
		{"connect-admin=disconnect", EXIT_FAILED, "cannot connect"},
		{"connect-admin=exit", EXIT_UNREACHABLE, "nothing listens there"},
		{"connect-admin=status,4184", EXIT_DENIED, "refuses host nqn.2026-01.test:host"},
		{"connect-admin=status,4182", EXIT_FAILED, "refuses the Connect"},
		{"connect-admin=status,4191", EXIT_DENIED, "requires authentication"},
		{"connect-admin=wrong-cid", EXIT_FAILED, "not in flight"},
		{"connect-admin=short", EXIT_FAILED, "8 bytes"},
		{"connect-admin=invalidate", EXIT_FAILED, ""},
		{"get-cap=status,4002", EXIT_FAILED, "CAP with Invalid Field"},
		{"get-cap=disconnect", EXIT_FAILED, "cannot connect"},
		{"get-csts=fatal", EXIT_FAILED, "fatal"},
		{"get-csts=exit", EXIT_FAILED, "cannot connect"},
		{"set-cc=status,2", EXIT_FAILED, "Invalid Field"},
		{"identify-ctrl=disconnect", EXIT_FAILED, "cannot connect"},
		{"identify-ctrl=status,6", EXIT_FAILED, "Identify Controller"},
		{"identify-ctrl=garbage", EXIT_FAILED, "cannot be used"},
		{"identify-ctrl=write-past", EXIT_FAILED, "cannot connect"},
		{"identify-ids=status,400b", EXIT_NOT_FOUND, "it has: 1)"},
		{"identify-ns=status,2", EXIT_FAILED, "Identify Namespace"},
		{"identify-ns=wrong-cid", EXIT_FAILED, "not in flight"},
		{"set-queues=status,4006", EXIT_FAILED, "number of queues"},
		{"set-queues=old-cid", EXIT_FAILED, "not in flight"},
	};

	run_refusals(table, ARRAY_LEN(table));
}

/* A lost Connect command is sent once more; the loss of the second one is an error
 * (test_refusals, test_silences). */
static void test_lost_connect(void **state)
{
	static const char *const rules[] = {"connect-admin:1=disconnect",
					    "connect-admin:1=silence"};
	struct target targets[ARRAY_LEN(rules)];
	struct client clients[ARRAY_LEN(rules)];

	for (unsigned i = 0; i < ARRAY_LEN(rules); i++)
		target_start(&targets[i], 0, ARGS(rules[i]));
	for (unsigned i = 0; i < ARRAY_LEN(rules); i++) {
		client_init(&clients[i], targets[i].port);
		client_open(&clients[i]);
	}
	for (unsigned i = 0; i < ARRAY_LEN(rules); i++) {
		world_wait(&clients[i].is_opened, 30000, rules[i]);
		if (clients[i].has_failed)
			fail_msg("%s: %s", rules[i], clients[i].error.message);
		client_close(&clients[i]);
		target_stop(&targets[i]);
	}
}

static void test_silences(void **state)
{
	struct refusal table[] = {
		{"cm-admin=silence", EXIT_UNREACHABLE, "no answer"},
		{"connect-admin=silence", EXIT_UNREACHABLE, "connect command"},
		{"get-cap=silence", EXIT_UNREACHABLE, "reading capabilities"},
		{"set-cc:1=silence", EXIT_UNREACHABLE, "disabling"},
		{"set-cc:2=silence", EXIT_UNREACHABLE, "enabling"},
		{"get-csts=silence", EXIT_UNREACHABLE, "waiting for disabled"},
		{"get-csts=not-ready", EXIT_UNREACHABLE, "took too long"},
		{"identify-ctrl=silence", EXIT_UNREACHABLE, "identifying the controller"},
		{"identify-limits=silence", EXIT_UNREACHABLE, "identifying limits"},
		{"set-queues=silence", EXIT_UNREACHABLE, "asking for queues"},
		{"identify-ns=silence", EXIT_UNREACHABLE, "identifying the namespace"},
	};

	for (unsigned i = 0; i < ARRAY_LEN(table); i++)
		table[i].client.config.keep_alive_ns = 0;
	run_refusals(table, ARRAY_LEN(table));
}

/* Any secret, in a file that only its owner can read. */
static void write_secret(char *path, size_t n)
{
	char text[AUTH_KEY_TEXT];
	struct auth_key key;
	int fd;

	snprintf(path, n, "/tmp/rblk-secret.XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(auth_key_generate(32, NVMF_HASH_SHA256, &key), 0);
	auth_key_format(&key, text);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

/* The error names a target that cannot authenticate itself, whatever its answer to the failure. */
static void test_impostor(void **state)
{
	const char *const rules[] = {"auth-send:3=none", "auth-send:3=disconnect",
				     "auth-send:3=status,6", "auth-send:3=exit"};
	char path[VOLUME_PATH_MAX];

	write_secret(path, sizeof(path));
	for (unsigned i = 0; i < ARRAY_LEN(rules); i++) {
		struct target target;
		struct client client;

		target_start(&target, 0, ARGS("impostor", rules[i]));
		client_init(&client, target.port);
		strcpy(client.config.secret_file, path);
		strcpy(client.config.ctrl_secret_file, path);
		client_open(&client);
		world_wait(&client.is_opened, 120000, rules[i]);
		if (!client.has_failed || client.error.code != EXIT_DENIED ||
		    !strstr(client.error.message, "the target's response is wrong"))
			fail_msg("%s: %d: %s", rules[i], client.error.code, client.error.message);
		client_close(&client);
		target_stop(&target);
	}
	unlink(path);
}

static void test_tolerated(void **state)
{
	good_path(ARGS("identify-ids=status,2", "set-events=status,2", "aer=status,105"));
	good_path(ARGS("identify-limits=garbage", "identify-ids=garbage", "seed=5"));
	good_path(ARGS("connect-admin:1=status,181")); /* busy: sent again */
	good_path(ARGS("cm-admin:1=reject,6"));
	good_path(ARGS("connect-io:1=status,181", "cm-io:1=reject,6"));
}

static void test_nothing_listens(void **state)
{
	struct target target;
	struct client client;

	target_start(&target, 0, NULL);
	target_stop(&target);
	client_init(&client, target.port);
	client_open(&client);
	world_wait(&client.is_opened, 15000, "refusal");
	assert_true(client.has_failed);
	assert_int_equal(client.error.code, EXIT_UNREACHABLE);
	assert_non_null(strstr(client.error.message, "nothing listens there"));
	client_close(&client);
}

static void test_names(void **state)
{
	struct target target;
	struct client client;
	struct error error;

	target_start(&target, 0, ARGS("host=nqn.2026-01.test:other"));
	client_init(&client, target.port);
	client_open(&client);
	world_wait(&client.is_opened, 5000, "refusal");
	assert_int_equal(client.error.code, EXIT_DENIED);
	assert_non_null(strstr(client.error.hint, "nqn.2026-01.test:host"));
	client_close(&client);
	target_stop(&target);

	target_start(&target, 0, NULL);
	client_init(&client, target.port);
	strcpy(client.config.subnqn, "nqn.2026-01.test:fkae");
	client_open(&client);
	world_wait(&client.is_opened, 5000, "refusal");
	assert_int_equal(client.error.code, EXIT_NOT_FOUND);
	assert_non_null(strstr(client.error.message, "'nqn.2026-01.test:fkae'"));
	error = client.error;
	discover_suggest(&client.config, &error);
	assert_string_equal(error.hint, "did you mean 'nqn.2026-01.test:fake'?");
	client_close(&client);
	client_init(&client, target.port);
	client.config.nsid = 7;
	client_open(&client);
	world_wait(&client.is_opened, 5000, "refusal");
	assert_int_equal(client.error.code, EXIT_NOT_FOUND);
	assert_non_null(strstr(client.error.message, "no namespace 7 for us (it has: 1)"));
	client_close(&client);
	target_stop(&target);
}

/* Under a limit on locked memory the default buffers are smaller. Buffers of a size that the
 * user configured are refused, and the error at opening names the remedy. */
static void test_memlock(void **state)
{
	struct volume_info info;
	struct rlimit old;
	struct target target;
	struct client client;

	target_start(&target, 0, NULL);
	client_init(&client, target.port);
	getrlimit(RLIMIT_MEMLOCK, &old);
	setenv("SOFTRDMA_MEMLOCK_STRICT", "1", 1);
	if (setrlimit(RLIMIT_MEMLOCK, &(struct rlimit){4 << 20, old.rlim_max}))
		fail_msg("setrlimit: %s", strerror(errno));
	client_open(&client);
	world_wait(&client.is_opened, 15000, "opening");
	assert_int_equal(client.error.code, EXIT_OK);
	volume_get_info(client.volume, &info);
	assert_in_range(info.slab_bytes, VOLUME_SLAB_MIN, 2 << 20);
	client_close(&client);
	client_init(&client, target.port);
	client.config.may_shrink_slab = false;
	client_open(&client);
	world_wait(&client.is_opened, 15000, "refusal");
	unsetenv("SOFTRDMA_MEMLOCK_STRICT");
	setrlimit(RLIMIT_MEMLOCK, &old);
	assert_int_equal(client.error.code, EXIT_PRIVILEGE);
	assert_non_null(strstr(client.error.message, "for RDMA: locked-memory limit is 4MiB"));
	assert_non_null(strstr(client.error.hint, "LimitMEMLOCK"));
	assert_non_null(strstr(client.error.hint, "--buffers"));
	client_close(&client);
	target_stop(&target);
}

/* Closing at every step of connecting. */
static void test_close_early(void **state)
{
	struct target target;

	target_start(&target, 0, NULL);
	for (unsigned turns = 0; turns < 40; turns++) {
		struct client client;

		client_init(&client, target.port);
		client_open(&client);
		for (unsigned i = 0; i < turns; i++)
			loop_turn(&world, NSEC_PER_MSEC);
		client_close(&client);
	}
	target_stop(&target);
}

/* Random controllers and namespaces are refused, for what they lack: of 24 seeds from 0 on, and of
 * 24 from 100 on. */
static void test_garbage(void **state)
{
	static struct {
		struct target target;
		struct client client;
	} all[4]; /* more at once take longer than opening waits, where CPUs are scarce */
	char seed[32];

	for (unsigned round = 0; round < 12; round++) {
		for (unsigned i = 0; i < ARRAY_LEN(all); i++) {
			snprintf(seed, sizeof(seed), "seed=%u",
				 round / 6 * 100 + round % 6 * 4 + i);
			target_start(&all[i].target, 0,
				     ARGS(i % 2 ? "identify-ns=garbage" : "identify-list=garbage",
					  i % 4 < 2 ? "identify-ids=garbage" : "no-cns6", seed));
			client_init(&all[i].client, all[i].target.port);
			all[i].client.config.nsid = i % 2 ? 1 : 9;
			client_open(&all[i].client);
		}
		for (unsigned i = 0; i < ARRAY_LEN(all); i++) {
			const struct client *client = &all[i].client;

			world_wait(&client->is_opened, 15000, "garbage");
			assert_true(client->has_failed);
			assert_int_equal(client->error.code, i % 2 ? EXIT_FAILED : EXIT_NOT_FOUND);
			assert_non_null(strstr(client->error.message,
					       i % 2 ? "cannot be used: its block "
						     : "has no namespace 9 for us (it has: "));
			client_close(&all[i].client);
			target_stop(&all[i].target);
		}
	}
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)

/* An argument is a pattern of test names: test_initiator 'test_good*'. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		CASE(test_good_path),
		CASE(test_block_size_4096),
		CASE(test_no_data_in_capsules),
		CASE(test_data_of_16k_in_capsules),
		CASE(test_small_queue),
		CASE(test_few_receives),
		CASE(test_no_transfer_limit),
		CASE(test_small_transfers),
		CASE(test_limits_of_zeroes_and_trim),
		CASE(test_no_limits_page_no_cache),
		CASE(test_holes),
		CASE(test_lies_about_holes),
		CASE(test_questions_of_a_lost_target),
		CASE(test_no_private_data),
		CASE(test_info),
		CASE(test_many_at_once),
		CASE(test_buffers_run_out),
		CASE(test_refusals),
		CASE(test_lost_connect),
		CASE(test_silences),
		CASE(test_impostor),
		CASE(test_tolerated),
		CASE(test_nothing_listens),
		CASE(test_names),
		CASE(test_memlock),
		CASE(test_close_early),
		CASE(test_garbage),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	log_init("test_initiator", getenv("DEBUG") ? LOG_DEBUG : LOG_ERR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
