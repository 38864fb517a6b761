/* SPDX-License-Identifier: BSD-3-Clause */
/*
 *   control: prepare ... prepare: not yet ... prepare: ready, open -> struct image
 *   thread:  image_open ---------------------> OPENED              -> TAKEN
 *                                              OPENED, nothing asks for LINGER_S: closed again
 *   control: open, which waits -> at the limit GIVEN_UP: the thread closes what it gets
 *
 * For an image of a group with an owner the thread stands by (stand.h) until it has the image, or
 * until nothing has asked for LINGER_S; open does not wait there. Such an image is closed by a
 * thread, too: the connection may be cut off.
 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/units.h"
#include "target/store/rbd/image.h"
#include "target/store/rbd/io.h"
#include "target/store/rbd/open.h"
#include "target/store/rbd/stand.h"

enum {
	SILENT_S = 2,
	LIMIT_S = 80, /* a connection 20 s, then the lock of a client that has died 35 s */
	LINGER_S = 10,
	END_S = 20,
};

enum opening {
	OPENING,
	OPENED,	  /* or refused: result */
	TAKEN,	  /* control has the image */
	GIVEN_UP, /* control does not wait any more */
};

struct opener {
	/* Protected by lock */
	enum opening state;
	int result;
	struct error error;
	struct list node; /* of openers, while OPENING or OPENED */
	uint64_t asked_ns;
	int waits_for; /* OPENING, and it stands by: what ops.open returns, with error */

	/* Constant */
	struct standing standing;
	uint64_t start_ns;
	struct backend_config config; /* it and own point to the next ones */
	struct rbd_config own;
	char *path, *conf, *user; /* owned */

	/* The thread's while OPENING, then its own if it lingers, else of control */
	struct image *image; /* owned */
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t moved; /* a state of an opener */
	struct list openers;
	struct list images; /* that are open, of struct image */
	unsigned n_threads; /* that stand by, or close an image of an owner */
	bool is_ending;	    /* rblkd ends */
} all = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.moved = PTHREAD_COND_INITIALIZER,
	.openers = LIST_INIT(all.openers),
	.images = LIST_INIT(all.images),
};

/* ---- the opener ----------------------------------------------------------------------------- */

static void free_image(struct image *image)
{
	if (!image)
		return;
	image_release(image);
	free(image->path);
	free(image);
}

static void free_opener(struct opener *opener)
{
	free_image(opener->image);
	free(opener->path);
	free(opener->conf);
	free(opener->user);
	free(opener);
}

/* Caller holds the lock. Control may take it for as long as it keeps asking. */
static void wait_to_be_taken(struct opener *opener)
{
	while (opener->state == OPENED && !all.is_ending) {
		uint64_t end_ns = opener->asked_ns + LINGER_S * NSEC_PER_SEC;
		struct timespec until = cluster_time(end_ns);

		if (rbd_host->now_ns() >= end_ns) {
			list_remove(&opener->node);
			return;
		}
		pthread_cond_clockwait(&all.moved, &all.lock, CLOCK_MONOTONIC, &until);
	}
	if (opener->state == OPENED)
		list_remove(&opener->node);
}

static void drop_image(struct opener *opener)
{
	free_image(opener->image);
	opener->image = NULL;
}

/* Control asks several times a second while its group has no owner here. */
static bool goes_on(struct standing *standing, int result, const struct error *why)
{
	struct opener *opener = container_of(standing, struct opener, standing);
	bool is_wanted;

	pthread_mutex_lock(&all.lock);
	opener->waits_for = result;
	opener->error = *why;
	is_wanted = !all.is_ending && opener->state == OPENING &&
		    rbd_host->now_ns() < opener->asked_ns + LINGER_S * NSEC_PER_SEC;
	if (!is_wanted && opener->state == OPENING) {
		opener->state = GIVEN_UP;
		list_remove(&opener->node);
	}
	pthread_mutex_unlock(&all.lock);
	return is_wanted;
}

static bool stands_by(const struct opener *opener)
{
	return opener->config.role == BACKEND_OWNS;
}

static void end_thread(void)
{
	pthread_mutex_lock(&all.lock);
	all.n_threads--;
	pthread_cond_broadcast(&all.moved);
	pthread_mutex_unlock(&all.lock);
}

