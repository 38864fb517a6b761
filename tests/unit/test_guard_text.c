/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A guard over a restart: each state that hosts can reach is read back as it was written, and
 * continues as the original would have. The test walks all reservations: all commands of three
 * hosts, from every state that they reach. Then the extremes of the other kept state, and damaged
 * files.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "target/export/guard/guard_adopt.h"
#include "target/export/guard/guard_new.h"
#include "target/export/guard/guard_text.h"
#include "target/export/guard/reservation.h"
#include "target/export/bad_blocks.h"
#include "target/export/state_file.h"

enum {
	DEPTH = 5,
	N_HOSTS = 3,
	STATES_MAX = 1 << 15,
	SLOTS = 1 << 16,
	WISHES_MAX = 1024,
	SHARED_KEY = 99, /* a key that several hosts may use; their own are 1, 2, 3 */
	WRONG_KEY = 77,
};

static const uint8_t hostids[N_HOSTS][HOSTID_BYTES] = {{1}, {0xff, [15] = 2}, "host number 3.."};
static const char *const nqns[N_HOSTS] = {"nqn.2026-01.org.example:one", "\"quoted\"/\\\xc3\xa4%s",
					  ""};

/* ---- a restart ------------------------------------------------------------------------------ */

static struct guard *fresh(bool is_volatile)
{
	static const uuid_t uuid = {1};
	struct guard *guard = guard_new(uuid, NULL, is_volatile);

	assert_non_null(guard);
	return guard;
}

/* The guard that the next start reads of these; the caller calls guard_unref(). */
static struct guard *restart(struct reservation *reservation, struct bad_blocks *bad,
			     unsigned write_protect, bool is_volatile)
{
	const struct guard_kept kept = {reservation, bad, write_protect};
	struct guard *before = fresh(is_volatile), *after = fresh(is_volatile);
	char *text;

	assert_int_equal(guard_format(before, &kept, &text), 0);
	if (text && guard_parse(after, text) < 0)
		fail_msg("written, and not read again: %s", text);
	free(text);
	guard_unref(before);
	return after;
}

/* The guard that a process reads that takes over; likewise. */
static struct guard *succeed(struct reservation *reservation, struct bad_blocks *bad,
			     unsigned write_protect, bool is_volatile)
{
	const struct guard_kept kept = {reservation, bad, write_protect};
	struct guard *before = fresh(is_volatile), *after = fresh(is_volatile);
	char *text;

	assert_int_equal(guard_format_all(before, &kept, &text), 0);
	if (text && guard_restore_all(after, text) < 0)
		fail_msg("left, and not read again: %s", text);
	free(text);
	guard_unref(before);
	return after;
}

static bool is_equal(const struct reservation *a, const struct reservation *b)
{
	return a->type == b->type && a->is_persistent == b->is_persistent &&
	       a->holder == b->holder && a->n == b->n &&
	       !memcmp(a->registrants, b->registrants, a->n * sizeof(a->registrants[0])) &&
	       !memcmp(&a->registrants[a->room], &b->registrants[b->room],
		       a->n * (NVMF_NQN_MAX + (size_t)1));
}

/* ---- the walk ------------------------------------------------------------------------------- */

struct step {
	reservation_action *action;
	struct reservation_wish wish;
};

static struct {
	struct reservation *states[STATES_MAX]; /* in the order in which the walk reaches them */
	unsigned n;
	unsigned slots[SLOTS]; /* index + 1, by hash */
	struct step steps[WISHES_MAX];
	unsigned n_steps;
} walk;

static void add_step(reservation_action *action, unsigned host, unsigned op, bool ignores_key,
		     unsigned cptpl_or_type, uint64_t crkey, uint64_t key)
{
	bool has_cptpl = action == reservation_register || action == reservation_set_persistence;

	assert_in_range(walk.n_steps, 0, WISHES_MAX - 1);
	walk.steps[walk.n_steps++] = (struct step){
		.action = action,
		.wish = {.hostid = hostids[host],
			 .hostnqn = nqns[host],
			 .action = op,
			 .ignores_key = ignores_key,
			 .cptpl = has_cptpl ? cptpl_or_type : 0,
			 .type = has_cptpl ? 0 : cptpl_or_type,
			 .crkey = crkey,
			 .key = key,
			 .can_persist = true},
	};
}

