/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by libfailnth.so, preloaded into a program, and the test that started it: a file, named
 * by $FAILNTH, that both map. A place is a call (malloc, ibv_create_cq, pwrite, ...) together with
 * its caller: a function that is called from two places is two places. The test sets is_recording,
 * phase, armed and skip; the program records places and failures.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

enum {
	FAILNTH_PLACES = 8192, /* a power of 2 */
	FAILNTH_FRAMES = 5,
	FAILNTH_WHERE = 240,
};

struct failnth_place {
	_Atomic uint64_t key;	 /* 0: free */
	_Atomic uint32_t phases; /* a bit for each phase in which it was met */
	_Atomic uint32_t n_met;
	char where[FAILNTH_WHERE]; /* call, then module+offset of its callers */
};

struct failnth {
	_Atomic uint32_t is_recording;
	_Atomic uint32_t phase; /* set by the test: a number below 32 */
	_Atomic uint64_t armed; /* key of the place that fails next, once; 0: none */
	_Atomic uint32_t skip;	/* calls there that succeed before it fails */
	_Atomic uint32_t n_failed;
	struct failnth_place places[FAILNTH_PLACES];
};
