/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See sim.h: a host with two paths. A path has an admin and an I/O connection. When it is lost, its
 * writes wait for proof that no copy of them is left, which is one of
 *
 * - the success of a Cross-Controller Reset of the lost controller, sent on the other path;
 * - the end of the hold, three times KATO and CQT from when the path was given up;
 * - in some seeds, a Connect to the same portal that succeeds. A capsule that is still in the
 *   network then can be executed after the Connect, so in these seeds no packet is late.
 */
#include <string.h>

#include "base/check.h"
#include "tests/sim/sim.h"
#include "transport/wire/fabrics.h"
#include "transport/wire/nvme_cross_reset.h"
#include "transport/wire/rdma_cm.h"

enum {
	COMMANDS = 128,
	PACKETS = 1024,
	QUEUE_DEPTH = 32,
	KEEP_ALIVE_MS = SIM_KATO_MS / 4,
	RESET_AGAIN_MS = 40,
	CONNECT_AGAIN_US = 400000,
	BROKEN_US = 800000,
	LATE_US = 900000, /* no packet is longer on its way (RDMA retries end) */
	CONNS_LEFT = SIM_CONNS - 8,
};

enum path_state {
	PATH_DOWN,
	PATH_CONNECTING,
	PATH_LIVE,
};

struct path {
	enum path_state state;
	unsigned admin, io; /* connections; SIM_NO_CONN */
	unsigned life;	    /* counts losses */
	unsigned instance;  /* of the controller; never the same */
	uint64_t heard, cut_until;
	uint16_t cntlid, cqt;
	uint8_t ciu;
	uint64_t cirn;
};

/* A controller that was lost, until it is proven that nothing of it is left. */
struct old {
	bool is_unproven;
	unsigned path, instance;
	uint16_t cntlid;
	uint8_t ciu;
	uint64_t cirn;
};

struct conn {
	unsigned path, instance;
	bool is_lost; /* the host uses it no more */
	uint64_t last_there, last_back;
};

struct command {
	bool is_used;
	enum sim_command_kind kind;
	unsigned path, conn, block;
	uint32_t version;
	uint8_t data[4096];
};

struct packet {
	bool is_used, is_back, is_hang_up, is_lost;
	unsigned conn;
	struct nvme_sqe sqe;
	struct nvme_cqe cqe;
	uint8_t data[sizeof(struct nvmf_connect_data)];
	size_t n;
};

static struct {
	struct path paths[SIM_PATHS];
	struct old olds[SIM_OLDS];
	struct conn conns[SIM_CONNS];
	struct command commands[COMMANDS];
	struct packet packets[PACKETS];
	unsigned n_instances, next_command;
	bool is_ending, sees_no_cache, trusts_connect;
} host;

/* ---- packets -------------------------------------------------------------------------------- */

static bool is_cut(unsigned path)
{
	return host.paths[path].cut_until > sim_now();
}

static void on_broken(unsigned what)
{
	if (host.paths[what % SIM_PATHS].life == what / SIM_PATHS)
		sim_host_give_up(what % SIM_PATHS, "a packet is lost");
}

/* A cut link loses the packet; the connection breaks when its retries have ended. */
static bool is_dropped(unsigned path)
{
	if (!is_cut(path))
		return false;
	sim_after(sim_between_us(20000, BROKEN_US), on_broken,
		  host.paths[path].life * SIM_PATHS + path);
	return true;
}

static struct packet *new_packet(unsigned conn)
{
	for (unsigned i = 0; i < PACKETS; i++)
		if (!host.packets[i].is_used) {
			host.packets[i] = (struct packet){.is_used = true, .conn = conn};
			return &host.packets[i];
		}
	check(!"a packet");
	return NULL;
}

static uint64_t choose_delay(void)
{
	return !host.trusts_connect && sim_chance(2) ? sim_between_us(1000, LATE_US)
						     : sim_between_us(5, 200);
}

