/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A host in raw verbs: one connection, capsules as bytes, without the initiator's code. Tests build
 * good and hostile hosts with it. Every call blocks, with a time limit; the test owns its structs.
 */
#pragma once

#include <stdbool.h>
#include <rdma/rdma_cma.h>

#include "transport/wire/fabrics.h"
#include "transport/wire/nvme_reservation.h"
#include "transport/wire/rdma_cm.h"

enum {
	RAW_DATA_BYTES = 2 * 1024 * 1024,
	RAW_RECVS = 64,
	RAW_CAPSULE_MAX = 64 + 16384,
	RAW_DEPTH = 128,
};

struct raw_queue {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	char *memory; /* holds send capsule, receives, data */
	char *data;   /* RAW_DATA_BYTES that the target may read and write */
	bool is_connected;
	bool keeps_receives;	   /* does not post them again, so responses run out of them */
	bool is_kept[RAW_RECVS];   /* these receives */
	bool is_dead;		   /* a work request failed or was flushed, or the target left */
	uint8_t private_data[196]; /* from the target's answer */
	unsigned n_private;
	uint16_t next_cid;
	struct nvme_cqe arrived[RAW_RECVS]; /* responses that the test has not taken yet */
	unsigned n_arrived;
	uint32_t invalidated_rkey; /* invalidated by the last response */
};

/* Connects with these bytes as private data: 0, the status of an NVMe-oF reject, or -1. */
int raw_open_bytes(struct raw_queue *q, uint16_t port, const void *private_data, uint8_t n,
		   uint8_t responder_resources);
/* From now on connections come from 127.0.0.NUMBER; 0: the system chooses. */
void raw_come_from(unsigned number);
/* The same with well-formed private data. */
int raw_open(struct raw_queue *q, uint16_t port, uint16_t qid, unsigned n_entries);
/* Waits until a queue that was not opened is accepted. */
void raw_close(struct raw_queue *q);

void raw_send(struct raw_queue *q, const void *capsule, uint32_t n);
/* False: the connection died, or no response came in that time. */
bool raw_receive(struct raw_queue *q, struct nvme_cqe *ret_cqe, unsigned timeout_ms);
/* Keeps receives no longer: posts those that it has kept. */
void raw_give_receives(struct raw_queue *q);
/* Whether the next n responses come, each within that time, and all with success. */
bool raw_collect(struct raw_queue *q, unsigned n, unsigned timeout_ms);
/* Whether the target disconnects within a minute. */
bool raw_is_dropped(struct raw_queue *q);

/* An SQE with PSDT set, a new CID and a keyed SGL of length 0. */
struct nvme_sqe raw_sqe(struct raw_queue *q, uint8_t opcode, uint32_t nsid);
/* The same for a command on blocks; the caller describes the data, if there is any. */
struct nvme_sqe raw_blocks(struct raw_queue *q, uint8_t opcode, uint32_t nsid, uint64_t slba,
			   unsigned n_blocks);
/* Binds a window of type 2 to length bytes at q->data + offset, under a new mw->rkey. */
bool raw_bind_window(struct raw_queue *q, struct ibv_mw *mw, size_t offset, uint32_t length);
/* Describes length bytes at q->data + offset. */
void raw_describe(struct raw_queue *q, struct nvme_sqe *sqe, size_t offset, uint32_t length);
/* Sends the command (with in-capsule data, if n) and waits for its response. */
enum nvme_status raw_run(struct raw_queue *q, const struct nvme_sqe *sqe, const void *data,
			 uint32_t n, struct nvme_cqe *ret_cqe);

/* A reservation command with its two keys; the status code. */
enum nvme_status raw_reserve(struct raw_queue *q, uint32_t nsid, uint8_t opcode, uint32_t cdw10,
			     uint64_t first, uint64_t second);
/* The header of the namespace's report, which must come. */
struct nvme_resv_status raw_report(struct raw_queue *q, uint32_t nsid);

/* Connect: command and data as a host should send them; the caller then damages them. */
struct raw_connect {
	struct nvmf_connect_cmd cmd;
	struct nvmf_connect_data data;
};
void raw_connect_init(struct raw_connect *c, struct raw_queue *q, uint16_t qid, uint16_t sqsize,
		      uint16_t cntlid);
/* By keyed SGL on the admin queue, in the capsule on others. */
enum nvme_status raw_connect(struct raw_queue *q, struct raw_connect *c, struct nvme_cqe *ret_cqe);

enum nvme_status raw_property_set(struct raw_queue *q, uint32_t offset, uint64_t value);
enum nvme_status raw_property_get(struct raw_queue *q, uint32_t offset, bool is_8_bytes,
				  uint64_t *ret_value);
/* Waits until these bits of CSTS are as wanted. */
void raw_wait_csts(struct raw_queue *q, uint32_t mask, uint32_t wanted);
/* Reads or writes blocks through q->data at 0. */
enum nvme_status raw_io(struct raw_queue *q, uint8_t opcode, uint32_t nsid, uint64_t slba,
			unsigned n_blocks, uint32_t n_bytes);

/* A whole good host: admin queue, enabled; I/O queue 1. Fails the test if it cannot connect. */
struct raw_host {
	struct raw_queue admin, io;
	uint16_t cntlid;
};
void raw_host_open(struct raw_host *h, uint16_t port);
void raw_host_open_admin(struct raw_host *h, uint16_t port, const char *subnqn);
/* The same for another host of the subsystem, with a host identifier of its own. */
void raw_host_open_as(struct raw_host *h, uint16_t port, unsigned number);
/* The same with both Connects changed. */
void raw_host_open_with(struct raw_host *h, uint16_t port, void (*change)(struct raw_connect *c));
void raw_host_close(struct raw_host *h);

#define RAW_SUBNQN  "nqn.2026-01.org.example:raw"
#define RAW_HOSTNQN "nqn.2014-08.org.nvmexpress:uuid:6f1b3a52-7f0e-4c4e-9d0c-0a4d5e6f7a8b"
