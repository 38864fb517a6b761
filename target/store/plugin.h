/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A backend in a library of its own, rblk-NAME.so, so that rblkd carries the libraries of a store
 * only where the configuration names that store. Its table is loaded once and stays until rblkd
 * ends: a library with threads of its own cannot be unloaded.
 *
 * The library exports one symbol, rblk_backend_plugin. It is compiled with the headers of this
 * folder and calls rblkd through struct backend_host alone. rblkd refuses a library of another
 * release, or one whose structs have other sizes.
 */
#pragma once

#include "base/log.h"
#include "target/store/record.h"
#include "target/store/thread.h"

enum {
	BACKEND_PLUGIN_VERSION = 4, /* of what the functions mean; raised with each change */
};

/* Functions of rblkd, for the plug-in: see thread.h, loop.h, log.h and error.h. */
struct backend_host {
	void (*take)(struct backend *backend, struct backend_thread *thread, struct backend_io *io);
	void (*skip)(struct backend_io *io, int error);
	void (*end_short)(struct backend_io *io);
	void (*send)(struct loop *loop, struct loop_msg *msg);
	void (*write_log)(enum log_level level, const char *fmt, ...)
		__attribute__((format(printf, 2, 3)));
	/* Any thread: limits.size_bytes of the store is not true any more. ops.resize reads it. */
	void (*changed)(struct backend *backend);
	uint64_t (*now_ns)(void);
	void (*sleep_ns)(uint64_t ns);
	int (*refuse)(struct error *error, int r, const char *fmt, ...)
		__attribute__((format(printf, 3, 4)));
};

/* The first member of a plug-in in every release, and never longer. */
struct backend_plugin_layout {
	uint32_t version;
	uint32_t bytes[8]; /* of plug-in, host, backend, its ops, config, io, step; record_op */
	char release[32];  /* of rblk */
};

struct backend_plugin {
	struct backend_plugin_layout layout;
	const struct backend_ops *ops;
	/* Control thread, once, before any function of ops. host stays. */
	void (*start)(const struct backend_host *host);
};

#define BACKEND_PLUGIN_LAYOUT                                                                      \
	{                                                                                          \
		BACKEND_PLUGIN_VERSION,                                                            \
			{sizeof(struct backend_plugin), sizeof(struct backend_host),               \
			 sizeof(struct backend),	sizeof(struct backend_ops),                \
			 sizeof(struct backend_config), sizeof(struct backend_io),                 \
			 sizeof(struct backend_step),	sizeof(struct record_op)},                 \
			RBLK_VERSION                                                               \
	}

/*
 * Loads rblk-NAME.so: from $RBLK_PLUGINS alone if that is set, else from the folder of this
 * program, else from where it is installed. Control thread. Constant ops; or NULL with *error: one
 * line that names the library, what is wrong, and the Debian package. Calls again are cheap.
 */
const struct backend_ops *backend_plugin_load(const char *name, struct error *error);
