/* SPDX-License-Identifier: BSD-3-Clause */
/* See scenario.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/rpc.h"
#include "base/rpc_client.h"
#include "tests/failnth/scenario.h"
#include "tests/raw/host.h"
#include "transport/wire/nvme_reservation.h"

enum {
	ANSWER_MS = 60000,
	SERVED_S = 60,
	BLOCK = 4096,
	NO_ANSWER = -1, /* the connection has ended */
	SILENCE = -2,
	IO_QUEUES = 1,
	RESERVATION_KEY = 0x1122,
};

struct host {
	struct raw_host raw;
	bool is_silent; /* a command had no answer, though its connection lives */
};

/* ---- commands -------------------------------------------------------------------------------- */

static int answer(struct host *h, struct raw_queue *q, struct nvme_cqe *ret_cqe)
{
	if (raw_receive(q, ret_cqe, ANSWER_MS))
		return (int)get_nvme_status(ret_cqe->status);
	if (q->is_dead)
		return NO_ANSWER;
	h->is_silent = true;
	return SILENCE;
}

/* The status, NO_ANSWER or SILENCE. */
static int try(struct host *h, struct raw_queue *q, const struct nvme_sqe *sqe, const void *data,
	       uint32_t n)
{
	uint8_t capsule[RAW_CAPSULE_MAX];
	struct nvme_cqe cqe;

	if (q->is_dead || h->is_silent)
		return NO_ANSWER;
	memcpy(capsule, sqe, sizeof(*sqe));
	if (n)
		memcpy(capsule + sizeof(*sqe), data, n);
	raw_send(q, capsule, (uint32_t)sizeof(*sqe) + n);
	return answer(h, q, &cqe);
}

static int try_admin(struct host *h, uint8_t opcode, uint32_t nsid, uint32_t cdw10,
		     uint32_t n_bytes)
{
	struct nvme_sqe sqe = raw_sqe(&h->raw.admin, opcode, nsid);

	if (n_bytes)
		raw_describe(&h->raw.admin, &sqe, 0, n_bytes);
	sqe.cdw10 = put_le32(cdw10);
	return try(h, &h->raw.admin, &sqe, NULL, 0);
}

static int try_io(struct host *h, uint8_t opcode, uint32_t nsid, uint64_t offset, uint32_t n_bytes,
		  bool has_data)
{
	struct raw_queue *q = &h->raw.io;
	unsigned shift = nsid == DAEMON_FILE || nsid == DAEMON_BIG_RAM ? 12 : 9;
	struct nvme_sqe sqe = raw_sqe(q, opcode, nsid);

	if (has_data)
		raw_describe(q, &sqe, 0, n_bytes);
	sqe.cdw10 = put_le32((uint32_t)(offset >> shift));
	sqe.cdw12 = put_le32((n_bytes >> shift) - 1);
	return try(h, q, &sqe, NULL, 0);
}

/* ---- connecting ------------------------------------------------------------------------------ */

static bool try_queue(struct host *h, struct raw_queue *q, uint16_t port, uint16_t qid)
{
	struct raw_connect c;
	struct nvme_cqe cqe;
	struct nvme_sqe sqe;
	int status;

	if (raw_open(q, port, qid, 32))
		return false;
	raw_connect_init(&c, q, qid, 31, qid ? h->raw.cntlid : NVMF_CNTLID_DYNAMIC);
	memcpy(&sqe, &c.cmd, sizeof(sqe));
	if (qid) {
		struct {
			struct nvme_sqe sqe;
			struct nvmf_connect_data data;
		} capsule = {sqe, c.data};

		raw_send(q, &capsule, sizeof(capsule));
	} else {
		memcpy(q->data, &c.data, sizeof(c.data));
		raw_send(q, &sqe, sizeof(sqe));
	}
	status = answer(h, q, &cqe);
	if (status == NVME_OK && !qid)
		h->raw.cntlid = (uint16_t)get_le32(cqe.dw0);
	return status == NVME_OK;
}

static bool try_enable(struct host *h)
{
	struct nvmf_property_cmd cmd = {.opcode = NVME_FABRICS,
					.flags = NVME_FLAGS_PSDT_SGL,
					.fctype = NVMF_PROPERTY_SET,
					.offset = put_le32(NVME_PROP_CC),
					.value = put_le64(NVME_CC_ENABLE_VALUE)};
	struct nvme_sqe sqe;

	memcpy(&sqe, &cmd, sizeof(sqe));
	sqe.sgl.keyed.type = NVME_SGL_KEYED_ADDRESS;
	return try(h, &h->raw.admin, &sqe, NULL, 0) == NVME_OK;
}

/* False: a step failed. */
static bool try_connect(struct host *h, uint16_t port)
{
	return try_queue(h, &h->raw.admin, port, 0) && try_enable(h) &&
	       try_queue(h, &h->raw.io, port, 1);
}

