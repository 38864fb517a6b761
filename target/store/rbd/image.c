/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opens an image, and refuses one whose writes would not mean what hosts expect. Everything here
 * may wait for the cluster; open.c gives it a thread.
 *
 * rblkd holds the image's exclusive lock for as long as it exports the image: other clients can
 * then read it, but not write, and no other gateway has a write under way. So an image without that
 * feature is refused, unless the configuration says that gateways share it. The lock of a client
 * that has died is free when the cluster forgets the client (osd_client_watch_timeout, 30 s), so a
 * client on this machine, which may have been this rblkd before it was killed, is waited for.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/bits.h"
#include "base/clock.h"
#include "target/store/rbd/image.h"

enum {
	PIECE_OBJECTS = 32,	   /* librbd makes requests for all objects of a call at once */
	DISCARD_BYTES = 64 * 1024, /* librbd leaves the rest of a smaller unit as it is */
	WATCH_TIMEOUT_S = 30,
	LOCK_PAUSE_MS = 200,
};

/* ---- words ---------------------------------------------------------------------------------- */

int image_refuse(const struct backend_config *config, int r, struct error *error, const char *fmt,
		 ...)
{
	char what[ERROR_MESSAGE_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	return rbd_host->refuse(error, r, "%s: %s", config->path, what);
}

static bool take_part(const char **text, char *part, size_t n)
{
	size_t length = strcspn(*text, "/");

	if (!length || length >= n)
		return false;
	memcpy(part, *text, length);
	part[length] = '\0';
	*text += length + ((*text)[length] == '/');
	return true;
}

int image_parse_name(const char *path, struct image_name *ret_name, struct error *error)
{
	const char *rest = path;
	bool is_right = take_part(&rest, ret_name->pool, sizeof(ret_name->pool)) &&
			take_part(&rest, ret_name->image, sizeof(ret_name->image));

	ret_name->space[0] = '\0';
	if (is_right && *rest) {
		memcpy(ret_name->space, ret_name->image, sizeof(ret_name->space));
		is_right = take_part(&rest, ret_name->image, sizeof(ret_name->image)) && !*rest;
	}
	if (!is_right || path[strlen(path) - 1] == '/')
		return rbd_host->refuse(error, -EINVAL,
					"rbd: '%s' is no POOL/IMAGE or POOL/NAMESPACE/IMAGE", path);
	if (strchr(path, '@'))
		return rbd_host->refuse(error, -EINVAL,
					"rbd: %s is a snapshot: export a clone of it", path);
	return 0;
}

static int explain_open(const struct image *image, const struct backend_config *config, int r,
			struct error *error)
{
	switch (r) {
	case -ENOENT:
		return image_refuse(config, r, error, "there is no such image (rbd ls %s%s%s)",
				    image->name.pool, *image->name.space ? "/" : "",
				    image->name.space);
	case -EPERM:
	case -EACCES:
		return image_refuse(
			config, r, error,
			"client.%s may not %s it: its capabilities must have profile rbd for the pool",
			rbd_config(config)->user, config->is_read_only ? "read" : "write");
	case -ENOSYS:
		return image_refuse(
			config, r, error,
			"has features that this librbd does not know (rbd info shows them)");
	case -ESHUTDOWN:
		return image_refuse(
			config, r, error,
			"this client is in the cluster's blocklist (ceph osd blocklist ls)");
	default:
		return image_refuse(config, r, error, "cannot open it: %s", strerror(-r));
	}
}

/* ---- features ------------------------------------------------------------------------------- */

static int check_features(struct image *image, const struct backend_config *config,
			  uint64_t *ret_features, struct error *error)
{
	static const struct {
		uint64_t bit;
		const char *why;
	} refused[] = {
		{RBD_FEATURE_JOURNALING,
		 "has the feature journaling, which writes everything twice: rbd feature disable"},
		{RBD_FEATURE_MIGRATING, "is being migrated: finish that first (rbd migration)"},
		{RBD_FEATURE_NON_PRIMARY, "is a mirror, and not the primary: promote it first"},
		{RBD_FEATURE_DIRTY_CACHE, "has a cache of another client that is not written back"},
	};
	uint64_t stripe = 0;
	int r = rbd_get_features(image->rbd, ret_features);

	if (r == 0)
		r = rbd_get_stripe_unit(image->rbd, &stripe);
	if (r < 0)
		return explain_open(image, config, r, error);
	for (unsigned i = 0; i < ARRAY_LEN(refused); i++)
		if (*ret_features & refused[i].bit)
			return image_refuse(config, -EOPNOTSUPP, error, "%s", refused[i].why);
	if (stripe % config->block_size) /* a block would lie on two OSDs, and could be torn */
		return image_refuse(config, -EINVAL, error,
				    "its stripe unit of %llu bytes is no multiple of block_size %u",
				    (unsigned long long)stripe, config->block_size);
	return 0;
}

/* An image or pool may have options of its own, which are stronger than those of the client. */
static int check_cache(struct image *image, const struct backend_config *config,
		       struct error *error)
{
	rbd_config_option_t options[512];
	int n = ARRAY_LEN(options);
	int r = rbd_config_image_list(image->rbd, options, &n);
	bool has_cache = false;

	if (r < 0)
		return explain_open(image, config, r, error);
	for (int i = 0; i < n; i++)
		has_cache |= !strcmp(options[i].name, "rbd_cache") &&
			     strcmp(options[i].value, "false") != 0;
	rbd_config_image_list_cleanup(options, n);
	if (has_cache)
		return image_refuse(
			config, -EINVAL, error,
			"its own configuration, or the pool's, has rbd_cache, which loses writes: rbd config image remove %s rbd_cache",
			config->path);
	return 0;
}

/* ---- the lock of an image ------------------------------------------------------------------- */

struct holder {
	char client[64], cookie[128], address[128];
};

/* The first client that has a lock; is_held false: none. */
static int find_holder(struct image *image, struct holder *ret_holder, bool *ret_is_held)
{
	char tag[128];
	int is_exclusive;
	size_t n_tag = sizeof(tag), n_client = sizeof(ret_holder->client);
	size_t n_cookie = sizeof(ret_holder->cookie), n_address = sizeof(ret_holder->address);
	ssize_t n = rbd_list_lockers(image->rbd, &is_exclusive, tag, &n_tag, ret_holder->client,
				     &n_client, ret_holder->cookie, &n_cookie, ret_holder->address,
				     &n_address);

	*ret_is_held = n > 0;
	return n < 0 ? (int)n : 0;
}

bool image_lock_is_automatic(const char *cookie)
{
	return !strncmp(cookie, "auto ", 5);
}

static bool is_automatic(const struct holder *holder)
{
	return image_lock_is_automatic(holder->cookie);
}

static bool has_same_host(const char *a, const char *b)
{
	const char *end_a = strrchr(a, ':'), *end_b = strrchr(b, ':');

	return end_a && end_b && end_a - a == end_b - b && !memcmp(a, b, (size_t)(end_a - a));
}

enum nearness {
	HOLDER_IS_FAR,
	HOLDER_IS_NEAR, /* a client of this machine */
	HOLDER_IS_SELF,
};

static enum nearness how_near(const struct image *image, const struct holder *holder)
{
	enum nearness nearness = HOLDER_IS_FAR;
	char *own = NULL;

	if (rados_getaddrs(cluster_handle(image->cluster), &own) < 0)
		return HOLDER_IS_FAR;
	if (!strcmp(own, holder->address))
		nearness = HOLDER_IS_SELF;
	else if (has_same_host(own, holder->address))
		nearness = HOLDER_IS_NEAR;
	rados_buffer_free(own);
	return nearness;
}

/* Whether the holder still watches the image: it lives, or has not been dead for long. */
static int is_watching(struct image *image, const struct holder *holder, bool *ret_is_there)
{
	rbd_image_watcher_t watchers[32];
	size_t n = ARRAY_LEN(watchers);
	int r = rbd_watchers_list(image->rbd, watchers, &n);

	*ret_is_there = false;
	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++)
		*ret_is_there |= !strcmp(watchers[i].addr, holder->address);
	rbd_watchers_list_cleanup(watchers, n);
	return 0;
}

