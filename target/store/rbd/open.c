/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The backend "rbd": its table, and the wait for an image to open. Calls into librados may wait
 * for as long as the cluster is away, and cannot be cancelled. So a thread makes them, and control
 * waits for the thread with a limit. An opener that control has given up closes what it gets.
 *
 *   control: open -> the opener's thread: image_open -> state -> control
 *                                               or: control gave up -> the thread frees all
 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/units.h"
#include "target/store/rbd/image.h"

enum {
	LIMIT_S = 80, /* a connection 20 s, then the lock of a client that has died 35 s */
};

enum opening {
	OPENING,
	OPENED,
	GIVEN_UP, /* control does not wait any more */
};

struct opener {
	/* Protected by lock */
	enum opening state;
	int result;
	struct error error;

	/* The thread's until OPENED or GIVEN_UP */
	struct image *image;	      /* owned */
	struct backend_config config; /* its strings belong to the next three */
	char *path, *conf, *user;     /* owned */
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t opened;
	struct list images; /* that are open, of struct image */
} all = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.opened = PTHREAD_COND_INITIALIZER,
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

static void *run_opener(void *context)
{
	struct opener *opener = context;
	struct error error;
	int r = image_open(opener->image, &opener->config, &error);
	bool is_given_up;

	pthread_mutex_lock(&all.lock);
	is_given_up = opener->state == GIVEN_UP;
	opener->state = OPENED;
	opener->result = r;
	opener->error = error;
	pthread_cond_broadcast(&all.opened);
	pthread_mutex_unlock(&all.lock);
	if (is_given_up)
		free_opener(opener);
	return NULL;
}

static struct opener *new_opener(const struct backend_config *config)
{
	struct opener *opener = calloc(1, sizeof(*opener));

	if (!opener)
		return NULL;
	opener->config = *config;
	opener->config.path = opener->path = strdup(config->path);
	opener->config.ceph_conf = opener->conf = strdup(config->ceph_conf);
	opener->config.ceph_user = opener->user = strdup(config->ceph_user);
	opener->image = calloc(1, sizeof(*opener->image));
	if (opener->image)
		opener->image->path = strdup(config->path);
	if (opener->path && opener->conf && opener->user && opener->image && opener->image->path)
		return opener;
	free_opener(opener);
	return NULL;
}

/* Whether it has opened, or failed to, in time. */
static bool wait_for(struct opener *opener)
{
	struct timespec until = cluster_deadline(LIMIT_S);
	bool is_over;

	pthread_mutex_lock(&all.lock);
	while (opener->state == OPENING &&
	       pthread_cond_clockwait(&all.opened, &all.lock, CLOCK_MONOTONIC, &until) == 0)
		;
	is_over = opener->state == OPENED;
	if (!is_over)
		opener->state = GIVEN_UP;
	pthread_mutex_unlock(&all.lock);
	return is_over;
}

/* ---- the images that are open --------------------------------------------------------------- */

/* False: another namespace has it, and they are not both read-only. */
static bool join(struct image *image)
{
	bool is_free = true;

	pthread_mutex_lock(&all.lock);
	list_for_each (node, &all.images) {
		const struct image *other = list_entry(node, struct image, node);

		if (!memcmp(other->backend.identity, image->backend.identity,
			    sizeof(image->backend.identity)) &&
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
	if (access(config->ceph_conf, R_OK) < 0 || !realpath(config->ceph_conf, real))
		return image_refuse(config, -errno, error, "ceph_conf %s: cannot be read: %s",
				    config->ceph_conf, strerror(errno));
	/* The cluster is not asked: a check has to work without it, and at once. */
	ret_identity[0] = image_hash(real);
	ret_identity[1] = image_hash(config->path);
	return 0;
}

static int take_opened(struct opener *opener, struct backend **ret_backend, struct error *error)
{
	struct image *image = opener->image;

	if (opener->result < 0) {
		*error = opener->error;
		return opener->result;
	}
	if (!join(image))
		return image_refuse(&opener->config, -EBUSY, error, "is exported already");
	opener->image = NULL;
	*ret_backend = &image->backend;
	return 0;
}

static int rbd_backend_open(const struct backend_config *config, struct backend **ret_backend,
			    struct error *error)
{
	struct opener *opener = new_opener(config);
	pthread_t thread;
	int r;

	if (!opener)
		return image_refuse(config, -ENOMEM, error, "out of memory");
	opener->image->backend.ops = rblk_backend_plugin.ops;
	r = pthread_create(&thread, NULL, run_opener, opener);
	if (r) {
		free_opener(opener);
		return image_refuse(config, -r, error, "no thread to open it: %s", strerror(r));
	}
	pthread_detach(thread);
	if (!wait_for(opener))
		return image_refuse(
			config, -ETIMEDOUT, error,
			"is not open after %d s: the OSDs of its pool do not answer (ceph -s)",
			LIMIT_S);
	r = take_opened(opener, ret_backend, error);
	free_opener(opener);
	return r;
}

static void rbd_backend_close(struct backend *backend)
{
	struct image *image;

	if (!backend)
		return;
	image = container_of(backend, struct image, backend);
	leave(image);
	free_image(image);
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

static void rbd_backend_health(struct backend *backend, char *text, size_t n)
{
	cluster_health(container_of(backend, struct image, backend)->cluster, text, n);
}

static const struct backend_ops rbd_ops = {
	.name = "rbd",
	.open = rbd_backend_open,
	.close = rbd_backend_close,
	.check = rbd_backend_check,
	.submit = image_submit,
	.resize = rbd_backend_resize,
	.health = rbd_backend_health,
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