/* ---- what hosts do --------------------------------------------------------------------------- */

static void administer(struct host *h)
{
	struct nvme_sqe aer = raw_sqe(&h->raw.admin, NVME_ADMIN_ASYNC_EVENT_REQUEST, 0);
	static const uint8_t logs[] = {NVME_LOG_ERROR, NVME_LOG_SMART, NVME_LOG_CHANGED_NS,
				       NVME_LOG_EFFECTS};

	for (unsigned i = 0; i < 3; i++)
		try_admin(h, NVME_ADMIN_IDENTIFY, DAEMON_FILE, i, 4096);
	for (unsigned i = 0; i < sizeof(logs); i++)
		try_admin(h, NVME_ADMIN_GET_LOG_PAGE, NVME_NSID_ALL, logs[i] | 127 << 16, 512);
	try_admin(h, NVME_ADMIN_SET_FEATURES, 0, 7, 0);
	try_admin(h, NVME_ADMIN_GET_FEATURES, 0, 7, 0);
	try_admin(h, NVME_ADMIN_KEEP_ALIVE, 0, 0, 0);
	if (!h->raw.admin.is_dead)
		raw_send(&h->raw.admin, &aer, sizeof(aer));
}

/* Whether an acknowledged write is there; true for one that was not acknowledged. */
static bool write_and_read(struct host *h, uint32_t nsid, uint32_t n_bytes, char pattern)
{
	struct raw_queue *q = &h->raw.io;
	int wrote, got;

	if (q->is_dead)
		return true;
	memset(q->data, pattern, n_bytes);
	wrote = try_io(h, NVME_IO_WRITE, nsid, 0, n_bytes, true);
	try_io(h, NVME_IO_FLUSH, nsid, 0, BLOCK, false);
	if (!q->is_dead)
		memset(q->data, 0, n_bytes);
	got = try_io(h, NVME_IO_READ, nsid, 0, n_bytes, true);
	for (uint32_t i = 0; wrote == NVME_OK && got == NVME_OK && i < n_bytes; i += 512)
		if (q->data[i] != pattern)
			return false;
	return true;
}

static void write_in_capsule(struct host *h, char pattern)
{
	struct nvme_sqe sqe = raw_sqe(&h->raw.io, NVME_IO_WRITE, DAEMON_FILE);
	char data[BLOCK];

	memset(data, pattern, sizeof(data));
	sqe.sgl = (struct nvme_sgl){
		.block = {.length = put_le32(BLOCK), .type = NVME_SGL_DATA_BLOCK_OFFSET}};
	sqe.cdw10 = put_le32(100);
	try(h, &h->raw.io, &sqe, data, sizeof(data));
}

static void deallocate(struct host *h, uint32_t nsid)
{
	struct nvme_dsm_range range = {.slba = put_le64(256), .nlb = put_le32(8)};
	struct nvme_sqe sqe = raw_sqe(&h->raw.io, NVME_IO_DSM, nsid);

	if (h->raw.io.is_dead)
		return;
	memcpy(h->raw.io.data, &range, sizeof(range));
	raw_describe(&h->raw.io, &sqe, 0, sizeof(range));
	sqe.cdw11 = put_le32(4); /* deallocate */
	try(h, &h->raw.io, &sqe, NULL, 0);
}

/* Registers (0), unregisters (1); acquires, releases. Each state is saved in a file. */
static void reserve(struct host *h)
{
	static const struct {
		uint8_t opcode;
		uint32_t cdw10;
	} steps[] = {{0x0d, 3u << 30}, {0x11, 1 << 8}, {0x15, 1 << 8}, {0x0d, 3u << 30 | 1}};

	for (unsigned i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		struct nvme_sqe sqe = raw_sqe(&h->raw.io, steps[i].opcode, DAEMON_FILE);
		uint64_t keys[2] = {i ? RESERVATION_KEY : 0, i ? 0 : RESERVATION_KEY};

		if (h->raw.io.is_dead)
			return;
		memcpy(h->raw.io.data, keys, sizeof(keys));
		raw_describe(&h->raw.io, &sqe, 0, i == 2 ? 8 : 16);
		sqe.cdw10 = put_le32(steps[i].cdw10);
		try(h, &h->raw.io, &sqe, NULL, 0);
	}
}