static void handle_response(unsigned conn, const struct nvme_cqe *cqe);

static void on_arrival(unsigned i)
{
	struct packet p = host.packets[i];

	host.packets[i].is_used = false;
	if (p.is_lost)
		return;
	if (p.is_hang_up)
		sim_target_hang_up(p.conn);
	else if (p.is_back)
		handle_response(p.conn, &p.cqe);
	else
		sim_target_deliver(p.conn, &p.sqe, p.data, p.n);
}

/* In order, as a reliable connection delivers. */
static void travel(struct packet *p)
{
	uint64_t *last = p->is_back ? &host.conns[p->conn].last_back
				    : &host.conns[p->conn].last_there;
	uint64_t at = sim_now() + choose_delay();

	*last = at > *last ? at : *last + 1;
	sim_at(*last, on_arrival, (unsigned)(p - host.packets));
}

/* ---- commands ------------------------------------------------------------------------------- */

static unsigned new_command(unsigned path, unsigned conn, enum sim_command_kind kind)
{
	for (unsigned i = 0; i < COMMANDS; i++) {
		unsigned cid = host.next_command++ % COMMANDS;
		struct command *c = &host.commands[cid];

		if (c->is_used)
			continue;
		*c = (struct command){.is_used = true, .kind = kind, .path = path, .conn = conn};
		return cid;
	}
	check(!"a command");
	return 0;
}

static void describe_in_capsule(struct nvme_sqe *sqe, size_t n)
{
	sqe->sgl = (struct nvme_sgl){0};
	sqe->sgl.block.length = put_le32((uint32_t)n);
	sqe->sgl.block.type = NVME_SGL_DATA_BLOCK_OFFSET;
}

static void describe_keyed(struct nvme_sqe *sqe, size_t n, unsigned key)
{
	sqe->sgl = (struct nvme_sgl){0};
	sqe->sgl.keyed.length = put_le24((uint32_t)n);
	sqe->sgl.keyed.key = put_le32(key);
	sqe->sgl.keyed.type = NVME_SGL_KEYED_ADDRESS;
}

static void send(unsigned cid, struct nvme_sqe *sqe, const void *data, size_t n)
{
	const struct command *c = &host.commands[cid];
	struct packet *p;

	sqe->flags = NVME_FLAGS_PSDT_SGL;
	sqe->cid = put_le16((uint16_t)cid);
	if (is_dropped(c->path))
		return;
	p = new_packet(c->conn);
	p->sqe = *sqe;
	p->n = n;
	if (n)
		memcpy(p->data, data, n);
	travel(p);
}

static unsigned send_admin(unsigned path, enum sim_command_kind kind, struct nvme_sqe *sqe)
{
	unsigned cid = new_command(path, host.paths[path].admin, kind);

	describe_keyed(sqe, kind == SIM_IDENTIFY ? sizeof(struct nvme_id_ctrl) : 0, cid);
	send(cid, sqe, NULL, 0);
	return cid;
}

unsigned sim_host_choose_path(void)
{
	unsigned first = sim_dice(SIM_PATHS);

	for (unsigned i = 0; i < SIM_PATHS; i++)
		if (host.paths[(first + i) % SIM_PATHS].state == PATH_LIVE)
			return (first + i) % SIM_PATHS;
	return SIM_PATHS;
}

