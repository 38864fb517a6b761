/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connect: what a host says when it opens a queue. Private data of the CM request first
 * (RDMA transport, figure 5), then, as the first capsule, the Connect command with its
 * 1024 bytes of data (Fabrics, 3.3). Pure functions; used by the controller (queue 0) on
 * the control loop and by the I/O queues on theirs.
 */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "initiator/io/connect.h"

void connect_fill_private(struct nvmf_cm_req *req, uint16_t qid, unsigned n_sq, unsigned n_recv,
			  uint16_t cntlid)
{
	*req = (struct nvmf_cm_req){
		.qid = put_le16(qid),
		.hrqsize = put_le16((uint16_t)n_recv),
		.hsqsize = put_le16((uint16_t)(n_sq - 1)),
		.cntlid = put_le16(cntlid),
	};
}

int connect_parse_private(const void *private_data, size_t n, unsigned *ret_n_recv)
{
	struct nvmf_cm_rep rep;

	*ret_n_recv = UINT_MAX;
	if (n < sizeof(rep))
		return 0; /* Linux hosts do not insist on it either */
	memcpy(&rep, private_data, sizeof(rep));
	if (get_le16(rep.recfmt))
		return -EPROTO;
	if (get_le16(rep.crqsize))
		*ret_n_recv = get_le16(rep.crqsize);
	return 0;
}

void connect_describe(struct capture_stream *ret_stream, const union addr *local,
		      const union addr *remote, const struct nvmf_cm_req *req, const void *rep,
		      size_t n_rep)
{
	capture_stream_init(ret_stream, local, remote);
	capture_stream_hello(&ret_stream->active, req, sizeof(*req));
	capture_stream_hello(&ret_stream->passive, rep, n_rep);
}

void connect_fill_command(struct nvme_sqe *sqe, uint16_t qid, unsigned n_sq, uint32_t kato_ms)
{
	struct nvmf_connect_cmd cmd;

	static_assert(sizeof(cmd) == sizeof(*sqe), "both are 64 bytes");
	memcpy(&cmd, sqe, sizeof(cmd));
	cmd.opcode = NVME_FABRICS;
	cmd.flags = NVME_FLAGS_PSDT_SGL;
	cmd.fctype = NVMF_CONNECT;
	cmd.qid = put_le16(qid);
	cmd.sqsize = put_le16((uint16_t)(n_sq - 1));
	cmd.kato = put_le32(qid ? 0 : kato_ms);
	memcpy(sqe, &cmd, sizeof(*sqe));
}

void connect_fill_data(struct nvmf_connect_data *data, const uint8_t hostid[16],
		       const char *hostnqn, const char *subnqn, uint16_t cntlid)
{
	*data = (struct nvmf_connect_data){.cntlid = put_le16(cntlid)};
	memcpy(data->hostid, hostid, sizeof(data->hostid));
	memcpy(data->subnqn, subnqn, strnlen(subnqn, NVMF_NQN_MAX));
	memcpy(data->hostnqn, hostnqn, strnlen(hostnqn, NVMF_NQN_MAX));
}
