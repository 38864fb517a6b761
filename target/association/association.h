/* SPDX-License-Identifier: BSD-3-Clause */
/* From a connect request to the end of the association: joins the modules of this folder. */
#pragma once

struct cm_conn;
struct cm_queue_request;
struct portal;

/* Control. A connect request passed the checks of portal.c. Owns cm from here on. max_reads: RDMA
 * READs that may be outstanding at the host. A failure is logged, and the peer is refused. */
void association_accept(struct portal *portal, struct cm_conn *cm,
			const struct cm_queue_request *wish, unsigned max_reads);
