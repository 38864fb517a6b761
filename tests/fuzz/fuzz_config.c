/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * target.yaml: the reader, the table of keys, and the checks across keys. Paths of files, devices
 * and keys are emptied before the checks look at them, for these are the fuzzer's invention.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "target/config/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void empty(char *s)
{
	if (s)
		*s = '\0';
}

static void empty_paths(struct target_config *config)
{
	struct config_subsystem *subsystems = config->subsystems.items;
	struct config_host *hosts = config->hosts.items;

	for (unsigned i = 0; i < config->hosts.n; i++) {
		empty(hosts[i].key_file);
		empty(hosts[i].ctrl_key_file);
	}
	for (unsigned i = 0; i < config->subsystems.n; i++) {
		struct config_namespace *ns = subsystems[i].namespaces.items;

		for (unsigned k = 0; k < subsystems[i].namespaces.n; k++) {
			empty(ns[k].file);
			empty(ns[k].device);
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct target_config config;
	struct conf *conf = NULL;
	char *text = malloc(
		n ? n : 1); /* of its very size, so that a sanitizer sees the end */
	FILE *out = fopen("/dev/null", "w");

	check(text && out);
	if (n)
		memcpy(text, data, n);
	if (conf_read_text("t.yaml", text, n, &config_schema, &config, out, &conf) == 0) {
		empty_paths(&config);
		config_check(&config, "t.yaml", conf, out);
	}
	conf_free(conf);
	config_release(&config);
	fclose(out);
	free(text);
	return 0;
}
