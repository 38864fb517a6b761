/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See capture_log.h. Messages of the connection manager: InfiniBand specification volume 1, chapter
 * 12 and annex A11 (RDMA_PS_TCP).
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "tools/shared/capture_log.h"
#include "tools/shared/frame.h"
#include "transport/wire/nvme.h"
#include "transport/wire/rdma_cm.h"

enum {
	CM_REQ = 0x10,
	CM_REP = 0x13,
	CM_RTU = 0x14,
	MAD_BYTES = 256,
	REQ_DATA = 56, /* of the consumer's, behind the addresses */
	REP_DATA = 196,
	RC_SEND_ONLY = 0x04,
	UD_SEND_ONLY = 0x64,
	PSN_FIRST = 0x100,
	QPN_FIRST = 0x100,
	NVME_PORT = 4420,
	N_MIN = 1024,
};

#define GSI_QKEY   0x80010000u
#define RDMA_IP_CM 0x0000000001000000ULL /* service ids: protocol and port follow */
#define GUID	   0x0200000000000000ULL

struct log_stream {
	uint32_t id;
	struct capture_end active, passive;
	bool is_known;		 /* its messages of the connection manager are written */
	uint32_t qpn;		 /* of the active end; the passive one's follows */
	uint32_t sent, answered; /* packets so far */
};

static_assert(sizeof(struct nvme_sqe) == CAPTURE_REQUEST &&
		      sizeof(struct nvme_cqe) == CAPTURE_ANSWER,
	      "an exchange is a command and its response");

/* ---- in ------------------------------------------------------------------------------------- */

/* Makes room for one more. */
static int grow(void *array, size_t n, size_t *n_allocated, size_t bytes)
{
	void **at = array, *more;
	size_t wanted = MAX(*n_allocated * 2, (size_t)N_MIN);

	if (n < *n_allocated)
		return 0;
	more = reallocarray(*at, wanted, bytes);
	if (!more)
		return -ENOMEM;
	*at = more;
	*n_allocated = wanted;
	return 0;
}

static struct log_stream *find_stream(const struct capture_log *log, uint32_t id)
{
	for (size_t i = log->n_streams; i-- > 0;)
		if (log->streams[i].id == id)
			return &log->streams[i];
	return NULL;
}

static uint16_t qid_of(const struct log_stream *stream)
{
	struct nvmf_cm_req req;

	memcpy(&req, stream->active.hello, sizeof(req));
	return get_le16(req.qid);
}

static int add_stream(struct capture_log *log, const struct capture_entry *entry)
{
	if (grow(&log->streams, log->n_streams, &log->n_streams_allocated, sizeof(*log->streams)))
		return -ENOMEM;
	log->streams[log->n_streams] = (struct log_stream){
		.id = get_le32(entry->stream),
		.active = entry->active,
		.passive = entry->passive,
		.qpn = QPN_FIRST + 2 * (uint32_t)log->n_streams,
	};
	log->n_streams++;
	return 0;
}

int capture_log_add(struct capture_log *log, const struct capture_entry *entry, size_t max)
{
	const struct log_stream *stream;

	if (get_le32(entry->kind) == CAPTURE_STREAM)
		return add_stream(log, entry);
	stream = find_stream(log, get_le32(entry->stream));
	if (get_le32(entry->kind) != CAPTURE_EXCHANGE || !stream || log->n >= max)
		return 0;
	if (grow(&log->entries, log->n, &log->n_allocated, sizeof(*log->entries)))
		return -ENOMEM;
	log->entries[log->n] = *entry;
	log->entries[log->n++].stream = put_le32((uint32_t)(stream - log->streams));
	log->n_admin += qid_of(stream) == 0;
	return 0;
}

unsigned capture_log_other_port(const struct capture_log *log)
{
	for (size_t i = 0; i < log->n_streams; i++)
		if (get_le16(log->streams[i].passive.port) != NVME_PORT)
			return get_le16(log->streams[i].passive.port);
	return 0;
}

void capture_log_release(struct capture_log *log)
{
	free(log->entries);
	free(log->streams);
	*log = (struct capture_log){0};
}

/* ---- messages of the connection manager ----------------------------------------------------- */

static void add_req(struct frame *f, const struct log_stream *s)
{
	const uint8_t *ends[] = {s->active.address, s->passive.address};
	bool v4 = s->active.address[10] == 0xff && !s->active.address[0];
	uint8_t *at;

	frame_add32(f, s->qpn); /* communication id */
	frame_add32(f, 0);
	frame_add64(f, RDMA_IP_CM | 6 << 16 | get_le16(s->passive.port));
	frame_add64(f, GUID);
	frame_add64(f, 0); /* Q_Key */
	frame_add32(f, s->qpn << 8 | 16);
	frame_add32(f, 16);
	frame_add32(f, 20u << 3 | 1); /* time-out; service RC; flow control */
	frame_add32(f, PSN_FIRST << 8 | 20 << 3 | 7);
	frame_add16(f, 0xffff); /* P_Key */
	frame_add16(f, 5u << 12 | 7 << 8 | 15 << 4);
	frame_add32(f, 0xffffffff); /* there are no LIDs on Ethernet */
	for (int i = 0; i < 2; i++)
		memcpy(frame_add(f, 16), ends[i], 16);
	frame_add32(f, 0);  /* flow label, rate */
	frame_add16(f, 64); /* traffic class, hop limit */
	frame_add16(f, 20u << 3);
	frame_add(f, 44); /* no alternate path */
	frame_add16(f, v4 ? 4 << 4 : 6 << 4);
	frame_add16(f, get_le16(s->active.port));
	for (int i = 0; i < 2; i++) {
		at = frame_add(f, 16);
		memcpy(v4 ? at + 12 : at, v4 ? ends[i] + 12 : ends[i], v4 ? 4 : 16);
	}
	memcpy(frame_add(f, REQ_DATA), s->active.hello, CAPTURE_HELLO);
}

