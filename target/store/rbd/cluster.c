/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See cluster.h. One lock protects the list of connections and the health texts. It is never held
 * during a call that waits for the cluster.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "target/store/rbd/cluster.h"

enum {
	PATIENCE_S = 20,
	LIBRARY_PATIENCE_S = 300, /* of librados, if its configuration has none */
	MON_TIMEOUT_S = 10,
	HEALTH_EVERY_S = 5,
	HEALTH_MAX = 256,
};

enum connection {
	CONNECTING,
	CONNECTED,
	REFUSED,
};

struct cluster {
	/* Protected by lock */
	struct list node;
	unsigned n_refs;
	enum connection state;
	struct error error; /* why it is REFUSED */
	bool must_end;	    /* the health thread */
	char health[HEALTH_MAX];

	bool is_lost; /* no image is opened by it any more */

	/* Any thread: constant while it is CONNECTED */
	bool is_of_owners;
	char *conf, *user;
	rados_t handle;
	unsigned patience_s;
	pthread_t watcher;
	bool has_watcher;
};

const struct backend_host *rbd_host;

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed; /* a state, or must_end */
	struct list clusters;
	char **ended; /* addresses of connections that were lost, and are closed */
	unsigned n_ended;
} all = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.changed = PTHREAD_COND_INITIALIZER,
	.clusters = LIST_INIT(all.clusters),
};

/* ---- options -------------------------------------------------------------------------------- */

unsigned cluster_option(const struct cluster *cluster, const char *name, unsigned otherwise)
{
	char value[32];
	char *end;
	unsigned long n;

	if (rados_conf_get(cluster->handle, name, value, sizeof(value)) < 0)
		return otherwise;
	n = strtoul(value, &end, 10);
	return end == value || n > INT32_MAX ? otherwise : (unsigned)n;
}

/*
 * The promises of rblkd to hosts depend on these options. The cache acknowledges writes that no OSD
 * has, and is stale where two machines use an image. After a timeout of an operation its write may
 * still arrive, over a later one. Buffers do not change while rblkd writes from them, so no copy is
 * needed. The library must not write into rblkd's log.
 *
 * With owners, an entry in the blocklist must not end by itself: librbd makes one if it meets a
 * client whose watch has ended while it takes a lock. Renewals of leases must not wait behind I/O.
 * Writes are copied: librbd (16.2.15) never completes one that it refuses because it has lost the
 * lock, unless it has a copy.
 */
static const struct {
	const char *name, *value;
	bool is_vital, is_of_owners;
} options[] = {
	{"rbd_cache", "false", true, false},
	{"rados_osd_op_timeout", "0", true, false},
	{"rbd_disable_zero_copy_writes", "false", false, false},
	{"log_to_stderr", "false", false, false},
	{"err_to_stderr", "false", false, false},
	{"rbd_disable_zero_copy_writes", "true", true, true},
	{"rbd_blocklist_on_break_lock", "true", true, true},
	{"rbd_blocklist_expire_seconds", "315360000", true, true},
	{"objecter_inflight_ops", "0", false, true},
	{"objecter_inflight_op_bytes", "0", false, true},
};

static int set_options(struct cluster *cluster, struct error *error)
{
	char text[16];

	for (unsigned i = 0; i < ARRAY_LEN(options); i++) {
		int r = options[i].is_of_owners && !cluster->is_of_owners
				? 0
				: rados_conf_set(cluster->handle, options[i].name,
						 options[i].value);

		if (r < 0 && options[i].is_vital)
			return rbd_host->refuse(error, r,
						"rbd: this librados does not accept %s = %s: %s",
						options[i].name, options[i].value, strerror(-r));
	}
	cluster->patience_s = cluster_option(cluster, "client_mount_timeout", LIBRARY_PATIENCE_S);
	if (cluster->patience_s == LIBRARY_PATIENCE_S || !cluster->patience_s)
		cluster->patience_s = PATIENCE_S;
	snprintf(text, sizeof(text), "%u", cluster->patience_s);
	rados_conf_set(cluster->handle, "client_mount_timeout", text);
	/* for commands to monitors alone, such as the one for health */
	snprintf(text, sizeof(text), "%u", MON_TIMEOUT_S);
	rados_conf_set(cluster->handle, "rados_mon_op_timeout", text);
	return 0;
}

