/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory regions and windows.
 *
 * A region is an entry of the MR table in this process' segment; its key holds the index and 15
 * random bits, new ones at each registration: a stale key does not match the next one, and one of
 * another host has to be guessed. Registering maps the pages in, as pinning does, and
 * fails with EFAULT on a hole. Deregistering clears the keys and then waits until no thread that
 * may have seen them is still copying: when it returns, the memory is the application's alone.
 *
 * Nothing is locked, so RLIMIT_MEMLOCK does not bind: a program of an ordinary user, whose limit is
 * 8 MiB, works. SOFTRDMA_MEMLOCK_STRICT=1 makes the limit bind, for tests: pinned bytes are
 * accounted as the kernel's ib_umem_get() does, CAP_IPC_LOCK or not.
 */
#include "softrdma/verbs/mr.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include "softrdma/chaos/chaos.h"
#include "softrdma/verbs/qp_impl.h"
#include "softrdma/fabric/lock.h"
#include "softrdma/fabric/view.h"
#include "softrdma/verbs/qp_table.h"
#include "softrdma/verbs/removal.h"
#include "softrdma/process/likeness.h"
#include "softrdma/verbs/sr_cq.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#define PAGE 4096u
#define ACCESS_KNOWN                                                                               \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |                   \
	 IBV_ACCESS_HUGETLB)

/* Guards the index allocator, windows' bindings and `pinned`. Leaf. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint8_t used[SEG_MAX_MR];
static uint16_t salts[SEG_MAX_MR]; /* 15 bits */
static uint32_t next_index = 1;
static size_t pinned;

/* ---- the table ------------------------------------------------------------- */

/* Under the lock. */
static uint16_t next_salt(void)
{
	static uint16_t pool[128];
	static unsigned left;

	if (!left && getrandom(pool, sizeof(pool), 0) == sizeof(pool))
		left = 128;
	return left ? pool[--left] & 0x7fff : 0;
}

/* Rotates through the table, so that an index is not reused soon. 0 = full. */
static uint32_t take_index(void)
{
	uint32_t found = 0;

	pthread_mutex_lock(&lock);
	for (uint32_t n = 0; n < SEG_MAX_MR && !found; n++) {
		uint32_t i = next_index;

		next_index = i + 1 < SEG_MAX_MR ? i + 1 : 1;
		if (!used[i])
			found = i;
	}
	if (found) {
		uint16_t salt = next_salt();

		used[found] = 1;
		salts[found] = salt == salts[found] ? salt ^ 1 : salt;
	}
	pthread_mutex_unlock(&lock);
	return found;
}

static void give_index(uint32_t i)
{
	pthread_mutex_lock(&lock);
	used[i] = 0;
	pthread_mutex_unlock(&lock);
}

static uint32_t key_of(uint32_t index)
{
	return (uint32_t)(salts[index] >> 8) << 24 | index << 8 | (salts[index] & 0xff);
}

/* After this call no thread copies by a key that was invalid before it. */
static void quiesce(void)
{
	sr_qp_quiesce_all();
	sr_cq_quiesce_all();
}

/* ---- pinning --------------------------------------------------------------- */

static bool is_memlock_strict(void)
{
	const char *strict = getenv("SOFTRDMA_MEMLOCK_STRICT");

	return strict && *strict == '1';
}

static size_t pages_of(const void *addr, size_t len)
{
	uintptr_t first = (uintptr_t)addr & ~(uintptr_t)(PAGE - 1);
	uintptr_t end = ((uintptr_t)addr + len + PAGE - 1) & ~(uintptr_t)(PAGE - 1);

	return end - first;
}

static int account(size_t bytes)
{
	struct rlimit limit;
	bool over = false;

	if (getrlimit(RLIMIT_MEMLOCK, &limit))
		limit.rlim_cur = RLIM_INFINITY;
	pthread_mutex_lock(&lock);
	if (limit.rlim_cur != RLIM_INFINITY && pinned + bytes > limit.rlim_cur)
		over = is_memlock_strict();
	if (!over)
		pinned += bytes;
	pthread_mutex_unlock(&lock);
	return over ? -ENOMEM : 0;
}

