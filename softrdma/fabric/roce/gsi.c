/* SPDX-License-Identifier: BSD-3-Clause */
/* Management datagrams, and what the host knows of routes and addresses; see gsi.h. */
#include "softrdma/fabric/roce/gsi.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netpacket/packet.h>
#include <rdma/rdma_cma.h>
#include <string.h>
#include <unistd.h>

#include "softrdma/fabric/roce/batch.h"
#include "softrdma/fabric/roce/port.h"
#include "softrdma/fabric/roce/routes.h"
#include "softrdma/fabric/roce/sockets.h"
#include "softrdma/verbs/gid.h"

enum {
	GSI_QPN = 1,
	WAITING = 64, /* MADs that have arrived and are not handed over yet; more are lost */
	HEADERS_AT_MOST = 80, /* IPv6, UDP, BTH, RETH, ICRC: what Linux' rdma_rxe subtracts */
};

#define GSI_QKEY 0x80010000u

struct waiting {
	struct sr_gsi_path path;
	uint8_t mad[SR_GSI_MAD_BYTES];
};

/* Guards the ring. Leaf. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct waiting ring[WAITING];
static unsigned first, n_waiting;
static struct sr_timer hand_over_timer;
static sr_gsi_on_mad *_Atomic on_mad;
static sr_gsi_on_unreachable *_Atomic on_unreachable;
static _Atomic uint32_t next_psn;

/* ---- in ------------------------------------------------------------------------------------- */

/* Helper. */
static void hand_over(uint64_t arg)
{
	sr_gsi_on_mad *fn = atomic_load(&on_mad);

	for (;;) {
		struct waiting w;

		pthread_mutex_lock(&lock);
		if (!n_waiting) {
			pthread_mutex_unlock(&lock);
			return;
		}
		w = ring[first];
		first = (first + 1) % WAITING;
		n_waiting--;
		pthread_mutex_unlock(&lock);
		if (fn)
			fn(&w.path, w.mad);
	}
}

static void queue(const struct sr_gsi_path *path, const uint8_t mad[SR_GSI_MAD_BYTES])
{
	bool queued = false;

	pthread_mutex_lock(&lock);
	if (n_waiting < WAITING) {
		struct waiting *w = &ring[(first + n_waiting++) % WAITING];

		w->path = *path;
		memcpy(w->mad, mad, SR_GSI_MAD_BYTES);
		queued = true;
	}
	pthread_mutex_unlock(&lock);
	if (queued)
		sr_timer_start(&hand_over_timer, 0, hand_over, 0);
}

/* The port that a request names; false: it is none, or names none of RDMA_PS_TCP or _UDP. */
static bool wanted(const uint8_t mad[SR_GSI_MAD_BYTES], enum roce_space *ret_space,
		   uint16_t *ret_port)
{
	static const uint8_t prefix[] = {0, 0, 0, 0, 1};
	const uint8_t *id = mad + ROCE_MAD_SERVICE_ID;
	unsigned attribute = (unsigned)mad[ROCE_MAD_ATTRIBUTE] << 8 | mad[ROCE_MAD_ATTRIBUTE + 1];

	if ((attribute != ROCE_ATTRIBUTE_REQ && attribute != ROCE_ATTRIBUTE_SIDR_REQ) ||
	    memcmp(id, prefix, sizeof(prefix)) ||
	    (id[5] != (RDMA_PS_TCP & 0xff) && id[5] != (RDMA_PS_UDP & 0xff)))
		return false;
	*ret_space = id[5] == (RDMA_PS_TCP & 0xff) ? ROCE_SPACE_TCP : ROCE_SPACE_UDP;
	*ret_port = (uint16_t)(id[6] << 8 | id[7]);
	return true;
}

/* Whether the MAD is a request for another process, which has it now. */
static bool pass(struct roce_port *port, const struct sr_gsi_path *path,
		 const uint8_t mad[SR_GSI_MAD_BYTES])
{
	struct roce_passed passed = {.kind = ROCE_PASSED_REQUEST,
				     .n = SR_GSI_MAD_BYTES,
				     .local = path->local,
				     .remote = path->remote};
	enum roce_space space;
	uint16_t number, inbox;
	bool listens;
	int r;

	if (!wanted(mad, &space, &number))
		return false;
	inbox = roce_group_listener(&port->group, space, number, &listens);
	if (!inbox || inbox == roce_member_inbox())
		return false;
	memcpy(passed.bytes, mad, SR_GSI_MAD_BYTES);
	r = roce_member_pass(inbox, &passed);
	if (r == -ECONNREFUSED)
		roce_group_clear(&port->group, space, number, inbox);
	return r != -ECONNREFUSED; /* another error: lost, and the peer repeats it */
}

