/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs of a library, found at run time; see provider.h. */
#include "transport/provider.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "base/bits.h"
#include "base/error.h"
#include "transport/fabric.h"

/* The header checks arguments in macros of these names. */
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

/* Each is X(type, name, parameters, arguments). */
#define VERBS(X)                                                                                   \
	X(struct ibv_device **, ibv_get_device_list, (int *n), (n))                                \
	X(void, ibv_free_device_list, (struct ibv_device * *list), (list))                         \
	X(const char *, ibv_get_device_name, (struct ibv_device * device), (device))               \
	X(int, ibv_query_device, (struct ibv_context * c, struct ibv_device_attr * a), (c, a))     \
	X(struct ibv_pd *, ibv_alloc_pd, (struct ibv_context * c), (c))                            \
	X(int, ibv_dealloc_pd, (struct ibv_pd * pd), (pd))                                         \
	X(struct ibv_mr *, ibv_reg_mr, (struct ibv_pd * pd, void *p, size_t n, int access),        \
	  (pd, p, n, access))                                                                      \
	X(struct ibv_mr *, ibv_reg_mr_iova2,                                                       \
	  (struct ibv_pd * pd, void *p, size_t n, uint64_t iova, unsigned access),                 \
	  (pd, p, n, iova, access))                                                                \
	X(int, ibv_dereg_mr, (struct ibv_mr * mr), (mr))                                           \
	X(struct ibv_comp_channel *, ibv_create_comp_channel, (struct ibv_context * c), (c))       \
	X(int, ibv_destroy_comp_channel, (struct ibv_comp_channel * channel), (channel))           \
	X(struct ibv_cq *, ibv_create_cq,                                                          \
	  (struct ibv_context * c, int n, void *p, struct ibv_comp_channel *ch, int vector),       \
	  (c, n, p, ch, vector))                                                                   \
	X(int, ibv_resize_cq, (struct ibv_cq * cq, int n), (cq, n))                                \
	X(int, ibv_destroy_cq, (struct ibv_cq * cq), (cq))                                         \
	X(int, ibv_get_cq_event, (struct ibv_comp_channel * ch, struct ibv_cq * *cq, void **p),    \
	  (ch, cq, p))                                                                             \
	X(void, ibv_ack_cq_events, (struct ibv_cq * cq, unsigned n), (cq, n))                      \
	X(struct ibv_srq *, ibv_create_srq, (struct ibv_pd * pd, struct ibv_srq_init_attr * a),    \
	  (pd, a))                                                                                 \
	X(int, ibv_destroy_srq, (struct ibv_srq * srq), (srq))                                     \
	X(int, ibv_modify_qp, (struct ibv_qp * qp, struct ibv_qp_attr * a, int mask),              \
	  (qp, a, mask))                                                                           \
	X(int, ibv_get_async_event, (struct ibv_context * c, struct ibv_async_event * e), (c, e))  \
	X(void, ibv_ack_async_event, (struct ibv_async_event * e), (e))                            \
	X(const char *, ibv_wc_status_str, (enum ibv_wc_status status), (status))                  \
	X(const char *, ibv_event_type_str, (enum ibv_event_type type), (type))                    \
	X(struct rdma_event_channel *, rdma_create_event_channel, (void), ())                      \
	X(void, rdma_destroy_event_channel, (struct rdma_event_channel * ch), (ch))                \
	X(int, rdma_create_id,                                                                     \
	  (struct rdma_event_channel * ch, struct rdma_cm_id * *id, void *p,                       \
	   enum rdma_port_space ps),                                                               \
	  (ch, id, p, ps))                                                                         \
	X(int, rdma_destroy_id, (struct rdma_cm_id * id), (id))                                    \
	X(int, rdma_bind_addr, (struct rdma_cm_id * id, struct sockaddr * a), (id, a))             \
	X(int, rdma_resolve_addr,                                                                  \
	  (struct rdma_cm_id * id, struct sockaddr * src, struct sockaddr * dst, int ms),          \
	  (id, src, dst, ms))                                                                      \
	X(int, rdma_resolve_route, (struct rdma_cm_id * id, int ms), (id, ms))                     \
	X(int, rdma_create_qp,                                                                     \
	  (struct rdma_cm_id * id, struct ibv_pd * pd, struct ibv_qp_init_attr * a), (id, pd, a))  \
	X(void, rdma_destroy_qp, (struct rdma_cm_id * id), (id))                                   \
	X(int, rdma_connect, (struct rdma_cm_id * id, struct rdma_conn_param * p), (id, p))        \
	X(int, rdma_listen, (struct rdma_cm_id * id, int backlog), (id, backlog))                  \
	X(int, rdma_accept, (struct rdma_cm_id * id, struct rdma_conn_param * p), (id, p))         \
	X(int, rdma_reject, (struct rdma_cm_id * id, const void *p, uint8_t n), (id, p, n))        \
	X(int, rdma_notify, (struct rdma_cm_id * id, enum ibv_event_type e), (id, e))              \
	X(int, rdma_disconnect, (struct rdma_cm_id * id), (id))                                    \
	X(int, rdma_get_cm_event, (struct rdma_event_channel * ch, struct rdma_cm_event * *e),     \
	  (ch, e))                                                                                 \
	X(int, rdma_ack_cm_event, (struct rdma_cm_event * e), (e))                                 \
	X(__be16, rdma_get_src_port, (struct rdma_cm_id * id), (id))                               \
	X(int, rdma_set_option, (struct rdma_cm_id * id, int level, int name, void *p, size_t n),  \
	  (id, level, name, p, n))                                                                 \
	X(const char *, rdma_event_str, (enum rdma_cm_event_type e), (e))

