/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device softrdma0: listing, opening, and the queries about it.
 *
 * It looks like a RoCE v2 adapter with one active port. A context is a verbs_context, so the inline
 * verbs of the headers find their extended functions. They return EOPNOTSUPP for a slot that is
 * NULL, and for a slot that newer headers have and this structure lacks (its `sz`).
 */
#include "softrdma/verbs/context.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "softrdma/chaos/chaos.h"
#include "softrdma/fabric/engine.h"
#include "softrdma/verbs/async.h"
#include "softrdma/verbs/cq_poll.h"
#include "softrdma/verbs/gid.h"
#include "softrdma/verbs/post.h"
#include "softrdma/verbs/sr_cq.h"
#include "softrdma/fabric/node.h"
#include "softrdma/process/helper.h"
#include "softrdma/process/timer.h"
#include "softrdma/verbs/sr_qp.h"
#include "softrdma/verbs/removal.h"
#include "softrdma/verbs/srq.h"
#include "softrdma/verbs/mr.h"
#include "softrdma/verbs/srq_create.h"
#include "softrdma/verbs/xrc.h"
#include "softrdma/process/likeness.h"
#include "softrdma/process/part.h"

#undef ibv_query_port

/* In libibverbs' <infiniband/driver.h>, which is not installed. */
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);
const char *ibv_get_sysfs_path(void);

#define NODE_GUID 0x0200000000535244ULL /* locally administered */

enum {
	VENDOR_ID = 0xffffff, /* no manufacturer's: that of Linux' rdma_rxe */
	SIW_VENDOR_ID = 0x626d74,
};

SR_API struct ibv_device **ibv_get_device_list(int *num)
{
	struct ibv_device **list = calloc(2, sizeof(*list));

	if (!list) {
		errno = ENOMEM;
		return NULL;
	}
	list[0] = sr_removal_device();
	if (num)
		*num = list[0] ? 1 : 0;
	return list;
}

SR_API void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

SR_API const char *ibv_get_device_name(struct ibv_device *d)
{
	return d->name;
}

SR_API int ibv_get_device_index(struct ibv_device *d)
{
	return 0;
}

SR_API __be64 ibv_get_device_guid(struct ibv_device *d)
{
	return __builtin_bswap64(NODE_GUID);
}

/* ---- queries --------------------------------------------------------------- */

SR_API int ibv_query_device(struct ibv_context *c, struct ibv_device_attr *a)
{
	*a = (struct ibv_device_attr){
		.fw_ver = RBLK_VERSION,
		.node_guid = ibv_get_device_guid(c->device),
		.sys_image_guid = ibv_get_device_guid(c->device),
		.max_mr_size = UINT64_MAX >> 1,
		.page_size_cap = 0xfffffffffffff000ULL,
		.vendor_id = VENDOR_ID,
		.vendor_part_id = 1,
		.max_qp = SEG_MAX_QP,
		.max_qp_wr = DEV_MAX_WR,
		.device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_PORT_ACTIVE_EVENT |
				    IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN |
				    IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B |
				    IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_XRC,
		.max_sge = DEV_MAX_SGE,
		.max_sge_rd = DEV_MAX_SGE,
		.max_cq = SEG_MAX_CQ,
		.max_cqe = DEV_MAX_CQE,
		.max_mr = SEG_MAX_MR - 1,
		.max_pd = 65536,
		.max_qp_rd_atom = DEV_MAX_RD_ATOMIC,
		.max_res_rd_atom = DEV_MAX_RD_ATOMIC * SEG_MAX_QP,
		.max_qp_init_rd_atom = DEV_MAX_RD_ATOMIC,
		.atomic_cap = IBV_ATOMIC_HCA,
		.max_mw = SEG_MAX_MR - 1,
		.max_srq = SEG_MAX_SRQ,
		.max_srq_wr = DEV_MAX_WR,
		.max_srq_sge = DEV_MAX_SRQ_SGE,
		.max_ah = DEV_MAX_AH,
		.max_mcast_grp = SEG_MAX_MEMBER,
		.max_mcast_qp_attach = SEG_MAX_MEMBER,
		.max_total_mcast_qp_attach = SEG_MAX_MEMBER,
		.max_pkeys = 1,
		.local_ca_ack_delay = 15,
		.phys_port_cnt = 1,
	};
	if (sr_is_siw()) { /* siw_query_device() */
		a->atomic_cap = IBV_ATOMIC_NONE;
		a->device_cap_flags = IBV_DEVICE_MEM_MGT_EXTENSIONS;
		a->vendor_id = SIW_VENDOR_ID;
		a->max_mw = a->max_ah = 0;
		a->max_mcast_grp = a->max_mcast_qp_attach = a->max_total_mcast_qp_attach = 0;
	}
	return 0;
}

