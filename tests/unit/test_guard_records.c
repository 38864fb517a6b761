/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The records of guards (store/record.h): the state directory as a store, and two guards that share
 * a store in memory, as two rblkd share a Ceph cluster. The test scripts what that store answers.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/log.h"
#include "target/export/bad_blocks.h"
#include "target/export/guard/guard.h"
#include "target/export/guard/guard_adopt.h"
#include "target/export/guard/guard_new.h"
#include "target/export/guard/guard_state.h"
#include "target/export/guard/reservation.h"
#include "target/export/state_file.h"
#include "target/export/state_records.h"
#include "target/store/thread.h"

enum {
	N_GUARDS = 2,
	SILENT = 1, /* script.error: no answer before answer() */
};

static struct loop loop;
static struct backend_thread *thread;

/* ---- a store in memory ----------------------------------------------------------------------- */

static struct {
	char *text;
	uint64_t version, last_version;
	int error; /* of the next operations */
	bool is_unknown, has_happened;
	bool is_busy; /* another rblkd is always faster */
	unsigned n_errors, n_loads;
	struct record_op *held;
} memory;

static void send_result(struct record_op *op)
{
	op->msg.run = record_run_done;
	if (op->loop)
		loop_send(op->loop, &op->msg);
}

/* Whether the script lets this operation fail. */
static bool fails(struct record_op *op)
{
	op->found = NULL;
	if (!memory.n_errors)
		return false;
	memory.n_errors--;
	op->error = memory.error;
	op->is_old = !memory.is_unknown;
	if (memory.error == SILENT)
		memory.held = op;
	else
		send_result(op);
	return true;
}

static void memory_load(struct record_store *store, struct record_op *op)
{
	memory.n_loads++;
	if (fails(op))
		return;
	op->error = 0;
	op->found = memory.text ? strdup(memory.text) : NULL;
	op->version = memory.version;
	send_result(op);
}

static void replace(const char *text)
{
	free(memory.text);
	memory.text = text ? strdup(text) : NULL;
	memory.version = text ? ++memory.last_version : RECORD_NONE;
}

static void memory_change(struct record_store *store, struct record_op *op)
{
	if (memory.is_busy || (memory.n_errors && memory.has_happened))
		replace(op->text);
	if (fails(op))
		return;
	op->error = op->version == memory.version ? 0 : -ECANCELED;
	op->is_old = op->error;
	if (!op->error)
		replace(op->text);
	op->version = memory.version;
	send_result(op);
}

static void memory_remove(struct record_store *store, struct record_op *op)
{
	op->text = NULL;
	memory_change(store, op);
}

static const struct record_ops memory_ops = {
	.load = memory_load,
	.store = memory_change,
	.remove = memory_remove,
};
static struct record_store shared = {
	.ops = &memory_ops, .place = "memory", .own = "guard", .is_shared = true};

static void script(unsigned n, int error, bool is_unknown)
{
	memory.n_errors = n;
	memory.error = error;
	memory.is_unknown = is_unknown;
}

/* ---- guards and their commands --------------------------------------------------------------- */

struct host {
	struct guard_client client;
	uint8_t hostid[HOSTID_BYTES];
};

struct command {
	struct pass pass;
	reservation_action *action;
	struct reservation_wish wish;
	bool is_blind; /* it acts on what is in memory, as commands on bad blocks do */
	struct reservation *old;
	unsigned n_turns;
	enum nvme_status status;
	int error;
	bool is_done;
};

static struct guard *guards[N_GUARDS];
static struct host hosts[N_GUARDS];

static struct command *command_of(struct pass *pass)
{
	return container_of(pass, struct command, pass);
}

static void finish(struct pass *pass, int error)
{
	command_of(pass)->error = error;
	command_of(pass)->is_done = true;
	guard_end_turn(pass);
}

static void on_visited(struct pass *pass)
{
	free(command_of(pass)->old);
	finish(pass, 0);
}

static void on_turn(struct pass *pass);

static void on_saved(struct pass *pass, int error)
{
	struct guard *guard = pass->guard;
	struct guard_kept kept = guard->next;

	if (error == -ECANCELED) {
		on_turn(pass);
		return;
	}
	if (error < 0) {
		free(guard->next.reservation);
		finish(pass, error);
		return;
	}
	command_of(pass)->old = atomic_load(&guard->reservation);
	guard_publish(guard, &kept);
	guard_visit(pass, guard_visit_none, on_visited);
}

