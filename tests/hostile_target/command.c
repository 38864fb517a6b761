/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fake target's commands, by byte offsets (wire reference, sections 3 to 12). Each command is
 * checked as strictly as the specification allows, executed on memory, and answered, unless a rule
 * interferes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/hostile_target/auth.h"
#include "tests/hostile_target/blocks.h"
#include "tests/hostile_target/events.h"
#include "tests/hostile_target/fake.h"
#include "tests/hostile_target/logs.h"
#include "tests/hostile_target/pair.h"
#include "tests/hostile_target/resets.h"

enum {
	SC_OPCODE = 0x4001,
	SC_FIELD = 0x4002,
	SC_NSID = 0x400b,
	SC_SEQUENCE = 0x400c,
	SC_LENGTH = 0x400f,
	SC_RANGE = 0x4080,
	SC_PROTECTED = 0x4020,
	SC_PARAM = 0x4182,
	SC_HOST = 0x4184,
};
enum {
	ATR = 1 << 17, /* in the result of Connect: authentication required */
};

static uint16_t n_cntlids; /* given so far, from opt.cntlid on */
static uint64_t n_blocks_now;
static unsigned n_held; /* commands, so far */

static void done(struct slot *slot, unsigned status, uint64_t result)
{
	enum action action = slot->rule ? slot->rule->action : ACT_NONE;

	slot->status = (uint16_t)status;
	slot->result = result;
	if (action == ACT_STATUS)
		slot->status = (uint16_t)slot->rule->argument;
	if (action == ACT_GARBAGE && slot->out == slot->data)
		for (unsigned i = 0; i < slot->n_out; i++)
			slot->data[i] = (uint8_t)rand();
	if (action == ACT_LATE) {
		slot->answer_at_ns = now_ns() + slot->rule->argument * 1000000;
		return;
	}
	if (action == ACT_HOLD) {
		slot->answer_at_ns = UINT64_MAX;
		n_held++;
		return;
	}
	fabric_answer(slot);
}

void command_answer(struct slot *slot, unsigned status, uint64_t result)
{
	done(slot, status, result);
}

void command_done(struct slot *slot, unsigned status)
{
	done(slot, status, 0);
}

static unsigned shift(void)
{
	return (unsigned)__builtin_ctz(opt.block_size);
}

/* ---- the data pointer ---- */

static const uint8_t *sgl(const struct slot *slot)
{
	return slot->capsule + 24;
}

static bool is_in_capsule(const struct slot *slot)
{
	return sgl(slot)[15] == 0x01;
}

static uint32_t sgl_length(const struct slot *slot)
{
	return is_in_capsule(slot) ? rd32(sgl(slot) + 8) : rd24(sgl(slot) + 8);
}

static void check_capsule(const struct slot *slot)
{
	const uint8_t *c = slot->capsule;
	unsigned type = sgl(slot)[15];

	if ((c[1] & 0xc0) != 0x40 || c[1] & (slot->conn->qid ? 0x3c : 0x3f))
		violation("flags %02x", c[1]);
	if (type != 0x40 && type != 0x01 && !(type == 0x4f && slot->conn->qid))
		violation("descriptor type %02x", type);
	if (rd64(c + 16))
		violation("metadata pointer is set");
	if (is_in_capsule(slot)) {
		if (!slot->conn->qid)
			violation("in-capsule data on the admin queue");
		if (rd64(sgl(slot)))
			violation("in-capsule data at an offset");
		if (slot->n_received != SQE_BYTES + sgl_length(slot))
			violation("%u bytes for %u of data", slot->n_received, sgl_length(slot));
	} else if (slot->n_received != SQE_BYTES) {
		violation("a command of %u bytes", slot->n_received);
	}
	if (type == 0x40 && !sgl_length(slot) && (rd64(sgl(slot)) || rd32(sgl(slot) + 11)))
		violation("a descriptor of no data with an address");
}

/* ---- Connect ---- */

