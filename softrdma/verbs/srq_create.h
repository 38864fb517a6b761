/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Making and destroying shared receive queues. One of XRC has a number, by which senders name it, a
 * domain and a completion queue. Queue pairs use it without being counted as its users, so its
 * destruction makes them forget it.
 */
#pragma once

struct ibv_context;
struct ibv_srq;
struct ibv_srq_init_attr_ex;

/* As ibv_create_srq_ex. NULL: errno says why. */
struct ibv_srq *sr_srq_create_ex(struct ibv_context *c, struct ibv_srq_init_attr_ex *attr);
