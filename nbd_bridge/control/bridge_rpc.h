/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The volume process answers these methods on its control socket, for the subcommands of rblk:
 *
 *   status            everything, one object ("schema": 1; keys are only added)
 *   stats             counts and latencies of the volume's I/O, which only grow
 *   metrics           the same and more, as "text" for Prometheus (metrics.c)
 *   capture           base/capture_rpc.h: the volume's commands and their responses
 *   path.add {address}, path.remove {address, dead}
 *                     paths of the volume, while it is used; answer as status
 *   reopen            a volume that has failed tries its target again; answers as status
 *   detach {force}    begins the orderly end, unless a client uses the volume; the caller waits for
 *                     the process to exit
 *
 * Runs on the control loop and never blocks. Counters of the workers are read while they run.
 */
#pragma once

struct rpc_method;

extern const struct rpc_method bridge_rpc_methods[];
