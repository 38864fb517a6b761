/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which locks of a killed process are free only when its writes are over: t/store-lock.sh.
 *
 *     store_lock NAME LOCKFILE CASE held|free
 *
 * NAME is a device of dmsetup. It is suspended while a process (the owner) takes the lock, sends
 * writes and is killed, so none of them ends before it is resumed. held: another process (the heir)
 * does not get the lock before that, and afterwards finds all writes that come. free: it gets the
 * lock while they are still to come. Exit status 0: as said.
 *
 * CASE is words, one of them the lock:
 *   data    OFD lock of the descriptor that does the I/O
 *   excl    the device is opened with O_EXCL
 *   file    OFD lock of LOCKFILE
 *   robust  a robust mutex in shared memory
 * and how the writes are sent: libaio, or
 *   pwrite  by a thread for each
 *   uring   by io_uring
 * and vm: a child with the same memory, and none of the descriptors, outlives the owner.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	N = 16,
	BLOCK = 4096,
	OLD = 0xaa,
	NEW = 0xbb,
	WATCH_MS = 2000,      /* that a lock is held */
	PATIENCE_MS = 120000, /* until it is free */
	STEP_MS = 2,
	STACK = 1 << 16,
};

static const char *name, *lock_path, *how;

static struct {
	pthread_mutex_t mutex;
	atomic_int n_sent;
	pid_t child;
} * shared;

static bool has(const char *word)
{
	return strstr(how, word) != NULL;
}

static void must(bool is_so, const char *what)
{
	if (is_so)
		return;
	perror(what);
	_exit(2);
}

static void dmsetup(const char *command)
{
	char line[256];

	snprintf(line, sizeof(line), "dmsetup %s --noudevsync %s", command, name);
	must(system(line) == 0, line);
}

static int open_device(int flags)
{
	char path[256];

	snprintf(path, sizeof(path), "/dev/mapper/%s", name);
	return open(path, O_RDWR | O_DIRECT | O_CLOEXEC | flags);
}

static bool lock_whole(int fd)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

static void *new_blocks(int value)
{
	void *blocks = mmap(NULL, N * BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0);

	must(blocks != MAP_FAILED, "mmap");
	memset(blocks, value, N * BLOCK);
	return blocks;
}

/* ---- the owner ------------------------------------------------------------------------------ */

static char *memory;
static int fd;

static void send_by_libaio(void)
{
	aio_context_t context = 0;
	struct iocb iocbs[N], *list[N];

	for (int i = 0; i < N; i++) {
		iocbs[i] = (struct iocb){.aio_lio_opcode = IOCB_CMD_PWRITE,
					 .aio_fildes = (uint32_t)fd,
					 .aio_buf = (uintptr_t)memory + (uintptr_t)i * BLOCK,
					 .aio_nbytes = BLOCK,
					 .aio_offset = i * BLOCK};
		list[i] = &iocbs[i];
	}
	must(syscall(SYS_io_setup, N, &context) == 0, "io_setup");
	must(syscall(SYS_io_submit, context, N, list) == N, "io_submit");
	atomic_store(&shared->n_sent, N);
}

static void *write_block(void *context)
{
	int i = atomic_fetch_add(&shared->n_sent, 1);

	(void)context;
	(void)!pwrite(fd, memory + i * BLOCK, BLOCK, i * BLOCK);
	return NULL;
}

static void send_by_threads(void)
{
	for (int i = 0; i < N; i++) {
		pthread_t thread;

		must(pthread_create(&thread, NULL, write_block, NULL) == 0, "pthread_create");
	}
}

static void send_by_uring(void)
{
	struct io_uring_params p = {0};
	int ring = (int)syscall(SYS_io_uring_setup, N, &p);
	int flags = MAP_SHARED | MAP_POPULATE, rights = PROT_READ | PROT_WRITE;
	struct io_uring_sqe *sqes;
	unsigned *array;
	char *queue;

	must(ring >= 0, "io_uring_setup");
	queue = mmap(NULL, p.sq_off.array + p.sq_entries * 4, rights, flags, ring,
		     IORING_OFF_SQ_RING);
	sqes = mmap(NULL, p.sq_entries * sizeof(*sqes), rights, flags, ring, IORING_OFF_SQES);
	must(queue != MAP_FAILED && sqes != MAP_FAILED, "mmap");
	array = (unsigned *)(queue + p.sq_off.array);
	for (unsigned i = 0; i < N; i++) {
		sqes[i] = (struct io_uring_sqe){.opcode = IORING_OP_WRITE,
						.fd = fd,
						.addr = (uintptr_t)memory + i * BLOCK,
						.len = BLOCK,
						.off = i * BLOCK};
		array[i] = i;
	}
	atomic_store((atomic_uint *)(queue + p.sq_off.tail), N);
	must(syscall(SYS_io_uring_enter, ring, N, 0, 0, NULL, 0) == N, "io_uring_enter");
	atomic_store(&shared->n_sent, N);
}

