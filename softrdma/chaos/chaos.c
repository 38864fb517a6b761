/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chaos: behaviour that a fabric may show and a function call never shows, on request.
 *
 * SOFTRDMA_CHAOS="seed=7,defer=20,delay=300" or, while the program runs, a file named by
 * SOFTRDMA_CONTROL with the same contents (commas or lines; a fault that it does not name is off).
 * The helper watches the file's directory with inotify, so it notices a file that is written or
 * moved into place, and an idle process stays idle.
 *
 * Random decisions come from a counter hashed with the seed: the same seed and the same order of
 * calls give the same faults. Faults at the n-th occasion count from the moment of the request,
 * over the whole process, and happen once. When one happens, all other faults of the same request
 * are in force.
 */
#include "softrdma/chaos/chaos.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "softrdma/process/likeness.h"
#include "softrdma/process/part.h"

enum knob {
	SEED,
	DEFER,	      /* percent of work requests executed later, by the helper ... */
	DELAY,	      /* ... within this many microseconds; those below too */
	CHUNK,	      /* percent of messages that move in pieces, with pauses between them */
	LATE_ACK,     /* percent of work requests that complete later than at the peer */
	LATE_READ,    /* percent of READs and atomics that later requests overtake */
	RNR,	      /* percent of messages for which the receiver is not ready */
	REORDER,      /* percent of polls that change the order of two queues' completions */
	LOSS,	      /* percent of work requests that lose a packet: one time-out later */
	REMOTE_FIRST, /* percent of work requests whose completions come in that order */
	SPURIOUS,     /* percent of completions that raise an event too many */
	POLL,	      /* completions returned by one poll at most */
	FAIL,	      /* the n-th work request fails ... */
	STATUS,	      /* ... with this ibv_wc_status (default RETRY_EXC_ERR) */
	REFUSE_MR,    /* the n-th registration fails with ENOMEM */
	OVERRUN,      /* the n-th completion finds its queue full */
	CM_TIMEOUT,   /* an unanswered ConnectRequest is given up after so many ms */
	LOSE,	      /* percent of work requests and flushed receives that never complete */
	DIE,	      /* SIGKILL at the n-th place where a process may die */
	GID_CHANGE,   /* 1: that event, now */
	PORT_DOWN,    /* 1: the link is down as long as this is asked for */
	DROP,	      /* percent of packets (RoCE) that are lost, */
	DUP,	      /* ... arrive twice, */
	SWAP,	      /* ... are overtaken by the next one, */
	CORRUPT,      /* ... have a bit changed, */
	LATE_PACKET,  /* ... leave within the delay */
	REMOVE,	      /* 1: the device is removed; 2: without IBV_EVENT_DEVICE_FATAL */
	N_KNOBS
};

static const char *const names[N_KNOBS] = {
	[SEED] = "seed",
	[DEFER] = "defer",
	[DELAY] = "delay",
	[LOSS] = "loss",
	[POLL] = "poll",
	[REMOTE_FIRST] = "remote-first",
	[FAIL] = "fail",
	[STATUS] = "status",
	[SPURIOUS] = "spurious",
	[REMOVE] = "remove",
	[OVERRUN] = "overrun",
	[CM_TIMEOUT] = "cm-timeout",
	[REFUSE_MR] = "refuse-mr",
	[DIE] = "die",
	[CHUNK] = "chunk",
	[LOSE] = "lose",
	[LATE_ACK] = "late-ack",
	[RNR] = "rnr",
	[REORDER] = "reorder",
	[LATE_READ] = "late-read",
	[PORT_DOWN] = "port-down",
	[GID_CHANGE] = "gid-change",
	[DROP] = "drop",
	[DUP] = "dup",
	[SWAP] = "swap",
	[CORRUPT] = "corrupt",
	[LATE_PACKET] = "late-packet",
};

#define DEFAULT_DELAY_US 200
#define SIW_LATE_READ	 25 /* percent */

_Atomic bool chaos_is_on;
static _Atomic uint32_t knobs[N_KNOBS]; /* those of n-th occasions count down */
static _Atomic uint64_t draws;
static int inotify_fd = -1;
static const char *control_path;

/* ---- decisions ---------------------------------------------------------------- */

/* splitmix64 */
static uint64_t draw(void)
{
	uint64_t x = atomic_load(&knobs[SEED]) * 0x9e3779b97f4a7c15ULL +
		     atomic_fetch_add(&draws, 1) * 0xbf58476d1ce4e5b9ULL;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
	return x ^ x >> 31;
}