void sim_host_send(unsigned path, enum sim_command_kind kind, unsigned block, uint32_t version,
		   bool is_durable)
{
	static const uint8_t opcodes[] = {[SIM_READ] = NVME_IO_READ,
					  [SIM_WRITE] = NVME_IO_WRITE,
					  [SIM_FLUSH] = NVME_IO_FLUSH};
	unsigned cid = new_command(path, host.paths[path].io, kind);
	struct nvme_sqe sqe = {.opcode = opcodes[kind], .nsid = put_le32(1)};
	uint32_t words[SIM_BLOCK_BYTES / sizeof(uint32_t)];
	bool is_write = kind == SIM_WRITE;

	host.commands[cid].block = block;
	host.commands[cid].version = version;
	sqe.cdw10 = put_le32(kind == SIM_FLUSH ? 0 : block);
	sqe.cdw12 = put_le32(is_durable ? NVME_RW_FUA : 0);
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		words[i] = version;
	if (is_write)
		describe_in_capsule(&sqe, sizeof(words));
	else
		describe_keyed(&sqe, kind == SIM_READ ? sizeof(words) : 0, cid);
	send(cid, &sqe, words, is_write ? sizeof(words) : 0);
}

/* ---- proof ---------------------------------------------------------------------------------- */

static void is_proven(unsigned slot, const char *why)
{
	struct old *old = &host.olds[slot];

	sim_tell("path %u: nothing of controller %u is left: %s", old->path, old->cntlid, why);
	old->is_unproven = false;
	sim_load_proven(slot);
}

static void connect_is_proof(unsigned path)
{
	for (unsigned i = 0; host.trusts_connect && i < SIM_OLDS; i++)
		if (host.olds[i].is_unproven && host.olds[i].path == path)
			is_proven(i, "connected again");
}

/* The slot of an old controller as an event names it; SIM_OLDS: it is proven. */
static unsigned find_old(unsigned what)
{
	const struct old *old = &host.olds[what % SIM_OLDS];

	return old->is_unproven && old->instance == what / SIM_OLDS ? what % SIM_OLDS : SIM_OLDS;
}

static void on_hold_over(unsigned what)
{
	if (find_old(what) != SIM_OLDS)
		is_proven(find_old(what), "the hold is over");
}

/* On the other path, or on the same one once it is connected again. */
static void ask_reset(unsigned what)
{
	unsigned slot = find_old(what), through;
	struct nvme_sqe sqe = {.opcode = NVME_ADMIN_CROSS_RESET};
	const struct old *old = &host.olds[what % SIM_OLDS];

	if (slot == SIM_OLDS || host.is_ending)
		return;
	through = host.paths[!old->path].state == PATH_LIVE ? !old->path : old->path;
	if (host.paths[through].state == PATH_LIVE) {
		sqe.cdw10 = put_le32(old->cntlid | (uint32_t)old->ciu << 16);
		sqe.cdw12 = put_le32((uint32_t)old->cirn);
		sqe.cdw13 = put_le32((uint32_t)(old->cirn >> 32));
		host.commands[send_admin(through, SIM_RESET, &sqe)].block = what;
	}
	sim_after(RESET_AGAIN_MS * NSEC_PER_MSEC, ask_reset, what);
}

/* Others than success are asked again. */
static void on_reset(unsigned what, const struct nvme_cqe *cqe)
{
	unsigned slot = find_old(what);

	if (get_nvme_status(cqe->status) != NVME_OK ||
	    !(get_le32(cqe->dw0) & NVME_CROSS_RESET_IMMEDIATE) || slot == SIM_OLDS)
		return;
	if (sim_disk_has_io_of(host.olds[slot].instance))
		sim_wrong("a reset of controller %u succeeds while the disk has a write of it",
			  host.olds[slot].cntlid);
	is_proven(slot, "reset");
}

static unsigned remember_old(unsigned path)
{
	const struct path *p = &host.paths[path];
	unsigned slot = 0, what;

	while (host.olds[slot].is_unproven)
		check(++slot < SIM_OLDS);
	host.olds[slot] = (struct old){.is_unproven = true,
				       .path = path,
				       .instance = p->instance,
				       .cntlid = p->cntlid,
				       .ciu = p->ciu,
				       .cirn = p->cirn};
	what = p->instance * SIM_OLDS + slot;
	sim_after((3 * SIM_KATO_MS + p->cqt) * NSEC_PER_MSEC, on_hold_over, what);
	if (!host.trusts_connect || sim_chance(50))
		sim_after(sim_between_us(1, 3000), ask_reset, what);
	return slot;
}