static int query_device_ex(struct ibv_context *c, const struct ibv_query_device_ex_input *in,
			   struct ibv_device_attr_ex *attr, size_t size)
{
	struct ibv_device_attr_ex a = {0};

	if (in && in->comp_mask)
		return EINVAL;
	ibv_query_device(c, &a.orig_attr);
	a.device_cap_flags_ex = a.orig_attr.device_cap_flags;
	a.completion_timestamp_mask = UINT64_MAX;
	a.hca_core_clock = 1000000; /* kHz: time stamps are nanoseconds */
	a.phys_port_cnt_ex = 1;
	memset(attr, 0, size);
	memcpy(attr, &a, size < sizeof(a) ? size : sizeof(a));
	return 0;
}

static int query_port(struct ibv_context *c, uint8_t port, struct ibv_port_attr *attr, size_t size)
{
	struct ibv_port_attr a = {
		.state = chaos_port_is_down() ? IBV_PORT_DOWN : IBV_PORT_ACTIVE,
		.max_mtu = IBV_MTU_4096,
		.active_mtu = sr_engine_path_mtu(),
		.gid_tbl_len = sr_gid_count(),
		.port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS,
		.max_msg_sz = DEV_MAX_MSG,
		.pkey_tbl_len = 1,
		.max_vl_num = 1,
		.active_width = 2,			    /* 4x */
		.active_speed = 32,			    /* EDR */
		.phys_state = chaos_port_is_down() ? 3 : 5, /* Disabled, LinkUp */
		.link_layer = IBV_LINK_LAYER_ETHERNET,
		.flags = IBV_QPF_GRH_REQUIRED,
	};

	if (port != 1)
		return EINVAL;
	memset(attr, 0, size);
	memcpy(attr, &a, size < sizeof(a) ? size : sizeof(a));
	return 0;
}

/* The exported symbol fills the structure of old headers, which ends at link_layer. */
SR_API int ibv_query_port(struct ibv_context *c, uint8_t port, struct _compat_ibv_port_attr *attr)
{
	return query_port(c, port, (struct ibv_port_attr *)attr,
			  offsetof(struct ibv_port_attr, flags));
}

SR_API int ibv_query_pkey(struct ibv_context *c, uint8_t port, int index, __be16 *pkey)
{
	if (port != 1 || index) {
		errno = EINVAL;
		return -1;
	}
	*pkey = DEV_PKEY;
	return 0;
}

SR_API int ibv_get_pkey_index(struct ibv_context *c, uint8_t port, __be16 pkey)
{
	if (port == 1 && pkey == DEV_PKEY)
		return 0;
	errno = EINVAL;
	return -1;
}

static int query_rt_values(struct ibv_context *c, struct ibv_values_ex *v)
{
	uint32_t want = v->comp_mask;

	v->comp_mask = 0;
	if (want & IBV_VALUES_MASK_RAW_CLOCK) {
		clock_gettime(CLOCK_MONOTONIC, &v->raw_clock);
		v->comp_mask |= IBV_VALUES_MASK_RAW_CLOCK;
	}
	return 0;
}

