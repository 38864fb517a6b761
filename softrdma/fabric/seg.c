/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memfd segment: creation, mapping a peer's, and the page arena inside ours.
 *
 * The segment is huge and sparse, and smaller where address space is limited. It is sealed against
 * resizing, so that a peer cannot make us fault with SIGBUS by truncating it. Mappings are kept out
 * of forked children and core dumps, and are immune to mlockall(MCL_FUTURE): they start as
 * PROT_NONE, are unlocked, and only then become accessible. (MCL_CURRENT: verbs/preload.c.)
 *
 * The arena hands out runs of pages, first fit, from a sorted list of free runs
 * kept in private memory. Freed pages go back to the system at once, which also
 * is what makes fresh allocations read as zero.
 */
#include "softrdma/fabric/seg.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include "softrdma/fabric/lock.h"

#define PAGE		   4096u
#define SEG_SHARE_OF_LIMIT 8

struct run {
	struct run *next;
	uint64_t start, end;
};

struct seg *seg_self;

/* Guards the free list. Leaf. Control path only. */
static pthread_mutex_t arena_lock = PTHREAD_MUTEX_INITIALIZER;
static struct run *free_runs; /* owned, sorted, never adjacent */
static int arena_fd = -1;

static uint64_t round_up(uint64_t n)
{
	return (n + PAGE - 1) & ~(uint64_t)(PAGE - 1);
}

static struct seg *map(int fd, uint64_t size)
{
	void *p = mmap(NULL, size, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0);

	if (p == MAP_FAILED)
		return NULL;
	munlock(p, size);
	madvise(p, size, MADV_DONTFORK);
	madvise(p, size, MADV_DONTDUMP);
	if (mprotect(p, size, PROT_READ | PROT_WRITE)) {
		munmap(p, size);
		return NULL;
	}
	return p;
}

/*
 * How large the segment is. Under a limit of address space (ulimit -v) a part of it, as the peers'
 * segments are mapped too.
 */
static uint64_t choose_size(void)
{
	uint64_t size = SEG_SIZE;
	struct rlimit limit;

	if (!getrlimit(RLIMIT_AS, &limit) && limit.rlim_cur != RLIM_INFINITY)
		while (size > SEG_MIN && size > limit.rlim_cur / SEG_SHARE_OF_LIMIT)
			size /= 2;
	return size;
}

static int open_memory(uint64_t size)
{
	int fd = memfd_create("softrdma", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int r;

	if (fd < 0)
		return -errno;
	if (!ftruncate(fd, (off_t)size) &&
	    !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return fd;
	r = -errno;
	close(fd);
	return r;
}

static void init_life(pthread_mutex_t *life)
{
	pthread_mutexattr_t a;

	pthread_mutexattr_init(&a);
	pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
	pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(life, &a);
	pthread_mutexattr_destroy(&a);
}

/* Its memory is mapped: fills in what peers check. */
static void fill(struct seg *s, uint64_t size)
{
	init_life(&s->life);
	s->version = SEG_VERSION;
	s->pid = getpid();
	s->owner = sr_lock_self;
	s->size = size;
	if (getrandom(&s->instance, sizeof(s->instance), 0) != sizeof(s->instance))
		s->instance = sr_lock_self;
	s->magic = SEG_MAGIC;
}

int seg_create(int *ret_fd)
{
	struct run *all = malloc(sizeof(*all));
	uint64_t size = choose_size();
	struct seg *s = NULL;
	int fd = -1, r = -ENOMEM;

	if (!all)
		return -ENOMEM;
	for (; !s && size >= SEG_MIN; size /= 2) {
		fd = open_memory(size);
		s = fd < 0 ? NULL : map(fd, size);
		r = fd < 0 ? fd : -errno;
		if (s)
			break;
		if (fd >= 0)
			close(fd);
		if (r != -ENOMEM)
			break;
	}
	if (!s) {
		free(all);
		return r;
	}
	*all = (struct run){.start = round_up(sizeof(*s)), .end = size};
	fill(s, size);
	free_runs = all;
	arena_fd = fd;
	seg_self = s;
	*ret_fd = fd;
	return 0;
}

int seg_map(int fd, uint64_t instance, int32_t pid, struct seg **ret)
{
	off_t size = lseek(fd, 0, SEEK_END);
	struct seg *s;

	if (size < (off_t)SEG_MIN || size > (off_t)SEG_SIZE)
		return -EPROTO;
	s = map(fd, (uint64_t)size);
	if (!s)
		return -errno;
	if (s->magic != SEG_MAGIC || s->version != SEG_VERSION || s->instance != instance ||
	    s->pid != pid || s->size != (uint64_t)size) {
		munmap(s, (size_t)size);
		return -EPROTO;
	}
	*ret = s;
	return 0;
}

void seg_unmap(struct seg *s)
{
	if (s)
		munmap(s, s->size);
}

uint64_t seg_alloc(size_t bytes)
{
	uint64_t need = round_up(bytes), at = 0;

	pthread_mutex_lock(&arena_lock);
	for (struct run **p = &free_runs; *p; p = &(*p)->next) {
		struct run *r = *p;

		if (r->end - r->start < need)
			continue;
		at = r->start;
		r->start += need;
		if (r->start == r->end && r->next) { /* always keep one run to grow from */
			*p = r->next;
			free(r);
		}
		break;
	}
	pthread_mutex_unlock(&arena_lock);
	return at;
}

static void join(struct run *r)
{
	struct run *n = r->next;

	if (n && r->end == n->start) {
		r->end = n->end;
		r->next = n->next;
		free(n);
	}
}

void seg_free(uint64_t offset, size_t bytes)
{
	uint64_t end = offset + round_up(bytes);
	struct run *prev = NULL, *next, *fresh;

	if (!offset)
		return;
	fallocate(arena_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
		  (off_t)(end - offset));
	fresh = malloc(sizeof(*fresh));
	pthread_mutex_lock(&arena_lock);
	next = free_runs;
	while (next && next->start < offset) {
		prev = next;
		next = next->next;
	}
	if (prev && prev->end == offset) {
		prev->end = end;
		join(prev);
		free(fresh);
	} else if (fresh) { /* else the range is lost, not the memory */
		*fresh = (struct run){.next = next, .start = offset, .end = end};
		if (prev)
			prev->next = fresh;
		else
			free_runs = fresh;
		join(fresh);
	}
	pthread_mutex_unlock(&arena_lock);
}

uint32_t seg_qp_slot(const struct seg *s, uint32_t qpn)
{
	for (uint32_t i = 0; i < SEG_MAX_BASE; i++)
		if (s->base[i] == qpn >> 8)
			return i * 256 + (qpn & 0xff);
	return 0;
}
