/* SPDX-License-Identifier: BSD-3-Clause */
/* The keys of hosts, from the files that the configuration names; see credentials.h. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/conf_report.h"
#include "target/config/credentials.h"
#include "transport/auth_crypto.h"

/* The first choice is the cheapest good one; any group precedes none. */
static const uint8_t default_hashes[] = {NVMF_HASH_SHA256, NVMF_HASH_SHA384, NVMF_HASH_SHA512};
static const uint8_t default_dhgroups[] = {NVMF_DH_2048, NVMF_DH_3072, NVMF_DH_4096,
					   NVMF_DH_6144, NVMF_DH_8192, NVMF_DH_NULL};

static_assert(sizeof(default_hashes) <= NVMF_HASHES && sizeof(default_dhgroups) <= NVMF_DH_GROUPS,
	      "struct credentials");

/* base: the identifier of the first choice. */
static unsigned fill_choices(const struct conf_list *list, unsigned base, const uint8_t *defaults,
			     unsigned n_defaults, uint8_t *ret_ids)
{
	const struct config_choice *choices = list->items;

	check(list->n <= n_defaults); /* config/schema.c: ret_ids has room for these */
	if (!list->n) {
		memcpy(ret_ids, defaults, n_defaults);
		return n_defaults;
	}
	for (unsigned i = 0; i < list->n; i++)
		ret_ids[i] = (uint8_t)(base + choices[i].value);
	return list->n;
}

static int read_keys(const char *path, struct conf_mark mark, struct conf *conf,
		     struct auth_key *keys, unsigned max)
{
	struct error error;
	int r = auth_key_read_file(path, keys, max, &error);

	if (r < 0)
		conf_report(conf, mark, &error);
	return r;
}

static int load_host(const struct config_host *host, struct conf *conf, struct credentials *c)
{
	int r = read_keys(host->key_file, host->key_mark, conf, c->keys, AUTH_KEYS);

	if (r > 0)
		c->n_keys = (unsigned)r;
	if (host->ctrl_key_file &&
	    read_keys(host->ctrl_key_file, host->ctrl_key_mark, conf, &c->ctrl_key, 1) < 0)
		r = -EINVAL;
	snprintf(c->hostnqn, sizeof(c->hostnqn), "%s", host->nqn);
	c->n_hashes = fill_choices(&host->hashes, NVMF_HASH_SHA256, default_hashes,
				   sizeof(default_hashes), c->hashes);
	c->n_dhgroups = fill_choices(&host->dhgroups, NVMF_DH_NULL, default_dhgroups,
				     sizeof(default_dhgroups), c->dhgroups);
	return r < 0 ? -EINVAL : 0;
}

int credentials_load(const struct target_config *config, struct conf *conf,
		     struct credentials_list *ret_list)
{
	const struct config_host *hosts = config->hosts.items;
	unsigned n = 0;
	int r = 0;

	*ret_list = (struct credentials_list){0};
	for (unsigned i = 0; i < config->hosts.n; i++)
		n += hosts[i].key_file && hosts[i].nqn;
	if (!n)
		return 0;
	ret_list->items = auth_alloc(n * sizeof(*ret_list->items));
	if (!ret_list->items) {
		conf_error(conf, (struct conf_mark){0}, "out of memory");
		return -ENOMEM;
	}
	ret_list->n = n;
	for (unsigned i = 0, at = 0; i < config->hosts.n; i++)
		if (hosts[i].key_file && hosts[i].nqn &&
		    load_host(&hosts[i], conf, &ret_list->items[at++]) < 0)
			r = -EINVAL;
	return r;
}

int credentials_copy(const struct credentials_list *list, struct credentials_list *ret_copy)
{
	size_t n_bytes = list->n * sizeof(*list->items);

	*ret_copy = (struct credentials_list){0};
	if (!list->n)
		return 0;
	ret_copy->items = auth_alloc(n_bytes);
	if (!ret_copy->items)
		return -ENOMEM;
	memcpy(ret_copy->items, list->items, n_bytes);
	ret_copy->n = list->n;
	return 0;
}

void credentials_release(struct credentials_list *list)
{
	auth_free(list->items, list->n * sizeof(*list->items));
	*list = (struct credentials_list){0};
}

const struct credentials *credentials_find(const struct credentials_list *list, const char *hostnqn)
{
	for (unsigned i = 0; i < list->n; i++)
		if (!strcmp(list->items[i].hostnqn, hostnqn))
			return &list->items[i];
	return NULL;
}

bool credentials_accept(const struct credentials *credentials, uint64_t mark)
{
	for (unsigned i = 0; i < credentials->n_keys; i++)
		if (auth_key_mark(&credentials->keys[i]) == mark)
			return true;
	return false;
}

uint64_t credentials_ctrl_mark(const struct credentials *credentials)
{
	return credentials->ctrl_key.n ? auth_key_mark(&credentials->ctrl_key) : 0;
}

bool credentials_are_same(const struct credentials *a, const struct credentials *b)
{
	for (unsigned i = 0; i < a->n_keys; i++)
		if (!credentials_accept(b, auth_key_mark(&a->keys[i])))
			return false;
	return a->n_keys == b->n_keys && credentials_ctrl_mark(a) == credentials_ctrl_mark(b);
}
