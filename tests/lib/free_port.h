/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include <stdint.h>

/* A port of RDMA, whose numbers are a name space of their own, for this process alone: it is bound
 * in UDP, which no test uses otherwise, until the process ends. tests/lib/harness.py chooses ports
 * likewise. Fails the test when none is left. */
uint16_t free_port(void);