/* ---- health --------------------------------------------------------------------------------- */

/* "HEALTH_WARN 1 osds down; ...\n" becomes "HEALTH_WARN: 1 osds down; ...". */
static void take_health(char text[HEALTH_MAX], const char *said, size_t n)
{
	size_t at = 0;

	for (size_t i = 0; i < n && said[i] && said[i] != '\n' && at + 2 < HEALTH_MAX; i++) {
		bool ends_word = said[i] == ' ' && !memchr(said, ' ', i);

		if (ends_word)
			text[at++] = ':';
		text[at++] = said[i] >= ' ' && said[i] < 0x7f ? said[i] : '?';
	}
	text[at] = '\0';
}

static void read_health(struct cluster *cluster, char text[HEALTH_MAX])
{
	const char *command = "{\"prefix\": \"health\", \"format\": \"plain\"}";
	char *said = NULL, *status = NULL;
	size_t n_said = 0, n_status = 0;
	int r = rados_mon_command(cluster->handle, &command, 1, "", 0, &said, &n_said, &status,
				  &n_status);

	if (r == -ETIMEDOUT)
		snprintf(text, HEALTH_MAX, "unreachable: no monitor answers within %d s",
			 MON_TIMEOUT_S);
	else if (r < 0)
		snprintf(text, HEALTH_MAX, "unreachable: %s", strerror(-r));
	else
		take_health(text, said, n_said);
	rados_buffer_free(said);
	rados_buffer_free(status);
}

struct timespec cluster_time(uint64_t ns)
{
	return (struct timespec){.tv_sec = (time_t)(ns / NSEC_PER_SEC),
				 .tv_nsec = (long)(ns % NSEC_PER_SEC)};
}

/* Waits with the lock held. */
static void wait_for_turn(struct cluster *cluster)
{
	struct timespec until = cluster_time(rbd_host->now_ns() + HEALTH_EVERY_S * NSEC_PER_SEC);

	while (!cluster->must_end &&
	       pthread_cond_clockwait(&all.changed, &all.lock, CLOCK_MONOTONIC, &until) == 0)
		;
}

static void *watch_health(void *context)
{
	struct cluster *cluster = context;

	pthread_mutex_lock(&all.lock);
	while (!cluster->must_end) {
		char text[HEALTH_MAX];

		pthread_mutex_unlock(&all.lock);
		read_health(cluster, text);
		pthread_mutex_lock(&all.lock);
		if (strcmp(text, cluster->health) != 0)
			rbd_host->write_log(strcmp(text, "HEALTH_OK") != 0 ? LOG_WARN : LOG_INFO,
					    "cluster of %s: %s", cluster->conf, text);
		memcpy(cluster->health, text, sizeof(text));
		wait_for_turn(cluster);
	}
	pthread_mutex_unlock(&all.lock);
	return NULL;
}

/* HEALTH_WARN is the state of many a cluster that serves well. */
static bool is_well(const char *health)
{
	return strncmp(health, "unreachable", 11) != 0 && strncmp(health, "HEALTH_ERR", 10) != 0;
}

bool cluster_health(struct cluster *cluster, char *text, size_t n)
{
	bool well;

	pthread_mutex_lock(&all.lock);
	well = is_well(cluster->health);
	snprintf(text, n, "%s", cluster->health);
	pthread_mutex_unlock(&all.lock);
	return well;
}

/* ---- connecting ----------------------------------------------------------------------------- */