static void *run_opener(void *context)
{
	struct opener *opener = context;
	bool is_counted = stands_by(opener);
	struct error error;
	int r;

	opener->standing.goes_on = goes_on;
	r = is_counted ? stand_by_for_image(opener->image, &opener->config, &opener->standing)
		       : image_open(opener->image, &opener->config, &error);

	/* Before control knows the result: rblkd may end then, and librados must not be at work. */
	if (r < 0)
		drop_image(opener);
	pthread_mutex_lock(&all.lock);
	if (opener->state == OPENING) {
		opener->state = OPENED;
		opener->result = r;
		if (!is_counted)
			opener->error = error;
		pthread_cond_broadcast(&all.moved);
		wait_to_be_taken(opener);
	}
	pthread_mutex_unlock(&all.lock);
	free_opener(opener);
	if (is_counted)
		end_thread();
	return NULL;
}

static struct opener *new_opener(const struct backend_config *config)
{
	const struct rbd_config *own = rbd_config(config);
	struct opener *opener = calloc(1, sizeof(*opener));

	if (!opener)
		return NULL;
	opener->start_ns = opener->asked_ns = rbd_host->now_ns();
	opener->waits_for = -EINPROGRESS;
	opener->config = *config;
	opener->config.path = opener->path = strdup(config->path);
	opener->config.own = &opener->own;
	opener->own = *own;
	opener->own.conf = opener->conf = strdup(own->conf);
	opener->own.user = opener->user = strdup(own->user);
	opener->image = calloc(1, sizeof(*opener->image));
	if (opener->image)
		opener->image->path = strdup(config->path);
	if (opener->path && opener->conf && opener->user && opener->image && opener->image->path)
		return opener;
	free_opener(opener);
	return NULL;
}

/* Caller holds the lock. */
static struct opener *find_opener(const struct backend_config *config)
{
	const struct rbd_config *own = rbd_config(config);

	list_for_each (node, &all.openers) {
		struct opener *opener = list_entry(node, struct opener, node);

		if (!strcmp(opener->path, config->path) && !strcmp(opener->conf, own->conf) &&
		    !strcmp(opener->user, own->user) && opener->own.state == own->state &&
		    opener->config.block_size == config->block_size &&
		    opener->config.is_read_only == config->is_read_only &&
		    opener->config.is_shared == config->is_shared &&
		    opener->config.role == config->role &&
		    opener->config.lease_ns == config->lease_ns)
			return opener;
	}
	return NULL;
}

/* Caller holds the lock. 0 or -errno. */
static int start_opener(const struct backend_config *config, struct opener **ret_opener)
{
	struct opener *opener = new_opener(config);
	pthread_t thread;
	int r;

	if (!opener)
		return -ENOMEM;
	opener->image->backend.ops = rblk_backend_plugin.ops;
	r = pthread_create(&thread, NULL, run_opener, opener);
	if (r) {
		free_opener(opener);
		return -r;
	}
	pthread_detach(thread);
	all.n_threads += stands_by(opener);
	list_add_tail(&all.openers, &opener->node);
	*ret_opener = opener;
	return 0;
}

static bool wait_for_opener(struct opener *opener, unsigned seconds)
{
	struct timespec until = cluster_time(opener->start_ns + seconds * NSEC_PER_SEC);

	while (opener->state == OPENING &&
	       pthread_cond_clockwait(&all.moved, &all.lock, CLOCK_MONOTONIC, &until) == 0)
		;
	return opener->state == OPENED;
}

/* Caller holds the lock. Whether the thread is through with it, in time. The log says what a start
 * waits for. */
static bool wait_until_opened(struct opener *opener)
{
	if (wait_for_opener(opener, SILENT_S))
		return true;
	rbd_host->write_log(LOG_INFO, "rbd %s: waiting for its cluster, for %d s at most",
			    opener->path, LIMIT_S);
	return wait_for_opener(opener, LIMIT_S);
}

/* Caller holds the lock. */
static int take_result(struct opener *opener, struct image **ret_image, struct error *error)
{
	*error = opener->error;
	*ret_image = opener->image;
	opener->image = NULL;
	opener->state = TAKEN;
	list_remove(&opener->node);
	pthread_cond_broadcast(&all.moved);
	return opener->result;
}

/* Caller holds the lock. That of the image, as it runs or as it begins now: 0; or -errno with
 * *error. */
