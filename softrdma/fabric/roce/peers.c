/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of addresses that queue pairs are connected to; see peers.h. */
#include "softrdma/fabric/roce/peers.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "softrdma/fabric/roce/sockets.h"

/* Guards the list and the counts of references. */
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct roce_peer *peers;

static struct roce_peer *new_peer(const union ibv_gid *local, uint32_t scope,
				  const union ibv_gid *gid)
{
	struct roce_peer *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->local = *local;
	p->gid = *gid;
	p->sock = roce_socket_open_out(local, scope, &p->source_port);
	pthread_mutex_init(&p->lock, NULL);
	roce_window_init(&p->window);
	p->next = peers;
	peers = p;
	return p;
}

static bool is_between(const struct roce_peer *p, const union ibv_gid *local,
		       const union ibv_gid *gid)
{
	return !memcmp(&p->gid, gid, sizeof(*gid)) && !memcmp(&p->local, local, sizeof(*local));
}

struct roce_peer *roce_peer_get(const union ibv_gid *local, uint32_t scope,
				const union ibv_gid *gid)
{
	struct roce_peer *p;

	pthread_mutex_lock(&list_lock);
	for (p = peers; p && !is_between(p, local, gid); p = p->next)
		;
	if (!p)
		p = new_peer(local, scope, gid);
	if (p)
		p->refs++;
	pthread_mutex_unlock(&list_lock);
	return p;
}

void roce_peer_put(struct roce_peer *p)
{
	if (!p)
		return;
	pthread_mutex_lock(&list_lock);
	if (!--p->refs) {
		struct roce_peer **link = &peers;

		while (*link != p)
			link = &(*link)->next;
		*link = p->next;
		pthread_mutex_destroy(&p->lock);
		if (p->sock >= 0)
			close(p->sock);
		free(p);
	}
	pthread_mutex_unlock(&list_lock);
}

void roce_peers_forget(void)
{
	pthread_mutex_init(&list_lock, NULL);
	for (struct roce_peer *p = peers; p; p = p->next)
		if (p->sock >= 0)
			close(p->sock);
	peers = NULL;
}
