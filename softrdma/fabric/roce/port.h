/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * UDP port 4791 of this host's addresses: opening it, reading it, and sending bursts. Other
 * processes of this user may have the same address open (group.h).
 *
 * A thread that polls an empty completion queue reads the sockets; the helper does while no
 * thread polls.
 * A port, once open, stays open until the process ends or forks. Functions return 0 or -errno.
 */
#pragma once

#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "softrdma/fabric/roce/group.h"
#include "softrdma/fabric/roce/icrc.h"
#include "softrdma/fabric/roce/member.h"
#include "softrdma/fabric/roce/packet.h"
#include "softrdma/process/timer.h"

struct roce_port {
	union ibv_gid gid;
	struct roce_group group;
	unsigned member;	 /* the number of this process */
	int sock;		 /* the group's for this process */
	uint32_t scope;		 /* the interface, for a link-local address */
	unsigned index;		 /* in the table of ports */
	pthread_mutex_t rx_lock; /* one reader at a time; before all locks of queue pairs */
	_Atomic uint64_t polled_ns;
	_Atomic bool is_watched;
	_Atomic uint64_t n_received, n_sent, n_bursts, n_bad;
	uint8_t *buffer;	     /* owned; what is being received */
	struct sr_timer timer;	     /* the helper looks whether it shall read again */
	_Atomic uint64_t reports_ns; /* since when it counts reports of refusals */
	_Atomic unsigned n_reports;
};

/* Whether SOFTRDMA_ROCE allows RoCE, and from this address (NULL: from any at all). */
bool roce_allows(const union ibv_gid *local);

/* Opens the port of an address of this host, or finds it open. Not from the helper. */
int roce_port_open(const union ibv_gid *gid, struct roce_port **ret);
/* The open port of an address, or NULL. */
struct roce_port *roce_port_find(const union ibv_gid *gid);

/* Called for each packet whose checksum is right. */
typedef void roce_on_packet(struct roce_port *port, const union ibv_gid *from,
			    const struct roce_packet *p, const struct roce_arrival *how);
/* Called after the packets that were there together. */
typedef void roce_on_batch(void);
/* "Call roce_ports_tick at about this time." */
typedef void roce_on_due(uint64_t ns);
/* Passes it on to that callback. */
void roce_ports_due(uint64_t ns);
/* Once, before the first roce_port_open. */
struct roce_port_callbacks {
	roce_on_packet *on_packet;
	roce_on_batch *on_batch;
	roce_on_due *on_due;
};
void roce_ports_init(const struct roce_port_callbacks *callbacks);

/* Helper: a packet that came to another process. */
void roce_port_take_passed(const struct roce_passed *passed);

/* Application thread that polls: reads all ports once, unless another thread does. */
void roce_ports_poll(void);
/* The application will sleep until an event: the helper reads from now on. */
void roce_ports_watch(void);
void roce_ports_forget(void);

/* ---- sending ---- */

struct roce_batch;

/* From where packets leave, and for where. */
struct roce_way {
	struct roce_port *port;
	union ibv_gid to;
	int sock; /* borrowed; stays open until roce_batch_end */
	uint16_t source_port;
};
