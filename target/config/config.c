/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads target.yaml, on the control thread: the table (schema.c), the checks across keys (check.c),
 * and a look at the files and devices to be exported. One run reports every error with its line.
 * Nothing stays open, is created or locked; snapshot_build does that.
 *
 * The right to write the file is the right to export any disk, so a file that every user may write
 * is refused.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/conf_file.h"
#include "base/conf_report.h"
#include "base/conf_schema.h"
#include "target/config/check.h"
#include "target/config/config.h"
#include "target/config/schema.h"

static void check_owner(const char *path, struct conf *conf)
{
	struct stat st;

	if (!strcmp(path, "-") || stat(path, &st) < 0 || !S_ISREG(st.st_mode))
		return;
	if (st.st_mode & S_IWOTH)
		conf_error(conf, (struct conf_mark){0},
			   "every user may write this file (mode %04o); chmod o-w it",
			   st.st_mode & 07777U);
	if (st.st_uid != 0 && st.st_uid != geteuid())
		conf_error(conf, (struct conf_mark){0},
			   "belongs to user %u, which is neither root nor the user of rblkd (%u)",
			   st.st_uid, geteuid());
}

int config_read_text(const char *path, struct target_config *ret_config, FILE *out,
		     struct conf **ret_conf)
{
	int r = conf_read(path, &config_schema, ret_config, out, ret_conf);

	if (r < 0 && !*ret_conf) /* otherwise conf has the message */
		fprintf(out, "%s: error: %s\n", path, strerror(-r));
	return r;
}

int config_look(const char *path, struct target_config *config, FILE *out, struct conf *conf)
{
	check_owner(path, conf);
	config_check(config, strcmp(path, "-") ? path : "<stdin>", conf, out);
	return conf_n_errors(conf) ? -EINVAL : 0;
}

int config_read(const char *path, struct target_config *ret_config, FILE *out,
		struct conf **ret_conf)
{
	int r = config_read_text(path, ret_config, out, ret_conf);

	return r < 0 ? r : config_look(path, ret_config, out, *ret_conf);
}

void config_release(struct target_config *config)
{
	conf_release(&config_schema, config);
}

/* ---- looking up ----------------------------------------------------------------------------- */

const char *config_host_nqn(const struct target_config *config, const char *name)
{
	const struct config_host *hosts = config->hosts.items;

	for (unsigned i = 0; i < config->hosts.n; i++)
		if (!strcmp(hosts[i].name, name))
			return hosts[i].nqn;
	return name;
}

bool config_allows(const struct target_config *config, const struct config_subsystem *subsystem,
		   const char *hostnqn)
{
	const struct config_host *host = config_find_host(config, hostnqn);
	const struct config_name *names = subsystem->allow_hosts.items;

	if (subsystem->allows_any_host)
		return true;
	for (unsigned i = 0; i < subsystem->allow_hosts.n; i++)
		if ((host && !strcmp(names[i].name, host->name)) ||
		    (!strcmp(names[i].name, hostnqn) &&
		     !strcmp(config_host_nqn(config, names[i].name), hostnqn)))
			return true;
	return false;
}

const struct config_subsystem *config_find_subsystem(const struct target_config *config,
						     const char *subnqn)
{
	const struct config_subsystem *subsystems = config->subsystems.items;

	for (unsigned i = 0; i < config->subsystems.n; i++)
		if (!strcmp(subsystems[i].nqn, subnqn))
			return &subsystems[i];
	return NULL;
}

const struct config_host *config_find_host(const struct target_config *config, const char *hostnqn)
{
	const struct config_host *hosts = config->hosts.items;

	for (unsigned i = 0; i < config->hosts.n; i++)
		if (!strcmp(hosts[i].nqn, hostnqn))
			return &hosts[i];
	return NULL;
}

const struct config_host *config_find_bound(const struct target_config *config,
					    const uint8_t id[16])
{
	const struct config_host *hosts = config->hosts.items;

	for (unsigned i = 0; i < config->hosts.n; i++)
		if (config_is_bound(&hosts[i]) && !memcmp(hosts[i].id, id, sizeof(hosts[i].id)))
			return &hosts[i];
	return NULL;
}