static void on_fresh(struct pass *pass, int error)
{
	struct command *c = command_of(pass);
	struct guard *guard = pass->guard;
	struct reservation *next;

	if (error < 0 || !c->action) {
		finish(pass, error);
		return;
	}
	c->status = c->action(atomic_load(&guard->reservation), &c->wish, &next);
	if (c->status != NVME_OK) {
		finish(pass, 0);
		return;
	}
	guard_begin_save(guard);
	guard->next.reservation = next;
	guard_save(pass, false, on_saved);
}

static void on_turn(struct pass *pass)
{
	struct command *c = command_of(pass);

	if (c->n_turns++ || !c->is_blind)
		guard_refresh(pass, on_fresh);
	else
		on_fresh(pass, 0);
}

static bool give_up(struct pass *pass)
{
	return false;
}

static const uint8_t *hostid(struct guard_client *client)
{
	return container_of(client, struct host, client)->hostid;
}

static unsigned n_pollers(struct guard_client *client)
{
	return 1;
}

static struct loop *loop_of(struct guard_client *client, unsigned poller)
{
	return &loop;
}

static void on_blocked(struct guard_client *client, unsigned poller, bool is_blocked)
{
}

static const struct guard_ops ops = {
	.on_turn = on_turn,
	.give_up = give_up,
	.hostid = hostid,
	.n_pollers = n_pollers,
	.loop_of = loop_of,
	.on_blocked = on_blocked,
};

static void start(struct command *c, unsigned at)
{
	pass_init(&c->pass, &hosts[at].client, true);
	pass_begin(&c->pass, guards[at]);
	c->wish.hostid = hosts[at].hostid;
	c->wish.hostnqn = at ? "nqn.b" : "nqn.a";
	c->wish.can_persist = true;
	guard_take_turn(&c->pass);
}

static void wait_done(struct command *c)
{
	while (!c->is_done)
		loop_turn(&loop, 1000 * 1000);
	pass_end(&c->pass);
}

static void run(struct command *c, unsigned at)
{
	start(c, at);
	wait_done(c);
}

#define REGISTER(k)                                                                                \
	{                                                                                          \
		.action = reservation_register, .wish = {                                          \
			.action = NVME_RREGA_REGISTER,                                             \
			.key = (k)                                                                 \
		}                                                                                  \
	}
#define ACQUIRE(how, k, other)                                                                     \
	{                                                                                          \
		.action = reservation_acquire, .wish = {                                           \
			.action = (how),                                                           \
			.type = NVME_RTYPE_WRITE_EXCLUSIVE,                                        \
			.crkey = (k),                                                              \
			.key = (other)                                                             \
		}                                                                                  \
	}

static void must_run(struct command c, unsigned at)
{
	run(&c, at);
	assert_int_equal(c.error, 0);
	assert_int_equal(c.status, NVME_OK);
}

static void refresh(unsigned at)
{
	must_run((struct command){0}, at);
}

static const struct reservation *state_of(unsigned at)
{
	return atomic_load(&guards[at]->reservation);
}

static void make_guard(unsigned at, struct record_store *store)
{
	static const uuid_t uuid = {1};
	struct error error;

	guards[at] = guard_new(uuid, store, false);
	assert_non_null(guards[at]);
	assert_int_equal(guard_load(guards[at], &error), 0);
	hosts[at] = (struct host){
		.client = {.ops = &ops, .loop = &loop, .backends = thread},
		.hostid = {(uint8_t)(at + 1)},
	};
}

static int set_up(void **state)
{
	assert_int_equal(loop_init(&loop, 0, NULL), 0);
	assert_int_equal(backend_thread_new(&loop, 0, 0, &thread), 0);
	return 0;
}

static int set_up_two(void **state)
{
	set_up(state);
	memset(&memory, 0, sizeof(memory));
	for (unsigned i = 0; i < N_GUARDS; i++)
		make_guard(i, &shared);
	return 0;
}

static int tear_down(void **state)
{
	for (unsigned i = 0; i < N_GUARDS; i++) {
		guard_unref(guards[i]);
		guards[i] = NULL;
	}
	backend_thread_free(thread);
	loop_deinit(&loop);
	free(memory.text);
	memory.text = NULL;
	return 0;
}

/* ---- two rblkd, one store -------------------------------------------------------------------- */

