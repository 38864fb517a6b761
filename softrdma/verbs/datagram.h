/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Unreliable datagrams (UD): how a queue pair sends one, and how one is delivered to a queue pair
 * of this host. An engine only moves them: its send calls sr_datagram_deliver for the processes of
 * this host, as its receiver does for what comes from another one.
 */
#pragma once

#include "softrdma/fabric/datagram.h"
#include "softrdma/fabric/engine.h"
#include "softrdma/fabric/peer.h"