static int opener_for(const struct backend_config *config, struct opener **ret_opener,
		      struct error *error)
{
	int r;

	*ret_opener = find_opener(config);
	r = *ret_opener ? 0 : start_opener(config, ret_opener);
	return r < 0 ? image_refuse(config, r, error, "no thread to open it: %s", strerror(-r)) : 0;
}

/* The image, which has an owner, and 0; or -errno with *error. Never waits. */
static int take_from_stander(const struct backend_config *config, struct image **ret_image,
			     struct error *error)
{
	struct opener *opener;
	int r;

	pthread_mutex_lock(&all.lock);
	r = opener_for(config, &opener, error);
	if (r == 0)
		opener->asked_ns = rbd_host->now_ns();
	if (r == 0 && opener->state == OPENED) {
		r = take_result(opener, ret_image, error);
	} else if (r == 0) {
		r = opener->waits_for;
		if (r != -EINPROGRESS)
			*error = opener->error;
	}
	pthread_mutex_unlock(&all.lock);
	return r;
}

/* The image and 0; or -errno with *error. */
static int take_from_opener(const struct backend_config *config, struct image **ret_image,
			    struct error *error)
{
	struct opener *opener;
	int r;

	pthread_mutex_lock(&all.lock);
	r = opener_for(config, &opener, error);
	if (r == 0 && !wait_until_opened(opener)) {
		opener->state = GIVEN_UP;
		list_remove(&opener->node);
		r = image_refuse(
			config, -ETIMEDOUT, error,
			"is not open after %d s: the OSDs of its pool do not answer (ceph -s)",
			LIMIT_S);
	} else if (r == 0) {
		r = take_result(opener, ret_image, error);
	}
	pthread_mutex_unlock(&all.lock);
	return r;
}

/* ---- the images that are open --------------------------------------------------------------- */

/* False: another namespace has it, and they are not both read-only. One that is lost has only
 * commands that the cluster refuses. */
static bool join(struct image *image)
{
	bool is_free = true;

	pthread_mutex_lock(&all.lock);
	list_for_each (node, &all.images) {
		const struct image *other = list_entry(node, struct image, node);

		if (!memcmp(other->backend.identity, image->backend.identity,
			    sizeof(image->backend.identity)) &&
		    !atomic_load(&other->backend.lost_why) &&
		    !(other->backend.limits.is_read_only && image->backend.limits.is_read_only))
			is_free = false;
	}
	if (is_free)
		list_add_tail(&all.images, &image->node);
	pthread_mutex_unlock(&all.lock);
	return is_free;
}

static void leave(struct image *image)
{
	pthread_mutex_lock(&all.lock);
	list_remove(&image->node);
	pthread_mutex_unlock(&all.lock);
}

/* ---- the table ------------------------------------------------------------------------------ */

static int rbd_backend_check(const struct backend_config *config, uint64_t ret_identity[2],
			     struct error *error)
{
	struct image_name name;
	char real[PATH_MAX];
	int r = image_parse_name(config->path, &name, error);

	if (r < 0)
		return r;
	if (access(rbd_config(config)->conf, R_OK) < 0 || !realpath(rbd_config(config)->conf, real))
		return image_refuse(config, -errno, error, "ceph_conf %s: cannot be read: %s",
				    rbd_config(config)->conf, strerror(errno));
	/* The cluster is not asked: a check has to work without it, and at once. */
	ret_identity[0] = image_hash(real);
	ret_identity[1] = image_hash(config->path);
	return 0;
}

static int rbd_backend_prepare(const struct backend_config *config)
{
	struct opener *opener;
	int r = -EINPROGRESS;

	if (config->role == BACKEND_OWNS)
		return 0; /* open does not wait */
	pthread_mutex_lock(&all.lock);
	opener = find_opener(config);
	if (!opener) {
		if (start_opener(config, &opener) < 0)
			r = 0; /* open tells why */
	} else {
		uint64_t now_ns = rbd_host->now_ns();

		opener->asked_ns = now_ns;
		if (opener->state == OPENED || now_ns >= opener->start_ns + LIMIT_S * NSEC_PER_SEC)
			r = 0;
	}
	pthread_mutex_unlock(&all.lock);
	return r;
}

static int rbd_backend_open(const struct backend_config *config, struct backend **ret_backend,
			    struct error *error)
{
	struct image *image;
	int r = (config->role == BACKEND_OWNS ? take_from_stander
					      : take_from_opener)(config, &image, error);