static void add_registers(unsigned host)
{
	static const unsigned cptpls[] = {NVME_CPTPL_KEEP, NVME_CPTPL_CLEAR, NVME_CPTPL_SET};
	const uint64_t keys[] = {host + 1, SHARED_KEY, 0};

	for (unsigned i = 0; i < 3; i++) {
		for (unsigned j = 0; j < 2 * 3; j++) {
			bool ignores = j >= 3;
			uint64_t key = keys[j % 3];

			add_step(reservation_register, host, NVME_RREGA_REGISTER, ignores,
				 cptpls[i], 0, key);
			add_step(reservation_register, host, NVME_RREGA_REPLACE, ignores, cptpls[i],
				 host + 1, key);
			add_step(reservation_register, host, NVME_RREGA_REPLACE, ignores, cptpls[i],
				 SHARED_KEY, key);
			add_step(reservation_register, host, NVME_RREGA_UNREGISTER, ignores,
				 cptpls[i], key, 0);
		}
	}
	add_step(reservation_set_persistence, host, 0, false, NVME_CPTPL_SET, 0, 0);
	add_step(reservation_set_persistence, host, 0, false, NVME_CPTPL_CLEAR, 0, 0);
}

/* crkey 0 stands for the host's current key, which only the state knows. */
static void add_acquires(unsigned host)
{
	static const uint64_t victims[] = {0, 1, 2, 3, SHARED_KEY};

	for (unsigned type = 1; type <= NVME_RTYPE_EXCLUSIVE_ACCESS_ALL; type++) {
		add_step(reservation_acquire, host, NVME_RACQA_ACQUIRE, false, type, 0, 0);
		add_step(reservation_release, host, NVME_RRELA_RELEASE, false, type, 0, 0);
		for (unsigned i = 0; i < 5; i++) {
			add_step(reservation_acquire, host, NVME_RACQA_PREEMPT, false, type, 0,
				 victims[i]);
			add_step(reservation_acquire, host, NVME_RACQA_PREEMPT_ABORT, false, type,
				 0, victims[i]);
		}
	}
	add_step(reservation_release, host, NVME_RRELA_CLEAR, false, 0, 0, 0);
	add_step(reservation_acquire, host, NVME_RACQA_ACQUIRE, false, 1, WRONG_KEY, 0);
	add_step(reservation_release, host, NVME_RRELA_CLEAR, false, 0, WRONG_KEY, 0);
}

static unsigned hash_of(const struct reservation *state)
{
	const uint8_t *bytes = (const void *)state->registrants;
	uint32_t hash = (state->type * 7u + state->holder) * 2 + state->is_persistent;

	for (size_t i = 0; i < state->n * sizeof(state->registrants[0]); i++)
		hash = (hash ^ bytes[i]) * 16777619u;
	return (hash ^ hash >> 15) % SLOTS;
}

/* Takes ownership, or frees the state if the walk has reached it before. */
static bool is_new(struct reservation *state)
{
	unsigned slot = hash_of(state);

	for (; walk.slots[slot]; slot = (slot + 1) % SLOTS) {
		if (!is_equal(walk.states[walk.slots[slot] - 1], state))
			continue;
		free(state);
		return false;
	}
	assert_in_range(walk.n, 0, STATES_MAX - 1);
	walk.states[walk.n++] = state;
	walk.slots[slot] = walk.n;
	return true;
}

/* The command of the step, with the host's current key where the command needs one. */
static enum nvme_status take_step(const struct reservation *state, unsigned i,
				  struct reservation **ret_next)
{
	struct reservation_wish wish = walk.steps[i].wish;

	*ret_next = NULL;
	for (unsigned j = 0; state && j < state->n; j++)
		if (!wish.crkey && !memcmp(state->registrants[j].hostid, wish.hostid, HOSTID_BYTES))
			wish.crkey = state->registrants[j].key;
	return walk.steps[i].action(state, &wish, ret_next);
}