#define SLOT(type, name, params, args) void *name;
static struct {
	VERBS(SLOT)
} table;

#define DEFINE(type, name, params, args)                                                           \
	type name params                                                                           \
	{                                                                                          \
		return ((type(*) params)table.name)args;                                           \
	}
VERBS(DEFINE)

#define NAME(type, name, params, args) #name,
static const char *const names[] = {VERBS(NAME)};
_Static_assert(sizeof(table) == sizeof(names), "a slot for each name");

enum choice {
	CHOICE_NONE,
	CHOICE_REAL,
	CHOICE_SOFT,
};

/* Thread: any, under lock */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static enum choice choice;

/* The provider leaves these texts to the real library. */
static const char *some_text(int value)
{
	return "failed";
}

/* From the handles, the first that has it. NULL: found; else the name of a function that is
 * missing. */
static const char *fill(void *const handles[], unsigned n)
{
	void **slot = (void **)&table;

	for (unsigned i = 0; i < ARRAY_LEN(names); i++) {
		slot[i] = NULL;
		for (unsigned k = 0; k < n && !slot[i]; k++)
			if (handles[k])
				slot[i] = dlsym(handles[k], names[i]);
		if (!slot[i] && strstr(names[i], "_str"))
			slot[i] = (void *)some_text;
		if (!slot[i])
			return names[i];
	}
	return NULL;
}

static bool use_real(void)
{
	void *handles[] = {dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL),
			   dlopen("librdmacm.so.1", RTLD_NOW | RTLD_LOCAL)};

	return handles[0] && handles[1] && !fill(handles, 2);
}

/* Where this library is: in a build tree the provider lies beside its folder. */
static const char *own_path(void)
{
	Dl_info self;

	return dladdr((void *)provider_choose, &self) ? self.dli_fname : NULL;
}

static int use_soft(const char *why, struct error *error)
{
	const char *missing = NULL;
	char path[PATH_MAX];
	void *handles[2];

	if (!fabric_find_provider(path, own_path())) {
		error_set(error, EXIT_PRIVILEGE,
			  "install softrdma, or set SOFTRDMA_LIB to libsoftrdma.so",
			  "%s, and the software RDMA provider was not found", why);
		return -ENODEV;
	}
	handles[0] = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	handles[1] = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
	if (handles[0])
		missing = fill(handles, 2);
	if (handles[0] && !missing)
		return 0;
	error_set(error, EXIT_FAILED, "install librblk and softrdma of one version",
		  "the software RDMA provider %s cannot be used: %s", path,
		  missing ? missing : dlerror());
	return -ENODEV;
}

/* The program runs under softrdma(1), so the provider's symbols come first. */
static int use_preloaded(struct error *error)
{
	void *handles[] = {dlopen(NULL, RTLD_NOW)};
	const char *missing = fill(handles, 1);

	if (!missing)
		return 0;
	error_set(error, EXIT_FAILED, "install librblk and softrdma of one version",
		  "the preloaded RDMA provider lacks %s", missing);
	return -ENODEV;
}

static int choose_first(const char *fabric, bool is_soft, struct error *error)
{
	bool is_auto = !strcmp(fabric, "auto");

	if (fabric_is_soft()) {
		choice = CHOICE_SOFT;
		return use_preloaded(error);
	}
	if (is_soft) {
		choice = CHOICE_SOFT;
		return use_soft("software fabric asked for", error);
	}
	choice = CHOICE_REAL;
	if (use_real() && fabric_has_device(is_auto ? NULL : fabric))
		return 0;
	if (!is_auto) {
		error_set(error, EXIT_NOT_FOUND,
			  "list devices with: rdma link; or take fabric=auto",
			  "there is no RDMA device '%s'", fabric);
		return -ENODEV;
	}
	if (!fabric_auto_may_be_soft()) {
		error_set(error, EXIT_NOT_FOUND,
			  "softrdma has to be asked for here: fabric=soft-roce",
			  "there is no RDMA device");
		return -ENODEV;
	}
	choice = CHOICE_SOFT;
	return use_soft("there is no RDMA device", error);
}

static int choose_again(const char *fabric, bool is_soft, struct error *error)
{
	if (!strcmp(fabric, "auto") || is_soft == (choice == CHOICE_SOFT))
		return 0;
	error_set(error, EXIT_BUSY, "take the same fabric for all volumes of a process",
		  "fabric '%s': this process uses %s already", fabric,
		  choice == CHOICE_SOFT ? "the software RDMA provider" : "real RDMA devices");
	return -EBUSY;
}

int provider_choose(const char *fabric, struct error *error)
{
	bool is_soft;
	int r;

	fabric = fabric ? fabric : "auto";
	is_soft = !strcmp(fabric, "soft") || !strcmp(fabric, "soft-roce");
	if (!strcmp(fabric, "soft-roce") && !getenv("SOFTRDMA_ROCE")) {
		error_set(error, EXIT_USAGE, "set it to 'any' or a local address, see softrdma(1)",
			  "fabric soft-roce needs SOFTRDMA_ROCE in the environment");
		return -EINVAL;
	}
	pthread_mutex_lock(&lock);
	if (choice != CHOICE_NONE) {
		r = choose_again(fabric, is_soft, error);
	} else {
		r = choose_first(fabric, is_soft, error);
		if (r < 0)
			choice = CHOICE_NONE;
	}
	pthread_mutex_unlock(&lock);
	return r;
}
