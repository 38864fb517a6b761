/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How programs find this library instead of libibverbs and librdmacm.
 *
 * Programs linked with those libraries bind to our definitions because this library is preloaded.
 * Programs that dlopen() them and use dlvsym() would get the real ones, so our dlopen() returns
 * this library instead. Functions that the device does not support are here too, because the real
 * ones would follow pointers that our objects lack; they return EOPNOTSUPP.
 */
#include <dlfcn.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "softrdma/fabric/seg.h"
#include "softrdma/verbs/context.h"

/* ---- dlopen ------------------------------------------------------------------ */

static int is_ours(const char *file)
{
	const char *base = file ? strrchr(file, '/') : NULL;

	base = base ? base + 1 : file;
	return base && (!strncmp(base, "libibverbs.so", 13) || !strncmp(base, "librdmacm.so", 12));
}

SR_API void *dlopen(const char *file, int mode)
{
	static void *(*real)(const char *, int);
	Dl_info self;

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "dlopen");
	if (is_ours(file) && dladdr(__func__, &self) && self.dli_fname)
		file = self.dli_fname;
	return real(file, mode);
}

/* ---- mlockall ---------------------------------------------------------------- */

/*
 * To lock a mapping fills it, and segments are huge and sparse: a program that locks its memory
 * after it has opened the device would use up the machine's. So what is mapped already is locked
 * page by page, as it is touched; what comes later is as the program wants it (seg.c).
 */
SR_API int mlockall(int flags)
{
	static int (*real)(int);
	int r;

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "mlockall");
	if (!seg_self || !(flags & MCL_CURRENT))
		return real(flags);
	r = real(MCL_CURRENT | MCL_ONFAULT);
	return r || !(flags & MCL_FUTURE) ? r : real(flags & ~MCL_CURRENT);
}

/* ---- not supported ----------------------------------------------------------- */

static void *none(void)
{
	errno = EOPNOTSUPP;
	return NULL;
}

SR_API struct ibv_context *ibv_import_device(int cmd_fd)
{
	return none();
}

SR_API struct ibv_pd *ibv_import_pd(struct ibv_context *c, uint32_t handle)
{
	return none();
}

SR_API void ibv_unimport_pd(struct ibv_pd *pd)
{
}

SR_API struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	return none();
}

SR_API void ibv_unimport_mr(struct ibv_mr *mr)
{
}

SR_API struct ibv_dm *ibv_import_dm(struct ibv_context *c, uint32_t handle)
{
	return none();
}

SR_API void ibv_unimport_dm(struct ibv_dm *dm)
{
}

/* Enhanced connection establishment: nothing to negotiate. */

SR_API int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	memset(ece, 0, sizeof(*ece));
	return EOPNOTSUPP;
}

SR_API int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	return EOPNOTSUPP;
}

SR_API int rdma_set_local_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	errno = EOPNOTSUPP;
	return -1;
}

SR_API int rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	memset(ece, 0, sizeof(*ece));
	return 0;
}