static void connect_with_data(struct slot *slot, const uint8_t *data)
{
	struct conn *conn = slot->conn;
	const uint8_t *c = slot->capsule;
	const char *subnqn = (const char *)data + 256, *hostnqn = (const char *)data + 512;

	if (rd16(c + 40) || rd16(c + 42) != conn->qid || rd16(c + 44) != conn->n_sq - 1)
		violation("Connect: recfmt %u qid %u sqsize %u, CM said %u and %u", rd16(c + 40),
			  rd16(c + 42), rd16(c + 44), conn->qid, conn->n_sq - 1);
	if (data[256 + 223] || data[512 + 223])
		violation("Connect: an NQN without its end");
	conn->is_discovery = strcmp(subnqn, DISCOVERY_NQN) == 0;
	if (!conn->is_discovery && strcmp(subnqn, opt.nqn) != 0) {
		done(slot, SC_PARAM, 256 | 1 << 16);
		return;
	}
	if (opt.host && strcmp(hostnqn, opt.host) != 0) {
		done(slot, SC_HOST, 512 | 1 << 16);
		return;
	}
	if (conn->cntlid) {
		violation("a second Connect");
		done(slot, SC_SEQUENCE, 0);
		return;
	}
	if (!conn->qid) {
		if (rd16(data + 16) != 0xffff)
			violation("Connect: cntlid %04x", rd16(data + 16));
		conn->cntlid = (uint16_t)(opt.cntlid + n_cntlids++);
		if (!conn->is_discovery)
			resets_note_kato(rd32(c + 48));
		conn->cc = 0;
		auth_begin();
		done(slot, 0, conn->cntlid | (opt.is_impostor ? ATR : 0));
		return;
	}
	for (unsigned i = 0; fabric_conn(i); i = fabric_conn(i)->index + 1) {
		const struct conn *admin = fabric_conn(i);

		if (admin->qid == 0 && !admin->is_dead && admin->cntlid == rd16(data + 16)) {
			conn->cntlid = admin->cntlid;
			done(slot, 0, conn->cntlid);
			return;
		}
	}
	done(slot, SC_PARAM, 16 | 1 << 16);
}

static void start_connect(struct slot *slot)
{
	if (sgl_length(slot) != 1024) {
		violation("Connect with %u bytes of data", sgl_length(slot));
		done(slot, SC_LENGTH, 0);
	} else if (is_in_capsule(slot)) {
		connect_with_data(slot, slot->capsule + SQE_BYTES);
	} else {
		fabric_read(slot, slot->data, 1024);
	}
}

/* ---- properties ---- */

static void property_get(struct slot *slot)
{
	enum action action = slot->rule ? slot->rule->action : ACT_NONE;
	uint32_t cc = slot->conn->cc;
	uint64_t csts;

	switch (rd32(slot->capsule + 44)) {
	case 0x00:
		if ((slot->capsule[40] & 7) != 1)
			violation("CAP read with 4 bytes");
		done(slot, 0, opt.mqes | 1ull << 16 | 10ull << 24 | 1ull << 37);
		return;
	case 0x08:
		done(slot, 0, 0x10400);
		return;
	case 0x14:
		done(slot, 0, cc);
		return;
	case 0x1c:
		csts = (cc & 1 && action != ACT_NOT_READY) | (cc >> 14 & 3 ? 2u << 2 : 0) |
		       (action == ACT_FATAL ? 2 : 0);
		done(slot, 0, csts);
		return;
	}
	done(slot, SC_FIELD, 0);
}

static void property_set(struct slot *slot)
{
	uint32_t cc;

	if (rd32(slot->capsule + 44) != 0x14) {
		done(slot, SC_FIELD, 0);
		return;
	}
	cc = rd32(slot->capsule + 48);
	if (cc & 1 && ((cc >> 16 & 15) != 6 || (cc >> 20 & 15) != 4))
		violation("CC %08x", cc);
	slot->conn->cc = cc;
	done(slot, 0, 0);
}

/* ---- Identify, features, logs ---- */

static void uuid_bytes(uint8_t *p)
{
	for (unsigned i = 0; i < 16; i++)
		p[i] = (uint8_t)(opt.uuid_seed * 31 + i + 1);
}