static int refuse_locked(const struct image *image, const struct backend_config *config,
			 const struct holder *holder, struct error *error)
{
	if (how_near(image, holder) == HOLDER_IS_SELF)
		return image_refuse(config, -EBUSY, error, "is exported already");
	return image_refuse(config, -EBUSY, error,
			    "is locked by %s at %s%s%s (rbd lock ls %s; rbd status %s)",
			    holder->client, holder->address, is_automatic(holder) ? "" : " as ",
			    is_automatic(holder) ? "" : holder->cookie, config->path, config->path);
}

/* Refuses a lock that a person has set. */
static int look_at_lock(struct image *image, const struct backend_config *config,
			struct holder *ret_holder, bool *ret_is_held, struct error *error)
{
	int r = find_holder(image, ret_holder, ret_is_held);

	if (r < 0)
		return explain_open(image, config, r, error);
	if (*ret_is_held && !is_automatic(ret_holder))
		return refuse_locked(image, config, ret_holder, error);
	return 0;
}

/* 0: free, or its holder is gone. */
static int wait_for_lock(struct image *image, const struct backend_config *config,
			 struct error *error)
{
	unsigned patience_s =
		cluster_option(image->cluster, "osd_client_watch_timeout", WATCH_TIMEOUT_S) + 5;
	unsigned n_tries = patience_s * 1000 / LOCK_PAUSE_MS;
	struct holder holder;

