/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tuned constants of the polling policy, each with the experiment that fixed it. patience.h
 * has the model, crowd.h the two signs; patience.h and crowd.c include this header.
 *
 * The experiments ran on two CPUs with softrdma, but for the one that names a virtual machine.
 * "bridge" is a client of the NBD bridge, so three threads compete for the CPUs; "disk" is rblkd
 * with a file and one host, so two do. "Not measured alone" marks a value that no experiment
 * isolated. The full tables are in the history of docs/PERFORMANCE.md, section "For how long to
 * poll".
 *
 * To change a value, alternate runs of `tools/bench/run disk bridge` with the old and the new one:
 * a machine differs from itself by the hour.
 */
#pragma once

enum {
	/* ---- how long a loop polls ---- */

	/*
	 * The long limit: 25 times spin_ns, 500 us at most. No fixed time is right for all loads.
	 * With spin 100 us instead of 0, bridge 4 KiB reads take 24 us instead of 51 at depth 1,
	 * but bring 75 k/s instead of 127 at depth 32. A limit of 200 us, with 1 ms for
	 * PATIENCE_PAUSE_MAX_NS and no trial, left disk 4 KiB writes at depth 1 at 139 us (fio:
	 * 76). The values here, the trial and the signs of crowd.h, introduced together, brought
	 * 51 us.
	 */
	PATIENCE_LONG = 25,
	PATIENCE_LONG_NS = 500 * 1000,
	/*
	 * A longer pause counts as this one, so that the mean forgets it: 5 times the long limit.
	 * After a failed trial the mean starts here, and the next trial is about 18 pauses later.
	 * Not measured alone.
	 */
	PATIENCE_PAUSE_MAX_NS = 2500 * 1000,
	/* A new value is 1/8 of a mean. Not measured alone. */
	PATIENCE_WEIGHT = 8,

	/* ---- in a crowd ---- */

	/*
	 * The limit of a loop that polls on in a crowd: 5 times spin_ns. It may run on the CPU of
	 * the very thread that it waits for. With 500 us, bridge writes at depth 1 had a p99 of
	 * 518 us and 22.9 k/s; with 100 us they have 151 us and 29.8 k/s.
	 */
	PATIENCE_CROWDED = 5,
	/*
	 * From one look for a crowd to the next. A look makes two system calls, which take some
	 * microseconds. It was 4 ms; not measured alone.
	 */
	PATIENCE_LOOK_NS = 2 * 1000 * 1000,
	/*
	 * How long a verdict holds. With 200 ms, bridge reads at depth 32 fall from 129 to 100 -
	 * 120 k/s.
	 */
	PATIENCE_CROWDED_NS = 800 * 1000 * 1000,
	/*
	 * Items in one burst from which a loop counts as fed in batches. One I/O can bring two
	 * items, so 3 is the least that proves more than one I/O. Earlier it was
	 * 2, compared with a mean.
	 */
	PATIENCE_SEVERAL = 3,
	/* Fixed point of n_at_once: 256 is one item. */
	PATIENCE_UNIT = 256,
	/*
	 * n_at_once is the largest burst of late, not the mean: it loses 1/64 at each pause, and so
	 * two thirds in 70 pauses. Not measured alone.
	 */
	PATIENCE_FORGETS = 64,
	/*
	 * Work between two pauses counts as 3 times spin_ns at most: the rest was an interruption.
	 * Work is long from spin_ns on, the price of a wake-up. A limit in absolute time was wrong
	 * in a virtual machine that runs 50 times slower (spin: 1ms): with 10 us, depth 1 on
	 * SoftRoCE had 1.61 times the rate of the kernel's host and target; with half of spin_ns
	 * it had 4.07.
	 */
	PATIENCE_WORK_MAX = 3,

	/*
	 * ---- what counts as a crowd: thousandths, while all threads poll ----
	 *
	 *                                             waits              excess
	 *   disk, reads, depth 32                     0 - 70             0 - 300
	 *   disk, writes, depth 8 and 32              0 - 150            0 - 500
	 *   bridge, depth 32                          280 - 440, 0 - 40  840 - 990
	 *   bridge, depth 1                           0 - 410            590 - 980
	 *
	 * (0 - 40: the bridge's thread that has a CPU of its own.) Each threshold is above all
	 * values of the disk; the bridge passes one or the other. What an error costs: disk writes
	 * at depth 32 reach 0.91 of fio where no verdict is ever given, 0.85 with these thresholds,
	 * 0.66 where every verdict is "crowd". Another set of runs, on another file, differed by as
	 * much.
	 */
	CROWD_WAITS = 220,
	CROWD_EXCESS = 600,
	/*
	 * A look is 1/16 of a mean. A full CPU then needs 4 looks by `waits` and 15 by `excess`,
	 * so a kernel thread that runs now and then is no crowd. Not measured alone.
	 */
	CROWD_WEIGHT = 16,
	/*
	 * Sixths: after a verdict the signs are cut to 5/6 of their thresholds, so that a crowd
	 * that is still there is found again in a few looks. Not measured alone.
	 */
	CROWD_AGAIN = 5,
};
_Static_assert(PATIENCE_LONG > PATIENCE_CROWDED, "a crowd never makes a loop poll longer");
_Static_assert(PATIENCE_PAUSE_MAX_NS > PATIENCE_LONG_NS, "a failed trial must end the polling");
_Static_assert(PATIENCE_CROWDED_NS > PATIENCE_LOOK_NS, "a verdict outlives the look that gave it");
_Static_assert(CROWD_AGAIN < 6, "a verdict must not be its own cause");