static bool use(struct host *h, unsigned round)
{
	char pattern = (char)('a' + round % 26);
	bool is_right;

	administer(h);
	is_right = write_and_read(h, DAEMON_RAM, 65536, pattern) &&
		   write_and_read(h, DAEMON_FILE, 65536, pattern) &&
		   write_and_read(h, DAEMON_FILE, 1 << 20, pattern);
	write_in_capsule(h, pattern);
	try_io(h, NVME_IO_COMPARE, DAEMON_FILE, 0, BLOCK, true);
	try_io(h, NVME_IO_WRITE_ZEROES, DAEMON_FILE, 1 << 22, BLOCK, false);
	try_io(h, NVME_IO_WRITE_ZEROES, DAEMON_RAM, 1 << 22, BLOCK, false);
	deallocate(h, DAEMON_FILE);
	deallocate(h, DAEMON_RAM);
	reserve(h);
	return is_right;
}

/* ---- what administrators do ------------------------------------------------------------------ */

static int ask(const struct daemon *d, const char *method, struct json_object *params)
{
	struct json_object *result = NULL;
	struct error error;
	char path[128];
	int r;

	snprintf(path, sizeof(path), "%s/sock", d->folder);
	r = rpc_call(path, method, params, ANSWER_MS, &result, &error);
	json_object_put(params);
	json_object_put(result);
	return r;
}

/* Namespace 3 is removed or added again. */
static void edit_config(const struct daemon *d, bool has_all)
{
	char command[256];

	snprintf(command, sizeof(command),
		 has_all ? "sed -i 's/^#//' %s/target.yaml"
			 : "sed -i '/nsid: 3/s/^/#/' %s/target.yaml",
		 d->folder);
	assert_int_equal(system(command), 0);
}

static void change(const struct daemon *d)
{
	struct json_object *params = json_object_new_object();

	ask(d, "status", NULL);
	ask(d, "list", NULL);
	json_object_object_add(params, "subsystem", json_object_new_string(RAW_SUBNQN));
	json_object_object_add(params, "nsid", json_object_new_int(DAEMON_READ_ONLY));
	ask(d, "ns_resize", params);
	edit_config(d, false);
	ask(d, "diff", NULL);
	ask(d, "apply", NULL);
	edit_config(d, true);
	ask(d, "apply", NULL);
}

/* Registers once more; an administrator drops that, which goes on while the host does other
 * things. */
static void drop_registrant_of(const struct daemon *d, struct host *h)
{
	struct nvme_sqe sqe;
	const uint64_t keys[2] = {0, RESERVATION_KEY};
	struct json_object *params;

	if (h->raw.io.is_dead)
		return;
	sqe = raw_sqe(&h->raw.io, NVME_IO_RESERVATION_REGISTER, DAEMON_FILE);
	memcpy(h->raw.io.data, keys, sizeof(keys));
	raw_describe(&h->raw.io, &sqe, 0, sizeof(keys));
	sqe.cdw10 = put_le32((uint32_t)NVME_CPTPL_SET << NVME_RESV_CPTPL_SHIFT);
	try(h, &h->raw.io, &sqe, NULL, 0);
	ask(d, "registrant_list", NULL);
	params = json_object_new_object();
	json_object_object_add(params, "subsystem", json_object_new_string(RAW_SUBNQN));
	json_object_object_add(params, "nsid", json_object_new_int(DAEMON_FILE));
	json_object_object_add(params, "hostid",
			       json_object_new_string("72617720-686f-7374-2031-362062797465"));
	json_object_object_add(params, "force", json_object_new_boolean(true));
	ask(d, "registrant_drop", params);
}

/* ---- both ------------------------------------------------------------------------------------ */

bool scenario_run(const struct daemon *d, unsigned round)
{
	struct host h = {0}, discovery = {0};
	bool is_right = true;

	if (try_connect(&h, d->port)) {
		is_right = use(&h, round);
		drop_registrant_of(d, &h);
		change(d);
		is_right &= write_and_read(&h, DAEMON_FILE, BLOCK, 'z');
	}
	try_queue(&discovery, &discovery.raw.admin, d->port, 0);
	raw_host_close(&discovery.raw);
	raw_host_close(&h.raw);
	return is_right && !h.is_silent && !discovery.is_silent;
}

static bool is_served_now(const struct daemon *d)
{
	struct host h = {0};
	bool is_it = try_connect(&h, d->port);

	for (uint32_t nsid = DAEMON_RAM; is_it && nsid <= DAEMON_BIG_RAM; nsid++)
		is_it = try_io(&h, NVME_IO_READ, nsid, 0, BLOCK, true) == NVME_OK;
	is_it = is_it && try_io(&h, NVME_IO_WRITE, DAEMON_RAM, 0, BLOCK, true) == NVME_OK;
	raw_host_close(&h.raw);
	return is_it;
}

bool scenario_is_served(struct daemon *d)
{
	int status;
	uint64_t deadline = clock_ns() + SERVED_S * NSEC_PER_SEC;

	while (!is_served_now(d)) {
		if (clock_ns() > deadline || daemon_has_ended(d, &status))
			return false;
		ask(d, "apply", NULL); /* a failed change can be repeated */
		usleep(100000);
	}
	return true;
}