	for (unsigned i = 0;; i++) {
		bool is_held, is_there;
		int r = look_at_lock(image, config, &holder, &is_held, error);

		if (r < 0 || !is_held)
			return r;
		r = is_watching(image, &holder, &is_there);
		if (r < 0)
			return explain_open(image, config, r, error);
		if (!is_there)
			return 0;
		if (how_near(image, &holder) != HOLDER_IS_NEAR || i == n_tries)
			return refuse_locked(image, config, &holder, error);
		if (i == 0)
			rbd_host->write_log(
				LOG_INFO, "%s: waiting up to %u s for the lock of %s at %s",
				config->path, patience_s, holder.client, holder.address);
		rbd_host->sleep_ns(LOCK_PAUSE_MS * NSEC_PER_MSEC);
	}
}

/* The lock may be free because another one has fenced its holder. From here on only this client
 * does that; and nothing was read yet. */
static int wait_for_map(struct image *image, const struct backend_config *config,
			struct error *error)
{
	int r = rados_wait_for_latest_osdmap(cluster_handle(image->cluster));

	return r < 0 ? explain_open(image, config, r, error) : 0;
}

static int take_lock(struct image *image, const struct backend_config *config, uint64_t features,
		     struct error *error)
{
	struct holder holder;
	bool is_held;
	int r;

	if (config->is_read_only || config->role == BACKEND_LOOKS)
		return 0;
	if (config->is_shared)
		return look_at_lock(image, config, &holder, &is_held, error);
	if (!(features & RBD_FEATURE_EXCLUSIVE_LOCK))
		return image_refuse(
			config, -EOPNOTSUPP, error,
			"has no exclusive-lock, so any other client could write to it: rbd feature enable %s exclusive-lock",
			config->path);
	r = config->role == BACKEND_OWNS ? 0 : wait_for_lock(image, config, error);
	if (r < 0)
		return r;
	r = rbd_lock_acquire(image->rbd, RBD_LOCK_MODE_EXCLUSIVE);
	if (r < 0)
		return image_refuse(config, -EBUSY, error,
				    "its exclusive lock cannot be taken: %s (rbd lock ls %s)",
				    r == -EROFS ? "another client has it" : strerror(-r),
				    config->path);
	image->has_lock = true;
	return config->role == BACKEND_OWNS ? wait_for_map(image, config, error) : 0;
}

/* ---- opening -------------------------------------------------------------------------------- */

/* FNV-1a */
uint64_t image_hash(const char *text)
{
	uint64_t h = 0xcbf29ce484222325ULL;

	for (; *text; text++)
		h = (h ^ (uint8_t)*text) * 0x100000001b3ULL;
	return h;
}

static int identify(struct image *image)
{
	char fsid[64] = "", id[IMAGE_ID_MAX] = "";
	int r = rados_cluster_fsid(cluster_handle(image->cluster), fsid, sizeof(fsid));

	if (r >= 0)
		r = rbd_get_id(image->rbd, id, sizeof(id));
	snprintf(image->header, sizeof(image->header), "rbd_header.%s", id);
	snprintf(image->object, sizeof(image->object), "rblk.state.%s", id);
	image->backend.identity[0] = image_hash(fsid);
	image->backend.identity[1] = image_hash(id) + (uint64_t)rados_ioctx_get_id(image->pool);
	return r < 0 ? r : 0;
}

static int fill_limits(struct image *image, const struct backend_config *config,
		       struct error *error)
{
	rbd_image_info_t info;
	int r = rbd_stat(image->rbd, &info, sizeof(info));