static void add_rep(struct frame *f, const struct log_stream *s)
{
	frame_add32(f, s->qpn + 1);
	frame_add32(f, s->qpn);
	frame_add32(f, 0); /* Q_Key */
	frame_add32(f, (s->qpn + 1) << 8);
	frame_add32(f, 0);
	frame_add32(f, PSN_FIRST << 8);
	frame_add32(f, 16u << 24 | 16 << 16 | 1 << 8 | 7 << 5);
	frame_add64(f, GUID);
	memcpy(frame_add(f, REP_DATA), s->passive.hello, CAPTURE_HELLO);
}

static void write_message(FILE *file, const struct log_stream *s, unsigned type, uint64_t ns)
{
	const struct frame_bth bth = {.opcode = UD_SEND_ONLY, .dest_qpn = 1};
	bool is_answer = type == CM_REP;
	struct frame f;
	unsigned start;

	frame_begin(&f, is_answer ? s->passive.address : s->active.address,
		    is_answer ? s->active.address : s->passive.address, &bth);
	frame_add32(&f, GSI_QKEY);
	frame_add32(&f, 1); /* from the GSI, too */
	start = f.n;
	frame_add32(&f, 0x01070203); /* version 1, class CM version 2, Send */
	frame_add32(&f, 0);
	frame_add64(&f, s->qpn);
	frame_add32(&f, type << 16);
	frame_add32(&f, 0);
	if (type == CM_REQ) {
		add_req(&f, s);
	} else if (type == CM_REP) {
		add_rep(&f, s);
	} else {
		frame_add32(&f, s->qpn);
		frame_add32(&f, s->qpn + 1);
	}
	frame_add(&f, MAD_BYTES - (f.n - start));
	frame_end(&f);
	frame_file_add(file, &f, ns);
}

/* ---- exchanges ------------------------------------------------------------------------------ */

/* One SEND of an exchange, for the order. */
struct event {
	uint64_t ns;
	uint32_t entry;
	bool is_answer;
};

/* Exchanges of a stream are in the order of their answers. So among equal times the answer of one
 * comes before the request of the next, which may have the same command identifier. */
static int compare(const void *a, const void *b)
{
	const struct event *x = a, *y = b;

	if (x->ns != y->ns)
		return x->ns < y->ns ? -1 : 1;
	if (x->entry != y->entry)
		return x->entry < y->entry ? -1 : 1;
	return x->is_answer - y->is_answer;
}

static void write_event(FILE *file, const struct event *event, const struct capture_entry *entry,
			struct log_stream *s)
{
	struct frame_bth bth = {.opcode = RC_SEND_ONLY};
	struct frame f;

	if (!s->is_known) {
		write_message(file, s, CM_REQ, event->ns);
		write_message(file, s, CM_REP, event->ns);
		write_message(file, s, CM_RTU, event->ns);
		s->is_known = true;
	}
	bth.dest_qpn = event->is_answer ? s->qpn : s->qpn + 1;
	bth.psn = PSN_FIRST + (event->is_answer ? s->answered++ : s->sent++);
	if (event->is_answer) {
		frame_begin(&f, s->passive.address, s->active.address, &bth);
		memcpy(frame_add(&f, CAPTURE_ANSWER), entry->answer, CAPTURE_ANSWER);
		frame_end(&f);
	} else {
		frame_begin(&f, s->active.address, s->passive.address, &bth);
		memcpy(frame_add(&f, CAPTURE_REQUEST), entry->request, CAPTURE_REQUEST);
		frame_end(&f);
	}
	frame_file_add(file, &f, event->ns);
}

int capture_log_write(struct capture_log *log, FILE *file, const char *interface)
{
	struct event *events = calloc(2 * log->n + 1, sizeof(*events));

	if (!events)
		return -ENOMEM;
	for (size_t i = 0; i < log->n; i++) {
		const struct capture_entry *entry = &log->entries[i];

		events[2 * i] = (struct event){get_le64(entry->begun), (uint32_t)i, false};
		events[2 * i + 1] = (struct event){get_le64(entry->ended), (uint32_t)i, true};
	}
	qsort(events, 2 * log->n, sizeof(*events), compare);
	frame_file_begin(file, interface);
	for (size_t i = 0; i < 2 * log->n; i++) {
		const struct capture_entry *entry = &log->entries[events[i].entry];

		write_event(file, &events[i], entry, &log->streams[get_le32(entry->stream)]);
	}
	free(events);
	return 0;
}
