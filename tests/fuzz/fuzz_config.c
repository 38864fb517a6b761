/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * target.yaml: the reader, the table of keys, and the checks across keys. Paths of files, devices
 * and keys are emptied before the checks open them: the fuzzer must not choose files of this
 * machine. A second table covers what the reader supports and target.yaml does not use.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/conf.h"
#include "base/conf_node.h"
#include "base/conf_read.h"
#include "base/conf_report.h"
#include "base/conf_schema.h"
#include "target/config/check.h"
#include "target/config/config.h"
#include "target/config/schema.h"
#include "target/store/backends.h"
#include "tests/fuzz/fuzz_memory.h"

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
			for (unsigned j = 0; j < N_BACKENDS; j++)
				if (backends[j]->key.type == CONF_STRING)
					empty(ns[k].stores[j].path);
		}
	}
}

/* A comment in the first line says which call for memory fails. */
static unsigned which_fails(const char *text)
{
	unsigned n = 0;

	return sscanf(text, "#fail %u", &n) == 1 ? n : 0;
}

/* ---- what the reader knows, and no key of target.yaml is ---- */

struct place {
	char *name;
	uint64_t value;
	struct conf_mark mark;
};

struct other {
	int unused;
	struct conf_list places;
	struct conf_list words;
	uint64_t small;
	char *word;
	bool is_on;
};

static const struct conf_key place_keys[] = {
	{.name = "place", .type = CONF_STRING, .offset = offsetof(struct place, name)},
	{.name = "value", .type = CONF_UINT, .offset = offsetof(struct place, value)},
	{0},
};

static const struct conf_schema place_schema = {
	.what = "place",
	.size = sizeof(struct place),
	.mark_offset = offsetof(struct place, mark),
	.keys = place_keys,
};

static const struct conf_key other_keys[] = {
	{.name = "places",
	 .type = CONF_MAP,
	 .offset = offsetof(struct other, places),
	 .schema = &place_schema},
	{.name = "words", .type = CONF_LIST, .offset = offsetof(struct other, words)},
	{.name = "small", .type = CONF_UINT, .offset = offsetof(struct other, small), .min = 7},
	{.name = "word", .type = CONF_STRING, .offset = offsetof(struct other, word), .min = 3},
	{.name = "on",
	 .type = CONF_BOOL,
	 .offset = offsetof(struct other, is_on),
	 .default_value = "perhaps"},
	{0},
};

static const struct conf_schema other_schema = {
	.what = "other",
	.size = sizeof(struct other),
	.keys = other_keys,
};

static void read_other(const char *text, size_t n, FILE *out)
{
	struct conf *conf = NULL;
	struct other other;

	conf_read_text("o.yaml", text, n, &other_schema, &other, out, &conf);
	conf_free(conf);
	conf_release(&other_schema, &other);
}

/* A file that could not be read, and one that is too large: no input is as long. */
static void read_refused(FILE *out)
{
	char *texts[] = {NULL, calloc(1, CONF_MAX_TEXT + 2)};

	for (unsigned i = 0; i < ARRAY_LEN(texts); i++) {
		struct conf *conf = NULL;
		struct other other;

		conf_read_owned("o.yaml", texts[i], CONF_MAX_TEXT + 1, &other_schema, &other, out,
				&conf);
		conf_free(conf);
		conf_release(&other_schema, &other);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct target_config config;
	struct conf *conf = NULL;
	char *text = malloc(n + 1); /* of its very size, so that a sanitizer sees the end */
	FILE *out = fopen("/dev/null", "w");

	check(text && out);
	memcpy(text, data, n);
	text[n] = '\0';
	memory_fail(which_fails(text));
	if (conf_read_text("t.yaml", text, n, &config_schema, &config, out, &conf) == 0) {
		empty_paths(&config);
		config_check(&config, "t.yaml", conf, out);
	}
	/* Paths are empty: no error is that of a thing in use. */
	check(!conf || !conf_is_busy(conf));
	conf_free(conf);
	config_release(&config);
	memory_fail(which_fails(text));
	read_other(text, n, out);
	memory_fail(0);
	if (!n)
		read_refused(out);
	fclose(out);
	free(text);
	return 0;
}