/* Without a keyring librados connects as if it had a wrong key, and the cluster refuses it. */
static bool has_keyring(const struct cluster *cluster)
{
	char paths[4096], *rest = paths, *path;

	if (rados_conf_get(cluster->handle, "keyring", paths, sizeof(paths)) < 0)
		return true;
	while ((path = strsep(&rest, ",; ")))
		if (*path && access(path, R_OK) == 0)
			return true;
	return false;
}

static int explain(const struct cluster *cluster, int r, struct error *error)
{
	const char *conf = cluster->conf, *user = cluster->user;

	if ((r == -EACCES || r == -EPERM) && !has_keyring(cluster))
		r = -ENOENT;
	switch (r) {
	case -ENOENT:
		return rbd_host->refuse(
			error, r,
			"%s: there is no key of client.%s: the keyring must be where that file or Ceph's default says, and readable",
			conf, user);
	case -EACCES:
	case -EPERM:
		return rbd_host->refuse(
			error, r,
			"%s: the cluster refuses client.%s: its key or capabilities are wrong (ceph auth get client.%s)",
			conf, user, user);
	case -ETIMEDOUT:
		return rbd_host->refuse(error, r,
					"%s: there is no cluster: no monitor answers within %u s",
					conf, cluster->patience_s);
	case -EINVAL:
		return rbd_host->refuse(error, r, "%s: names no monitor (mon_host)", conf);
	default:
		return rbd_host->refuse(error, r, "%s: cannot connect to the cluster: %s", conf,
					strerror(-r));
	}
}

static int connect_cluster(struct cluster *cluster, struct error *error)
{
	int r = rados_create(&cluster->handle, cluster->user);

	if (r < 0)
		return rbd_host->refuse(error, r, "rbd: librados does not start: %s", strerror(-r));
	r = rados_conf_read_file(cluster->handle, cluster->conf);
	if (r < 0)
		rbd_host->refuse(error, r, "ceph_conf %s: cannot be read: %s", cluster->conf,
				 strerror(-r));
	else
		r = set_options(cluster, error);
	if (r == 0) {
		r = rados_connect(cluster->handle);
		if (r < 0)
			explain(cluster, r, error);
	}
	if (r < 0)
		rados_shutdown(cluster->handle);
	return r;
}

static void free_cluster(struct cluster *cluster)
{
	free(cluster->conf);
	free(cluster->user);
	free(cluster);
}

static bool is_of_owners(const struct backend_config *config)
{
	return config->role != BACKEND_SERVES;
}

/* Caller holds the lock. */
static struct cluster *find(const struct backend_config *config)
{
	list_for_each (node, &all.clusters) {
		struct cluster *cluster = list_entry(node, struct cluster, node);

		if (!strcmp(cluster->conf, rbd_config(config)->conf) &&
		    !strcmp(cluster->user, rbd_config(config)->user) && cluster->state != REFUSED &&
		    cluster->is_of_owners == is_of_owners(config) && !cluster->is_lost)
			return cluster;
	}
	return NULL;
}

static struct cluster *new_cluster(const struct backend_config *config)
{
	struct cluster *cluster = calloc(1, sizeof(*cluster));

	if (!cluster)
		return NULL;
	cluster->conf = strdup(rbd_config(config)->conf);
	cluster->user = strdup(rbd_config(config)->user);
	cluster->is_of_owners = is_of_owners(config);
	strcpy(cluster->health, "unknown");
	if (cluster->conf && cluster->user)
		return cluster;
	free_cluster(cluster);
	return NULL;
}

static void start_watcher(struct cluster *cluster)
{
	cluster->has_watcher = pthread_create(&cluster->watcher, NULL, watch_health, cluster) == 0;
	if (!cluster->has_watcher)
		rbd_host->write_log(LOG_WARN, "cluster of %s: its health is not read: no thread",
				    cluster->conf);
}

