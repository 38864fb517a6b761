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

#include "base/cpus.h"
#include "target/config/config.h"
#include "target/store/backends.h"

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

/* With one CPU, the thread that a loop waits for cannot run while the loop spins. */
static void set_defaults(struct target_config *config)
{
	if (!config->tuning.spin_mark.line && cpus_usable() <= 1)
		config->tuning.spin_ns = 0;
}

int config_read(const char *path, struct target_config *ret_config, FILE *out,
		struct conf **ret_conf)
{
	int r = conf_read(path, &config_schema, ret_config, out, ret_conf);

	if (r < 0 && !*ret_conf) /* otherwise conf has the message */
		fprintf(out, "%s: error: %s\n", path, strerror(-r));
	if (r < 0)
		return r;
	check_owner(path, *ret_conf);
	set_defaults(ret_config);
	config_check(ret_config, strcmp(path, "-") ? path : "<stdin>", *ret_conf, out);
	return conf_n_errors(*ret_conf) ? -EINVAL : 0;
}

void config_release(struct target_config *config)
{
	conf_release(&config_schema, config);
}

/* Index of the backend whose key is given; 0 if none is. */
static unsigned find_store(const struct config_namespace *ns)
{
	for (unsigned i = 0; i < N_BACKENDS; i++)
		if (ns->stores[i].mark.line)
			return i;
	return 0;
}

const struct backend_ops *config_backend(const struct config_namespace *ns,
					 struct backend_config *ret_backend,
					 struct conf_mark *ret_mark)
{
	unsigned i = find_store(ns);
	const struct config_store *store = &ns->stores[i];
	bool is_path = backends[i]->key.type == CONF_STRING;

	*ret_backend = (struct backend_config){
		.path = is_path ? store->path : NULL,
		.size_bytes = is_path ? ns->size : store->size_bytes,
		.block_size = (uint32_t)ns->block_size,
		.must_create = ns->must_create,
		.is_read_only = ns->is_read_only,
		.is_shared = ns->is_shared,
	};
	*ret_mark = store->mark;
	return backends[i];
}

uint64_t config_namespace_bytes(const struct config_namespace *ns)
{
	unsigned i = find_store(ns);

	if (backends[i]->key.type == CONF_SIZE)
		return ns->stores[i].size_bytes;
	return ns->must_create ? ns->size : 0;
}