static bool chance(enum knob k)
{
	uint32_t percent = atomic_load(&knobs[k]);

	return percent && draw() % 100 < percent;
}

/* Counts down to 0, where the fault happens, and stays there. */
static bool now_is_the_time(enum knob k)
{
	uint32_t left = atomic_load(&knobs[k]);

	while (left && !atomic_compare_exchange_weak(&knobs[k], &left, left - 1))
		;
	return left == 1;
}

/* A time of 1 ns up to the delay. */
static uint64_t a_while_ns(void)
{
	return 1 + draw() % (atomic_load(&knobs[DELAY]) * 1000ULL);
}

bool chaos_refuses_mr(void)
{
	return chaos_on() && now_is_the_time(REFUSE_MR);
}

uint64_t chaos_hold_ns(uint64_t transport_timeout_ns)
{
	if (chance(LOSS))
		return transport_timeout_ns;
	if (chance(DEFER))
		return a_while_ns();
	return 0;
}

uint64_t chaos_ack_ns(void)
{
	return chance(LATE_ACK) ? a_while_ns() : 0;
}

uint64_t chaos_read_ns(void)
{
	return chance(LATE_READ) ? a_while_ns() : 0;
}

enum chaos_packet chaos_packet(void)
{
	if (chance(DROP))
		return CHAOS_PACKET_DROPPED;
	if (chance(DUP))
		return CHAOS_PACKET_TWICE;
	if (chance(SWAP))
		return CHAOS_PACKET_SWAPPED;
	if (chance(CORRUPT))
		return CHAOS_PACKET_CORRUPT;
	return chance(LATE_PACKET) ? CHAOS_PACKET_LATE : CHAOS_PACKET_GOES;
}

uint64_t chaos_packet_ns(void)
{
	return a_while_ns();
}

uint32_t chaos_packet_bit(uint32_t n_bits)
{
	return (uint32_t)(draw() % n_bits);
}

bool chaos_rnr(void)
{
	return chance(RNR);
}

uint64_t chaos_rnr_ns(uint64_t timer_ns, unsigned rnr_retry)
{
	uint64_t longest = atomic_load(&knobs[DELAY]) * 1000ULL;

	return (1 + draw() % (rnr_retry ? rnr_retry : 1)) *
	       (timer_ns < longest ? timer_ns : longest);
}

uint64_t chaos_piece(uint64_t left, bool first, bool *backward)
{
	if (first) {
		*backward = false;
		if (!chance(CHUNK))
			return left;
		*backward = draw() & 1;
	}
	return atomic_load(&knobs[CHUNK]) ? 1 + draw() % left : left;
}

uint64_t chaos_pause_ns(void)
{
	return a_while_ns();
}

bool chaos_reorders(void)
{
	return chance(REORDER);
}

bool chaos_port_is_down(void)
{
	return atomic_load(&knobs[PORT_DOWN]);
}

enum chaos_removal chaos_removal(void)
{
	uint32_t n = atomic_load(&knobs[REMOVE]);

	return n < CHAOS_REMOVAL_SILENT ? (enum chaos_removal)n : CHAOS_REMOVAL_SILENT;
}

enum ibv_wc_status chaos_status(void)
{
	uint32_t status = atomic_load(&knobs[STATUS]);

	if (!now_is_the_time(FAIL))
		return IBV_WC_SUCCESS;
	return status ? (enum ibv_wc_status)status : IBV_WC_RETRY_EXC_ERR;
}

bool chaos_loses(void)
{
	return chance(LOSE);
}

bool chaos_overruns(void)
{
	return now_is_the_time(OVERRUN);
}

uint64_t chaos_cm_timeout_ms(uint64_t usual)
{
	uint32_t ms = atomic_load(&knobs[CM_TIMEOUT]);

	return ms ? ms : usual;
}

bool chaos_remote_first(void)
{
	return chance(REMOTE_FIRST);
}

bool chaos_spurious_event(void)
{
	return chance(SPURIOUS);
}

int chaos_poll_limit(int n)
{
	uint32_t limit = atomic_load(&knobs[POLL]);

	return limit && (uint32_t)n > limit ? (int)limit : n;
}

void chaos_point_slow(void)
{
	if (now_is_the_time(DIE))
		kill(getpid(), SIGKILL);
}

