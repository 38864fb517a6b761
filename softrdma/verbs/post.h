/* SPDX-License-Identifier: BSD-3-Clause */
/* Posting work requests: the classic verbs. (The ibv_wr_* builder is in wr_ex.c.) */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ibv_ah;
struct ibv_mw;
struct ibv_mw_bind;
struct ibv_mw_bind_info;
struct ibv_qp;
struct ibv_recv_wr;
struct ibv_send_wr;
struct sr_qp;
struct sr_wqe;

int sr_mw_bind(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);

int sr_qp_post_send(struct ibv_qp *ib, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int sr_qp_post_recv(struct ibv_qp *ib, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
/* A type 1 window bind is a send work request of a kind of its own. */
int sr_qp_post_bind(struct sr_qp *qp, struct ibv_mw *mw, const struct ibv_mw_bind *bind);

/* Whether a UC queue pair has such work requests: IBA table 38 has no opcode for others. */
bool sr_wqe_is_lossy(uint32_t opcode);
bool sr_wqe_may_post(const struct sr_qp *qp);
/* The slot at the head of the ring, NULL = full. The caller advances the head. */
struct sr_wqe *sr_wqe_next(struct sr_qp *qp);
/* Fills the extra part of an atomic, of a bind, of a datagram. 0 or ENOMEM; EINVAL: no handle. */
int sr_wqe_atomic(struct sr_qp *qp, const struct sr_wqe *w, uint64_t compare_add, uint64_t swap);
int sr_wqe_bind(struct sr_qp *qp, const struct sr_wqe *w, struct ibv_mw *mw,
		const struct ibv_mw_bind_info *info);
int sr_wqe_datagram(struct sr_qp *qp, const struct sr_wqe *w, struct ibv_ah *ah, uint32_t qpn,
		    uint32_t qkey);
/* Names the SRQ of an XRC request; it has an extra part already. */
void sr_wqe_srqn(struct sr_qp *qp, const struct sr_wqe *w, uint32_t srqn);
/* Append inline payload. 0 or ENOMEM. */
int sr_wqe_inline(const struct sr_qp *qp, struct sr_wqe *w, const void *data, size_t len);