static void expect_same_rights(const struct reservation *a, const struct reservation *b)
{
	for (unsigned host = 0; host < N_HOSTS; host++) {
		for (unsigned access = ACCESS_NONE; access <= ACCESS_WRITE; access++)
			assert_int_equal(reservation_allows(a, hostids[host], access),
					 reservation_allows(b, hostids[host], access));
		assert_int_equal(reservation_is_registered(a, hostids[host]),
				 reservation_is_registered(b, hostids[host]));
	}
}

/* Each command gets the same status from both, and leads both to the same state. */
static void expect_same_ways(const struct reservation *a, const struct reservation *b)
{
	for (unsigned i = 0; i < walk.n_steps; i++) {
		struct reservation *next_a, *next_b;

		assert_int_equal(take_step(a, i, &next_a), take_step(b, i, &next_b));
		assert_true(!next_a == !next_b && (!next_a || is_equal(next_a, next_b)));
		free(next_a);
		free(next_b);
	}
}

static void expect_kept(struct reservation *state)
{
	struct guard *guard = restart(state, NULL, 0, false);
	const struct reservation *kept = atomic_load(&guard->reservation);

	if (!state->is_persistent) {
		assert_null(kept);
		assert_int_equal(guard_flags(guard), 0);
	} else {
		assert_non_null(kept);
		assert_true(is_equal(kept, state));
		assert_int_equal(guard_flags(guard), state->type ? GUARD_RESERVED : 0);
		expect_same_rights(kept, state);
		expect_same_ways(kept, state);
	}
	guard_unref(guard);
}

static void expect_handed_over(struct reservation *state)
{
	struct guard *guard = succeed(state, NULL, 0, false);
	const struct reservation *kept = atomic_load(&guard->reservation);

	assert_non_null(kept);
	assert_true(is_equal(kept, state));
	assert_int_equal(kept->generation, state->generation);
	guard_unref(guard);
}

static void go_on_from(const struct reservation *state)
{
	for (unsigned i = 0; i < walk.n_steps; i++) {
		struct reservation *next;

		if (take_step(state, i, &next) == NVME_OK && is_new(next)) {
			expect_kept(next);
			expect_handed_over(next);
		}
	}
}

/* The number of states with this many registered hosts, in this many orders, each with one of
 * two keys: no holder, one holder, or all as holders; persistent or not. */
static unsigned n_possible(unsigned n_orders, unsigned n_registered)
{
	unsigned n_holders = 1 + (n_registered ? 4 * n_registered + 2 : 0);

	return n_orders * (1u << n_registered) * n_holders * 2;
}

static void each_state_is_read_again(void **state)
{
	unsigned first = 0, n_reached[DEPTH];

	for (unsigned host = 0; host < N_HOSTS; host++) {
		add_registers(host);
		add_acquires(host);
	}
	go_on_from(NULL);
	for (unsigned depth = 0; depth < DEPTH; depth++) {
		unsigned end = walk.n;

		n_reached[depth] = end - first;
		for (; first < end; first++)
			go_on_from(walk.states[first]);
	}
	print_message("# %u commands; new states after 1 to %u: %u %u %u %u %u\n", walk.n_steps,
		      DEPTH, n_reached[0], n_reached[1], n_reached[2], n_reached[3], n_reached[4]);
	/* The walk reaches no other states, however many commands it sends. */
	assert_int_equal(first, walk.n);
	assert_int_equal(walk.n,
			 n_possible(1, 0) + n_possible(3, 1) + n_possible(6, 2) + n_possible(6, 3));
	for (unsigned i = 0; i < walk.n; i++)
		free(walk.states[i]);
}

/* ---- extremes ------------------------------------------------------------------------------- */

/* The last registrant is the holder; each name takes two bytes a character. */
static struct reservation *largest_reservation(void)
{
	struct reservation *now = NULL, *next;
	struct reservation_wish wish = {
		.action = NVME_RREGA_REGISTER, .cptpl = NVME_CPTPL_SET, .can_persist = true};
	uint8_t hostid[HOSTID_BYTES];
	char nqn[NVMF_NQN_MAX + 1];

