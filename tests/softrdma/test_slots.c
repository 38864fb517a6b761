/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs built against newer or fuller headers: every slot of verbs_context that the device does
 * not fill, every slot that newer headers add, and every exported function that it does not support
 * return EOPNOTSUPP. Source: verbs.h, verbs_get_ctx_op() and the inline functions that use it.
 */
#include "rig.h"

#include <errno.h>
#include <rdma/rdma_cma.h>
#include <string.h>

#define refused(call) assert_int_equal(call, EOPNOTSUPP)
#define refused_by_errno(call, failure)                                                            \
	do {                                                                                       \
		errno = 0;                                                                         \
		assert_true((call) == (failure));                                                  \
		assert_int_equal(errno, EOPNOTSUPP);                                               \
	} while (0)

/* The context as a program uses it that was built when verbs_context had more slots. */
struct newer_context {
	int (*newest)(void);
	int (*newer)(void);
	struct verbs_context known;
};

static void slots_of_newer_headers(void **state)
{
	struct rig *r = *state;
	struct verbs_context *v = verbs_get_ctx(r->ctx);
	struct newer_context *n =
		(struct newer_context *)(void *)((char *)v - offsetof(struct newer_context, known));

	assert_non_null(v);
	assert_in_range(v->sz, 1, sizeof(*v));
	/* verbs_get_ctx_op() compares sz with the distance of the slot from the end */
	assert_true(v->sz < sizeof(*n) - offsetof(struct newer_context, newest));
	assert_true(v->sz < sizeof(*n) - offsetof(struct newer_context, newer));
}

/* Each slot is either a function or NULL, which the inline functions look for. */
static void slots_are_filled_or_null(void **state)
{
	struct rig *r = *state;
	struct verbs_context *v = verbs_get_ctx(r->ctx);
	void *slot;
	unsigned filled = 0;

	for (size_t at = 0; at < offsetof(struct verbs_context, sz); at += sizeof(slot)) {
		memcpy(&slot, (char *)v + at, sizeof(slot));
		filled += slot != NULL;
	}
	assert_in_range(filled, 5, 24);
	assert_null(v->priv);
}

static void calls_that_make_objects(void **state)
{
	struct rig *r = *state;
	struct ibv_flow_action_esp_attr esp = {0};
	struct ibv_dm dm = {.context = r->ctx};
	struct ibv_srq_init_attr_ex tm = {.comp_mask = IBV_SRQ_INIT_ATTR_TYPE,
					  .srq_type = IBV_SRQT_TM};
	struct ibv_qp_init_attr other = {.send_cq = r->a.scq, .recv_cq = r->a.rcq};
	static const enum ibv_qp_type others[] = {IBV_QPT_RAW_PACKET, IBV_QPT_DRIVER};

	refused_by_errno(ibv_create_flow_action_esp(r->ctx, &esp), NULL);
	refused_by_errno(ibv_reg_dm_mr(r->pd, &dm, 0, 64, IBV_ACCESS_ZERO_BASED), NULL);
	tm.comp_mask |= IBV_SRQ_INIT_ATTR_PD;
	tm.pd = r->pd;
	refused_by_errno(ibv_create_srq_ex(r->ctx, &tm), NULL);
	for (unsigned i = 0; i < n_of(others); i++) {
		other.qp_type = others[i];
		refused_by_errno(ibv_create_qp(r->pd, &other), NULL);
	}
}

static void calls_on_objects(void **state)
{
	struct rig *r = *state;
	struct ibv_counters counters = {.context = r->ctx};
	struct ibv_flow_action action = {.context = r->ctx};
	struct ibv_flow flow = {.context = r->ctx};
	struct ibv_rwq_ind_table table = {.context = r->ctx};
	struct ibv_wq wq = {.context = r->ctx};
	struct ibv_dm dm = {.context = r->ctx};
	struct ibv_counter_attach_attr attach = {0};
	struct ibv_flow_action_esp_attr esp = {0};
	struct ibv_wq_attr wq_attr = {0};
	uint64_t value;

	refused(ibv_attach_counters_point_flow(&counters, &attach, &flow));
	refused(ibv_read_counters(&counters, &value, 1, 0));
	refused(ibv_destroy_counters(&counters));
	refused(ibv_modify_flow_action_esp(&action, &esp));
	refused(ibv_destroy_flow_action(&action));
	refused(ibv_destroy_flow(&flow));
	refused(ibv_destroy_rwq_ind_table(&table));
	refused(ibv_modify_wq(&wq, &wq_attr));
	refused(ibv_destroy_wq(&wq));
	refused(ibv_free_dm(&dm));
}

static void exported_functions(void **state)
{
	struct rig *r = *state;
	struct ibv_ah_attr attr = {0};
	struct ibv_ece ece = {0};
	uint8_t mac[6];
	uint16_t vlan;

	refused_by_errno(ibv_resolve_eth_l2_from_gid(r->ctx, &attr, mac, &vlan), -1);
	refused_by_errno(ibv_import_dm(r->ctx, 1), NULL);
	refused(ibv_query_ece(r->a.qp, &ece));
	ibv_unimport_pd(r->pd); /* no result: must only do no harm */
	ibv_unimport_mr(r->a.mr);
	ibv_unimport_dm(NULL);
}

static void connection_manager(void **state)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *id;
	struct ibv_ece ece = {0};

	assert_int_equal(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
	refused_by_errno(rdma_set_local_ece(id, &ece), -1);
	rdma_destroy_id(id);
	rdma_destroy_event_channel(ch);
}

#define T(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(slots_of_newer_headers), T(slots_are_filled_or_null), T(calls_that_make_objects),
		T(calls_on_objects),	   T(exported_functions),	T(connection_manager),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