static void unaccount(size_t bytes)
{
	pthread_mutex_lock(&lock);
	pinned -= bytes;
	pthread_mutex_unlock(&lock);
}

static int pin(void *addr, size_t len, uint32_t access, size_t *ret_pinned)
{
	uintptr_t first = (uintptr_t)addr & ~(uintptr_t)(PAGE - 1);
	size_t bytes = len ? pages_of(addr, len) : 0;
	int advice = access & IBV_ACCESS_LOCAL_WRITE ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
	int r = account(bytes);

	if (r)
		return r;
	if (bytes && madvise((void *)first, bytes, advice)) {
		unaccount(bytes);
		return -EFAULT; /* a hole, or pages that may not be written */
	}
	*ret_pinned = bytes;
	return 0;
}

/* ---- regions --------------------------------------------------------------- */

/* IBA 10.6.3.1: remote write and atomics need local write. */
static int check_access(unsigned int access)
{
	if (access & ~(unsigned)(ACCESS_KNOWN | IBV_ACCESS_OPTIONAL_RANGE))
		return EOPNOTSUPP;
	if (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC) &&
	    !(access & IBV_ACCESS_LOCAL_WRITE))
		return EINVAL;
	return 0;
}

static void publish(struct sr_mr *mr, uint64_t iova)
{
	struct seg_mr *m = &seg_self->mr[mr->index];

	m->pd = sr_to_pd(mr->ib.pd)->number;
	m->access = mr->access;
	m->kind = SEG_MR;
	m->iova = iova;
	m->va = (uintptr_t)mr->ib.addr;
	m->length = mr->ib.length;
	m->share_at = mr->shared.at;
	atomic_store(&m->share, mr->shared.share);
	mr->ib.rkey = key_of(mr->index);
	mr->ib.lkey = mr->ib.rkey | MR_LKEY_BIT;
	mr->ib.handle = mr->index;
	atomic_store(&m->rkey, mr->ib.rkey);
	atomic_store(&m->lkey, mr->ib.lkey);
}

static void withdraw(uint32_t index)
{
	atomic_store(&seg_self->mr[index].rkey, 0);
	atomic_store(&seg_self->mr[index].lkey, 0);
	quiesce();
}

/* Its keys are withdrawn. */
static void end_share(struct sr_mr *mr)
{
	if (sr_share_give(mr->shared))
		sr_view_sweep(sr_qp_quiesce_senders);
	mr->shared = (struct sr_shared){0};
}

static struct sr_mr *reg(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova,
			 unsigned int access, int *err)
{
	struct sr_mr *mr;

	access &= ~(unsigned)IBV_ACCESS_OPTIONAL_RANGE;
	*err = check_access(access);
	if (!*err && chaos_refuses_mr())
		*err = ENOMEM;
	if (*err)
		return NULL;
	mr = calloc(1, sizeof(*mr));
	*err = ENOMEM;
	if (!mr)
		return NULL;
	*err = -pin(addr, len, access, &mr->pinned);
	if (!*err && !(mr->index = take_index())) {
		unaccount(mr->pinned);
		*err = ENOMEM;
	}
	if (*err) {
		free(mr);
		return NULL;
	}
	mr->ib.context = pd->context;
	mr->ib.pd = pd;
	mr->ib.addr = addr;
	mr->ib.length = len;
	mr->access = access;
	mr->shared = sr_share_take(addr, len);
	atomic_fetch_add(&sr_to_pd(pd)->users, 1);
	publish(mr, access & IBV_ACCESS_ZERO_BASED ? 0 : iova);
	sr_removal_hold(HOLD_MR);
	return mr;
}

SR_API struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova,
				       unsigned int access)
{
	int err;
	struct sr_mr *mr = reg(pd, addr, len, iova, access, &err);

	if (mr)
		return &mr->ib;
	errno = err;
	return NULL;
}