/* The descriptors are copies. */
static int keep_memory(void *context)
{
	(void)context;
	syscall(SYS_close_range, 3, ~0U, 0);
	while (pause() < 0)
		;
	return 0;
}

static void take_lock(void)
{
	fd = open_device(has("excl") ? O_EXCL : 0);
	must(fd >= 0, "device");
	if (has("data"))
		must(lock_whole(fd), "lock");
	else if (has("file"))
		must(lock_whole(open(lock_path, O_RDWR | O_CLOEXEC)), "lock");
	else if (has("robust"))
		must(pthread_mutex_lock(&shared->mutex) == 0, "mutex");
}

static void own(void)
{
	take_lock();
	memory = new_blocks(NEW);
	if (has("vm")) {
		shared->child = clone(keep_memory, (char *)malloc(STACK) + STACK,
				      CLONE_VM | SIGCHLD, NULL);
		must(shared->child > 0, "clone");
	}
	if (has("pwrite"))
		send_by_threads();
	else if (has("uring"))
		send_by_uring();
	else
		send_by_libaio();
	for (;;)
		pause();
}

/* ---- the heir ------------------------------------------------------------------------------- */

static bool try_lock(void)
{
	static int heir = -1;

	if (has("robust"))
		return pthread_mutex_trylock(&shared->mutex) == EOWNERDEAD;
	if (has("excl"))
		return open_device(O_EXCL) >= 0;
	if (heir < 0)
		heir = has("data") ? open_device(0) : open(lock_path, O_RDWR | O_CLOEXEC);
	return lock_whole(heir);
}

static bool gets_lock(unsigned limit_ms)
{
	for (unsigned ms = 0; ms < limit_ms; ms += STEP_MS) {
		if (try_lock())
			return true;
		usleep(STEP_MS * 1000);
	}
	return false;
}

static int count_new(void)
{
	int device = open_device(0), n = 0;
	char *blocks = new_blocks(0);

	must(pread(device, blocks, N * BLOCK, 0) == N * BLOCK, "read");
	close(device);
	for (int i = 0; i < N; i++)
		n += (unsigned char)blocks[i * BLOCK] == NEW;
	return n;
}

/* They land under the heir. */
static int wait_for_new(void)
{
	int n = 0;

	for (unsigned ms = 0; !n && ms < PATIENCE_MS; ms += STEP_MS) {
		usleep(STEP_MS * 1000);
		n = count_new();
	}
	return n;
}

/* Those of which the kernel has not taken each when the owner is killed. */
static bool may_lose_writes(void)
{
	return has("pwrite") || has("uring");
}

static void clear(void)
{
	int device = open_device(0);

	must(pwrite(device, new_blocks(OLD), N * BLOCK, 0) == N * BLOCK, "clear");
	close(device);
}

static void share(void)
{
	pthread_mutexattr_t attributes;

	shared = mmap(NULL, BLOCK, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	must(shared != MAP_FAILED, "mmap");
	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&shared->mutex, &attributes);
	close(open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600));
}

/* Until its writes are on their way, and it is killed. */
static pid_t run_owner(void)
{
	pid_t owner = fork();

	if (owner == 0)
		own();
	while (atomic_load(&shared->n_sent) < N) {
		must(waitpid(owner, NULL, WNOHANG) == 0, "the owner has ended");
		usleep(STEP_MS * 1000);
	}
	kill(owner, SIGKILL);
	return owner;
}

int main(int argc, char **argv)
{
	bool is_free, is_held;
	int at_once = 0, later;
	pid_t owner;

	if (argc != 5)
		return 2;
	name = argv[1];
	lock_path = argv[2];
	how = argv[3];
	is_held = !strcmp(argv[4], "held");
	share();
	clear();
	dmsetup("suspend --nolockfs");
	owner = run_owner();
	is_free = gets_lock(is_held ? WATCH_MS : PATIENCE_MS);
	dmsetup("resume");
	if (!is_free) {
		must(gets_lock(PATIENCE_MS), "the lock is never free");
		at_once = count_new();
	}
	if (shared->child)
		kill(shared->child, SIGKILL);
	waitpid(owner, NULL, 0);
	later = is_held ? count_new() : wait_for_new();
	printf("%s: free %s the writes could end; new blocks at once %d, later %d\n", how,
	       is_free ? "before" : "after", at_once, later);
	if (is_held)
		return is_free || at_once != later || (!may_lose_writes() && later != N);
	return !is_free || !later;
}
