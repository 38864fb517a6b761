/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inside of transport. Each file calls only those below it:
 *
 *   qp         the life of a queue pair; control and the owner loop
 *   cq_poll    takes completions and hands each to qp_post or recv_ring
 *   qp_post    the works of a queue pair: posts them, hands them back in order
 *   recv_ring  receives       chain   chains of work requests
 *   cq         the completion queue: entries, attached queue pairs
 *
 * Thread: the owner loop.
 */
#pragma once

#include "transport/qp.h"
