/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The surface: functions that are not supported return EOPNOTSUPP and do not crash; and a program
 * that looks for the libraries by name finds this one. Sources: verbs.h (the inline functions and
 * verbs_get_ctx_op), rdma-core's symbol versions.
 */
#include "rig.h"

#include <dlfcn.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <string.h>
#include <sys/socket.h>

#define absent(call)                                                                               \
	do {                                                                                       \
		errno = 0;                                                                         \
		assert_null(call);                                                                 \
		assert_int_equal(errno, EOPNOTSUPP);                                               \
	} while (0)

static void absent_objects(void **state)
{
	struct rig *r = *state;
	struct ibv_flow_attr flow = {0};
	struct ibv_alloc_dm_attr dm = {.length = 64};
	struct ibv_counters_init_attr counters = {0};
	struct ibv_wq_init_attr wq = {0};
	struct ibv_rwq_ind_table_init_attr table = {0};

	absent(ibv_create_flow(r->a.qp, &flow));
	absent(ibv_alloc_dm(r->ctx, &dm));
	absent(ibv_alloc_null_mr(r->pd));
	absent(ibv_create_counters(r->ctx, &counters));
	absent(ibv_create_wq(r->ctx, &wq));
	absent(ibv_create_rwq_ind_table(r->ctx, &table));
	absent(ibv_reg_dmabuf_mr(r->pd, 0, 4096, 0, 0, 0));
	absent(ibv_import_device(0));
	absent(ibv_import_pd(r->ctx, 1));
	absent(ibv_import_mr(r->pd, 1));
}

static void absent_operations(void **state)
{
	struct rig *r = *state;
	struct ibv_modify_cq_attr cq = {0};
	struct ibv_qp_rate_limit_attr rate = {0};
	struct ibv_ece ece = {0};

	assert_int_equal(ibv_modify_cq(r->a.scq, &cq), EOPNOTSUPP);
	assert_int_equal(ibv_modify_qp_rate_limit(r->a.qp, &rate), EOPNOTSUPP);
	assert_int_equal(ibv_advise_mr(r->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, NULL, 0),
			 EOPNOTSUPP);
	assert_int_equal(ibv_set_ece(r->a.qp, &ece), EOPNOTSUPP);
}

/* Programs built with newer headers call slots beyond the end of the provider's structure. */
static void every_slot_of_the_context(void **state)
{
	struct rig *r = *state;
	struct verbs_context *v = verbs_get_ctx(r->ctx);

	assert_non_null(v);
	assert_true(v->sz <= sizeof(*v));
	assert_int_equal(offsetof(struct verbs_context, context) + sizeof(struct ibv_context),
			 sizeof(*v));
	assert_non_null(verbs_get_ctx_op(r->ctx, query_port));
	assert_non_null(verbs_get_ctx_op(r->ctx, create_qp_ex));
	assert_null(verbs_get_ctx_op(r->ctx, create_wq));
}

static void queries(void **state)
{
	struct rig *r = *state;
	struct ibv_device_attr_ex dev;
	struct ibv_port_attr port;
	struct ibv_gid_entry entries[64], one;
	struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
	union ibv_gid gid;
	__be16 pkey;
	ssize_t n;

	assert_int_equal(ibv_query_device_ex(r->ctx, NULL, &dev), 0);
	assert_in_range(dev.orig_attr.max_sge, 1, 255);
	assert_int_equal(ibv_query_port(r->ctx, 1, &port), 0);
	assert_int_equal(port.state, IBV_PORT_ACTIVE);
	assert_int_equal(port.link_layer, IBV_LINK_LAYER_ETHERNET);
	assert_int_equal(ibv_query_port(r->ctx, 2, &port), EINVAL);
	n = ibv_query_gid_table(r->ctx, entries, 64, 0);
	assert_int_equal(n, port.gid_tbl_len - 1); /* the last entry is empty */
	assert_int_equal(ibv_query_gid_ex(r->ctx, 1, (uint32_t)n, &one, 0), ENODATA);
	assert_int_equal(ibv_query_gid(r->ctx, 1, (int)n, &gid), 0);
	assert_int_equal(gid.global.subnet_prefix | gid.global.interface_id, 0);
	assert_int_equal(ibv_query_gid_ex(r->ctx, 1, 0, &one, 0), 0);
	assert_memory_equal(&one, &entries[0], sizeof(one));
	assert_int_equal(ibv_query_gid(r->ctx, 1, 0, &gid), 0);
	assert_int_equal(ibv_query_gid(r->ctx, 1, 100, &gid), -1);
	assert_int_equal(ibv_query_pkey(r->ctx, 1, 0, &pkey), 0);
	assert_int_equal(pkey, 0xffff);
	assert_int_equal(ibv_get_pkey_index(r->ctx, 1, pkey), 0);
	assert_int_equal(ibv_query_rt_values_ex(r->ctx, &values), 0);
	assert_int_equal(values.comp_mask, IBV_VALUES_MASK_RAW_CLOCK);
}

/* NCCL's way: dlopen and dlvsym. */
static void found_by_name_and_version(void **state)
{
	void *verbs = dlopen("libibverbs.so.1", RTLD_NOW);
	void *cm = dlopen("librdmacm.so", RTLD_NOW);

	assert_non_null(verbs);
	assert_non_null(cm);
	assert_ptr_equal(dlvsym(verbs, "ibv_open_device", "IBVERBS_1.1"), ibv_open_device);
	assert_ptr_equal(dlsym(verbs, "ibv_get_device_list"), ibv_get_device_list);
	assert_non_null(dlvsym(verbs, "ibv_reg_mr_iova2", "IBVERBS_1.8"));
	assert_non_null(dlvsym(verbs, "ibv_query_gid_type", "IBVERBS_PRIVATE_34"));
	assert_non_null(dlvsym(cm, "rdma_establish", "RDMACM_1.2"));
	assert_null(dlvsym(verbs, "ibv_open_device", "IBVERBS_1.14"));
	dlclose(verbs);
	dlclose(cm);
}

/* All functions of rdma-core 44 that touch a context or an id are this library's. */
static void nothing_is_left_to_the_real_library(void **state)
{
	static const char *const names[] = {
		"ibv_ack_async_event",
		"ibv_close_device",
		"ibv_create_srq",
		"ibv_detach_mcast",
		"ibv_init_ah_from_wc",
		"ibv_query_qp_data_in_order",
		"ibv_resize_cq",
		"ibv_query_ece",
		"ibv_unimport_dm",
		"ibv_rereg_mr",
		"ibv_resolve_eth_l2_from_gid",
		"rdma_accept",
		"rdma_create_qp_ex",
		"rdma_create_srq_ex",
		"rdma_get_devices",
		"rdma_get_remote_ece",
		"rdma_join_multicast_ex",
		"rdma_migrate_id",
		"rdma_reject_ece",
		"rdma_set_option",
		"rdma_freeaddrinfo",
	};
	Dl_info info;

	for (unsigned i = 0; i < n_of(names); i++) {
		assert_int_not_equal(dladdr(dlsym(RTLD_DEFAULT, names[i]), &info), 0);
		assert_non_null(strstr(info.dli_fname, "softrdma"));
	}
}

#define T(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(absent_objects),
		T(absent_operations),
		T(every_slot_of_the_context),
		T(queries),
		T(found_by_name_and_version),
		T(nothing_is_left_to_the_real_library),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
