/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When records of subsystems are on, and when they are saved; see health.h. Control thread.
 *
 * A start of rblkd is a power cycle of what it exports. "is_on" is in the file from before the
 * portals open until rblkd has ended in order. If it is still set at start-up, the last end was not
 * in order. With another boot id than now, the machine went down meanwhile: an unsafe shutdown,
 * which may have lost writes that were acknowledged and not flushed. With the same boot id, rblkd
 * alone crashed or was killed, and the kernel kept its writes. Hosts compare Unsafe Shutdowns when
 * they reconnect.
 *
 * Counters are saved once a minute while hosts are connected, once an hour otherwise, and at the
 * end; only if changed (an extra hour of uptime counts as a change). So a crash loses a minute of
 * them.
 *
 * Saving takes as long as the disk does, so the health thread writes; it lives only that long. It
 * also writes event logs that have grown. Events are rare and saved at once.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/states.h"
#include "target/export/health/event_file.h"
#include "target/export/health/event_log.h"
#include "target/export/health/health_file.h"
#include "target/export/health/record.h"
#include "target/export/state_file.h"
#include "target/export/health/health.h"
#include "target/export/subsystem.h"

enum {
	BUSY_S = 60,
	IDLE_S = 3600,
	SAVING_S = 1,
	SNAPSHOT_S = 23 * 3600, /* at least once in 24 hours; checked each hour */
};

/* ---- records -------------------------------------------------------------------------------- */

/* The kernel's identifier of this boot. The environment variable is for tests. */
static void read_boot_id(char ret_id[HEALTH_BOOT_BYTES])
{
	const char *path = getenv("RBLKD_BOOT_ID_FILE");
	_autofclose_ FILE *file = fopen(path ? path : "/proc/sys/kernel/random/boot_id", "re");

	if (!file || !fgets(ret_id, HEALTH_BOOT_BYTES, file))
		*ret_id = '\0';
	ret_id[strcspn(ret_id, "\n")] = '\0';
}

static void forget_records(struct health *health)
{
	struct list *node;

	while ((node = list_take_first(&health->records))) {
		struct health_record *record = list_entry(node, struct health_record, node);

		check(list_is_empty(&record->namespaces));
		event_log_close(record);
		free(record);
	}
}

/* The last end may have been a loss of power: hosts must then be notified of it. */
static void begin_again(struct health *health)
{
	forget_records(health);
	health->has_lost_file = true;
	state_file_set_aside(
		health->directory, HEALTH_FILE,
		"what SMART counts begins at 0, and the last end counts as a loss of power");
}

struct health *health_new(struct state_directory *directory, struct error *error)
{
	struct health *health = calloc(1, sizeof(*health));
	int r;

	if (!health) {
		error_refuse(error, -ENOMEM, "out of memory");
		return NULL;
	}
	pthread_mutex_init(&health->lock, NULL);
	list_init(&health->records);
	health->directory = directory;
	read_boot_id(health->boot_id);
	r = directory ? health_load(health, error) : 0;
	if (r == -EUCLEAN) {
		begin_again(health);
		r = 0;
	}
	if (r < 0) {
		health_free(health);
		return NULL;
	}
	return health;
}

void health_free(struct health *health)
{
	if (!health)
		return;
	check(health->saving_state != HEALTH_SAVES); /* the saver uses it */
	forget_records(health);
	pthread_mutex_destroy(&health->lock);
	free(health);
}

/* ---- on and off ----------------------------------------------------------------------------- */

#define TO(s) STATE_TO(HEALTH_##s)

static const struct state_rule rules[] = {
	[HEALTH_NEW] = {"new", TO(ON)},
	[HEALTH_LEFT_ON] = {"left on", TO(ON)},
	[HEALTH_ON] = {"on", TO(OFF)},
	[HEALTH_OFF] = {"off", TO(ON)},
};

static void move_to(struct health_record *record, enum health_state next)
{
	states_move("health record", rules, &record->state, next);
}

/* Counts the record's last end if it was not in order. An unknown boot counts as power loss. */
static void count_last_end(struct health_record *record)
{
	const char *boot_id = record->health->boot_id;
	bool is_same_boot = *boot_id && !strcmp(record->boot_id, boot_id);

	if (record->state != HEALTH_LEFT_ON)
		return;
	if (is_same_boot)
		record->past.crashes++;
	else
		record->past.unsafe_shutdowns++;
}

static void turn_on(struct health_record *record)
{
	bool is_start = record->state != HEALTH_OFF;

	pthread_mutex_lock(&record->health->lock);
	record->on_since_ns = clock_ns();
	if (is_start) {
		record->past.power_cycles++;
		count_last_end(record);
	}
	memcpy(record->boot_id, record->health->boot_id, sizeof(record->boot_id));
	pthread_mutex_unlock(&record->health->lock);
	move_to(record, HEALTH_ON);
	if (is_start)
		event_log_add_power_on(record);
	event_log_add_smart(record);
}