	wish.hostid = hostid;
	wish.hostnqn = nqn;
	for (unsigned i = 0; i < REGISTRANTS_MAX; i++) {
		memset(hostid, 0xff, sizeof(hostid));
		hostid[3] = (uint8_t)i;
		memset(nqn, '/', NVMF_NQN_MAX);
		snprintf(nqn + NVMF_NQN_MAX - 3, 4, "%03u", i);
		wish.key = UINT64_MAX - i;
		assert_int_equal(reservation_register(now, &wish, &next), NVME_OK);
		free(now);
		now = next;
	}
	hostid[3] = 0;
	wish.key = 1;
	hostid[4] = 0;
	assert_int_equal(nvme_status_code(reservation_register(now, &wish, &next)),
			 NVME_RESERVATION_CONFLICT);
	hostid[3] = REGISTRANTS_MAX - 1;
	hostid[4] = 0xff;
	wish = (struct reservation_wish){.hostid = hostid,
					 .hostnqn = nqn,
					 .action = NVME_RACQA_ACQUIRE,
					 .type = NVME_RTYPE_EXCLUSIVE_ACCESS,
					 .crkey = UINT64_MAX - REGISTRANTS_MAX + 1};
	assert_int_equal(reservation_acquire(now, &wish, &next), NVME_OK);
	free(now);
	return next;
}

static void as_many_registrants_as_there_may_be(void **state)
{
	struct reservation *reservation = largest_reservation();

	expect_kept(reservation);
	free(reservation);
}

/* At the end of the largest namespace, with every other block lost. */
static void the_longest_file(void **state)
{
	struct reservation *reservation = largest_reservation();
	struct bad_blocks *set = calloc(1,
					sizeof(*set) + BAD_RANGES_WORST * sizeof(set->ranges[0]));
	struct guard *guard = fresh(false);
	struct guard_kept kept = {reservation, set, NVME_WP_PROTECTED};
	char *text;

	assert_non_null(set);
	for (; set->n < BAD_RANGES_WORST; set->n++)
		set->ranges[set->n] = (struct bad_range){
			INT64_MAX / 512 - 2 * (uint64_t)(BAD_RANGES_WORST - set->n), 1};
	assert_int_equal(guard_format(guard, &kept, &text), 0);
	print_message("# %zu of %d bytes\n", strlen(text), STATE_FILE_MAX);
	assert_in_range(strlen(text), STATE_FILE_MAX / 2, STATE_FILE_MAX);
	assert_int_equal(guard_parse(guard, text), 0);
	assert_int_equal(atomic_load(&guard->bad_blocks)->n, BAD_RANGES_WORST);
	assert_true(is_equal(atomic_load(&guard->reservation), reservation));
	guard_unref(guard);
	free(text);
	free(set);
	free(reservation);
}

static void bad_blocks_and_protection(void **state)
{
	/* The largest possible namespace, in blocks of 512 bytes. */
	const uint64_t end = INT64_MAX / 512;
	struct bad_blocks *set = bad_blocks_add(NULL, end - 1, 1), *more;
	const struct bad_blocks *kept;
	struct guard *guard;

	for (unsigned i = 0; set && set->n < BAD_RANGES_MAX; i++) {
		more = bad_blocks_add(set, 2 * (uint64_t)i * UINT32_MAX, UINT32_MAX);
		free(set);
		set = more;
	}
	assert_non_null(set);
	guard = restart(NULL, set, NVME_WP_PROTECTED, false);
	kept = atomic_load(&guard->bad_blocks);
	assert_non_null(kept);
	assert_int_equal(kept->n, set->n);
	assert_memory_equal(kept->ranges, set->ranges, set->n * sizeof(set->ranges[0]));
	assert_int_equal(atomic_load(&guard->write_protect), NVME_WP_PROTECTED);
	assert_int_equal(guard_flags(guard), GUARD_BAD_BLOCKS | GUARD_PROTECTED);
	guard_unref(guard);
	/* State that ends with this rblkd, or with the contents of memory. */
	guard = restart(NULL, set, NVME_WP_UNTIL_POWER_CYCLE, true);
	assert_int_equal(guard_flags(guard), 0);
	guard_unref(guard);
	guard = succeed(NULL, set, NVME_WP_UNTIL_POWER_CYCLE, true);
	assert_int_equal(atomic_load(&guard->write_protect), NVME_WP_UNTIL_POWER_CYCLE);
	assert_int_equal(guard_flags(guard), GUARD_BAD_BLOCKS | GUARD_PROTECTED);
	assert_int_equal(atomic_load(&guard->bad_blocks)->n, set->n);
	guard_unref(guard);
	free(set);
	/* All blocks are readable again. */
	set = bad_blocks_remove(NULL, 0, 1);
	guard = restart(NULL, set, 0, false);
	assert_int_equal(guard_flags(guard), 0);
	guard_unref(guard);
	free(set);
}

