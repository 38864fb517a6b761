/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two targets before one store, and a host with a path to each: can an old copy of a write land after a
 * newer write was acknowledged?
 *
 * The host writes W1. It may give a path up at any time. It sends W1 again, on the other path or on a new
 * association of the same one, once it has proof that the old copy is over: the success of a
 * Cross-Controller Reset (CCR) that the other path has sent, the end of the hold (3 KATO + CQT), or a
 * Connect to the same target, which has a fence of its own. After the answer it writes W2. Wrong is a
 * write that is acknowledged while the medium holds something else, and an older write that lands later.
 *
 * Time is discrete. A tick waits for everything that a running target owes by then; this is what CQT and
 * the lease promise. It does not wait for a target that is stopped (SIGSTOP, a paused virtual machine). A
 * target may be stopped between its checks and its submission, and what is in its kernel lands in any
 * order, at any time, or never.
 *
 * -DONE_PROCESS is one rblkd with two portals, as it is built today: it stops as a whole, no store
 * refuses anything, and a write waits for those of the host's other associations (target/engine/
 * aging.c, target/association/siblings.c). Without it, two machines share a store that can refuse
 * what comes under an old epoch. Each -DNO_x removes one guard; test_model.py says which of them must
 * lead to an error.
 *
 * Equal states are made equal on purpose, because they decide how long the search takes: the first of
 * two slots is filled first (settle), and counters stop where no guard looks any further.
 */
#define KATO  1
#define LEASE 1
#define CQT   4			/* above LEASE + the time to revoke, a tick each for looking */
#ifdef LATE_FENCE
#define FENCE_AT (CQT - 1)
#else
#define FENCE_AT (CQT - 3)	/* it may be stopped just then: this leaves LEASE and the time to revoke */
#endif
#define HOLD	   (3 * KATO + CQT) /* traffic counts as a sign of life, from when it is looked at */
#define AGE_MAX	   (KATO + 1 + FENCE_AT)
#define SILENT_MAX (LEASE + 1)
#ifndef LOSSES
#define LOSSES 2
#endif
#ifndef STOPS
#define STOPS 2
#endif
#ifndef EPOCHS
#define EPOCHS 2
#endif
#ifndef CUTS
#define CUTS 1
#endif
#define ASSOCIATIONS (LOSSES + 2)

/* ---- the medium ---- */
byte medium;		 /* 0, or the number of the write that it holds */
byte least_epoch[2];	 /* the store refuses what a target sends under an older one */

/* ---- the targets ---- */
bool is_stopped[2];
byte epoch[2];		 /* under which it works */
byte lives[2];		 /* the host's association, 0: none */
byte age[2];		 /* ticks since something was heard on it */
bool is_dying[2];	 /* the association is over, but something of it may still be inside */
byte dead_for[2];
byte silent[2];		 /* ticks since its last round trip with the other */
bool is_linked = true;	 /* the targets reach each other */
bool is_greeting;	 /* a member has joined, and greets */
chan received[2] = [2] of {byte, byte}; /* capsules: write, association */
/* Two pollers each: a write that has passed every check, and is not yet submitted; its association. */
byte checked[4], checked_of[4];
/* Two places each in the kernel: 1 in flight, 2 landed, 3 refused; write, association, epoch. */
byte kernel[4], kernel_write[4], kernel_of[4], kernel_epoch[4];
byte n_stops, n_cuts;

/* ---- the host ---- */
byte next_write = 1, acknowledged;
byte connected[2];	 /* its association on each path, 0: none */
byte latest[2];		 /* the last one there */
byte latest_epoch[2];	 /* of the target when that was made: CIRN names it */
bool is_unproven[2];	 /* a copy of a write may still be on its way there */
byte hold[2];
byte path_of_write = 2;	 /* of the write in flight, 2: none */
bool asks[2];		 /* CCR of the other path's controller is under way on this one */
byte n_losses, n_associations;

#define IS_REVOKED(t) (epoch[t] < least_epoch[t])
#define IS_QUIET(t)   (checked[2 * (t)] == 0 && checked[2 * (t) + 1] == 0 && kernel[2 * (t)] == 0 && \
		       kernel[2 * (t) + 1] == 0)
#define HAS_STUCK(t)  (kernel[2 * (t)] == 1 || kernel[2 * (t) + 1] == 1)
#define IS_EXPIRED(t) (lives[t] && age[t] > KATO)

