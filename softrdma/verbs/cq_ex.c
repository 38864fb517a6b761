/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * start_poll takes the poll lock if there is an entry, and end_poll gives it. The current entry is
 * a private copy. Time stamps are taken when an entry is read: they serve programs that need some
 * value, not the measurement of a fabric.
 */

#include <errno.h>
#include <time.h>

#include "softrdma/fabric/node.h"
#include "softrdma/process/helper.h"
#include "softrdma/process/timer.h"
#include "softrdma/verbs/cq_ex.h"
#include "softrdma/verbs/cq_impl.h"
#include "softrdma/verbs/cq_poll.h"

static struct sr_cq *from_ex(struct ibv_cq_ex *ib)
{
	return container_of(ib, struct sr_cq, ib);
}

static int step(struct sr_cq *cq)
{
	if (!sr_cq_pop(cq, &cq->now))
		return ENOENT;
	cq->ib.status = cq->now.status;
	cq->ib.wr_id = cq->now.wr_id;
	return 0;
}

static int start_poll(struct ibv_cq_ex *ib, struct ibv_poll_cq_attr *attr)
{
	struct sr_cq *cq = from_ex(ib);
	int r;

	if (attr && attr->comp_mask)
		return EINVAL;
	sr_cq_look(cq);
	pthread_mutex_lock(&cq->poll);
	r = step(cq);
	if (r)
		pthread_mutex_unlock(&cq->poll);
	return r;
}

static int next_poll(struct ibv_cq_ex *ib)
{
	return step(from_ex(ib));
}

static void end_poll(struct ibv_cq_ex *ib)
{
	pthread_mutex_unlock(&from_ex(ib)->poll);
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *ib)
{
	return from_ex(ib)->now.opcode;
}

static uint32_t read_vendor_err(struct ibv_cq_ex *ib)
{
	return from_ex(ib)->now.vendor_err;
}

static uint32_t read_byte_len(struct ibv_cq_ex *ib)
{
	return from_ex(ib)->now.byte_len;
}

static __be32 read_imm_data(struct ibv_cq_ex *ib)
{
	return from_ex(ib)->now.imm_data;
}

static uint32_t read_qp_num(struct ibv_cq_ex *ib)
{
	return from_ex(ib)->now.qp_num;
}

static uint32_t read_src_qp(struct ibv_cq_ex *ib)
{
	return from_ex(ib)->now.src_qp;
}

static unsigned int read_wc_flags(struct ibv_cq_ex *ib)
{
	return from_ex(ib)->now.wc_flags;
}

static uint32_t read_slid(struct ibv_cq_ex *ib)
{
	return 0;
}

static uint8_t read_zero(struct ibv_cq_ex *ib)
{
	return 0;
}

static uint64_t read_completion_ts(struct ibv_cq_ex *ib)
{
	return sr_now_ns();
}

static uint64_t read_wallclock(struct ibv_cq_ex *ib)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void sr_cq_ex_init(struct sr_cq *cq)
{
	struct ibv_cq_ex *ib = &cq->ib;

	ib->start_poll = start_poll;
	ib->next_poll = next_poll;
	ib->end_poll = end_poll;
	ib->read_opcode = read_opcode;
	ib->read_vendor_err = read_vendor_err;
	ib->read_byte_len = read_byte_len;
	ib->read_imm_data = read_imm_data;
	ib->read_qp_num = read_qp_num;
	ib->read_src_qp = read_src_qp;
	ib->read_wc_flags = read_wc_flags;
	ib->read_slid = read_slid;
	ib->read_sl = read_zero;
	ib->read_dlid_path_bits = read_zero;
	ib->read_completion_ts = read_completion_ts;
	ib->read_completion_wallclock_ns = read_wallclock;
}