	if (r == 0)
		r = identify(image);
	if (r < 0)
		return explain_open(image, config, r, error);
	if (!info.size || info.size % config->block_size)
		return image_refuse(config, -EINVAL, error,
				    "%llu bytes is not a multiple of block_size %u",
				    (unsigned long long)info.size, config->block_size);
	atomic_store(&image->size_bytes, info.size);
	image->piece_bytes = info.obj_size * PIECE_OBJECTS;
	image->backend.limits = (struct backend_limits){
		.size_bytes = info.size,
		.min_block = 512,
		.physical_block = 4096,
		.optimal_bytes = (uint32_t)MIN(info.obj_size, (uint64_t)UINT32_MAX),
		.discard_bytes = DISCARD_BYTES,
		.is_read_only = config->is_read_only,
		.others = image->has_lock ? OTHERS_NONE : OTHERS_ANY,
		.durability = DURABILITY_REPLICATED,
		.can_discard = !config->is_read_only,
		.can_write_zeroes = true,
	};
	return 0;
}

/* A thread of librados: another client has resized the image, or changed something else. */
static void on_update(void *context)
{
	struct image *image = context;
	uint64_t size;

	if (rbd_get_size(image->rbd, &size) < 0 ||
	    atomic_exchange(&image->size_bytes, size) == size)
		return;
	if (atomic_load(&image->is_taken))
		rbd_host->changed(&image->backend);
}

/* The state of the namespace is beside the image, in an object with the image's id in its name. */
static int open_records(struct image *image, const struct backend_config *config,
			struct error *error)
{
	char place[512];
	int r;

	if (rbd_config(config)->state != RBD_STATE_POOL || config->role == BACKEND_LOOKS)
		return 0;
	snprintf(place, sizeof(place), "%s%s%s/%s", image->name.pool, *image->name.space ? "/" : "",
		 image->name.space, image->object);
	image->records = records_new(image->pool, image->object, place);
	r = image->records ? records_read_first(image->records) : -ENOMEM;
	if (record_is_damaged(r))
		return image_refuse(
			config, r, error,
			"%s is damaged: it has the reservations; remove that object of the pool (rados rm) to serve the image without them",
			place);
	if (r < 0)
		return image_refuse(
			config, r, error,
			"cannot read %s, which has its reservations: %s (ceph_state: directory keeps them on this machine)",
			place, strerror(-r));
	return 0;
}

static int watch(struct image *image, const struct backend_config *config, struct error *error)
{
	bool is_needed = !config->is_read_only && config->role != BACKEND_LOOKS;
	int r = is_needed ? rbd_update_watch(image->rbd, &image->watch, on_update, image) : 0;

	if (r < 0)
		return explain_open(image, config, r, error);
	image->has_watch = is_needed;
	return 0;
}

static int open_pool(struct image *image, const struct backend_config *config, struct error *error)
{
	int r = rados_ioctx_create(cluster_handle(image->cluster), image->name.pool, &image->pool);

	if (r == -ENOENT)
		return image_refuse(config, r, error, "there is no pool '%s' (ceph osd lspools)",
				    image->name.pool);
	if (r < 0)
		return explain_open(image, config, r, error);
	rados_ioctx_set_namespace(image->pool, image->name.space);
	return 0;
}

int image_open(struct image *image, const struct backend_config *config, struct error *error)
{
	uint64_t features;
	bool is_to_write = !config->is_read_only && config->role != BACKEND_LOOKS;
	int r = image_parse_name(config->path, &image->name, error);

	if (r < 0)
		return r;
	image->cluster = cluster_get(config, error);
	if (!image->cluster)
		return -EIO;
	r = open_pool(image, config, error);
	if (r < 0)
		return r;
	r = (is_to_write ? rbd_open : rbd_open_read_only)(image->pool, image->name.image,
							  &image->rbd, NULL);
	if (r < 0) {
		image->rbd = NULL;
		return explain_open(image, config, r, error);
	}
	r = check_features(image, config, &features, error);
	if (r == 0)
		r = check_cache(image, config, error);
	if (r == 0)
		r = take_lock(image, config, features, error);
	if (r == 0)
		r = fill_limits(image, config, error);
	if (r == 0)
		r = open_records(image, config, error);
	return r < 0 ? r : watch(image, config, error);
}

void image_release(struct image *image)
{
	if (image->has_watch)
		rbd_update_unwatch(image->rbd, image->watch);
	lease_stop(image->lease);
	if (image->rbd)
		rbd_close(image->rbd);
	if (*image->address && !atomic_load(&image->backend.lost_why))
		lease_forget(image->pool, image->object, image->address);
	records_free(image->records);
	if (image->pool)
		rados_ioctx_destroy(image->pool);
	cluster_put(image->cluster);
	image->lease = NULL;
	*image->address = '\0';
	image->has_watch = false;
	image->rbd = NULL;
	image->records = NULL;
	image->pool = NULL;
	image->cluster = NULL;
}
