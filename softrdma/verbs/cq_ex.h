/* SPDX-License-Identifier: BSD-3-Clause */
/* The extended way to poll (ibv_start_poll ... ibv_end_poll). */
#pragma once

struct sr_cq;

void sr_cq_ex_init(struct sr_cq *cq);