static void identify_ctrl(struct slot *slot)
{
	bool is_discovery = slot->conn->is_discovery;
	uint8_t *d = slot->data;

	pad(d + 4, 20, "FAKE0001");
	pad(d + 24, 40, "fake target");
	pad(d + 64, 8, "1.0");
	d[77] = (uint8_t)opt.mdts;
	wr16(d + 78, slot->conn->cntlid);
	wr32(d + 80, 0x10400);
	wr32(d + 92, is_discovery ? 1u << 31 : 1u << 8 | (opt.ana ? 1 << 11 : 0));
	if (opt.ana) {
		d[76] = 0x0b;
		d[342] = 10;
		d[343] = 0x1f;
		wr32(d + 344, opt.ana_groups);
		wr32(d + 348, opt.ana_groups);
	}
	resets_identify(d, slot->conn->cntlid);
	d[111] = is_discovery ? 2 : 1;
	wr16(d + 320, 10);
	d[512] = 0x66;
	d[513] = 0x44;
	wr16(d + 514, opt.maxcmd);
	wr32(d + 516, 16);
	wr16(d + 520, 1 << 2 | 1 << 3);
	pair_identify(d);
	d[525] = opt.no_vwc ? 0 : 1;
	wr32(d + 536, 0x00100005);
	strcpy((char *)d + 768, is_discovery ? DISCOVERY_NQN : opt.nqn);
	wr32(d + 1792, 4 + opt.icd / 16);
	wr32(d + 1796, 1);
	d[1803] = 1;
}

static void identify_ns(struct slot *slot)
{
	uint8_t *d = slot->data;

	if (rd32(slot->capsule + 4) != opt.nsid)
		return; /* zeroes: inactive */
	wr64(d, n_blocks_now);
	wr64(d + 8, n_blocks_now);
	d[33] = 1 | 1 << 3;
	wr32(d + 92, opt.ana ? opt.ana_groups : 0);
	d[99] = opt.read_only;
	uuid_bytes(d + 104);
	d[130] = (uint8_t)shift();
}

static void identify(struct slot *slot)
{
	uint8_t *d = slot->data;

	memset(d, 0, DATA_BYTES);
	slot->out = d;
	slot->n_out = 4096;
	if (sgl_length(slot) != 4096)
		violation("Identify with %u bytes", sgl_length(slot));
	switch (slot->capsule[40]) {
	case 0x00:
		identify_ns(slot);
		break;
	case 0x01:
		identify_ctrl(slot);
		break;
	case 0x02:
		wr32(d, opt.nsid);
		break;
	case 0x03:
		if (rd32(slot->capsule + 4) != opt.nsid) {
			done(slot, SC_NSID, 0);
			return;
		}
		d[0] = 3;
		d[1] = 16;
		uuid_bytes(d + 4);
		break;
	case 0x06:
		if (!opt.has_cns6) {
			done(slot, SC_FIELD, 0);
			return;
		}
		d[1] = (uint8_t)opt.wzsl;
		wr32(d + 4, opt.dmrsl);
		wr16(d + 18, (uint16_t)opt.aocs);
		break;
	default:
		done(slot, SC_FIELD, 0);
		return;
	}
	done(slot, 0, 0);
}

static void set_features(struct slot *slot)
{
	unsigned fid = slot->capsule[40], n;

	if (fid == 7) {
		n = rd16(slot->capsule + 44);
		if (n > opt.queues - 1)
			n = opt.queues - 1;
		done(slot, 0, n | n << 16);
		return;
	}
	done(slot, fid == 11 ? 0 : SC_FIELD, 0);
}

static void look_at_ana_flags(uint8_t flags)
{
	if (!(flags & 1))
		violation("ANA log with all NSIDs");
	if (!(flags & 0x80))
		events_clear(NOTICE_ANA);
}