/* Also what hosts did not ask to persist: the end of rblkd is no loss of power of the store. */
static void the_next_rblkd_reads_all(void **state)
{
	must_run((struct command)REGISTER(10), 0);
	must_run((struct command)ACQUIRE(NVME_RACQA_ACQUIRE, 10, 0), 0);
	guard_unref(guards[1]);
	make_guard(1, &shared);
	assert_int_equal(state_of(1)->generation, 1);
	assert_int_equal(state_of(1)->type, NVME_RTYPE_WRITE_EXCLUSIVE);
	assert_false(state_of(1)->is_persistent);
	assert_int_equal(state_of(1)->n, 1);
	assert_int_equal(state_of(1)->registrants[0].key, 10);
	assert_string_equal(reservation_name_of(state_of(1), 0), "nqn.a");
	assert_true(guard_flags(guards[1]) & GUARD_RESERVED);
}

static void a_report_is_of_the_record(void **state)
{
	must_run((struct command)REGISTER(10), 0);
	assert_null(state_of(1));
	refresh(1);
	assert_int_equal(state_of(1)->registrants[0].key, 10);
	assert_int_equal(memory.n_loads, 2 + 1 + 1);
	refresh(1); /* nothing has changed */
	assert_int_equal(state_of(1)->generation, 1);
}

static void a_stale_change_begins_again(void **state)
{
	struct command late = REGISTER(11);

	must_run((struct command)REGISTER(10), 0);
	late.is_blind = true;
	run(&late, 1);
	assert_int_equal(late.status, NVME_OK);
	assert_int_equal(late.n_turns, 2);
	assert_int_equal(atomic_load(&guards[1]->n_state_conflicts), 1);
	assert_int_equal(state_of(1)->n, 2);
	assert_int_equal(state_of(1)->generation, 2);
	refresh(0);
	assert_int_equal(state_of(0)->n, 2);
	assert_int_equal(state_of(0)->generation, 2);
}

/* The key of the other host is only in the record. */
static void a_preempt_reaches_the_other(void **state)
{
	struct command acquire = ACQUIRE(NVME_RACQA_ACQUIRE, 10, 0);

	must_run((struct command)REGISTER(10), 0);
	must_run((struct command)ACQUIRE(NVME_RACQA_ACQUIRE, 10, 0), 0);
	must_run((struct command)REGISTER(11), 1);
	must_run((struct command)ACQUIRE(NVME_RACQA_PREEMPT, 11, 10), 1);
	run(&acquire, 0);
	assert_int_equal(acquire.status, NVME_RESERVATION_CONFLICT | NVME_DNR);
	assert_int_equal(state_of(0)->n, 1);
	assert_int_equal(state_of(0)->registrants[0].key, 11);
}

/* Nothing that the record forbids is inside when its state is answered. */
static void a_write_leaves_before_the_answer(void **state)
{
	struct command reader = {0};
	struct pass write = {0};
	enum nvme_status status;

	pass_init(&write, &hosts[0].client, true);
	pass_begin(&write, guards[0]);
	write.access = ACCESS_WRITE;
	write.n_blocks = 1;
	pass_show(&write);
	assert_int_equal(guard_enter(&write, &status), GUARD_ENTERED);
	must_run((struct command)REGISTER(11), 1);
	must_run((struct command)ACQUIRE(NVME_RACQA_ACQUIRE, 11, 0), 1);
	start(&reader, 0);
	for (unsigned i = 0; i < 100 || !state_of(0); i++)
		loop_turn(&loop, 1000 * 1000);
	assert_false(reader.is_done);
	pass_leave(&write);
	wait_done(&reader);
	assert_int_equal(guard_enter(&write, &status), GUARD_REFUSED);
	pass_end(&write);
}

static void the_record_is_removed_by_a_person(void **state)
{
	must_run((struct command)REGISTER(10), 0);
	replace(NULL);
	refresh(0);
	assert_null(state_of(0));
	must_run((struct command)REGISTER(12), 0);
	assert_int_equal(state_of(0)->generation, 1);
}

/* ---- a store that fails ---------------------------------------------------------------------- */

static void a_refused_change_changes_nothing(void **state)
{
	struct command c = REGISTER(10);

	c.is_blind = true;
	script(1, -EPERM, false);
	run(&c, 0);
	assert_int_equal(c.error, -EPERM);
	assert_null(state_of(0));
	assert_int_equal(atomic_load(&guards[0]->n_state_errors), 1);
	assert_false(atomic_load(&guards[0]->is_unkept));
	script(1, -EPERM, false);
	c = (struct command)REGISTER(10); /* now the load fails */
	run(&c, 0);
	assert_int_equal(c.error, -EPERM);
	assert_int_equal(atomic_load(&guards[0]->n_state_errors), 2);
	must_run((struct command)REGISTER(10), 0);
}

