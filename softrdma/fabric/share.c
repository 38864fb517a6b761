/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which memfd a region lies in; see share.h. The kernel is asked: /proc/self/pagemap says at once
 * of private memory that it is none, /proc/self/maps names the file and the offset of a mapping,
 * and /proc/self/fd has the program's descriptor of it.
 */
#include "softrdma/fabric/share.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "softrdma/fabric/peer.h"
#include "softrdma/process/part.h"

#define PAGE	     4096u
#define PAGE_IS_FILE (1ULL << 61) /* of an entry of pagemap: of a file, or shared */

/* Where a region lies: bytes [at, at + length) of a file. */
struct place {
	uint64_t dev, ino;
	uint64_t at, length;
};

/* Guards the table of shares and refs. Leaf. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t refs[SEG_MAX_SHARE];
static uint64_t last_serial;

/* ---- what the kernel says --------------------------------------------------- */

static bool is_file_page(uintptr_t at)
{
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	uint64_t entry = 0;
	bool is = fd >= 0 &&
		  pread(fd, &entry, sizeof(entry), (off_t)(at / PAGE * sizeof(entry))) ==
			  sizeof(entry) &&
		  entry & PAGE_IS_FILE;

	if (fd >= 0)
		close(fd);
	return is;
}

/* Adds the part of [next, end) that a line of /proc/self/maps describes. False: it is not that of
 * the mapping before it, or of no shared one. */
static bool add_mapping(const char *line, uintptr_t begin, struct place *p)
{
	uintptr_t start, end, next = begin + p->length;
	unsigned major, minor;
	uint64_t offset, ino;
	char perms[5];

	if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s %" SCNx64 " %x:%x %" SCNu64, &start, &end,
		   perms, &offset, &major, &minor, &ino) != 7 ||
	    perms[3] != 's' || start > next || end <= next)
		return false;
	offset += next - start;
	if (!p->length)
		*p = (struct place){.dev = makedev(major, minor), .ino = ino, .at = offset};
	else if (p->dev != makedev(major, minor) || p->ino != ino || p->at + p->length != offset)
		return false;
	p->length = end - begin;
	return true;
}

/* Whether all of [begin, end) lies in one file, one byte after the other. */
static bool find_place(uintptr_t begin, uintptr_t end, struct place *ret)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	bool is_one = true;
	char *line = NULL;
	size_t n = 0;

	*ret = (struct place){0};
	while (maps && is_one && ret->length < end - begin && getline(&line, &n, maps) > 0) {
		char *dash;

		strtoull(line, &dash, 16);
		if (*dash == '-' && strtoull(dash + 1, NULL, 16) > begin + ret->length)
			is_one = add_mapping(line, begin, ret);
	}
	free(line);
	if (maps)
		fclose(maps);
	return is_one && ret->length >= end - begin;
}

static bool is_file(const struct stat *st, uint64_t dev, uint64_t ino)
{
	return st->st_dev == dev && st->st_ino == ino;
}

bool sr_share_is_safe(int fd, struct stat *ret_st)
{
	struct statfs fs;
	int seals = fcntl(fd, F_GET_SEALS);

	/* A file of hugetlbfs can be sealed too, but a hole in it may find no huge page: SIGBUS. */
	return seals >= 0 && seals & F_SEAL_SHRINK && !fstat(fd, ret_st) && !fstatfs(fd, &fs) &&
	       fs.f_type == TMPFS_MAGIC;
}

/* The program's descriptor of the file, or -1. Other threads may close descriptors meanwhile, so
 * only names are looked at until one is the file. */
static int find_fd(const struct place *p, struct stat *ret_st)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *e;
	int found = -1;

	while (dir && found < 0 && (e = readdir(dir))) {
		int fd = atoi(e->d_name);

		if (e->d_name[0] != '.' && !fstatat(dirfd(dir), e->d_name, ret_st, 0) &&
		    is_file(ret_st, p->dev, p->ino) && sr_share_is_safe(fd, ret_st) &&
		    is_file(ret_st, p->dev, p->ino) &&
		    (uint64_t)ret_st->st_size >= p->at + p->length)
			found = fd;
	}
	if (dir)
		closedir(dir);
	return found;
}

/* ---- the table; under the lock ---------------------------------------------- */

static bool still_names(const struct seg_share *s)
{
	struct stat st;
	char name[32];

	snprintf(name, sizeof(name), "/proc/self/fd/%d", s->fd);
	return !stat(name, &st) && is_file(&st, s->dev, s->ino);
}

static uint32_t find_share(const struct place *p)
{
	for (uint32_t i = 0; i < SEG_MAX_SHARE; i++) {
		const struct seg_share *s = &seg_self->share[i];

		if (refs[i] && s->dev == p->dev && s->ino == p->ino &&
		    s->size >= p->at + p->length && still_names(s))
			return i + 1;
	}
	return 0;
}

static uint32_t make_share(const struct place *p)
{
	struct stat st;
	int fd = find_fd(p, &st);

	for (uint32_t i = 0; i < SEG_MAX_SHARE && fd >= 0; i++) {
		struct seg_share *s = &seg_self->share[i];

		if (refs[i])
			continue;
		s->fd = fd;
		s->dev = st.st_dev;
		s->ino = st.st_ino;
		s->size = (uint64_t)st.st_size;
		atomic_store(&s->serial, ++last_serial);
		return i + 1;
	}
	return 0;
}

struct sr_shared sr_share_take(const void *addr, size_t len)
{
	uintptr_t begin = (uintptr_t)addr;
	struct sr_shared shared = {0};
	struct place place;

	if (!len || !is_file_page(begin) || !find_place(begin, begin + len, &place))
		return shared;
	place.length = len;
	pthread_mutex_lock(&lock);
	shared.share = find_share(&place);
	if (!shared.share)
		shared.share = make_share(&place);
	if (shared.share)
		refs[shared.share - 1]++;
	pthread_mutex_unlock(&lock);
	shared.at = place.at;
	return shared;
}

bool sr_share_give(struct sr_shared shared)
{
	bool is_last = false;

	if (!shared.share)
		return false;
	pthread_mutex_lock(&lock);
	if (!--refs[shared.share - 1]) {
		atomic_store(&seg_self->share[shared.share - 1].serial, 0);
		is_last = true;
	}
	pthread_mutex_unlock(&lock);
	if (is_last)
		sr_peer_kick_views();
	return is_last;
}

static void forget(void)
{
	pthread_mutex_init(&lock, NULL);
	memset(refs, 0, sizeof(refs));
}

static const struct sr_part part = {.forget = forget};
SR_PART(part);