SR_API struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t len, int access)
{
	return ibv_reg_mr_iova2(pd, addr, len, (uintptr_t)addr, (unsigned)access);
}

SR_API struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova,
				      int access)
{
	return ibv_reg_mr_iova2(pd, addr, len, iova, (unsigned)access);
}

SR_API struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t len,
					uint64_t iova, int fd, int access)
{
	errno = EOPNOTSUPP;
	return NULL;
}

/* ---- which windows are bound to a region; all under the lock ---- */

static void link_window(struct sr_mr *mr, struct sr_mw *mw)
{
	mw->bound = mr;
	mw->prev = NULL;
	mw->next = mr->windows;
	if (mw->next)
		mw->next->prev = mw;
	mr->windows = mw;
}

static void unlink_window(struct sr_mw *mw)
{
	if (mw->prev)
		mw->prev->next = mw->next;
	else
		mw->bound->windows = mw->next;
	if (mw->next)
		mw->next->prev = mw->prev;
	mw->bound = NULL;
}

static void unbind(struct sr_mw *mw)
{
	pthread_mutex_lock(&lock);
	if (mw->bound)
		unlink_window(mw);
	pthread_mutex_unlock(&lock);
}

/* A window that was invalidated, perhaps by a peer, is in the free state, and no region's any more
 * (IBA 10.6.7.2.1). */
static bool has_window(struct sr_mr *mr)
{
	bool has;

	pthread_mutex_lock(&lock);
	while (mr->windows && !atomic_load(&seg_self->mr[mr->windows->index].rkey))
		unlink_window(mr->windows);
	has = mr->windows;
	pthread_mutex_unlock(&lock);
	return has;
}

SR_API int ibv_rereg_mr(struct ibv_mr *ib, int flags, struct ibv_pd *pd, void *addr, size_t len,
			int access)
{
	struct sr_mr *mr = container_of(ib, struct sr_mr, ib);
	size_t bytes = 0;

	if (!flags || flags & ~IBV_REREG_MR_FLAGS_SUPPORTED ||
	    (flags & IBV_REREG_MR_CHANGE_ACCESS && check_access((unsigned)access)) ||
	    has_window(mr)) {
		errno = EINVAL;
		return IBV_REREG_MR_ERR_INPUT;
	}
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION && pin(addr, len, (uint32_t)access, &bytes)) {
		errno = EFAULT;
		return IBV_REREG_MR_ERR_INPUT;
	}
	withdraw(mr->index);
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		unaccount(mr->pinned);
		mr->pinned = bytes;
		end_share(mr);
		mr->shared = sr_share_take(addr, len);
		ib->addr = addr;
		ib->length = len;
	}
	if (flags & IBV_REREG_MR_CHANGE_PD) {
		atomic_fetch_sub(&sr_to_pd(ib->pd)->users, 1);
		atomic_fetch_add(&sr_to_pd(pd)->users, 1);
		ib->pd = pd;
	}
	if (flags & IBV_REREG_MR_CHANGE_ACCESS)
		mr->access = (uint32_t)access & ~(uint32_t)IBV_ACCESS_OPTIONAL_RANGE;
	publish(mr, mr->access & IBV_ACCESS_ZERO_BASED ? 0 : (uintptr_t)ib->addr);
	return 0;
}

SR_API int ibv_dereg_mr(struct ibv_mr *ib)
{
	struct sr_mr *mr = container_of(ib, struct sr_mr, ib);

	if (has_window(mr))
		return EBUSY;
	withdraw(mr->index);
	end_share(mr);
	give_index(mr->index);
	unaccount(mr->pinned);
	atomic_fetch_sub(&sr_to_pd(ib->pd)->users, 1);
	free(mr);
	sr_removal_unhold(HOLD_MR);
	return 0;
}

/* ---- windows --------------------------------------------------------------- */

