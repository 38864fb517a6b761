/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See check_mode.h. The text of the configuration is read by the caller, which may have written it
 * where the service sees nothing. Files that it names are looked at as the user of the service,
 * because root may open everything.
 */
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/conf_read.h"
#include "base/conf_report.h"
#include "base/output.h"
#include "target/config/config.h"
#include "target/config/store.h"
#include "target/operations/check_mode.h"
#include "target/operations/service.h"
#include "target/store/backends.h"
#include "transport/fabric.h"

struct checking {
	const struct check_mode *mode;
	struct target_config config;
	struct conf *conf;
	struct service service;
	bool has_service;
	char user[SERVICE_USER_MAX]; /* that it is checked as */
};

static const char *plural(unsigned n)
{
	return n == 1 ? "" : "s";
}

static void print_summary(const struct checking *c)
{
	const struct config_subsystem *subsystems = c->config.subsystems.items;
	unsigned n_portals = c->config.portals.n, n_hosts = c->config.hosts.n;
	unsigned n_subsystems = c->config.subsystems.n, n_namespaces = 0;

	for (unsigned i = 0; i < n_subsystems; i++)
		n_namespaces += subsystems[i].namespaces.n;
	printf("%s: ok (%u portal%s, %u subsystem%s, %u namespace%s, %u host%s)\n", c->mode->path,
	       n_portals, plural(n_portals), n_subsystems, plural(n_subsystems), n_namespaces,
	       plural(n_namespaces), n_hosts, plural(n_hosts));
}

/* ---- what a start would meet now ---- */

/* No mistake in the file, and a device may come later. */
static void note_fabric(const char *fabric)
{
	bool is_auto = !strcmp(fabric, "auto"), is_soft = !strncmp(fabric, "soft", 4);

	if (is_auto && !fabric_is_soft() && !fabric_has_device(NULL))
		fprintf(stderr,
			"rblkd: note: there is no RDMA device: the service waits for one (fabric: soft-roce asks for the software provider)\n");
	else if (is_soft && !fabric_is_there(fabric))
		fprintf(stderr,
			"rblkd: note: fabric %s: the software RDMA provider was not found; install softrdma\n",
			fabric);
	else if (!fabric_is_there(fabric))
		fprintf(stderr, "rblkd: note: there is no RDMA device '%s' now\n", fabric);
}

/* Only where the service is what was asked about: a sandbox binds no other rblkd. */
static void note_sandbox(const struct checking *c, const struct config_namespace *ns,
			 const struct backend_ops *ops, const char *path)
{
	if (!c->has_service || strcmp(c->service.user, c->user) != 0)
		return;
	if (ops == &backend_file && !ns->is_read_only && !service_may_write(&c->service, path))
		fprintf(stderr,
			"rblkd: note: %s: the service may not write there: see ReadWritePaths= of rblkd.service\n",
			path);
	if (ops == &backend_device && !service_may_have_disks(&c->service))
		fprintf(stderr,
			"rblkd: note: %s: the service may have no disks: see disks.conf among the examples\n",
			path);
}

static void note_store(const struct checking *c, const struct config_namespace *ns)
{
	struct backend_config backend;
	struct conf_mark mark;
	const struct backend_ops *ops = config_backend(ns, &backend, &mark);

	if (!backend.path)
		return;
	if (ops->unchecked)
		fprintf(stderr, "rblkd: note: line %u: %s %s was not looked at: %s\n", mark.line,
			ops->name, backend.path, ops->unchecked);
	note_sandbox(c, ns, ops, backend.path);
}

static void note_stores(const struct checking *c)
{
	const struct config_subsystem *subsystems = c->config.subsystems.items;

	for (unsigned i = 0; i < c->config.subsystems.n; i++) {
		const struct config_namespace *namespaces = subsystems[i].namespaces.items;

		for (unsigned k = 0; k < subsystems[i].namespaces.n; k++)
			note_store(c, &namespaces[k]);
	}
}

/* ---- the user that looks ---- */

static void take_name(char name[SERVICE_USER_MAX])
{
	const struct passwd *passwd = getpwuid(geteuid());

	if (passwd)
		snprintf(name, SERVICE_USER_MAX, "%.63s", passwd->pw_name);
	else
		snprintf(name, SERVICE_USER_MAX, "%u", geteuid());
}

/* Root becomes the user of the service; another caller can only look as itself. */
static int choose_user(struct checking *c, struct error *error)
{
	const char *user = c->mode->user;
	int code = 0;

	c->has_service = service_find(&c->service);
	if (!user && c->has_service && geteuid() == 0)
		user = c->service.user;
	if (user)
		code = service_become(c->has_service ? &c->service : NULL, user, error);
	take_name(c->user);
	return code;
}

static void say_user(const struct checking *c)
{
	if (!c->has_service)
		return;
	if (!strcmp(c->user, c->service.user))
		printf("checked as user %s, that of rblkd.service\n", c->user);
	else
		fprintf(stderr, "rblkd: note: checked as user %s, and the service runs as %s\n",
			c->user, c->service.user);
}

static void hint_at_user(const struct checking *c)
{
	if (c->has_service && !strcmp(c->user, c->service.user))
		fprintf(stderr,
			"rblkd: hint: checked as user %s, that of rblkd.service; --user root checks as root\n",
			c->user);
}

/* The service reads it itself at its start. */
static void check_text_is_readable(struct checking *c)
{
	if (c->mode->is_default && access(c->mode->path, R_OK) < 0)
		conf_error(c->conf, (struct conf_mark){0}, "user %s cannot read this file",
			   c->user);
}

/* ---- all ---- */

static enum exit_code look(struct checking *c)
{
	const char *fabric = c->mode->fabric ? c->mode->fabric : c->config.fabric;
	unsigned n_of_text = conf_n_errors(c->conf);
	struct error error;
	int code = choose_user(c, &error);

	if (code)
		return (enum exit_code)fail_with("rblkd", (enum exit_code)code, NULL, "%s",
						 error.message);
	check_text_is_readable(c);
	if (config_look(c->mode->path, &c->config, stderr, c->conf) < 0) {
		if (conf_n_errors(c->conf) > n_of_text)
			hint_at_user(c);
		return EXIT_CONFIG;
	}
	print_summary(c);
	say_user(c);
	note_stores(c);
	note_fabric(fabric);
	return EXIT_OK;
}

enum exit_code check_mode_run(const struct check_mode *mode)
{
	static struct checking c; /* large */
	enum exit_code code;

	c.mode = mode;
	code = config_read_text(mode->path, &c.config, stderr, &c.conf) < 0 ? EXIT_CONFIG
									    : look(&c);
	config_release(&c.config);
	conf_free(c.conf);
	return code;
}
