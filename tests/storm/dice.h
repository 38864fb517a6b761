/* SPDX-License-Identifier: BSD-3-Clause */
/* Random numbers of a seed: the same seed, the same numbers. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct dice {
	uint64_t state;
};

/* Each role of a storm has its own stream. */
static inline struct dice dice_of(uint64_t seed, unsigned stream)
{
	return (struct dice){(seed * 64 + stream) * 0x9e3779b97f4a7c15ULL | 1};
}

/* Below n; 0 for 0. */
static inline uint64_t roll(struct dice *dice, uint64_t n)
{
	dice->state = dice->state * 6364136223846793005ULL + 1442695040888963407ULL;
	return n ? (dice->state >> 20) % n : 0;
}

static inline bool chance(struct dice *dice, unsigned in_1000)
{
	return roll(dice, 1000) < in_1000;
}