#if defined(NO_PROMOTE) || defined(ONE_PROCESS)
#define MAY_WRITE(t) true
#else
/* The other is heard, or the store refuses it. */
#define MAY_WRITE(t) (silent[t] <= LEASE || IS_REVOKED(1 - (t)))
#endif
#ifdef ONE_PROCESS
#define MUST_FENCE(t) false
#else
#define MUST_FENCE(t) (is_dying[t] && dead_for[t] >= FENCE_AT && HAS_STUCK(t) && !IS_REVOKED(t))
#endif
#if defined(NO_PEER_REVOKE) || defined(ONE_PROCESS)
#define MUST_REVOKE(t) false
#else
#define MUST_REVOKE(t) (silent[t] > LEASE && !IS_REVOKED(t) && !IS_REVOKED(1 - (t)) && \
			least_epoch[1 - (t)] < EPOCHS)
#endif

/* In one process a write waits for one of another association of its host that is in the kernel, and
 * Connect waits for all that is old. */
#if defined(ONE_PROCESS) && !defined(NO_PARK)
#define IS_IN_WAY(k, a) (kernel[k] == 1 && kernel_of[k] != (a))
#define MAY_SUBMIT(a)	(!IS_IN_WAY(0, a) && !IS_IN_WAY(1, a) && !IS_IN_WAY(2, a) && !IS_IN_WAY(3, a))
#else
#define MAY_SUBMIT(a) true
#endif
#ifdef ONE_PROCESS
#define IS_CLEAN (!is_dying[0] && !is_dying[1] && !IS_EXPIRED(0) && !IS_EXPIRED(1))
#else
#define IS_CLEAN true
#endif

/* A running target is never late by a tick. */
#define OWES_NOTHING(t) (empty(received[t]) && (checked[2 * (t)] == 0 || !MAY_SUBMIT(checked_of[2 * (t)])) && \
			 (checked[2 * (t) + 1] == 0 || !MAY_SUBMIT(checked_of[2 * (t) + 1])) && \
			 !IS_EXPIRED(t) && !MUST_FENCE(t) && !MUST_REVOKE(t))
#define IS_ON_TIME(t) (is_stopped[t] || OWES_NOTHING(t))

/* What is overdue is done before any answer: a member that cannot do it is silent, and is revoked. */
#ifdef NO_TIMERS_FIRST
#define MAY_ANSWER(t) true
#else
#define MAY_ANSWER(t) (!(is_dying[t] && dead_for[t] >= FENCE_AT && !IS_QUIET(t)) && !IS_EXPIRED(t))
#endif
#define MAY_TALK (is_linked && !is_stopped[0] && !is_stopped[1] && !IS_REVOKED(0) && !IS_REVOKED(1) && \
		  MAY_ANSWER(0) && MAY_ANSWER(1))

inline kill(t)
{
	if
	:: lives[t] ->
		lives[t] = 0;
		is_dying[t] = true;
		/* counts from when it should have died, not from when that was noticed */
		dead_for[t] = (age[t] > KATO + 1 -> age[t] - KATO - 1 : 0);
		age[t] = 0
	:: else
	fi
}

inline count_to(x, most) { if :: x < most -> x++ :: else fi }

inline move(from, to, of_from, of_to)
{
	to = from; from = 0; of_to = of_from; of_from = 0
}

/* The first of two slots is filled first. */
inline settle_checked(t)
{
	if
	:: checked[2 * t] == 0 && checked[2 * t + 1] ->
		move(checked[2 * t + 1], checked[2 * t], checked_of[2 * t + 1], checked_of[2 * t])
	:: else
	fi
}

inline settle_kernel(t)
{
	if
	:: kernel[2 * t] == 0 && kernel[2 * t + 1] ->
		move(kernel[2 * t + 1], kernel[2 * t], kernel_of[2 * t + 1], kernel_of[2 * t]);
		move(kernel_write[2 * t + 1], kernel_write[2 * t], kernel_epoch[2 * t + 1], kernel_epoch[2 * t])
	:: else
	fi
}

inline revoke(t) { least_epoch[t] = epoch[t] + 1 }

