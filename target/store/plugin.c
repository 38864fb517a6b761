/* SPDX-License-Identifier: BSD-3-Clause */
/* See plugin.h. */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "target/store/grow.h"
#include "target/store/plugin.h"
#include "target/store/step.h"

static uint64_t now_ns(void)
{
	return clock_ns();
}

static const struct backend_host host = {
	.take = backend_take,
	.skip = backend_skip,
	.end_short = backend_end_short,
	.send = loop_send,
	.write_log = log_write,
	.changed = backend_changed,
	.now_ns = now_ns,
	.sleep_ns = clock_sleep_ns,
	.refuse = error_refuse,
};

/* The folder of this program. */
static bool own_folder(char folder[PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", folder, PATH_MAX - 1);
	char *slash = n > 0 ? memrchr(folder, '/', (size_t)n) : NULL;

	if (slash)
		*slash = '\0';
	return slash;
}

static bool is_in(const char *folder, const char *name, char path[PATH_MAX])
{
	return snprintf(path, PATH_MAX, "%s/rblk-%s.so", folder, name) < PATH_MAX &&
	       access(path, R_OK) == 0;
}

/* Sets path to the library, or to where it would be installed. */
static bool find_library(const char *name, char path[PATH_MAX])
{
	const char *told = getenv("RBLK_PLUGINS");
	char folder[PATH_MAX];

	if (told)
		return is_in(told, name, path);
	return (own_folder(folder) && is_in(folder, name, path)) ||
	       is_in(PLUGINS_INSTALLED, name, path);
}

static const struct backend_ops *fits(const struct backend_plugin *plugin, const char *name,
				      const char *path, struct error *error)
{
	static const struct backend_plugin_layout wanted = BACKEND_PLUGIN_LAYOUT;
	const struct backend_plugin_layout *is = &plugin->layout;

	if (memcmp(is->release, wanted.release, sizeof(wanted.release)) != 0)
		error_refuse(
			error, -ENOEXEC,
			"%s: is of rblk %.*s, and this is %s: install the package rblk-target-%s of this release",
			path, (int)sizeof(is->release), is->release, wanted.release, name);
	else if (memcmp(is, &wanted, sizeof(wanted)) != 0)
		error_refuse(
			error, -ENOEXEC,
			"%s: is of another build of rblk (interface %u, here %u): install the package rblk-target-%s of this release",
			path, is->version, wanted.version, name);
	else
		return plugin->ops;
	return NULL;
}

const struct backend_ops *backend_plugin_load(const char *name, struct error *error)
{
	const struct backend_plugin *plugin;
	const struct backend_ops *ops;
	char path[PATH_MAX];
	void *library;

	if (!find_library(name, path)) {
		error_refuse(error, -ENOENT,
			     "%s: there is no %s: install the package rblk-target-%s", name, path,
			     name);
		return NULL;
	}
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	plugin = library ? dlsym(library, "rblk_backend_plugin") : NULL;
	if (!plugin) {
		error_refuse(error, -ENOEXEC,
			     "%s cannot be loaded: %s; install the package rblk-target-%s again",
			     path, dlerror(), name);
		return NULL;
	}
	ops = fits(plugin, name, path, error);
	if (ops)
		plugin->start(&host);
	return ops;
}
