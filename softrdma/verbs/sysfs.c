/* SPDX-License-Identifier: BSD-3-Clause */
/* See sysfs.h. The folder's name has a hash of its contents, so processes that find it need not
 * write, and none changes what another reads. */
#include "softrdma/verbs/sysfs.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <net/if.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "softrdma/process/likeness.h"
#include "softrdma/verbs/gid.h"

#define IB	 "/sys/class/infiniband"
#define DEVICE	 IB "/softrdma0"
#define PORT	 DEVICE "/ports/1"
#define VERBS	 "/sys/class/infiniband_verbs"
#define DEV	 "/dev/infiniband"
#define NO_FILES "" /* the program sees the real ones */

enum {
	FILES_MAX = 256,
};

struct file {
	char path[96];
	char text[64]; /* "": a folder; "/...": a link to that */
};

struct tree {
	unsigned n;
	struct file files[FILES_MAX];
};

static char root[64] = NO_FILES;

/* ---- contents -------------------------------------------------------------------------------- */

__attribute__((format(printf, 3, 4))) static void add(struct tree *tree, const char *text,
						      const char *path, ...)
{
	struct file *file = &tree->files[tree->n];
	va_list args;

	if (tree->n == FILES_MAX)
		return;
	tree->n++;
	va_start(args, path);
	vsnprintf(file->path, sizeof(file->path), path, args);
	va_end(args);
	snprintf(file->text, sizeof(file->text), "%s%s", text, *text && *text != '/' ? "\n" : "");
}

static void add_gid(struct tree *tree, int index, const union ibv_gid *gid, const char *interface)
{
	char text[40], *at = text;

	for (unsigned i = 0; i < sizeof(gid->raw); i += 2)
		at += sprintf(at, "%s%02x%02x", i ? ":" : "", gid->raw[i], gid->raw[i + 1]);
	add(tree, text, PORT "/gids/%d", index);
	add(tree, sr_is_siw() ? "IB/RoCE v1" : "RoCE v2", PORT "/gid_attrs/types/%d", index);
	add(tree, interface, PORT "/gid_attrs/ndevs/%d", index);
	if (index == 0)
		add(tree, "", DEVICE "/device/net/%s", interface);
}

static void add_gids(struct tree *tree)
{
	char interface[IF_NAMESIZE];
	union ibv_gid gid;
	uint32_t ifindex;

	for (int i = 0; !sr_gid_at(i, &gid, &ifindex); i++)
		if (if_indextoname(ifindex, interface))
			add_gid(tree, i, &gid, interface);
}

static void fill(struct tree *tree)
{
	add(tree, sr_is_siw() ? "4: RNIC" : "1: CA", DEVICE "/node_type");
	add(tree, RBLK_VERSION, DEVICE "/fw_ver");
	add(tree, "softrdma", DEVICE "/hca_type");
	add(tree, "softrdma0", DEVICE "/node_desc");
	add(tree, "0200:0000:0053:5244", DEVICE "/node_guid");
	add(tree, "0200:0000:0053:5244", DEVICE "/sys_image_guid");
	add(tree, "4: ACTIVE", PORT "/state");
	add(tree, "5: LinkUp", PORT "/phys_state");
	add(tree, "Ethernet", PORT "/link_layer");
	add(tree, "100 Gb/sec (4X EDR)", PORT "/rate");
	add(tree, "0x0", PORT "/lid");
	add(tree, "0", PORT "/lid_mask_count");
	add(tree, "0x0", PORT "/sm_lid");
	add(tree, "0xffff", PORT "/pkeys/0");
	add_gids(tree);
	add(tree, "6", VERBS "/abi_version");
	add(tree, "softrdma0", VERBS "/uverbs0/ibdev");
	add(tree, "1", VERBS "/uverbs0/abi_version");
	/* a character device that all may open is expected, and never used */
	add(tree, "/dev/null", DEV "/uverbs0");
	add(tree, "/dev/null", DEV "/rdma_cm");
}

/* ---- the folder ------------------------------------------------------------------------------ */

/* FNV-1a */
static uint64_t hash(const struct tree *tree)
{
	const uint8_t *bytes = (const uint8_t *)tree->files;
	uint64_t h = 0xcbf29ce484222325ULL;

	for (size_t i = 0; i < tree->n * sizeof(tree->files[0]); i++)
		h = (h ^ bytes[i]) * 0x100000001b3ULL;
	return h;
}

static bool make_folders(char *path, size_t from)
{
	for (char *at = path + from; (at = strchr(at, '/')); at++) {
		bool is_made;

		*at = '\0';
		is_made = mkdir(path, 0755) == 0 || errno == EEXIST;
		*at = '/';
		if (!is_made)
			return false;
	}
	return true;
}

static bool write_file(const char *folder, const struct file *file)
{
	size_t n = strlen(file->text);
	char path[192];
	int fd;
	bool is_whole;

	snprintf(path, sizeof(path), "%s%s", folder, file->path);
	if (!make_folders(path, strlen(folder) + 1))
		return false;
	if (!n)
		return mkdir(path, 0755) == 0;
	if (*file->text == '/')
		return symlink(file->text, path) == 0;
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd < 0)
		return false;
	is_whole = write(fd, file->text, n) == (ssize_t)n;
	close(fd);
	return is_whole;
}

/* Whether it is this user's alone: any user may make files in /tmp. */
static bool is_ours(const char *folder)
{
	struct stat st;

	return lstat(folder, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
	       !(st.st_mode & 077);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	return remove(path);
}

static bool write_all(const struct tree *tree, const char *folder)
{
	for (unsigned i = 0; i < tree->n; i++)
		if (!write_file(folder, &tree->files[i]))
			return false;
	return true;
}

/* The name appears when all files are there; another process may be faster. */
static bool publish(const struct tree *tree, const char *folder)
{
	char making[64] = "/tmp/softrdma.XXXXXX";

	if (!mkdtemp(making))
		return false;
	if (write_all(tree, making) && rename(making, folder) == 0)
		return true;
	nftw(making, remove_one, 4, FTW_DEPTH | FTW_PHYS);
	return is_ours(folder);
}

static void make(void)
{
	struct tree *tree = calloc(1, sizeof(*tree));
	int error = errno;
	char folder[64];

	/* softrdma(1) sets it: rblkd and rblk, which preload this library themselves, look at the
	 * real devices of this machine. */
	if (tree && getenv("SOFTRDMA_SYSFS")) {
		fill(tree);
		snprintf(folder, sizeof(folder), "/tmp/softrdma-%u-%016llx", (unsigned)geteuid(),
			 (unsigned long long)hash(tree));
		if (is_ours(folder) || publish(tree, folder))
			memcpy(root, folder, sizeof(root));
	}
	free(tree);
	errno = error;
}

static bool is_below(const char *path, const char *folder)
{
	size_t n = strlen(folder);

	return !strncmp(path, folder, n) && (!path[n] || path[n] == '/');
}

const char *sr_sysfs_place(const char *path, char place[PATH_MAX])
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	if (!path || *path != '/' ||
	    (!is_below(path, IB) && !is_below(path, VERBS) && !is_below(path, DEV)))
		return path;
	pthread_once(&once, make);
	if (!*root || strlen(root) + strlen(path) >= PATH_MAX)
		return path;
	strcpy(stpcpy(place, root), path);
	return place;
}
