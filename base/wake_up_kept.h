/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The measured wake-up (wake_up.h) in the run directory, so that processes after the first need not
 * measure it: file "wake-up", one line "BOOT CPUS NANOSECONDS". It holds for one boot of the machine
 * and for processes that may use as many CPUs. Any thread.
 */
#pragma once

#include <stdint.h>

/* Nanoseconds; 0: there is none of this boot for as many CPUs, within [least_ns, most_ns]. */
uint64_t wake_up_kept(uint64_t least_ns, uint64_t most_ns);
/* Replaces what is there. Best effort: without a run directory nothing is kept. */
void wake_up_keep(uint64_t ns);
