/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory of fio 3.33 (interface 31, x86-64) that an external engine touches. Debian has no
 * package with fio's headers, and fio gives engines no access functions. So the places of the
 * fields are written down here, and the engine refuses any other fio before it touches one.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define FIO_ABI_VERSION "fio-3.33"

enum {
	FIO_OPS_VERSION = 31,
	/* flags of an engine */
	FIO_DISKLESS = 1 << 2,
	FIO_NO_EXTEND = 1 << 3,
	FIO_NO_OFFLOAD = 1 << 15,
	/* what queue returns */
	FIO_COMPLETED = 0,
	FIO_QUEUED = 1,
	/* directions */
	FIO_READ = 0,
	FIO_WRITE = 1,
	FIO_TRIM = 2,
	FIO_SYNC = 3,
	FIO_DATASYNC = 4,
	/* of an option */
	FIO_TYPE_TEXT = 6,
};
#define FIO_CATEGORY_ENGINE 0x40ULL
#define FIO_GROUP_ENGINE    0x2000000000ULL

/* A job. Opaque: see the functions below. */
struct fio_job;

/* An I/O of a job: what engines use of it. */
struct fio_io {
	uint8_t unused_1[44];
	uint32_t direction;
	uint8_t unused_2[24];
	uint64_t offset; /* bytes */
	uint8_t unused_3[24];
	void *buffer; /* of length bytes; within what iomem_alloc returned */
	uint64_t length;
	uint8_t unused_4[16];
	uint64_t residue; /* bytes that were not done */
	uint32_t error;	  /* errno */
	void *engine;	  /* the engine's own */
};
_Static_assert(offsetof(struct fio_io, direction) == 44, "fio 3.33");
_Static_assert(offsetof(struct fio_io, buffer) == 104, "fio 3.33");
_Static_assert(offsetof(struct fio_io, residue) == 136, "fio 3.33");
_Static_assert(offsetof(struct fio_io, engine) == 152, "fio 3.33");

struct fio_ops {
	void *list[2]; /* fio's */
	const char *name;
	int version, flags;
	void *handle;			   /* fio's, of dlopen */
	int (*setup)(struct fio_job *job); /* fio's main thread: finds the size */
	int (*init)(struct fio_job *job);  /* the job's thread, as all that follow */
	void *post_init, *prep;
	int (*queue)(struct fio_job *job, struct fio_io *io); /* FIO_QUEUED or FIO_COMPLETED */
	int (*commit)(struct fio_job *job);		      /* after some of queue */
	int (*getevents)(struct fio_job *job, unsigned min, unsigned max,
			 const struct timespec *timeout);
	struct fio_io *(*event)(struct fio_job *job, int i); /* of the last getevents */
	void *errdetails, *cancel;
	void (*cleanup)(struct fio_job *job);
	int (*open_file)(struct fio_job *job, void *file);
	int (*close_file)(struct fio_job *job, void *file);
	int (*invalidate)(struct fio_job *job, void *file);
	void *unlink_file, *get_file_size, *prepopulate_file, *terminate;
	int (*iomem_alloc)(struct fio_job *job, size_t n);
	void (*iomem_free)(struct fio_job *job);
	int (*io_init)(struct fio_job *job, struct fio_io *io);
	void (*io_free)(struct fio_job *job, struct fio_io *io);
	void *zones[4];
	int option_struct_size;	    /* what fio_options returns */
	struct fio_option *options; /* ends with a NULL name */
};
_Static_assert(offsetof(struct fio_ops, queue) == 72, "fio 3.33");
_Static_assert(offsetof(struct fio_ops, iomem_alloc) == 184, "fio 3.33");
_Static_assert(offsetof(struct fio_ops, option_struct_size) == 248, "fio 3.33");
_Static_assert(sizeof(struct fio_ops) == 264, "fio 3.33");

struct fio_option {
	const char *name, *long_name, *alias;
	uint32_t type, offset; /* of the value in the options of a job */
	uint8_t unused_1[80];
	const char *help, *value;
	uint8_t unused_2[1336];
	uint64_t category, group; /* where fio's help shows it */
	uint8_t unused_3[32];
};
_Static_assert(offsetof(struct fio_option, type) == 24, "fio 3.33");
_Static_assert(offsetof(struct fio_option, help) == 112, "fio 3.33");
_Static_assert(offsetof(struct fio_option, category) == 1464, "fio 3.33");
_Static_assert(sizeof(struct fio_option) == 1512, "fio 3.33");

/* fio's own. */
extern const char fio_version_string[];
int add_file(struct fio_job *job, const char *name, int number, int increment);
__attribute__((format(printf, 1, 2))) ssize_t log_err(const char *fmt, ...);

/* Places in a job, and in a file of it. */
#define FIO_JOB(job, offset, type) ((type *)(void *)((char *)(job) + (offset)))
static inline uint32_t *fio_depth(struct fio_job *job)
{
	return FIO_JOB(job, 208, uint32_t);
}
/* [0]: files of the job; [1]: open at a time. */
static inline uint32_t *fio_n_files(struct fio_job *job)
{
	return FIO_JOB(job, 496, uint32_t);
}
static inline uint32_t *fio_uses_thread(struct fio_job *job)
{
	return FIO_JOB(job, 1256, uint32_t);
}
static inline void *fio_options(struct fio_job *job)
{
	return *FIO_JOB(job, 4216, void *);
}
static inline void **fio_files(struct fio_job *job)
{
	return *FIO_JOB(job, 188832, void **);
}
static inline uint32_t fio_n_known_files(struct fio_job *job)
{
	return *FIO_JOB(job, 188852, uint32_t);
}
static inline void **fio_memory(struct fio_job *job)
{
	return FIO_JOB(job, 189056, void *);
}
static inline const struct fio_ops *fio_ops_of(struct fio_job *job)
{
	return *FIO_JOB(job, 189952, const struct fio_ops *);
}
static inline void **fio_engine_data(struct fio_job *job)
{
	return FIO_JOB(job, 189968, void *);
}
static inline uint64_t *fio_file_size(void *file)
{
	return FIO_JOB(file, 48, uint64_t);
}