	if (r < 0)
		return r;
	if (!join(image)) {
		free_image(image);
		return image_refuse(config, -EBUSY, error, "is exported already");
	}
	atomic_store(&image->is_taken, true);
	if (atomic_load(&image->size_bytes) != image->backend.limits.size_bytes ||
	    atomic_load(&image->backend.lost_why))
		rbd_host->changed(&image->backend);
	*ret_backend = &image->backend;
	return 0;
}

/* Finds what hosts may know of an image, without its lock. */
static int rbd_backend_look(const struct backend_config *config, struct backend_limits *ret_limits,
			    struct error *error)
{
	struct backend_config looks = *config;
	struct image *image;
	int r;

	looks.role = BACKEND_LOOKS;
	r = take_from_opener(&looks, &image, error);
	if (r < 0)
		return r;
	*ret_limits = image->backend.limits;
	free_image(image);
	return 0;
}

static void *run_closer(void *context)
{
	free_image(context);
	end_thread();
	return NULL;
}

/* Releases the exclusive lock. That waits for the cluster. */
static void close_in_thread(struct image *image)
{
	pthread_t thread;

	pthread_mutex_lock(&all.lock);
	all.n_threads++;
	pthread_mutex_unlock(&all.lock);
	if (pthread_create(&thread, NULL, run_closer, image))
		run_closer(image);
	else
		pthread_detach(thread);
}

static void rbd_backend_close(struct backend *backend)
{
	struct image *image;

	if (!backend)
		return;
	image = container_of(backend, struct image, backend);
	leave(image);
	if (image->lease)
		close_in_thread(image);
	else
		free_image(image);
}

static void rbd_backend_let_go(struct backend *backend)
{
	struct image *image = container_of(backend, struct image, backend);

	if (image->lease)
		lease_let_go(image->lease);
}

/* librados must not be at work while the process takes itself apart. */
static bool rbd_backend_end(void)
{
	struct timespec until = cluster_time(rbd_host->now_ns() + END_S * NSEC_PER_SEC);
	bool is_over;

	pthread_mutex_lock(&all.lock);
	all.is_ending = true;
	pthread_cond_broadcast(&all.moved);
	while (all.n_threads &&
	       pthread_cond_clockwait(&all.moved, &all.lock, CLOCK_MONOTONIC, &until) == 0)
		;
	is_over = !all.n_threads;
	pthread_mutex_unlock(&all.lock);
	if (!is_over)
		rbd_host->write_log(LOG_WARN,
				    "rbd: a cluster has not answered for %d s: ending without it",
				    END_S);
	return is_over;
}

/* The image itself is changed by the cluster's own tools; this follows. */
static int rbd_backend_resize(struct backend *backend, uint64_t size_bytes, struct error *error)
{
	struct image *image = container_of(backend, struct image, backend);
	uint64_t size = atomic_load(&image->size_bytes);
	char has[UNITS_MAX];

	if (size_bytes && size_bytes != size)
		return rbd_host->refuse(
			error, -EINVAL,
			"%s: the image has %s: change it with rbd resize, and it follows by itself",
			image->path, units_format_exact(has, size));
	backend->limits.size_bytes = size;
	return 0;
}

static bool rbd_backend_health(struct backend *backend, char *text, size_t n)
{
	return cluster_health(container_of(backend, struct image, backend)->cluster, text, n);
}

static struct record_store *rbd_backend_records(struct backend *backend)
{
	return records_store(container_of(backend, struct image, backend)->records);
}

static const struct backend_ops rbd_ops = {
	.name = "rbd",
	.prepare = rbd_backend_prepare,
	.open = rbd_backend_open,
	.close = rbd_backend_close,
	.check = rbd_backend_check,
	.look = rbd_backend_look,
	.submit = image_submit,
	.resize = rbd_backend_resize,
	.health = rbd_backend_health,
	.records = rbd_backend_records,
	.let_go = rbd_backend_let_go,
	.end = rbd_backend_end,
};

static void start_plugin(const struct backend_host *host)
{
	rbd_host = host;
}

__attribute__((visibility("default"))) const struct backend_plugin rblk_backend_plugin = {
	.layout = BACKEND_PLUGIN_LAYOUT,
	.ops = &rbd_ops,
	.start = start_plugin,
};