/* ---- the life of a path --------------------------------------------------------------------- */

static void begin_connect(unsigned path);

static void connect_again(unsigned what)
{
	unsigned path = what % SIM_PATHS;

	if (host.paths[path].life == what / SIM_PATHS && host.paths[path].state == PATH_DOWN &&
	    !host.is_ending)
		begin_connect(path);
}

static void release_commands(unsigned path, unsigned slot)
{
	for (unsigned i = 0; i < COMMANDS; i++) {
		struct command c = host.commands[i];

		if (!c.is_used || c.path != path)
			continue;
		host.commands[i].is_used = false;
		if (c.kind >= SIM_READ)
			sim_load_lost(slot, c.kind, c.block);
	}
}

/* The disconnect reaches the target sooner, later, or never. */
static void hang_up(unsigned conn)
{
	struct packet *p;

	if (conn == SIM_NO_CONN)
		return;
	host.conns[conn].is_lost = true;
	if (is_cut(host.conns[conn].path) || sim_chance(30))
		return;
	p = new_packet(conn);
	p->is_hang_up = true;
	travel(p);
}

void sim_host_give_up(unsigned path, const char *why)
{
	struct path *p = &host.paths[path];

	if (p->state == PATH_DOWN)
		return;
	sim_tell("path %u: is given up: %s", path, why);
	release_commands(path, p->state == PATH_LIVE ? remember_old(path) : 0);
	p->state = PATH_DOWN;
	p->life++;
	hang_up(p->io);
	hang_up(p->admin);
	p->admin = p->io = SIM_NO_CONN;
	if (!host.is_ending)
		sim_after(sim_between_us(1000, CONNECT_AGAIN_US * 3), connect_again,
			  p->life * SIM_PATHS + path);
}

void sim_host_cut(unsigned path, uint64_t ns)
{
	sim_tell("path %u: its link is cut for %u ms", path, (unsigned)(ns / NSEC_PER_MSEC));
	host.paths[path].cut_until = sim_now() + ns;
}

static void notice_death(unsigned what)
{
	if (host.paths[what % SIM_PATHS].life == what / SIM_PATHS)
		sim_host_give_up(what % SIM_PATHS, "the target is gone");
}

/* A machine without power sends nothing, and what its network card has is lost: else an
 * acknowledgement could arrive after the checker has looked at what is left of the disk. */
void sim_host_target_died(bool loses_power)
{
	for (unsigned i = 0; i < PACKETS; i++)
		host.packets[i].is_lost |= loses_power && host.packets[i].is_back;
	for (unsigned i = 0; i < SIM_PATHS; i++)
		sim_after(sim_between_us(10, 30000), notice_death,
			  host.paths[i].life * SIM_PATHS + i);
}

static void keep_alive(unsigned what)
{
	unsigned path = what % SIM_PATHS;
	struct path *p = &host.paths[path];
	struct nvme_sqe sqe = {.opcode = NVME_ADMIN_KEEP_ALIVE};

	if (p->life != what / SIM_PATHS || p->state == PATH_DOWN)
		return;
	if (!sim_target_has(p->admin) || (p->io != SIM_NO_CONN && !sim_target_has(p->io))) {
		sim_host_give_up(path, "disconnected");
		return;
	}
	if (sim_now() - p->heard > SIM_KATO_MS * NSEC_PER_MSEC && p->state == PATH_LIVE) {
		sim_host_give_up(path, "silent");
		return;
	}
	if (sim_now() - p->heard > 4 * SIM_KATO_MS * NSEC_PER_MSEC) {
		sim_host_give_up(path, "does not connect");
		return;
	}
	if (p->state == PATH_LIVE)
		send_admin(path, SIM_KEEP_ALIVE, &sqe);
	sim_after(KEEP_ALIVE_MS * NSEC_PER_MSEC, keep_alive, what);
}