proctype Target(byte t; byte other)
{
	byte x, a, s, k;

	do
	/* A capsule is taken. Every check is here; the submission comes later. */
	:: atomic { !is_stopped[t] && nempty(received[t]) && checked[2 * t + 1] == 0 &&
		    (MAY_WRITE(t) || IS_REVOKED(t)) ->
		received[t]?x,a;
		s = (checked[2 * t] == 0 -> 2 * t : 2 * t + 1);
		if
#ifdef NO_CONNECT_FENCE
		:: IS_REVOKED(t) || lives[t] == 0
#else
		:: IS_REVOKED(t) || a != lives[t]		/* dropped */
#endif
		:: else ->
			if
#ifndef NO_EXPIRE
			:: age[t] > KATO -> kill(t)		/* never revived */
#endif
			:: else -> age[t] = 0; checked[s] = x; checked_of[s] = a
			fi
		fi;
		x = 0; a = 0; s = 0 }
	/* Submission: the target may have been stopped since the checks. */
	:: atomic { !is_stopped[t] && kernel[2 * t + 1] == 0 &&
		    ((checked[2 * t] && MAY_SUBMIT(checked_of[2 * t])) ||
		     (checked[2 * t + 1] && MAY_SUBMIT(checked_of[2 * t + 1]))) ->
		if
		:: checked[2 * t] && MAY_SUBMIT(checked_of[2 * t]) -> s = 2 * t
		:: checked[2 * t + 1] && MAY_SUBMIT(checked_of[2 * t + 1]) -> s = 2 * t + 1
		fi;
		k = (kernel[2 * t] == 0 -> 2 * t : 2 * t + 1);
		kernel[k] = 1; kernel_write[k] = checked[s]; kernel_of[k] = checked_of[s];
		kernel_epoch[k] = epoch[t];
		checked[s] = 0; checked_of[s] = 0;
		settle_checked(t);
		s = 0; k = 0 }
	/* What came back from the kernel is answered. */
	:: atomic { !is_stopped[t] && (kernel[2 * t] >= 2 || kernel[2 * t + 1] >= 2) ->
		if
		:: kernel[2 * t] >= 2 -> k = 2 * t
		:: kernel[2 * t + 1] >= 2 -> k = 2 * t + 1
		fi;
		if
		:: kernel[k] == 2 && kernel_of[k] == lives[t] && connected[t] == kernel_of[k] &&
		   path_of_write == t && kernel_write[k] == next_write ->
			assert(medium == next_write);		/* acknowledged is what is there */
			acknowledged = next_write; is_unproven[t] = false; path_of_write = 2;
			next_write++
		:: else
		fi;
		kernel[k] = 0; kernel_write[k] = 0; kernel_of[k] = 0; kernel_epoch[k] = 0;
		settle_kernel(t);
		k = 0 }
	:: atomic { !is_stopped[t] && IS_EXPIRED(t) -> kill(t) }
	:: atomic { !is_stopped[t] && is_dying[t] && IS_QUIET(t) -> is_dying[t] = false; dead_for[t] = 0 }
	:: atomic { !is_stopped[t] && MUST_FENCE(t) -> revoke(t) }
	:: atomic { !is_stopped[t] && MUST_REVOKE(t) -> revoke(other) }
	/* A round trip with the other, counted from when the question was sent. Who was silent for too long
	 * is revoked, not forgiven; only a member that has joined anew greets. */
	:: atomic { t == 0 && MAY_TALK && silent[0] <= LEASE && silent[1] <= LEASE && (silent[0] || silent[1]) ->
		silent[0] = 0; silent[1] = 0 }
	:: atomic { t == 0 && MAY_TALK && is_greeting && (silent[0] > LEASE || silent[1] > LEASE) ->
		silent[0] = 0; silent[1] = 0; is_greeting = false }
	/* CCR, relayed to the other target. */
	:: atomic { !is_stopped[t] && asks[t] && connected[t] == lives[t] && connected[t] && is_linked &&
		    !is_stopped[other] && lives[other] == latest[other] && lives[other] -> kill(other) }
	:: atomic { !is_stopped[t] && asks[t] && connected[t] == lives[t] && connected[t] &&
#ifdef NO_DRAIN
		    ((is_linked && !is_stopped[other] && lives[other] != latest[other]) ||
#else
		    ((is_linked && !is_stopped[other] && lives[other] != latest[other] && !is_dying[other]) ||
#endif
		     least_epoch[other] > latest_epoch[other]) ->
		asks[t] = false; is_unproven[other] = false; hold[other] = 0 }
	/* A revoked member joins again, or its process is a new one: old memory is gone first. */
	:: atomic { !is_stopped[t] && epoch[t] < EPOCHS && IS_REVOKED(t) ->
#ifndef NO_REBIND
		checked[2 * t] = 0; checked[2 * t + 1] = 0;
		checked_of[2 * t] = 0; checked_of[2 * t + 1] = 0;
#endif
		epoch[t] = least_epoch[t]; lives[t] = 0; age[t] = 0; silent[t] = SILENT_MAX;
		is_greeting = true; is_dying[t] = !IS_QUIET(t); dead_for[t] = 0 }
	od
}

/* The host, as seen from one path. */
proctype Path(byte p; byte other)
{
	do
	/* Connect. The target's own fence: nothing old of this host is inside. */
	:: atomic { connected[p] == 0 && acknowledged < 2 && n_associations < ASSOCIATIONS && !is_stopped[p] &&
		    !IS_REVOKED(p) && MAY_WRITE(p) &&
#ifdef NO_CONNECT_FENCE
		    true ->
#else
		    lives[p] == 0 && !is_dying[p] && IS_CLEAN ->
#endif
		is_unproven[p] = false; hold[p] = 0; asks[other] = false;
		n_associations++; connected[p] = n_associations; lives[p] = n_associations;
		latest[p] = n_associations; latest_epoch[p] = epoch[p]; age[p] = 0 }
#ifndef NO_CONNECT_FENCE
	/* It meets its own old association, which is ended first. */
	:: atomic { connected[p] == 0 && acknowledged < 2 && n_associations < ASSOCIATIONS && !is_stopped[p] &&
		    lives[p] != 0 -> kill(p) }
#endif
	:: atomic { connected[p] && path_of_write == 2 && next_write <= 2 && nfull(received[p]) &&
#ifdef NO_HOST_PROOF
		    true ->
#else
		    !is_unproven[0] && !is_unproven[1] ->
#endif
		received[p]!next_write,connected[p]; path_of_write = p; is_unproven[p] = true }
	/* Keep alive. */
	:: atomic { connected[p] && !is_stopped[p] && lives[p] == connected[p] && age[p] && age[p] <= KATO ->
		age[p] = 0 }
	:: atomic { connected[p] && n_losses < LOSSES ->
		n_losses++; connected[p] = 0; asks[p] = false;
		hold[p] = (is_unproven[p] -> HOLD : 0);
		if :: path_of_write == p -> path_of_write = 2 :: else fi }
	:: atomic { connected[p] == 0 && is_unproven[p] && connected[other] && !asks[other] ->
		asks[other] = true }
	:: atomic { connected[p] == 0 && is_unproven[p] && hold[p] == 0 ->
		is_unproven[p] = false; asks[other] = false }
	od
}

proctype Environment()
{
	byte k;

	do
	/* The medium: any order, any delay, or never. */
	:: atomic { kernel[0] == 1 || kernel[1] == 1 || kernel[2] == 1 || kernel[3] == 1 ->
		if
		:: kernel[0] == 1 -> k = 0
		:: kernel[1] == 1 -> k = 1
		:: kernel[2] == 1 -> k = 2
		:: kernel[3] == 1 -> k = 3
		fi;
		if
#ifdef NO_REVOKE
		:: true ->
#else
		:: kernel_epoch[k] >= least_epoch[k / 2] ->
#endif
			assert(kernel_write[k] >= acknowledged);	/* nothing older lands */
			medium = kernel_write[k]; kernel[k] = 2
#ifndef NO_REVOKE
		:: else -> kernel[k] = 3
#endif
		fi;
		k = 0 }
#ifdef ONE_PROCESS
	:: atomic { !is_stopped[0] && n_stops < STOPS -> n_stops++; is_stopped[0] = true; is_stopped[1] = true }
	:: atomic { is_stopped[0] -> is_stopped[0] = false; is_stopped[1] = false }
#else
	:: atomic { !is_stopped[0] && n_stops < STOPS -> n_stops++; is_stopped[0] = true }
	:: atomic { !is_stopped[1] && n_stops < STOPS -> n_stops++; is_stopped[1] = true }
	:: is_stopped[0] -> is_stopped[0] = false
	:: is_stopped[1] -> is_stopped[1] = false
	/* For good: a link that heals is as a stop that ends. */
	:: atomic { is_linked && n_cuts < CUTS -> n_cuts++; is_linked = false }
#endif
	:: atomic { IS_ON_TIME(0) && IS_ON_TIME(1) ->
		if :: lives[0] -> count_to(age[0], AGE_MAX) :: else fi;
		if :: lives[1] -> count_to(age[1], AGE_MAX) :: else fi;
		if :: is_dying[0] -> count_to(dead_for[0], FENCE_AT) :: else fi;
		if :: is_dying[1] -> count_to(dead_for[1], FENCE_AT) :: else fi;
#ifndef ONE_PROCESS
		count_to(silent[0], SILENT_MAX); count_to(silent[1], SILENT_MAX);
#endif
		if :: hold[0] -> hold[0]-- :: else fi;
		if :: hold[1] -> hold[1]-- :: else fi }
#ifdef SANITY
	:: acknowledged == 2 -> assert(false)
#endif
	od
}

/* Both paths are connected, and W1 is on its way on path 0: the other case is its mirror. */
init
{
	atomic {
		connected[0] = 1; lives[0] = 1; latest[0] = 1;
		connected[1] = 2; lives[1] = 2; latest[1] = 2;
		n_associations = 2;
		received[0]!1,1; path_of_write = 0; is_unproven[0] = true;
		run Target(0, 1); run Target(1, 0); run Path(0, 1); run Path(1, 0); run Environment()
	}
}
