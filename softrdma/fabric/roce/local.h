/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A work request as its own side sees it: what it asks for, and the memory that it names. Keys are
 * checked when it is posted, and again at each packet, because memory may be deregistered while
 * the request is under way.
 */
#pragma once

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

struct roce_request;
struct sr_qp;
struct sr_wqe;

/* Checks a work request, and describes it for the requester. One that fails here has `failure`. */
struct roce_request roce_describe(struct sr_qp *qp, struct sr_wqe *w);
/* Copies n bytes at offset of a request's data. False: the memory may not be used. */
bool roce_gather(const struct sr_qp *qp, const struct sr_wqe *w, uint32_t offset, uint8_t *to,
		 uint32_t n);
bool roce_scatter(const struct sr_qp *qp, const struct sr_wqe *w, uint32_t offset,
		  const uint8_t *from, uint32_t n);
/* Executes a request that concerns this side only. */
enum ibv_wc_status roce_execute_local(struct sr_qp *qp, const struct sr_wqe *w);