/* ---- requests ------------------------------------------------------------------- */

static void set(uint32_t asked[N_KNOBS], char *word)
{
	char *value = strchr(word, '='), *end = word;
	unsigned long n;

	if (value)
		*value++ = '\0';
	n = value ? strtoul(value, &end, 10) : 1;
	if (value && (*end || end == value)) {
		fprintf(stderr, "softrdma: chaos %s=%s: not a number\n", word, value);
		return;
	}
	for (unsigned k = 0; k < N_KNOBS; k++) {
		if (strcmp(word, names[k]) != 0)
			continue;
		asked[k] = n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
		return;
	}
	fprintf(stderr, "softrdma: unknown chaos '%s'\n", word);
}

static void notify(enum sr_fault fault)
{
	SR_FOR_EACH_PART(part)
	if (part->on_fault)
		part->on_fault(fault);
}

/* Faults that happen at once, or have just ended. */
static void happen(bool port_was_down)
{
	if (chaos_port_is_down() != port_was_down)
		notify(SR_FAULT_PORT);
	if (atomic_exchange(&knobs[GID_CHANGE], 0))
		notify(SR_FAULT_GID);
	notify(SR_FAULT_REMOVE);
}

static bool happens_once(enum knob k)
{
	return k == FAIL || k == REFUSE_MR || k == OVERRUN || k == DIE;
}

static void configure(char *text)
{
	uint32_t asked[N_KNOBS] = {
		[DELAY] = DEFAULT_DELAY_US, [LATE_READ] = sr_is_siw() ? SIW_LATE_READ : 0};
	bool on = sr_is_siw(), port_was_down = chaos_port_is_down();
	char *save, *word;

	for (word = strtok_r(text, ", \t\n", &save); word; word = strtok_r(NULL, ", \t\n", &save)) {
		set(asked, word);
		on = true;
	}
	if (!asked[DELAY])
		asked[DELAY] = 1;
	for (unsigned k = 0; k < N_KNOBS; k++)
		atomic_store(&knobs[k], happens_once(k) ? 0 : asked[k]);
	atomic_store(&draws, 0);
	atomic_store(&chaos_is_on, on);
	happen(port_was_down);
	for (unsigned k = 0; k < N_KNOBS; k++)
		if (happens_once(k))
			atomic_store(&knobs[k], asked[k]);
}

static void read_control(void)
{
	char text[1024];
	FILE *f = fopen(control_path, "re");
	size_t n;

	if (!f)
		return;
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = '\0';
	configure(text);
}

static void on_control(uint64_t id)
{
	union {
		struct inotify_event align;
		char bytes[4096];
	} buf;
	const char *slash = strrchr(control_path, '/');
	const char *base = slash ? slash + 1 : control_path;
	ssize_t n = read(inotify_fd, &buf, sizeof(buf));
	bool ours = false;

	for (ssize_t at = 0; at < n;) {
		const struct inotify_event *e = (const void *)(buf.bytes + at);

		ours = ours || (e->len && !strcmp(e->name, base));
		at += (ssize_t)(sizeof(*e) + e->len);
	}
	if (ours)
		read_control();
}

static void watch_control(void)
{
	char dir[PATH_MAX];
	char *slash;

	snprintf(dir, sizeof(dir), "%s", control_path);
	slash = strrchr(dir, '/');
	if (slash)
		slash[slash == dir] = '\0';
	inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (inotify_fd < 0 ||
	    inotify_add_watch(inotify_fd, slash ? dir : ".", IN_CLOSE_WRITE | IN_MOVED_TO) < 0 ||
	    sr_helper_watch(inotify_fd, SR_WATCH_CONTROL, 0))
		perror("softrdma: cannot watch SOFTRDMA_CONTROL");
}

static void start(void)
{
	const char *env = getenv("SOFTRDMA_CHAOS");
	char text[1024];

	if (env || sr_is_siw()) {
		snprintf(text, sizeof(text), "%s", env ? env : "");
		configure(text);
	}
	control_path = getenv("SOFTRDMA_CONTROL");
	if (!control_path || !*control_path)
		return;
	watch_control();
	read_control();
}

static void forget(void)
{
	if (inotify_fd >= 0)
		close(inotify_fd);
	inotify_fd = -1;
}

static const struct sr_part part = {
	.start = start,
	.forget = forget,
	.on_watch[SR_WATCH_CONTROL] = on_control,
};
SR_PART(part);
