/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Assertions about our own code, in every build. A failed one logs and aborts. Never for data that
 * a peer sent. Where a defect concerns one peer alone and memory is safe, its owner disconnects
 * that peer instead (target/association/defect.h). Any thread.
 */
#pragma once

#include <stdlib.h>
#include "base/bits.h"
#include "base/log.h"

#define check(cond)                                                                                \
	do {                                                                                       \
		if (UNLIKELY(!(cond)))                                                             \
			check_failed(__FILE__, __LINE__, __func__, #cond);                         \
	} while (0)

/* Logs the failed condition with its place, and aborts the process. */
__attribute__((noreturn)) COLD void check_failed(const char *file, int line, const char *func,
						 const char *cond);
