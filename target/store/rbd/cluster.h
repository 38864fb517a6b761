/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections to Ceph clusters: one for each configuration file and user, which their images share,
 * because each has a dozen threads. A connection begins with the first image and ends with the
 * last. A thread of its own reads the cluster's health, as that waits for monitors.
 *
 * The images of groups with an owner have one of their own. The blocklist of a cluster names a
 * connection, and so all these groups are lost at the same time. A lost connection lives for as
 * long as an image is open by it, and the next image that is opened makes another one.
 *
 * rblkd must not fork once there is a connection: parent and child would have one name in the
 * cluster, and fencing one would fence both.
 */
#pragma once

#include <time.h>

#include <rados/librados.h>

#include "target/store/plugin.h"
#include "target/store/rbd_config.h"

struct cluster;

/* The functions of rblkd. Set once, before any other thread runs. */
extern const struct backend_host *rbd_host;

/*
 * Returns the connection, making it if it is the first use; each call needs a cluster_put. Waits
 * for as long as cluster_patience_s. Any thread. NULL with *error.
 */
struct cluster *cluster_get(const struct backend_config *config, struct error *error);
/* Any thread. Accepts NULL. */
void cluster_put(struct cluster *cluster);
/* Borrowed until cluster_put. Any thread. */
rados_t cluster_handle(const struct cluster *cluster);
/* Seconds that a connection or an image may take: client_mount_timeout, by default 20. */
unsigned cluster_patience_s(const struct cluster *cluster);
/* The value of a number among the cluster's options, or otherwise. Any thread. */
unsigned cluster_option(const struct cluster *cluster, const char *name, unsigned otherwise);
/* A time of rbd_host->now_ns, for pthread_cond_clockwait with CLOCK_MONOTONIC. Pure. */
struct timespec cluster_time(uint64_t ns);
/* "HEALTH_OK", "HEALTH_WARN: 1 osds down", "unreachable: ...", "unknown" at first. False: the
 * cluster does not serve. Any thread. */
bool cluster_health(struct cluster *cluster, char *text, size_t n);
/* Any thread. Another client may have been told that this connection is over: cluster_get
 * returns it no more. */
void cluster_lose(struct cluster *cluster);
/* Any thread. */
bool cluster_is_lost(struct cluster *cluster);
/* Whether this process had a connection of that address, which was lost, and has closed it. Any
 * thread. */
bool cluster_has_ended(const char *address);
/* How many of these there are. Any thread. */
unsigned cluster_n_ended(void);