/* ---- files of others ------------------------------------------------------------------------ */

#define HOST "{\"host\": \"01000000000000000000000000000000\", \"key\": \"1\"}"
#define NAMED(nqn)                                                                                 \
	"{\"host\": \"01000000000000000000000000000000\", \"key\": \"1\", \"nqn\": " nqn "}"
#define RESERVATION(type, holder, registrants)                                                     \
	"{\"version\": 1, \"reservation\": {\"type\": " type ", \"holder\": " holder               \
	", \"registrants\": [" registrants "]}}"

/* In the format of an earlier rblkd: without an exclusive holder the field may be any number. */
static void files_of_an_earlier_rblkd(void **state)
{
	static const char *const texts[] = {
		RESERVATION("5", "1", HOST), RESERVATION("6", "255", HOST),
		RESERVATION("0", "7", HOST), RESERVATION("0", "7", ""),
		RESERVATION("1", "0", HOST),
	};

	for (unsigned i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct guard *guard = fresh(false);
		const struct reservation *kept;

		assert_int_equal(guard_parse(guard, texts[i]), 0);
		kept = atomic_load(&guard->reservation);
		assert_int_equal(kept->holder, 0);
		assert_true(kept->is_persistent);
		assert_int_equal(reservation_allows(kept, hostids[0], ACCESS_WRITE), true);
		guard_unref(guard);
	}
}

/* An identifier without a known NQN gets that of the first host that changes its registration. */
static void whose_an_identifier_is(void **state)
{
	struct reservation_wish wish = {.hostid = hostids[0],
					.hostnqn = nqns[0],
					.action = NVME_RREGA_REPLACE,
					.ignores_key = true,
					.key = 2};
	struct guard *guard = fresh(false);
	struct reservation *next;
	char owner[NVMF_NQN_MAX + 1];

	assert_int_equal(guard_parse(guard, RESERVATION("1", "0", HOST)), 0);
	assert_false(guard_is_of_other(guard, hostids[0], nqns[0], owner));
	assert_false(guard_is_of_other(guard, hostids[0], nqns[1], owner));
	assert_int_equal(reservation_register(atomic_load(&guard->reservation), &wish, &next),
			 NVME_OK);
	guard_unref(guard);
	guard = restart(next, NULL, 0, false);
	assert_false(guard_is_of_other(guard, hostids[0], nqns[0], owner));
	assert_false(guard_is_of_other(guard, hostids[1], nqns[1], owner));
	assert_true(guard_is_of_other(guard, hostids[0], nqns[1], owner));
	assert_string_equal(owner, nqns[0]);
	/* A change by another host does not replace the NQN. */
	wish.hostnqn = nqns[1];
	free(next);
	assert_int_equal(reservation_register(atomic_load(&guard->reservation), &wish, &next),
			 NVME_OK);
	assert_string_equal(reservation_name(next, 0), nqns[0]);
	free(next);
	guard_unref(guard);
}

#define SHARED(generation, persistent)                                                             \
	"{\"version\": 1, \"reservation\": {\"type\": 1, \"holder\": 0, \"registrants\": [" HOST   \
	"], \"generation\": " generation ", \"persistent\": " persistent "}}"

static void several_rblkd_share_it(void **state)
{
	struct guard *guard = fresh(false);
	const struct reservation *kept;

	assert_int_equal(guard_parse(guard, SHARED("4294967295", "false")), 0);
	kept = atomic_load(&guard->reservation);
	assert_int_equal(kept->generation, UINT32_MAX);
	assert_false(kept->is_persistent);
	guard_unref(guard);
}