static void get_log(struct slot *slot)
{
	const uint8_t *c = slot->capsule;
	uint32_t n = (rd16(c + 42) + 1u) * 4;
	uint64_t offset = rd64(c + 48);
	bool is_there = true;

	if (n > DATA_BYTES || n != sgl_length(slot))
		violation("Get Log Page of %u bytes, descriptor of %u", n, sgl_length(slot));
	memset(slot->data, 0, DATA_BYTES);
	slot->out = slot->data;
	slot->n_out = n;
	if (c[40] == 0x04) {
		wr32(slot->data, events_are_pending(NOTICE_NS) ? opt.nsid : 0);
		events_clear(NOTICE_NS);
	} else if (c[40] == 0x70) {
		if (!(c[41] & 0x80))
			events_clear(NOTICE_DISCOVERY);
		is_there = logs_discovery(slot, offset, n);
	} else if (c[40] == 0x02) {
		wr64(slot->data + 112, opt.cycles);
		wr64(slot->data + 144, opt.unsafe);
	} else if (c[40] == 0x1e) {
		resets_log(slot->data, c[41] & 1);
	} else {
		is_there = c[40] == 0x0c && opt.ana && logs_ana(slot, offset, n);
		look_at_ana_flags(c[41]);
	}
	done(slot, is_there ? 0 : SC_FIELD, 0);
}

/* ---- I/O ---- */

static bool is_in_range(const struct slot *slot, uint64_t slba, uint64_t n)
{
	if (slba <= n_blocks_now && n <= n_blocks_now - slba)
		return true;
	fprintf(stderr, "fake_target: %llu blocks at %llu of %llu\n", (unsigned long long)n,
		(unsigned long long)slba, (unsigned long long)n_blocks_now);
	return false;
}

static void trim_with_data(struct slot *slot, const uint8_t *range)
{
	uint64_t n = rd32(range + 4), slba = rd64(range + 8);

	if (slot->capsule[40] || !(slot->capsule[44] & 4))
		violation("Dataset Management: %u ranges, attributes %02x", slot->capsule[40] + 1,
			  slot->capsule[44]);
	if (opt.dmrsl && n > opt.dmrsl)
		violation("a range of %llu blocks", (unsigned long long)n);
	if (!is_in_range(slot, slba, n)) {
		done(slot, SC_RANGE, 0);
		return;
	}
	memset(ram + (slba << shift()), 0, n << shift());
	done(slot, 0, 0);
}

static void look_at_fua(const struct slot *slot)
{
	bool has_fua = rd32(slot->capsule + 48) >> 30 & 1;
	bool is_change = slot->event == EV_WRITE || slot->event == EV_ZERO;

	if (is_change && opt.fua && has_fua != (opt.fua == 1))
		violation("a change %s FUA", has_fua ? "with" : "without");
}

static void start_io(struct slot *slot)
{
	const uint8_t *c = slot->capsule;
	uint64_t slba = rd64(c + 40), n = rd16(c + 48) + 1u, bytes = n << shift();
	uint8_t *at = ram + (slba << shift());
	bool has_data = slot->event == EV_READ || slot->event == EV_WRITE;

	if (rd32(c + 4) != opt.nsid) {
		done(slot, SC_NSID, 0);
		return;
	}
	if (opt.ana > 2) {
		done(slot, opt.ana == 3 ? 0x302 : opt.ana == 4 ? 0x301 : 0x303, 0);
		return;
	}
	if (slot->event == EV_FLUSH) {
		done(slot, 0, 0);
		return;
	}
	if (slot->event == EV_TRIM) {
		if (sgl_length(slot) < 16)
			violation("a range of %u bytes", sgl_length(slot));
		if (is_in_capsule(slot))
			trim_with_data(slot, c + SQE_BYTES);
		else
			fabric_read(slot, slot->data, 16);
		return;
	}
	if (!is_in_range(slot, slba, n)) {
		done(slot, SC_RANGE, 0);
		return;
	}
	if (slot->event != EV_READ)
		resets_check(slba, n);
	if (has_data && sgl_length(slot) != bytes)
		violation("%u bytes for %llu blocks", sgl_length(slot), (unsigned long long)n);
	if (has_data && opt.mdts && bytes > 4096ull << opt.mdts)
		violation("%llu bytes by one command", (unsigned long long)bytes);
	if (opt.wzsl && slot->event == EV_ZERO && bytes > 4096ull << opt.wzsl)
		violation("%llu bytes of zeroes", (unsigned long long)bytes);
	if (slot->event != EV_READ && opt.read_only) {
		done(slot, SC_PROTECTED, 0);
	} else if (slot->event == EV_ZERO) {
		memset(at, 0, bytes);
		done(slot, 0, 0);
	} else if (slot->event == EV_READ) {
		slot->out = at;
		slot->n_out = (uint32_t)bytes;
		done(slot, 0, 0);
	} else if (is_in_capsule(slot)) {
		memcpy(at, c + SQE_BYTES, bytes);
		done(slot, 0, 0);
	} else {
		fabric_read(slot, at, (uint32_t)bytes);
	}
}

