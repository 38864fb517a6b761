/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <cmocka.h>
#include <infiniband/verbs.h>

/* Two connected queue pairs in one process, and short forms for what tests do. */

enum {
	RIG_BUF = 65536,
	RIG_DEPTH = 16,
	RIG_PATIENCE_MS = 60000 /* for a busy machine under a sanitizer */
};

struct end {
	struct ibv_cq *scq, *rcq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *buf;
	int fd; /* buf's memfd if RIG_MEMFD is set, so that peers map it; else -1 */
};

struct rig {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *ch; /* of both ends' receive CQs */
	struct end a, b;
};

/* Options of the next rig_up; reset to the defaults by rig_down. */
struct rig_opts {
	struct ibv_qp_init_attr init;
	struct ibv_srq *(*srq_of_b)(struct rig *r);
	unsigned access; /* of the regions */
	unsigned qp_access;
	uint8_t rd_atomic; /* both limits of both ends */
	uint8_t min_rnr_timer, rnr_retry, retry_cnt, timeout;
	int scq_size;
};
extern struct rig_opts rig_opts;

void rig_up(struct rig *r);
void rig_down(struct rig *r);
/* cmocka fixtures around them */
int rig_setup(void **state);
int rig_teardown(void **state);

/* The pages of this range are gone, as after munmap. It stays taken: after munmap another thread
 * might map memory there. */
void rig_unmap(void *from, size_t n);

/* A shared mapping of a new memfd with these seals (0: none). The caller closes *ret_fd. */
void *sealed_memory(size_t len, int seals, int *ret_fd);
struct ibv_qp *rig_new_qp(struct rig *r, struct end *e, struct ibv_srq *srq);
int to_init(struct ibv_qp *qp);
int to_rtr(struct ibv_qp *qp, uint32_t dest);
int to_rts(struct ibv_qp *qp);
int to_state(struct ibv_qp *qp, enum ibv_qp_state state);
enum ibv_qp_state state_of(struct ibv_qp *qp);
/* Waits RIG_PATIENCE_MS; fails the test if it does not come to that state. */
void wait_for_state(struct ibv_qp *qp, enum ibv_qp_state state);

int recv_at(struct end *e, uint64_t id, size_t off, uint32_t len);
int send_from(struct end *e, uint64_t id, size_t off, uint32_t len, unsigned flags);
int rdma(struct end *e, enum ibv_wr_opcode op, uint64_t id, size_t off, uint32_t len,
	 uint64_t remote, uint32_t rkey, unsigned flags);

/* The next completion, waiting RIG_PATIENCE_MS; fails the test if none comes. */
struct ibv_wc next_wc(struct ibv_cq *cq);
void expect_wc(struct ibv_cq *cq, uint64_t id, enum ibv_wc_status status);
void expect_empty(struct ibv_cq *cq);
/* The next asynchronous event, acknowledged, waiting RIG_PATIENCE_MS. */
enum ibv_event_type next_async(struct rig *r);
/* That no event comes of what was done before: one that is caused now is the next one. */
void expect_no_async(struct rig *r);

/* A call that has to wait for what the test does next, on a thread of its own. */
struct held_call {
	void (*make)(void *context); /* on that thread: it asserts nothing */
	void *context;
	pthread_t thread;
	_Atomic int tid; /* 0: it has not begun */
	_Atomic bool is_over;
};
/* Returns when the thread sleeps in the call; fails the test if the call returns. */
void held_call_begin(struct held_call *call);
/* Waits until the call has returned. */
void held_call_end(struct held_call *call);

#define n_of(array) (sizeof(array) / sizeof((array)[0]))
