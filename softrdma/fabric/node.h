/* SPDX-License-Identifier: BSD-3-Clause */
/* The process as a node of the fabric: started by the first call that needs it, gone after fork. */
#pragma once

#include <stdbool.h>

/* Starts the node once; later calls are cheap. Any thread. 0 or -errno. */
int sr_node_start(void);
/* Makes sure that QP slots up to n exist as queue pair numbers. Any thread. 0 or -errno. */
int sr_node_reserve_qps(unsigned n);