static void damaged_files(void **state)
{
	static const char *const texts[] = {
		"",
		"[]",
		"{}",
		"{\"version\": 2}",
		"{\"version\": 1, \"uncorrectable\": [[1]]}",
		"{\"version\": 1, \"uncorrectable\": [[-1, 1]]}",
		"{\"version\": 1, \"uncorrectable\": [[1, 0]]}",
		"{\"version\": 1, \"uncorrectable\": [[9223372036854775807, 1]]}",
		"{\"version\": 1, \"uncorrectable\": [[5, 2], [6, 1]]}",
		"{\"version\": 1, \"uncorrectable\": [[5, 2], [1, 1]]}",
		"{\"version\": 1, \"reservation\": {}}",
		RESERVATION("7", "0", HOST),
		RESERVATION("-1", "0", HOST),
		RESERVATION("1", "1", HOST),
		RESERVATION("1", "-1", HOST),
		RESERVATION("5", "0", ""),
		RESERVATION("1", "0", "{}"),
		RESERVATION("1", "0", "{\"host\": \"01\", \"key\": \"1\"}"),
		RESERVATION("1", "0", HOST ", null"),
		RESERVATION("1", "0", HOST ", " HOST),
		"{\"version\": 1, \"write_protected\": 1}",
		"{\"version\": 1, \"uncorrectable\": {}}",
		"{\"version\": 1, \"reservation\": null}",
		"{\"version\": 1, \"reservation\": []}",
		SHARED("-1", "false"),
		SHARED("4294967296", "false"),
		SHARED("\"1\"", "false"),
		SHARED("1", "null"),
		RESERVATION("1", "0", NAMED("1")),
		RESERVATION("1", "0", NAMED("null")),
		RESERVATION("1", "0", NAMED("\"a\\u0000b\"")),
		RESERVATION("1", "0", NAMED("\"a\\u0007b\"")),
	};

	for (unsigned i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct guard *guard = fresh(false);

		if (guard_parse(guard, texts[i]) == 0)
			fail_msg("accepted: %s", texts[i]);
		guard_unref(guard);
	}
}

/* ---- the holder of a reservation ------------------------------------------------------------- */

/* Does what the action says, and frees the state from before. */
static struct reservation *act(struct reservation *now, reservation_action *action,
			       struct reservation_wish wish)
{
	struct reservation *next = NULL;

	wish.hostnqn = "";
	assert_int_equal(action(now, &wish, &next), NVME_OK);
	free(now);
	return next;
}

/* Registrants before the holder leave: the reservation stays with its host, and each Preempt
 * counts in the generation. */
static void the_holder_is_a_host_and_no_place(void **state)
{
	static const uint8_t ids[3][HOSTID_BYTES] = {{1}, {2}, {3}};
	struct reservation *r = NULL;

	for (unsigned i = 0; i < 3; i++)
		r = act(r, reservation_register,
			(struct reservation_wish){
				.hostid = ids[i], .action = NVME_RREGA_REGISTER, .key = i + 1});
	r = act(r, reservation_acquire,
		(struct reservation_wish){.hostid = ids[1],
					  .action = NVME_RACQA_ACQUIRE,
					  .type = NVME_RTYPE_WRITE_EXCLUSIVE,
					  .crkey = 2});
	assert_int_equal(r->generation, 3);
	r = act(r, reservation_acquire,
		(struct reservation_wish){.hostid = ids[1],
					  .action = NVME_RACQA_PREEMPT,
					  .type = NVME_RTYPE_WRITE_EXCLUSIVE,
					  .crkey = 2,
					  .key = 1});
	assert_int_equal(r->generation, 4);
	assert_int_equal(r->n, 2);
	assert_true(reservation_allows(r, ids[1], ACCESS_WRITE));
	assert_false(reservation_allows(r, ids[2], ACCESS_WRITE));
	free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_state_is_read_again),
		cmocka_unit_test(as_many_registrants_as_there_may_be),
		cmocka_unit_test(the_longest_file),
		cmocka_unit_test(bad_blocks_and_protection),
		cmocka_unit_test(files_of_an_earlier_rblkd),
		cmocka_unit_test(whose_an_identifier_is),
		cmocka_unit_test(several_rblkd_share_it),
		cmocka_unit_test(damaged_files),
		cmocka_unit_test(the_holder_is_a_host_and_no_place),
	};

	return cmocka_run_group_tests_name("guard_text", tests, NULL, NULL);
}
