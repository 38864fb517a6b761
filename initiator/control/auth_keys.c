/* SPDX-License-Identifier: BSD-3-Clause */
/* The secrets of a volume, from their files; see auth.h. */
#include "initiator/control/auth_keys.h"
#include "initiator/control/errors.h"

static int load(const char *path, const char *option, struct auth_key *key, struct error *error)
{
	struct auth_key keys[AUTH_KEYS];
	struct error wrong;
	int r;

	if (!*path)
		return 0;
	/* A file may have two keys, as for targets: the host uses the first. */
	r = auth_key_read_file(path, keys, AUTH_KEYS, &wrong);
	*key = keys[0];
	auth_wipe(keys, sizeof(keys));
	if (r < 0)
		error_set(error, EXIT_CONFIG, option, "%s", wrong.message);
	return r < 0 ? r : 0;
}

int auth_keys_load(const struct volume_config *config, struct auth_keys *ret_keys,
		   struct error *error)
{
	int r = load(config->secret_file, "it is the file of --dhchap-secret-file", &ret_keys->key,
		     error);

	if (r < 0)
		return r;
	return load(config->ctrl_secret_file, "it is the file of --dhchap-ctrl-secret-file",
		    &ret_keys->ctrl_key, error);
}
