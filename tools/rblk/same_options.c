/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compares the options of an attached volume, as its process reports them, with those of this
 * command line. Both are made by bridge_options(), so each option is compared as a text.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "nbd_bridge/control/bridge_options.h"
#include "tools/rblk/report.h"
#include "tools/rblk/same_options.h"

/* The first of several differences are named. */
struct differences {
	char text[160];
	size_t at;
};

__attribute__((format(printf, 2, 3))) static void add(struct differences *d, const char *fmt, ...)
{
	size_t left = sizeof(d->text) - d->at;
	char one[sizeof(d->text)];
	va_list ap;
	int n;

	va_start(ap, fmt);
	vsnprintf(one, sizeof(one), fmt, ap);
	va_end(ap);
	n = snprintf(d->text + d->at, left, "%s%s", d->at ? ", " : "", one);
	if (n >= 0 && (size_t)n < left)
		d->at += (size_t)n;
	else
		d->text[d->at] = '\0';
}

/* An option that is off has an empty text; "--listen is , not 127.0.0.1" would be unreadable. */
static const char *or_none(const char *text)
{
	return *text ? text : "none";
}

static void compare_options(struct differences *d, struct json_object *status,
			    const struct volume_options *options,
			    const struct bridge_config *config)
{
	struct json_object *asked = bridge_options(config), *has = NULL, *value;

	/* a process of another version may not report all of them */
	json_object_object_get_ex(status, "options", &has);
	/* its default has the name in it */
	if (!options->socket_path)
		json_object_object_del(asked, "socket");
	/* paths that were found are as good as those that are named */
	json_object_object_del(asked, "find-paths");
	if (config->volume.finds_paths)
		json_object_object_del(asked, "path");
	json_object_object_foreach(asked, name, wanted)
	{
		const char *ours = json_object_get_string(wanted);

		if (has && json_object_object_get_ex(has, name, &value) &&
		    strcmp(json_object_get_string(value), ours) != 0)
			add(d, "--%s is %.60s, not %.60s", name,
			    or_none(json_object_get_string(value)), or_none(ours));
	}
	json_object_put(asked);
}

/* Only what the user has asked for counts: an option that was not given accepts any value. */
static void compare_place(struct differences *d, struct json_object *status,
			  const struct volume_options *options)
{
	const char *device = json_text(status, "device"), *rdma = json_text(status, "rdma_device");

	if (options->name && strcmp(options->name, json_text(status, "name")) != 0)
		add(d, "--name is %.63s", json_text(status, "name"));
	if (options->frontend == BRIDGE_FRONTEND_NBD && !*device)
		add(d, "--frontend is socket, not nbd");
	if (options->frontend == BRIDGE_FRONTEND_SOCKET && *device)
		add(d, "--frontend is nbd, not socket");
	if (options->fabric && strcmp(options->fabric, "auto") != 0 && *rdma &&
	    (strncmp(rdma, "softrdma", 8) == 0 ? strncmp(options->fabric, "soft", 4)
					       : strcmp(options->fabric, rdma)) != 0)
		add(d, "--fabric is %.40s, not %.40s", rdma, options->fabric);
}

int same_options_check(struct json_object *status, const struct volume_options *options,
		       const struct bridge_config *config, struct error *error)
{
	struct differences d = {0};
	char hint[128];

	if (!strcmp(json_text(status, "state"), "unresponsive"))
		return 0; /* not reported */
	compare_place(&d, status, options);
	compare_options(&d, status, options, config);
	if (!d.at)
		return 0;
	snprintf(hint, sizeof(hint), "detach it first (rblk detach %.63s), or ask for the same",
		 json_text(status, "name"));
	error_set(error, EXIT_BUSY, hint, "attached already as %.63s, but %s",
		  json_text(status, "name"), d.text);
	return EXIT_BUSY;
}