static void turn_off(struct health_record *record)
{
	move_to(record, HEALTH_OFF);
	pthread_mutex_lock(&record->health->lock);
	record->past.power_on_s += (clock_ns() - record->on_since_ns) / NSEC_PER_SEC;
	record->on_since_ns = 0;
	pthread_mutex_unlock(&record->health->lock);
	event_log_add_smart(record);
}

/* Records SMART data in event logs where the last record is old. */
static void take_snapshots(struct health *health)
{
	list_for_each (node, &health->records) {
		struct health_record *record = list_entry(node, struct health_record, node);

		if (record->state == HEALTH_ON &&
		    clock_ns() - record->events.snapshot_ns >= SNAPSHOT_S * NSEC_PER_SEC)
			event_log_add_smart(record);
	}
}

/* snapshot NULL: nothing is exported any more. */
static void follow(struct health *health, const struct snapshot *snapshot)
{
	health->n_follows++;
	for (unsigned i = 0; snapshot && i < snapshot->n_subsystems; i++)
		snapshot->subsystems[i].health->seen = health->n_follows;
	list_for_each (node, &health->records) {
		struct health_record *record = list_entry(node, struct health_record, node);
		bool is_on = record->seen == health->n_follows;

		if (is_on == (record->state == HEALTH_ON))
			continue;
		if (is_on)
			turn_on(record);
		else
			turn_off(record);
		health->has_news = true;
	}
}

/* ---- saving --------------------------------------------------------------------------------- */

static const struct state_rule saving_rules[] = {
	[HEALTH_NOT_BEGUN] = {"not begun", TO(RESTS)},
	[HEALTH_RESTS] = {"rests", TO(SAVES) | TO(NOT_BEGUN)},
	[HEALTH_SAVES] = {"saves", TO(RESTS)},
};

static void set_saving(struct health *health, enum health_saving next)
{
	states_move("health", saving_rules, &health->saving_state, next);
}

/* Logs a failure once, and its end once. */
static void note_result(struct health *health, int error)
{
	int before = atomic_exchange(&health->error, error);

	if (error < 0 && error != before)
		log_err("what SMART counts, or an event log, cannot be kept in %s: %s: the next start will not know of it; it is tried again",
			state_directory_path(health->directory), strerror(-error));
	else if (error == 0 && before < 0)
		log_info("what SMART counts, and event logs, are kept in %s again",
			 state_directory_path(health->directory));
}

static const char *nqn_of(struct event_log *log)
{
	return container_of(log, struct health_record, events)->nqn;
}

/* Writes all of it, whatever fails; returns the first error. */
static int write_all(struct health *health)
{
	int r = state_file_write(health->directory, HEALTH_FILE, health->text, strlen(health->text),
				 NULL);

	for (struct event_log *log = health->saving; log; log = log->next_saving) {
		log->result = event_file_write(health->directory, nqn_of(log), log->saving);
		if (r == 0)
			r = log->result;
	}
	return r;
}

static void *run_saver(void *arg)
{
	struct health *health = arg;

	pthread_setname_np(pthread_self(), "health");
	note_result(health, write_all(health));
	atomic_store(&health->is_saved, true);
	return NULL;
}

/* Picks event logs that differ from their files. */
static void pick_logs(struct health *health)
{
	list_for_each (node, &health->records) {
		struct event_log *log = &list_entry(node, struct health_record, node)->events;

		if (!log->is_news)
			continue;
		log->is_news = false;
		log->saving = log->image;
		atomic_fetch_add(&log->saving->n_refs, 1);
		log->next_saving = health->saving;
		health->saving = log;
	}
}

static bool has_newer_log(struct health *health)
{
	list_for_each (node, &health->records)
		if (list_entry(node, struct health_record, node)->events.is_news)
			return true;
	return false;
}

/* Once they are written or have failed. */
static void drop_logs(struct health *health)
{
	for (; health->saving; health->saving = health->saving->next_saving) {
		struct event_log *log = health->saving;

		log->is_news = log->is_news || log->result < 0;
		event_image_give(log->saving);
		log->saving = NULL;
	}
}

static void end_saving(struct health *health)
{
	drop_logs(health);
	check(!health->saving); /* drop_logs has given them back */
	free(health->text);
	health->text = NULL;
}

/* Waits for the saver, if it runs. */
static void join_saver(struct health *health)
{
	if (health->saving_state != HEALTH_SAVES)
		return;
	pthread_join(health->saver, NULL);
	end_saving(health);
	set_saving(health, HEALTH_RESTS);
	if (atomic_load(&health->error))
		health->has_news = true; /* save it again next time */
}