static unsigned open_conn(unsigned path, unsigned qid)
{
	unsigned n = qid ? QUEUE_DEPTH : NVMF_ADMIN_SQ_ENTRIES, conn;
	struct nvmf_cm_req req = {.qid = put_le16((uint16_t)qid),
				  .hrqsize = put_le16((uint16_t)n),
				  .hsqsize = put_le16((uint16_t)(n - 1))};

	conn = is_cut(path) ? SIM_NO_CONN : sim_target_connect(path, &req, sizeof(req));
	if (conn != SIM_NO_CONN)
		host.conns[conn] = (struct conn){.path = path,
						 .instance = host.paths[path].instance};
	return conn;
}

static void send_connect(unsigned path, unsigned conn, unsigned qid, unsigned cntlid)
{
	unsigned n = qid ? QUEUE_DEPTH : NVMF_ADMIN_SQ_ENTRIES;
	unsigned cid = new_command(path, conn, qid ? SIM_IO_CONNECT : SIM_CONNECT);
	struct nvmf_connect_cmd cmd = {.opcode = NVME_FABRICS,
				       .fctype = NVMF_CONNECT,
				       .qid = put_le16((uint16_t)qid),
				       .sqsize = put_le16((uint16_t)(n - 1)),
				       .kato = put_le32(SIM_KATO_MS)};
	struct nvmf_connect_data data = {.cntlid = put_le16((uint16_t)cntlid)};
	struct nvme_sqe sqe;

	memcpy(&sqe, &cmd, sizeof(sqe));
	memset(data.hostid, 1, sizeof(data.hostid));
	strcpy((char *)data.subnqn, SIM_SUBNQN);
	strcpy((char *)data.hostnqn, "nqn.2026-01.org.example:host");
	describe_in_capsule(&sqe, sizeof(data));
	send(cid, &sqe, &data, sizeof(data));
}

static void begin_connect(unsigned path)
{
	struct path *p = &host.paths[path];

	p->life++;
	p->instance = ++host.n_instances;
	p->io = SIM_NO_CONN;
	p->admin = open_conn(path, 0);
	if (p->admin == SIM_NO_CONN) {
		sim_after(sim_between_us(1000, CONNECT_AGAIN_US), connect_again,
			  p->life * SIM_PATHS + path);
		return;
	}
	p->state = PATH_CONNECTING;
	p->heard = sim_now();
	send_connect(path, p->admin, 0, NVMF_CNTLID_DYNAMIC);
	keep_alive(p->life * SIM_PATHS + path);
}

static void enable(unsigned path)
{
	struct nvmf_property_cmd cmd = {.opcode = NVME_FABRICS,
					.fctype = NVMF_PROPERTY_SET,
					.offset = put_le32(NVME_PROP_CC),
					.value = put_le64(0x460001)};
	struct nvme_sqe sqe;

	memcpy(&sqe, &cmd, sizeof(sqe));
	send_admin(path, SIM_ENABLE, &sqe);
}

static void identify(unsigned path)
{
	struct nvme_sqe sqe = {.opcode = NVME_ADMIN_IDENTIFY, .cdw10 = put_le32(NVME_CNS_CTRL)};

	send_admin(path, SIM_IDENTIFY, &sqe);
}

static void connect_io(unsigned path, const struct nvme_id_ctrl *id)
{
	struct path *p = &host.paths[path];

	p->ciu = id->ciu;
	p->cirn = get_le64(id->cirn);
	p->cqt = get_le16(id->cqt);
	host.sees_no_cache = !(id->vwc & NVME_VWC_PRESENT);
	p->io = open_conn(path, 1);
	if (p->io == SIM_NO_CONN)
		sim_host_give_up(path, "no I/O queue");
	else
		send_connect(path, p->io, 1, p->cntlid);
}