void gsi_on_packet(struct roce_port *port, const union ibv_gid *from, const struct roce_packet *p)
{
	struct sr_gsi_path path = {port->gid, *from};

	if (p->opcode != ROCE_UD_SEND_ONLY || p->dest_qpn != GSI_QPN || p->source_qpn != GSI_QPN ||
	    p->q_key != GSI_QKEY || p->payload_bytes != SR_GSI_MAD_BYTES)
		return;
	if (!pass(port, &path, p->payload))
		queue(&path, p->payload);
}

static void take_request(const struct roce_passed *passed)
{
	struct sr_gsi_path path = {passed->local, passed->remote};

	if (passed->n == SR_GSI_MAD_BYTES && roce_port_find(&passed->local))
		queue(&path, passed->bytes);
}

static void take_refusal(const struct roce_passed *passed)
{
	sr_gsi_on_unreachable *fn = atomic_load(&on_unreachable);
	struct sr_gsi_path path = {passed->local, passed->remote};

	if (fn && roce_port_find(&passed->local))
		fn(&path);
}

void gsi_on_passed(const struct roce_passed *passed)
{
	switch ((enum roce_passed_kind)passed->kind) {
	case ROCE_PASSED_PACKET:
		roce_port_take_passed(passed);
		break;
	case ROCE_PASSED_REQUEST:
		take_request(passed);
		break;
	case ROCE_PASSED_UNREACHABLE:
		take_refusal(passed);
		break;
	}
}

void sr_gsi_receive(sr_gsi_on_mad *fn)
{
	atomic_store(&on_mad, fn);
}

void sr_gsi_watch_unreachable(sr_gsi_on_unreachable *fn)
{
	atomic_store(&on_unreachable, fn);
}

void gsi_forget(void)
{
	pthread_mutex_init(&lock, NULL);
	n_waiting = 0;
}

/* ---- out ------------------------------------------------------------------------------------ */

bool sr_gsi_allows(const union ibv_gid *local)
{
	return roce_allows(local);
}

int sr_gsi_open(const union ibv_gid *local)
{
	struct roce_port *port;

	return roce_port_open(local, &port);
}

int sr_gsi_send(const struct sr_gsi_path *path, const uint8_t mad[SR_GSI_MAD_BYTES])
{
	struct roce_port *port = roce_port_find(&path->local);
	struct roce_packet p = {.opcode = ROCE_UD_SEND_ONLY,
				.dest_qpn = GSI_QPN,
				.source_qpn = GSI_QPN,
				.q_key = GSI_QKEY,
				.payload_bytes = SR_GSI_MAD_BYTES};
	struct roce_batch *b;
	struct roce_way way;
	uint8_t *at;
	size_t headers;

	if (!port)
		return -ENODEV;
	p.psn = atomic_fetch_add(&next_psn, 1) & 0xffffff;
	way = roce_way_from_port(port, &path->remote);
	b = roce_batch_begin();
	at = roce_batch_room(b);
	headers = roce_packet_encode(&p, at);
	memcpy(at + headers, mad, SR_GSI_MAD_BYTES);
	roce_batch_add(b, &way, headers + SR_GSI_MAD_BYTES);
	roce_batch_end(b);
	return 0;
}

/* ---- which process -------------------------------------------------------------------------- */

static enum roce_space space_of(enum rdma_port_space ps)
{
	return ps == RDMA_PS_UDP ? ROCE_SPACE_UDP : ROCE_SPACE_TCP;
}

int sr_gsi_listen(const union ibv_gid *local, enum rdma_port_space ps, uint16_t number)
{
	struct roce_port *port = roce_port_find(local);

	return port ? roce_group_listen(&port->group, space_of(ps), number) : -ENODEV;
}

void sr_gsi_unlisten(const union ibv_gid *local, enum rdma_port_space ps, uint16_t number)
{
	struct roce_port *port = roce_port_find(local);

	if (port)
		roce_group_unlisten(&port->group, space_of(ps), number);
}

bool sr_gsi_others_listen(const union ibv_gid *local, enum rdma_port_space ps, uint16_t number)
{
	struct roce_port *port = roce_port_find(local);
	bool listens = false;
	uint16_t inbox = port ? roce_group_listener(&port->group, space_of(ps), number, &listens)
			      : 0;

	return listens && inbox != roce_member_inbox() && roce_member_lives(inbox);
}