void command_have_data(struct slot *slot)
{
	if (slot->event == EV_AUTH_SEND)
		auth_take(slot);
	if (slot->capsule[1] & 3)
		pair_have_data(slot);
	else if (slot->event == EV_WRITE || slot->event == EV_AUTH_SEND)
		done(slot, 0, 0);
	else if (slot->event == EV_TRIM)
		trim_with_data(slot, slot->data);
	else
		connect_with_data(slot, slot->data);
}

/* ---- lines of stdin ---- */

static void release(void)
{
	struct conn *conn;

	for (unsigned i = 0; i < MAX_CONNS; i++)
		for (unsigned j = 0; (conn = fabric_conn(i)) && j < conn->n_slots; j++)
			if (conn->slots[j].answer_at_ns == UINT64_MAX)
				conn->slots[j].answer_at_ns = now_ns();
}

void command_line(char *line)
{
	unsigned n = n_held;

	if (strncmp(line, "resize ", 7) == 0) {
		n_blocks_now = strtoull(line + 7, NULL, 10);
		events_notify(NOTICE_NS);
	} else if (strncmp(line, "uuid ", 5) == 0) {
		opt.uuid_seed = (unsigned)strtoul(line + 5, NULL, 10);
	} else if (strncmp(line, "ana ", 4) == 0) {
		opt.ana = (unsigned)strtoul(line + 4, NULL, 10);
		events_notify(NOTICE_ANA);
	} else if (strncmp(line, "quiet-ana ", 10) == 0) {
		opt.ana = (unsigned)strtoul(line + 10, NULL, 10);
	} else if (strcmp(line, "finish-resets") == 0) {
		resets_finish();
	} else if (strcmp(line, "notify") == 0) {
		events_notify(NOTICE_NS);
	} else if (logs_line(line)) {
		events_notify(NOTICE_DISCOVERY);
	} else if (strcmp(line, "reads") == 0) {
		n = logs_reads();
	} else if (strcmp(line, "drop") == 0) {
		fabric_disconnect_all();
	} else if (strcmp(line, "release") == 0) {
		release();
	}
	printf("ok %u\n", n);
	fflush(stdout);
}

/* ---- dispatch ---- */

static int event_of_admin(const uint8_t *c)
{
	switch (c[0]) {
	case 0x02:
		return c[40] == 0x02 ? EV_GET_SMART : c[40] == 0x1e ? EV_GET_RESETS : EV_GET_LOG;
	case 0x06:
		switch (c[40]) {
		case 0:
			return EV_IDENTIFY_NS;
		case 1:
			return EV_IDENTIFY_CTRL;
		case 2:
			return EV_IDENTIFY_LIST;
		case 3:
			return EV_IDENTIFY_IDS;
		default:
			return EV_IDENTIFY_LIMITS;
		}
	case 0x09:
		return c[40] == 7 ? EV_SET_QUEUES : EV_SET_EVENTS;
	case 0x0c:
		return EV_AER;
	case 0x18:
		return EV_KEEP_ALIVE;
	case 0x38:
		return EV_CROSS_RESET;
	case 0x86:
		return EV_GET_BLOCKS;
	}
	return -1;
}

static int event_of_io(const uint8_t *c)
{
	switch (c[0]) {
	case 0x00:
		return EV_FLUSH;
	case 0x01:
		return EV_WRITE;
	case 0x02:
		return EV_READ;
	case 0x05:
		return EV_COMPARE;
	case 0x08:
		return EV_ZERO;
	case 0x09:
		return EV_TRIM;
	}
	return -1;
}