/* ---- responses ------------------------------------------------------------------------------ */

static void read_is_answered(const struct command *c)
{
	uint32_t words[SIM_BLOCK_BYTES / sizeof(uint32_t)];

	memcpy(words, c->data, sizeof(words));
	for (size_t i = 1; i < sizeof(words) / sizeof(*words); i++)
		if (words[i] != words[0])
			sim_wrong("block %u: a read finds a part of a write", c->block);
	sim_load_answered(c->kind, c->block, words[0], true);
}

static void io_is_answered(const struct command *c, enum nvme_status status)
{
	if (status & NVME_DNR)
		sim_wrong("block %u: refused with status %x", c->block, status);
	else if (c->kind == SIM_READ && status == NVME_OK)
		read_is_answered(c);
	else
		sim_load_answered(c->kind, c->block, c->version, status == NVME_OK);
}

static void admin_is_answered(const struct command *c, const struct nvme_cqe *cqe)
{
	struct path *p = &host.paths[c->path];

	switch (c->kind) {
	case SIM_CONNECT:
		p->cntlid = (uint16_t)get_le32(cqe->dw0);
		connect_is_proof(c->path);
		enable(c->path);
		return;
	case SIM_ENABLE:
		identify(c->path);
		return;
	case SIM_IDENTIFY:
		connect_io(c->path, (const struct nvme_id_ctrl *)(const void *)c->data);
		return;
	case SIM_IO_CONNECT:
		p->state = PATH_LIVE;
		sim_tell("path %u: is live, controller %u", c->path, p->cntlid);
		return;
	default:
		return;
	}
}

static void handle_response(unsigned conn, const struct nvme_cqe *cqe)
{
	unsigned cid = get_le16(cqe->cid);
	struct command *c = &host.commands[cid % COMMANDS];
	enum nvme_status status = get_nvme_status(cqe->status);
	struct command is;

	if (host.conns[conn].is_lost || is_dropped(host.conns[conn].path))
		return;
	if (cid >= COMMANDS || !c->is_used || c->conn != conn) {
		sim_wrong("a response that no command awaits, CID %u", cid);
		return;
	}
	is = *c;
	c->is_used = false;
	host.paths[is.path].heard = sim_now();
	if (is.kind >= SIM_READ)
		io_is_answered(&is, status);
	else if (is.kind == SIM_RESET)
		on_reset(is.block, cqe);
	else if (status != NVME_OK)
		sim_host_give_up(is.path, "refused");
	else
		admin_is_answered(&is, cqe);
}

void sim_host_on_response(unsigned conn, const struct nvme_cqe *cqe)
{
	struct packet *p;

	if (host.conns[conn].is_lost || is_dropped(host.conns[conn].path))
		return;
	p = new_packet(conn);
	p->is_back = true;
	p->cqe = *cqe;
	travel(p);
}

void sim_host_on_data(unsigned conn, unsigned key, const void *data, size_t n)
{
	struct command *c = &host.commands[key % COMMANDS];

	if (c->is_used && c->conn == conn && !host.conns[conn].is_lost && n <= sizeof(c->data))
		memcpy(c->data, data, n);
}

unsigned sim_host_instance_of(unsigned conn)
{
	return host.conns[conn].instance;
}

bool sim_host_is_write_through(void)
{
	return host.sees_no_cache;
}

void sim_host_begin(bool is_used)
{
	memset(&host, 0, sizeof(host));
	if (!is_used)
		return;
	host.trusts_connect = sim_chance(30);
	for (unsigned i = 0; i < SIM_PATHS; i++) {
		host.paths[i].admin = host.paths[i].io = SIM_NO_CONN;
		begin_connect(i);
	}
}

void sim_host_end(void)
{
	host.is_ending = true;
	for (unsigned i = 0; i < SIM_PATHS; i++) {
		host.paths[i].cut_until = 0;
		sim_host_give_up(i, "done");
	}
}