/* A sum that grows with every counter. */
static uint64_t sum_up(struct health *health)
{
	uint64_t sum = 0;

	list_for_each (node, &health->records) {
		struct health_figures f;

		health_read(list_entry(node, struct health_record, node), &f);
		sum += f.n_reads + f.n_writes + f.read_units + f.written_units + f.n_media_errors +
		       f.n_errors;
	}
	return sum;
}

/* Whether there is anything to save; then text has it. */
static bool prepare(struct health *health)
{
	uint64_t now = clock_ns(), sum = sum_up(health);
	bool is_old = now - health->saved_ns >= (IDLE_S - BUSY_S) * NSEC_PER_SEC;

	if (!health->directory || !(health->has_news || is_old || sum != health->saved_sum))
		return false;
	health->text = health_format(health);
	if (!health->text) {
		note_result(health, -ENOMEM);
		return false;
	}
	health->saved_ns = now;
	health->saved_sum = sum;
	health->has_news = false;
	return true;
}

static void save_now(struct health *health, bool with_logs)
{
	int r;

	join_saver(health);
	if (!prepare(health))
		return;
	if (with_logs)
		pick_logs(health);
	r = write_all(health);
	note_result(health, r);
	end_saving(health);
	health->has_news = r < 0;
}

static void save_aside(struct health *health)
{
	sigset_t all, before;
	int r;

	if (!prepare(health))
		return;
	pick_logs(health);
	atomic_store(&health->is_saved, false);
	sigfillset(&all); /* the control thread handles signals */
	pthread_sigmask(SIG_BLOCK, &all, &before);
	r = pthread_create(&health->saver, NULL, run_saver, health);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r == 0) {
		set_saving(health, HEALTH_SAVES);
		return;
	}
	note_result(health, -r);
	for (struct event_log *log = health->saving; log; log = log->next_saving)
		log->result = -r;
	end_saving(health);
	health->has_news = true;
}

static void wait_for_turn(struct health *health)
{
	bool is_soon = health->is_busy || health->has_news;
	bool is_saving = health->saving_state == HEALTH_SAVES;
	uint64_t s = is_saving ? SAVING_S : is_soon ? BUSY_S : IDLE_S;

	if (health->directory)
		loop_timer_start(health->loop, &health->timer, s * NSEC_PER_SEC);
}

static void on_turn(struct loop_timer *timer)
{
	struct health *health = container_of(timer, struct health, timer);

	take_snapshots(health);
	if (health->saving_state == HEALTH_SAVES && atomic_load(&health->is_saved)) {
		join_saver(health);
		/* Changes since the save began; after an error a retry is less urgent. */
		if (health->has_news && !atomic_load(&health->error))
			save_aside(health);
	} else if (health->saving_state == HEALTH_RESTS) {
		save_aside(health);
	}
	health->is_busy = !list_is_empty(health->controllers);
	wait_for_turn(health);
}

/* ---- from start to end ---------------------------------------------------------------------- */

void health_begin(struct health *health, struct loop *loop, const struct snapshot *snapshot,
		  const struct list *controllers)
{
	set_saving(health, HEALTH_RESTS);
	health->loop = loop;
	health->controllers = controllers;
	health->timer.on_expiry = on_turn;
	follow(health, snapshot);
	health->has_lost_file = false; /* of what is exported later, nothing was lost */
	save_now(health, false);
	/* Portals open without waiting for a file of each subsystem. */
	health->has_news = health->has_news || has_newer_log(health);
	if (health->has_news && !atomic_load(&health->error))
		save_aside(health);
	wait_for_turn(health);
}

void health_follow(struct health *health, const struct snapshot *snapshot)
{
	follow(health, snapshot);
	health_save_soon(health);
}

void health_save_soon(struct health *health)
{
	if (health->saving_state != HEALTH_RESTS || !health->has_news)
		return; /* on_turn follows a running save */
	save_aside(health);
	wait_for_turn(health);
}

void health_note_reset(struct health_record *record, uint16_t cntlid)
{
	event_log_add_reset(record, cntlid);
	health_save_soon(record->health);
}

void health_note_host(struct health *health)
{
	if (health->saving_state == HEALTH_NOT_BEGUN || health->is_busy)
		return;
	health->is_busy = true;
	if (health->saving_state == HEALTH_RESTS)
		wait_for_turn(health);
}

void health_note_loss(struct health_record *record)
{
	record->has_lost_writes = true;
	*record->boot_id = '\0';
}

void health_end(struct health *health)
{
	if (!health || health->saving_state == HEALTH_NOT_BEGUN)
		return;
	loop_timer_stop(&health->timer);
	follow(health, NULL);
	health->has_news = true;
	save_now(health, true);
	health->loop = NULL;
	set_saving(health, HEALTH_NOT_BEGUN);
}
