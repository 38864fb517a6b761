/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Assertions about our own code, on in every build. Never about data that a peer sent; and where what breaks is one
 * peer's alone and memory is safe, the owner ends that (target/engine/defect.h).
 */
#pragma once

#include <stdlib.h>
#include "base/log.h"

#define check(cond)                                                                                \
	do {                                                                                       \
		if (__builtin_expect(!(cond), 0))                                                  \
			check_failed(__FILE__, __LINE__, __func__, #cond);                         \
	} while (0)

__attribute__((noreturn, cold)) void check_failed(const char *file, int line, const char *func,
						  const char *cond);