struct ibv_mw *sr_mw_alloc(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct sr_mw *mw;
	uint32_t index;

	if (sr_is_siw()) { /* its driver has no such call */
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2) {
		errno = EINVAL;
		return NULL;
	}
	mw = calloc(1, sizeof(*mw));
	index = mw ? take_index() : 0;
	if (!index) {
		free(mw);
		errno = ENOMEM;
		return NULL;
	}
	mw->index = index;
	mw->ib = (struct ibv_mw){
		.context = pd->context,
		.pd = pd,
		.rkey = key_of(index),
		.handle = index,
		.type = type,
	};
	atomic_fetch_add(&sr_to_pd(pd)->users, 1);
	sr_removal_hold(HOLD_MW);
	return &mw->ib;
}

int sr_mw_dealloc(struct ibv_mw *ib)
{
	struct sr_mw *mw = container_of(ib, struct sr_mw, ib);

	withdraw(mw->index);
	unbind(mw);
	give_index(mw->index);
	atomic_fetch_sub(&sr_to_pd(ib->pd)->users, 1);
	free(mw);
	sr_removal_unhold(HOLD_MW);
	return 0;
}

bool sr_mr_invalidate(struct seg *s, uint32_t rkey, uint32_t pd, uint32_t qpn)
{
	struct seg_mr *m = &s->mr[rkey >> 8 & (SEG_MAX_MR - 1)];
	uint32_t key = rkey;

	if (!rkey || rkey & MR_LKEY_BIT || atomic_load(&m->rkey) != rkey || m->pd != pd ||
	    m->kind != SEG_MW2 || atomic_load(&m->qpn) != qpn)
		return false;
	return atomic_compare_exchange_strong(&m->rkey, &key, 0);
}

static bool bind_range_ok(const struct sr_mr *mr, const struct ibv_mw_bind_info *info)
{
	uint64_t start = seg_self->mr[mr->index].iova;
	uint64_t off = info->addr - start;

	if (!(mr->access & IBV_ACCESS_MW_BIND) || off > mr->ib.length ||
	    info->length > mr->ib.length - off)
		return false;
	/* IBA 10.6.7.2.2: write and atomics through a window need a writable region */
	return mr->access & IBV_ACCESS_LOCAL_WRITE ||
	       !(info->mw_access_flags & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC));
}

enum ibv_wc_status sr_mr_bind(struct ibv_mw *ib, uint32_t rkey, uint32_t qpn,
			      const struct ibv_mw_bind_info *info)
{
	struct sr_mw *mw = container_of(ib, struct sr_mw, ib);
	struct seg_mr *m = &seg_self->mr[mw->index];
	struct sr_mr *mr = info->mr ? container_of(info->mr, struct sr_mr, ib) : NULL;

	if (ib->type == IBV_MW_TYPE_2 &&
	    (atomic_load(&m->rkey) || rkey >> 8 != ib->rkey >> 8 || !info->length))
		return IBV_WC_MW_BIND_ERR; /* IBA 10.6.7.2.3: must be in the free state */
	if (mr &&
	    (sr_to_pd(mr->ib.pd)->number != sr_to_pd(ib->pd)->number || !bind_range_ok(mr, info)))
		return IBV_WC_MW_BIND_ERR;
	atomic_store(&m->rkey, 0);
	unbind(mw);
	if (!mr || !info->length)
		return IBV_WC_SUCCESS; /* type 1: a bind of length 0 unbinds */
	pthread_mutex_lock(&lock);
	link_window(mr, mw);
	pthread_mutex_unlock(&lock);
	m->pd = sr_to_pd(ib->pd)->number;
	m->access = info->mw_access_flags;
	m->kind = ib->type == IBV_MW_TYPE_2 ? SEG_MW2 : SEG_MW1;
	atomic_store(&m->qpn, qpn);
	m->iova = info->mw_access_flags & IBV_ACCESS_ZERO_BASED ? 0 : info->addr;
	m->va = (uintptr_t)mr->ib.addr + (info->addr - seg_self->mr[mr->index].iova);
	m->length = info->length;
	m->share_at = mr->shared.at + (info->addr - seg_self->mr[mr->index].iova);
	atomic_store(&m->share, mr->shared.share);
	atomic_store(&m->rkey, rkey);
	return IBV_WC_SUCCESS;
}
