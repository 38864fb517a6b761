/* SPDX-License-Identifier: BSD-3-Clause */
/* Mapping the memory that peers share; see view.h. */
#include "softrdma/fabric/view.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "softrdma/fabric/share.h"
#include "softrdma/process/part.h"

/* One sweep at a time: what one has detached, another one could unmap too early. Taken before
 * sq_lock. */
static pthread_mutex_t sweep = PTHREAD_MUTEX_INITIALIZER;

#define TABLE_BYTES (SEG_MAX_SHARE * sizeof(struct sr_view))

struct sr_view *sr_views_new(void)
{
	void *p = mmap(NULL, TABLE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		       0);

	return p == MAP_FAILED ? NULL : p;
}

static void unmap(struct sr_view *v)
{
	munmap(atomic_load(&v->base), atomic_load(&v->n_bytes));
	atomic_store(&v->base, NULL);
	atomic_store(&v->n_bytes, 0);
	atomic_store(&v->is_writable, false);
}

void sr_views_free(struct sr_view *views)
{
	if (!views)
		return;
	for (unsigned i = 0; i < SEG_MAX_SHARE; i++)
		if (atomic_load(&views[i].base))
			unmap(&views[i]);
	munmap(views, TABLE_BYTES);
}

/* ---- opening; under the peer's lock ----------------------------------------- */

/* As seg.c maps a segment: not in forked children or core dumps, and not locked by mlockall. */
static uint8_t *map(int fd, uint64_t n_bytes, int prot)
{
	void *p = mmap(NULL, n_bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0);

	if (p == MAP_FAILED)
		return NULL;
	munlock(p, n_bytes);
	madvise(p, n_bytes, MADV_DONTFORK);
	madvise(p, n_bytes, MADV_DONTDUMP);
	if (!mprotect(p, n_bytes, prot))
		return p;
	munmap(p, n_bytes);
	return NULL;
}

/* The share's memfd if it is still the one that the owner registered, and no page of the share can
 * vanish. */
static uint8_t *map_share(struct sr_peer *p, const struct seg_share *s, int prot)
{
	bool is_own = p == sr_peer_self;
	int fd = is_own ? s->fd : (int)syscall(SYS_pidfd_getfd, p->pidfd, s->fd, 0);
	uint8_t *base = NULL;
	struct stat st;

	if (fd < 0)
		return NULL;
	if (sr_share_is_safe(fd, &st) && st.st_dev == s->dev && st.st_ino == s->ino &&
	    (uint64_t)st.st_size >= s->size)
		base = map(fd, s->size, prot);
	if (!is_own)
		close(fd);
	return base;
}

static bool widen(struct sr_view *v)
{
	uint8_t *base = atomic_load(&v->base);

	if (!base || mprotect(base, atomic_load(&v->n_bytes), PROT_READ | PROT_WRITE))
		return false;
	atomic_store(&v->is_writable, true);
	return true;
}

static bool open_view(struct sr_peer *p, struct sr_view *v, const struct seg_share *s,
		      bool to_write)
{
	uint64_t serial = atomic_load(&s->serial);
	uint8_t *base;

	if (!serial)
		return false;
	if (atomic_load(&v->serial) == serial)
		return to_write && !atomic_load(&v->is_writable) ? widen(v) : true;
	if (atomic_load(&v->base))
		return false; /* of an earlier share, and not swept yet */
	base = map_share(p, s, to_write ? PROT_READ | PROT_WRITE : PROT_READ);
	atomic_store(&v->n_bytes, base ? s->size : 0);
	atomic_store(&v->is_writable, to_write || !base); /* without bytes nothing is written */
	atomic_store(&v->base, base);
	atomic_store(&v->serial, serial);
	return base;
}

bool sr_view_open(struct sr_peer *p, uint32_t slot, bool to_write)
{
	bool ok;

	pthread_mutex_lock(&p->lock);
	ok = open_view(p, &p->views[slot], &p->seg->share[slot], to_write);
	pthread_mutex_unlock(&p->lock);
	return ok;
}

/* ---- sweeping ----------------------------------------------------------------- */

unsigned sr_view_detach(struct sr_peer *p)
{
	unsigned n = 0;

	pthread_mutex_lock(&p->lock);
	for (uint32_t i = 0; i < SEG_MAX_SHARE; i++) {
		struct sr_view *v = &p->views[i];

		if (!atomic_load(&v->base) ||
		    atomic_load(&v->serial) == atomic_load(&p->seg->share[i].serial))
			continue;
		atomic_store(&v->serial, 0);
		n++;
	}
	pthread_mutex_unlock(&p->lock);
	return n;
}

unsigned sr_view_unmap(struct sr_peer *p)
{
	unsigned n = 0;

	pthread_mutex_lock(&p->lock);
	for (uint32_t i = 0; i < SEG_MAX_SHARE; i++)
		if (atomic_load(&p->views[i].base) && !atomic_load(&p->views[i].serial)) {
			unmap(&p->views[i]);
			n++;
		}
	pthread_mutex_unlock(&p->lock);
	return n;
}

void sr_view_sweep(void (*quiesce)(void))
{
	pthread_mutex_lock(&sweep);
	if (sr_peer_for_each(sr_view_detach)) {
		quiesce();
		sr_peer_for_each(sr_view_unmap);
	}
	pthread_mutex_unlock(&sweep);
}

static void forget(void)
{
	pthread_mutex_init(&sweep, NULL);
}

static const struct sr_part part = {.forget = forget};
SR_PART(part);
