/* SPDX-License-Identifier: BSD-3-Clause */
/* The extended way to post (ibv_wr_start ... ibv_wr_complete). */
#pragma once

struct sr_qp;

void sr_qp_ex_init(struct sr_qp *qp);