/* The change is in the record although its command failed: the next one sees it. */
static void what_is_unknown_is_read_first(void **state)
{
	struct command c = REGISTER(10);
	struct command next = REGISTER(11);

	c.is_blind = next.is_blind = true;
	memory.has_happened = true;
	script(1, -ESHUTDOWN, true);
	run(&c, 0);
	assert_int_equal(c.error, -ESHUTDOWN);
	assert_null(state_of(0));
	assert_true(atomic_load(&guards[0]->is_unkept));
	guard_settle(guards[0]); /* does not wait for a cluster, and does not write */
	assert_non_null(memory.text);
	memory.has_happened = false;
	run(&next, 0);
	assert_int_equal(next.status, NVME_RESERVATION_CONFLICT | NVME_DNR); /* its key is 10 */
	assert_int_equal(state_of(0)->registrants[0].key, 10);
	assert_false(atomic_load(&guards[0]->is_unkept));
}

/* Each retry sees a new state; the host is told to try later. */
static void conflicts_end(void **state)
{
	struct command c = REGISTER(10);

	c.action = reservation_set_persistence;
	c.wish.cptpl = NVME_CPTPL_SET;
	memory.is_busy = true;
	run(&c, 0);
	memory.is_busy = false;
	assert_int_equal(c.error, -EBUSY);
	assert_in_range(c.n_turns, 2, 1000);
	must_run((struct command)REGISTER(10), 0);
	assert_int_equal(atomic_load(&guards[0]->n_state_conflicts), c.n_turns);
}

/* A cluster that is away: the loop goes on meanwhile. */
static void silence_stops_no_loop(void **state)
{
	struct command c = REGISTER(10);

	script(1, SILENT, false);
	start(&c, 0);
	for (unsigned i = 0; i < 10; i++)
		loop_turn(&loop, 1000);
	assert_non_null(memory.held);
	assert_false(c.is_done);
	must_run((struct command)REGISTER(11), 1);
	memory_load(&shared, memory.held);
	wait_done(&c);
	assert_int_equal(state_of(0)->n, 2);
}

/* The state in memory stays valid, a start is refused, and no other text makes it valid. */
static void must_be_damaged(const char *text)
{
	struct command c = REGISTER(12);
	struct error error;

	replace(text);
	run(&c, 0);
	assert_int_equal(c.error, -EINVAL);
	assert_string_equal(record_strerror(atomic_load(&guards[0]->state_error)), "it is damaged");
	assert_int_equal(state_of(0)->n, 1);
	assert_int_equal(state_of(0)->registrants[0].key, 10);
	assert_string_equal(memory.text, text);
	guard_unref(guards[1]);
	guards[1] = guard_new((uuid_t){1}, &shared, false);
	assert_int_equal(guard_load(guards[1], &error), -EINVAL);
	assert_non_null(strstr(error.message, "memory/guard is damaged"));
	assert_non_null(strstr(error.message, "rados rm"));
	assert_null(state_of(1));
}

static void a_damaged_record_is_refused(void **state)
{
	char *good;

	must_run((struct command)REGISTER(10), 0);
	good = strdup(memory.text);
	assert_non_null(good);
	must_be_damaged("{\"version\": 1, \"reservation\": {\"type\": 9}}");
	for (size_t n = strlen(good) - 1; n; n -= n > 8 ? 8 : n) { /* cut short */
		char *part = strndup(good, n);

		must_be_damaged(part);
		free(part);
	}
	replace(good);
	free(good);
	refresh(0);
	assert_int_equal(atomic_load(&guards[0]->state_error), 0);
	assert_in_range(atomic_load(&guards[0]->n_state_errors), 2, 1000);
}

/* ---- the state directory --------------------------------------------------------------------- */

static char folder[] = "/tmp/rblk-records.XXXXXX";
static struct state_directory *directory;
static struct record_store *local;

static int set_up_directory(void **state)
{
	struct error error;

	set_up(state);
	strcpy(strrchr(folder, '.'), ".XXXXXX");
	assert_non_null(mkdtemp(folder));
	directory = state_directory_open(folder, &error);
	assert_non_null(directory);
	local = state_records_new(directory);
	assert_non_null(local);
	return 0;
}

static int tear_down_directory(void **state)
{
	char command[64];

	tear_down(state);
	state_records_free(local);
	state_directory_close(directory);
	snprintf(command, sizeof(command), "rm -r %s", folder);
	return system(command);
}