SR_API int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size)
{
	errno = ENOENT;
	return -1;
}

SR_API const char *ibv_get_sysfs_path(void)
{
	return "/sys";
}

SR_API int ibv_fork_init(void)
{
	return 0; /* children inherit no mapping: always safe */
}

SR_API enum ibv_fork_status ibv_is_fork_initialized(void)
{
	return IBV_FORK_UNNEEDED;
}

/* ---- contexts -------------------------------------------------------------- */

static const struct ibv_context_ops context_ops = {
	.alloc_mw = sr_mw_alloc,
	.bind_mw = sr_mw_bind,
	.dealloc_mw = sr_mw_dealloc,
	.poll_cq = sr_cq_poll,
	.req_notify_cq = sr_cq_req_notify,
	.post_srq_recv = sr_srq_post_recv,
	.post_send = sr_qp_post_send,
	.post_recv = sr_qp_post_recv,
};

/*
 * The context's descriptor, in place of /dev/infiniband/uverbs0. The context holds the device until
 * the descriptor is closed, by ibv_close_device or otherwise; the helper has the other end.
 */
static int open_cmd_fd(void)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return -1;
	if (sr_helper_watch(ends[1], SR_WATCH_CONTEXT, (uint64_t)ends[1])) {
		close(ends[0]);
		close(ends[1]);
		return -1;
	}
	sr_removal_hold(HOLD_CONTEXT);
	return ends[0];
}

/* No process has this context's descriptor open any more. */
static void on_context_closed(uint64_t fd)
{
	sr_helper_unwatch((int)fd);
	close((int)fd);
	sr_removal_unhold(HOLD_CONTEXT);
}

SR_API struct ibv_context *ibv_open_device(struct ibv_device *d)
{
	struct sr_ctx *c;
	int r = sr_node_start();

	if (!r && d != sr_removal_device())
		r = -ENODEV;
	c = r ? NULL : calloc(1, sizeof(*c));
	if (!c) {
		errno = r ? -r : ENOMEM;
		return NULL;
	}
	c->v = (struct verbs_context){
		.query_port = query_port,
		.create_cq_ex = sr_cq_create_ex,
		.create_qp_ex = sr_qp_create_ex,
		.create_srq_ex = sr_srq_create_ex,
		.query_device_ex = query_device_ex,
		.query_rt_values = query_rt_values,
		.open_xrcd = sr_xrcd_open,
		.close_xrcd = sr_xrcd_close,
		.open_qp = sr_qp_open,
		.get_srq_num = sr_srq_number,
		.alloc_td = sr_td_alloc,
		.dealloc_td = sr_td_dealloc,
		.alloc_parent_domain = sr_parent_domain_alloc,
		.sz = sizeof(c->v),
		.context =
			{
				.device = d,
				.ops = context_ops,
				.cmd_fd = open_cmd_fd(),
				.async_fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE),
				.num_comp_vectors = DEV_N_VECTORS,
				.abi_compat = __VERBS_ABI_IS_EXTENDED,
			},
	};
	if (c->v.context.async_fd < 0 || c->v.context.cmd_fd < 0) {
		close(c->v.context.async_fd);
		close(c->v.context.cmd_fd);
		free(c);
		return NULL;
	}
	pthread_mutex_init(&c->v.context.mutex, NULL);
	pthread_mutex_init(&c->lock, NULL);
	c->last = &c->first;
	sr_async_add_context(c);
	return &c->v.context;
}

SR_API int ibv_close_device(struct ibv_context *context)
{
	struct sr_ctx *c = sr_to_ctx(context);

	sr_async_drop_context(c);
	close(context->async_fd);
	close(context->cmd_fd);
	pthread_mutex_destroy(&context->mutex);
	pthread_mutex_destroy(&c->lock);
	free(c);
	return 0;
}

static const struct sr_part part = {.on_watch[SR_WATCH_CONTEXT] = on_context_closed};
SR_PART(part);