/* Caller holds the lock, and has the only reference. Others may join meanwhile. */
static void become_connected(struct cluster *cluster)
{
	int r;

	list_add_tail(&all.clusters, &cluster->node);
	pthread_mutex_unlock(&all.lock);
	r = connect_cluster(cluster, &cluster->error);
	if (r == 0)
		start_watcher(cluster);
	pthread_mutex_lock(&all.lock);
	cluster->state = r < 0 ? REFUSED : CONNECTED;
	pthread_cond_broadcast(&all.changed);
}

struct cluster *cluster_get(const struct backend_config *config, struct error *error)
{
	struct cluster *cluster;
	bool is_refused;

	pthread_mutex_lock(&all.lock);
	cluster = find(config);
	if (cluster) {
		cluster->n_refs++;
		while (cluster->state == CONNECTING)
			pthread_cond_wait(&all.changed, &all.lock);
	} else if ((cluster = new_cluster(config))) {
		cluster->n_refs = 1;
		become_connected(cluster);
	}
	is_refused = cluster && cluster->state == REFUSED;
	if (is_refused)
		*error = cluster->error;
	else if (!cluster)
		rbd_host->refuse(error, -ENOMEM, "rbd: out of memory");
	pthread_mutex_unlock(&all.lock);
	if (is_refused)
		cluster_put(cluster);
	return is_refused ? NULL : cluster;
}

/* Without memory it is not known: nothing follows from that. */
static void note_ended(const char *address)
{
	char *copy = strdup(address);
	char **more;

	pthread_mutex_lock(&all.lock);
	more = copy ? realloc(all.ended, (all.n_ended + 1) * sizeof(*all.ended)) : NULL;
	if (more) {
		all.ended = more;
		all.ended[all.n_ended++] = copy;
	}
	pthread_mutex_unlock(&all.lock);
	if (!more)
		free(copy);
}

bool cluster_has_ended(const char *address)
{
	bool has_ended = false;

	pthread_mutex_lock(&all.lock);
	for (unsigned i = 0; i < all.n_ended; i++)
		has_ended |= !strcmp(all.ended[i], address);
	pthread_mutex_unlock(&all.lock);
	return has_ended;
}

unsigned cluster_n_ended(void)
{
	unsigned n;

	pthread_mutex_lock(&all.lock);
	n = all.n_ended;
	pthread_mutex_unlock(&all.lock);
	return n;
}

static void disconnect(struct cluster *cluster)
{
	char *address = NULL;

	if (cluster->is_lost && rados_getaddrs(cluster->handle, &address) < 0)
		address = NULL;
	rados_shutdown(cluster->handle);
	if (address)
		note_ended(address);
	rados_buffer_free(address);
}

/* The last reference is gone, and the list has it no more. */
static void end_cluster(struct cluster *cluster)
{
	if (cluster->has_watcher)
		pthread_join(cluster->watcher, NULL);
	if (cluster->state == CONNECTED)
		disconnect(cluster);
	free_cluster(cluster);
}

void cluster_put(struct cluster *cluster)
{
	bool is_last;

	if (!cluster)
		return;
	pthread_mutex_lock(&all.lock);
	is_last = --cluster->n_refs == 0;
	if (is_last) {
		list_remove(&cluster->node);
		cluster->must_end = true;
		pthread_cond_broadcast(&all.changed);
	}
	pthread_mutex_unlock(&all.lock);
	if (is_last)
		end_cluster(cluster);
}

rados_t cluster_handle(const struct cluster *cluster)
{
	return cluster->handle;
}

unsigned cluster_patience_s(const struct cluster *cluster)
{
	return cluster->patience_s;
}

void cluster_lose(struct cluster *cluster)
{
	pthread_mutex_lock(&all.lock);
	cluster->is_lost = true;
	pthread_mutex_unlock(&all.lock);
}

bool cluster_is_lost(struct cluster *cluster)
{
	bool is_lost;

	pthread_mutex_lock(&all.lock);
	is_lost = cluster->is_lost;
	pthread_mutex_unlock(&all.lock);
	return is_lost;
}