int sr_gsi_comm_id_class(const union ibv_gid *local, uint8_t *ret_mask, uint8_t *ret_value)
{
	struct roce_port *port = roce_port_find(local);

	if (!port)
		return -ENODEV;
	*ret_mask = ROCE_MEMBERS - 1;
	*ret_value = (uint8_t)port->member;
	return 0;
}

/* ---- the host's interfaces and routes ------------------------------------------------------- */

/* The name of the interface that has the address. */
static bool interface_of(const union ibv_gid *local, char ret[IF_NAMESIZE])
{
	union ibv_gid at;
	uint32_t ifindex;

	for (int i = 0, n = sr_gid_count(); i < n; i++)
		if (!sr_gid_at(i, &at, &ifindex) && !memcmp(&at, local, sizeof(at)))
			return if_indextoname(ifindex, ret);
	return false;
}

int sr_gsi_guid(const union ibv_gid *local, uint8_t ret[8])
{
	const struct roce_port *port = roce_port_find(local);
	char name[IF_NAMESIZE];
	struct ifaddrs *all;
	bool found = false;

	if (!port)
		return -ENODEV;
	if (interface_of(local, name) && !getifaddrs(&all)) {
		for (const struct ifaddrs *i = all; i && !found; i = i->ifa_next) {
			const struct sockaddr_ll *ll = (const void *)i->ifa_addr;
			static const uint8_t none[6];

			if (!ll || ll->sll_family != AF_PACKET || strcmp(i->ifa_name, name) ||
			    ll->sll_halen != 6 || !memcmp(ll->sll_addr, none, 6))
				continue;
			memcpy(ret,
			       (uint8_t[]){ll->sll_addr[0] ^ 2, ll->sll_addr[1], ll->sll_addr[2],
					   0xff, 0xfe, ll->sll_addr[3], ll->sll_addr[4],
					   ll->sll_addr[5]},
			       8);
			found = true;
		}
		freeifaddrs(all);
	}
	if (found)
		return 0;
	memcpy(ret, port->group.directory->random, 8);
	ret[0] = 2; /* made here, not by a manufacturer */
	return 0;
}

static enum ibv_mtu mtu_for(unsigned bytes)
{
	for (enum ibv_mtu mtu = IBV_MTU_4096; mtu; mtu--)
		if (bytes >= HEADERS_AT_MOST + (128u << mtu))
			return mtu;
	return 0;
}

enum ibv_mtu gsi_interface_mtu(const union ibv_gid *local)
{
	char name[IF_NAMESIZE];

	return interface_of(local, name) ? mtu_for(roce_interface_mtu(name)) : 0;
}

/* A throw-away socket, connected: it knows the route. -1 with errno. */
static int probe(const union ibv_gid *from, const union ibv_gid *to)
{
	struct roce_port *port = from ? roce_port_find(from) : NULL;
	struct sockaddr_in6 sa;
	socklen_t len;
	int sock;

	roce_sockaddr(to, port ? port->scope : 0, &sa, &len);
	sock = socket(sa.sin6_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (sock < 0)
		return -1;
	if (from) {
		struct sockaddr_in6 own;

		roce_sockaddr(from, port ? port->scope : 0, &own, &len);
		own.sin6_port = 0;
		bind(sock, (struct sockaddr *)&own, len);
	}
	if (!connect(sock, (struct sockaddr *)&sa, len))
		return sock;
	close(sock);
	return -1;
}

enum ibv_mtu sr_gsi_path_mtu(const struct sr_gsi_path *path)
{
	const struct roce_port *port = roce_port_find(&path->local);
	int mtu = roce_route_mtu(&path->local, &path->remote, port ? port->scope : 0);

	return mtu < 0 ? gsi_interface_mtu(&path->local) : mtu_for((unsigned)mtu);
}

int sr_gsi_route(const union ibv_gid *remote, union ibv_gid *ret_local)
{
	int sock = probe(NULL, remote);
	struct sockaddr_in6 sa;
	socklen_t len = sizeof(sa);
	int r;

	if (sock < 0)
		return -ENETUNREACH;
	r = getsockname(sock, (struct sockaddr *)&sa, &len);
	close(sock);
	if (r)
		return -ENETUNREACH;
	sr_gid_from_sockaddr((struct sockaddr *)&sa, ret_local);
	return roce_allows(ret_local) ? 0 : -ENETUNREACH;
}