static bool is_done;

static void on_done(struct record_op *op)
{
	is_done = true;
}

/* On a worker thread, or, every other time, inside the call as for control. */
static struct record_op call(void (*start_of)(struct record_store *, struct record_op *),
			     const char *name, const char *text, uint64_t version)
{
	static unsigned n_calls;
	bool is_control = n_calls++ % 2;
	struct record_op op = {.loop = is_control ? NULL : &loop,
			       .thread = is_control ? NULL : thread,
			       .name = name,
			       .text = text,
			       .version = version,
			       .done = on_done};

	is_done = is_control;
	start_of(local, &op);
	while (!is_done)
		loop_turn(&loop, 1000 * 1000);
	return op;
}

static void must_hold(const char *name, const char *text, uint64_t version)
{
	struct record_op op = call(local->ops->load, name, NULL, 0);

	assert_int_equal(op.error, 0);
	assert_int_equal(op.version, version);
	if (text)
		assert_string_equal(op.found, text);
	else
		assert_null(op.found);
	free(op.found);
}

static void a_directory_compares_and_sets(void **state)
{
	uint64_t first, second;

	must_hold("a.json", NULL, RECORD_NONE);
	first = call(local->ops->store, "a.json", "one", RECORD_NONE).version;
	assert_int_equal(call(local->ops->store, "a.json", "no", RECORD_NONE).error, -ECANCELED);
	must_hold("a.json", "one", first);
	second = call(local->ops->store, "a.json", "two", first).version;
	assert_int_not_equal(first, second);
	assert_int_equal(call(local->ops->remove, "a.json", NULL, first).error, -ECANCELED);
	must_hold("a.json", "two", second);
	assert_int_equal(call(local->ops->remove, "a.json", NULL, second).error, 0);
	must_hold("a.json", NULL, RECORD_NONE);
	assert_int_equal(call(local->ops->store, "a.json", "no", second).error, -ECANCELED);
	must_hold("a.json", NULL, RECORD_NONE);
}

static void a_directory_lists(void **state)
{
	struct record_op op;

	call(local->ops->store, "x.one", "1", RECORD_NONE);
	call(local->ops->store, "y.two", "2", RECORD_NONE);
	op = call(local->ops->list, "x.", NULL, 0);
	assert_int_equal(op.error, 0);
	assert_string_equal(op.found, "x.one\n");
	free(op.found);
	op = call(local->ops->list, "z.", NULL, 0);
	assert_int_equal(op.error, 0);
	assert_string_equal(op.found, "");
	free(op.found);
}

/* One machine: the file is as ever, has no generation, and is only there if a host wants that. */
static void a_directory_keeps_as_before(void **state)
{
	static const char name[] = "01000000-0000-0000-0000-000000000000.json";
	struct command keep = REGISTER(10);
	char *text;

	make_guard(0, local);
	must_run((struct command)REGISTER(10), 0);
	must_hold(name, NULL, RECORD_NONE);
	keep.wish.cptpl = NVME_CPTPL_SET;
	must_run(keep, 0);
	assert_int_equal(state_file_read(directory, name, &text), 0);
	assert_non_null(strstr(text, "\"registrants\""));
	assert_null(strstr(text, "generation"));
	assert_null(strstr(text, "persistent"));
	free(text);
	make_guard(1, local);
	assert_int_equal(state_of(1)->generation, 0);
	assert_true(state_of(1)->is_persistent);
}

#define TWO(f)	     cmocka_unit_test_setup_teardown(f, set_up_two, tear_down)
#define DIRECTORY(f) cmocka_unit_test_setup_teardown(f, set_up_directory, tear_down_directory)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TWO(the_next_rblkd_reads_all),
		TWO(a_report_is_of_the_record),
		TWO(a_stale_change_begins_again),
		TWO(a_preempt_reaches_the_other),
		TWO(a_write_leaves_before_the_answer),
		TWO(the_record_is_removed_by_a_person),
		TWO(a_refused_change_changes_nothing),
		TWO(what_is_unknown_is_read_first),
		TWO(conflicts_end),
		TWO(silence_stops_no_loop),
		TWO(a_damaged_record_is_refused),
		DIRECTORY(a_directory_compares_and_sets),
		DIRECTORY(a_directory_lists),
		DIRECTORY(a_directory_keeps_as_before),
	};

	log_init("test_guard_records", LOG_ERR);
	return cmocka_run_group_tests_name("guard_records", tests, NULL, NULL);
}
