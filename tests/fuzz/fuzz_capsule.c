/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The first bytes of a hostile host: private data of its connect request, and capsules with one SGL
 * descriptor. The first byte bounds the queue's size, the rest is the message. A parser accepts
 * only what capsule.h promises. The other way round, our host builds private data and a Connect
 * command from these bytes, and our target must parse them.
 */
#include <stdlib.h>

#include "base/check.h"
#include "initiator/control/volume.h"
#include "initiator/io/connect.h"
#include "transport/capsule.h"
#include "transport/wire/strings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* The connection as a capture shows it: the beginning of what each end has sent. */
static void describe(const uint8_t *message, size_t n)
{
	const union addr address = {.sa.sa_family = AF_INET};
	const struct nvmf_cm_req req = {0};
	struct capture_stream stream;

	connect_describe(&stream, &address, &address, &req, n ? message : NULL, n);
	check(!memcmp(stream.passive.hello, message,
		      n < sizeof(stream.passive.hello) ? n : sizeof(stream.passive.hello)));
}

static void parse_private(const uint8_t *message, size_t n, unsigned max_sq)
{
	struct cm_queue_request request;
	unsigned n_recv;

	if (cm_req_parse(message, n, max_sq, &request) == NVMF_CM_OK) {
		check(request.n_sq >= 2 && request.n_rq >= 1);
		check(request.n_sq <= (request.qid ? max_sq : NVMF_ADMIN_SQ_ENTRIES));
	}
	check(connect_parse_private(message, n, &n_recv) || n_recv >= 1);
	describe(message, n);
}

static void parse_sgl(const uint8_t *capsule, size_t n)
{
	struct nvme_sqe sqe = {0};
	struct sgl_data sgl;
	volatile uint8_t seen = 0;

	memcpy(&sqe, capsule, n < sizeof(sqe) ? n : sizeof(sqe));
	if (sgl_parse(&sqe.sgl, (uint32_t)n, &sgl) != NVME_OK || sgl.place == SGL_NONE)
		return;
	check(sgl.length > 0);
	if (sgl.place == SGL_CAPSULE)
		for (uint32_t i = 0; i < sgl.length; i++)
			seen = capsule[sizeof(sqe) + sgl.offset + i];
	(void)seen;
}

static void say_private(uint16_t qid, unsigned n_sq, unsigned max_sq)
{
	struct cm_queue_request request;
	struct nvmf_cm_req req;

	connect_fill_private(&req, qid, n_sq, n_sq, 7);
	if (cm_req_parse(&req, sizeof(req), max_sq, &request) == NVMF_CM_OK)
		check(request.qid == qid && request.n_sq == n_sq && request.n_rq == n_sq &&
		      request.cntlid == 7);
	else
		check(n_sq < 2 || n_sq > (qid ? max_sq : NVMF_ADMIN_SQ_ENTRIES));
}

static void say_connect(const uint8_t *message, size_t n, uint16_t qid)
{
	struct volume_config config = {0};
	struct nvmf_connect_data data;
	struct nvmf_connect_cmd cmd;
	struct nvme_sqe sqe = {0};
	char name[NVMF_NQN_MAX + 1];

	memcpy(config.hostnqn, message, n < NVMF_NQN_MAX ? n : NVMF_NQN_MAX);
	connect_fill_command(&sqe, qid, NVMF_ADMIN_SQ_ENTRIES, 5000);
	memcpy(&cmd, &sqe, sizeof(cmd));
	check(get_le16(cmd.qid) == qid && get_le32(cmd.kato) == (qid ? 0 : 5000));
	connect_fill_data(&data, config.hostid, config.hostnqn, config.hostnqn, 7);
	if (nqn_from_field(data.subnqn, sizeof(data.subnqn), name) == 0)
		check(!strcmp(name, config.hostnqn));
	if (hostnqn_from_field(data.hostnqn, sizeof(data.hostnqn), name) == 0)
		check(!strcmp(name, config.hostnqn));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	uint8_t *message;

	if (n == 0)
		return 0;
	message = malloc(n > 1 ? n - 1 : 1); /* a sanitizer sees its end */
	check(message);
	memcpy(message, data + 1, n - 1);
	parse_private(message, n - 1, 1 + data[0]);
	parse_sgl(message, n - 1);
	say_private(data[0] & 1, (unsigned)n & 63, 1 + data[0]);
	say_connect(message, n - 1, data[0] & 1);
	free(message);
	return 0;
}