static int event_of(const struct slot *slot)
{
	const uint8_t *c = slot->capsule;

	if (c[0] == 0x7f) {
		if (c[4] == 1)
			return slot->conn->qid ? EV_CONNECT_IO : EV_CONNECT_ADMIN;
		if (c[4] == 0)
			return EV_SET_CC;
		if (c[4] == 5 || c[4] == 6)
			return c[4] == 5 ? EV_AUTH_SEND : EV_AUTH_RECEIVE;
		return rd32(c + 44) == 0x1c ? EV_GET_CSTS : EV_GET_CAP;
	}
	return slot->conn->qid ? event_of_io(c) : event_of_admin(c);
}

static void cross_reset(struct slot *slot)
{
	uint64_t result = 0;
	unsigned status = resets_command(slot, (uint16_t)(opt.cntlid + n_cntlids), &result);

	done(slot, status, result);
}

/* A write that is not answered may land at any time. */
static void lose(const struct slot *slot)
{
	if (slot->event == EV_WRITE)
		resets_lose(slot->conn->cntlid, rd64(slot->capsule + 40),
			    rd16(slot->capsule + 48) + 1u);
}

static void run(struct slot *slot)
{
	switch (slot->event) {
	case EV_CONNECT_ADMIN:
	case EV_CONNECT_IO:
		start_connect(slot);
		return;
	case EV_AUTH_SEND:
		fabric_read(slot, slot->data, sgl_length(slot));
		return;
	case EV_AUTH_RECEIVE:
		auth_say(slot);
		done(slot, 0, 0);
		return;
	case EV_GET_CAP:
	case EV_GET_CSTS:
		property_get(slot);
		return;
	case EV_SET_CC:
		property_set(slot);
		return;
	case EV_CROSS_RESET:
		cross_reset(slot);
		return;
	case EV_GET_LOG:
	case EV_GET_RESETS:
	case EV_GET_SMART:
		get_log(slot);
		return;
	case EV_SET_QUEUES:
	case EV_SET_EVENTS:
		set_features(slot);
		return;
	case EV_KEEP_ALIVE:
		done(slot, 0, 0);
		return;
	case EV_GET_BLOCKS:
		blocks_answer(slot, sgl_length(slot), n_blocks_now);
		done(slot, 0, 0);
		return;
	case EV_AER:
		events_start(slot);
		return;
	case EV_READ:
	case EV_WRITE:
	case EV_FLUSH:
	case EV_ZERO:
	case EV_TRIM:
		start_io(slot);
		return;
	default:
		identify(slot);
	}
}

void command_start(struct slot *slot)
{
	int event = event_of(slot);
	enum action action;

	slot->out = NULL;
	slot->n_out = 0;
	slot->rule = NULL;
	check_capsule(slot);
	if (event < 0) {
		violation("opcode %02x on queue %u", slot->capsule[0], slot->conn->qid);
		done(slot, SC_OPCODE, 0);
		return;
	}
	slot->event = (enum event)event;
	if (!slot->conn->cntlid && event != EV_CONNECT_ADMIN && event != EV_CONNECT_IO)
		violation("%s before Connect", rules_event_name(slot->event));
	slot->rule = rules_find(slot->event);
	if (slot->conn->qid)
		look_at_fua(slot);
	if (slot->conn->qid && pair_start(slot))
		return;
	action = slot->rule ? slot->rule->action : ACT_NONE;
	if (action == ACT_EXIT)
		_exit(0);
	if (action == ACT_DISCONNECT || action == ACT_SILENCE)
		lose(slot);
	if (action == ACT_DISCONNECT)
		fabric_disconnect(slot->conn);
	if (action == ACT_DISCONNECT || action == ACT_SILENCE)
		return;
	if (action == ACT_STATUS && slot->event != EV_AER)
		done(slot, 0, 0);
	else
		run(slot);
}

void command_begin(void)
{
	n_blocks_now = opt.blocks;
}
