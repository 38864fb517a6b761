/* SPDX-License-Identifier: BSD-3-Clause */
/* The differences of two configurations as text: "~ log : level info -> debug". */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/conf_read.h"
#include "base/conf_report.h"
#include "target/config/diff.h"
#include "target/config/schema.h"

#define HEAD	"version: 1\n"
#define PORTALS "portals: [{name: a, address: 10.0.0.1}, {name: b, address: 10.0.0.2}]\n"
#define NQN	"nqn.2026-01.org.example:x"

static void read_text(const char *text, struct target_config *ret_config)
{
	struct conf *conf;

	assert_int_equal(conf_read_text("text", text, strlen(text), &config_schema, ret_config,
					stderr, &conf),
			 0);
	assert_int_equal(conf_n_errors(conf), 0);
	conf_free(conf);
}

static char *describe(const struct config_changes *changes)
{
	char *text = NULL;
	size_t n;
	FILE *f = open_memstream(&text, &n);

	for (unsigned i = 0; i < changes->n; i++) {
		const struct config_change *c = &changes->items[i];

		fprintf(f, "%c%s %s: ", "+-~"[c->kind], c -> is_live ? "" : "!", c->what);
		fprintf(f, "%s%s", c->name, *c->name ? ": " : "");
		if (c->kind == CHANGE_VALUE)
			fprintf(f, "%s %s -> %s\n", c->key, c->before, c->after);
		else
			fprintf(f, "%s%s\n", c->before, c->after);
	}
	fclose(f);
	return text;
}

static void expect_diff(const char *before_text, const char *after_text, const char *wanted)
{
	struct target_config before, after;
	struct config_changes changes;
	char *text;

	read_text(before_text, &before);
	read_text(after_text, &after);
	assert_int_equal(config_diff(&before, &after, &changes), 0);
	text = describe(&changes);
	assert_string_equal(text, wanted);
	assert_int_equal(config_changes_find_fixed(&changes) != NULL, strchr(wanted, '!') != NULL);
	free(text);
	config_changes_free(&changes);
	config_release(&before);
	config_release(&after);
}

static void nothing_is_different(void **state)
{
	expect_diff(HEAD PORTALS, HEAD PORTALS, "");
	expect_diff(HEAD PORTALS,
		    HEAD "portals:\n  - {name: b, address: 10.0.0.2, port: 4420}\n"
			 "  - {address: 10.0.0.1, name: a}\nlog: {level: info}\n"
			 "tuning: {workers: auto, max_transfer: 1024KiB}\n",
		    "");
}

static void values(void **state)
{
	expect_diff(
		HEAD PORTALS,
		HEAD PORTALS
		"log: {level: debug}\n"
		"limits: {connect_rate: 7, connections: 99, buffers_per_host: 10, connect_rate_per_host: 8, pending_per_host: 9}\n"
		"tuning: {workers: 2, spin: 1ms, buffers: 1GiB}\n"
		"fabric: soft\n",
		"~ log: level info -> debug\n"
		"~! configuration: fabric auto -> soft\n"
		"~! tuning: workers auto -> 2\n"
		"~! tuning: spin auto -> 1ms\n"
		"~! tuning: buffers 64MiB -> 1GiB\n"
		"~! limits: connections 1024 -> 99\n"
		"~ limits: buffers_per_host 80 -> 10\n"
		"~ limits: connect_rate 200 -> 7\n"
		"~ limits: connect_rate_per_host 100 -> 8\n"
		"~ limits: pending_per_host 72 -> 9\n");
}

static void things_with_names(void **state)
{
	expect_diff(
		HEAD PORTALS "hosts: [{name: h, nqn: 'nqn.2026-01.org.example:h'}]\n",
		HEAD
		"portals: [{name: b, address: 10.0.0.9}, {name: c, address: 10.0.0.3, port: 9}]\n",
		"- portal: a: address: 10.0.0.1\n"
		"~ portal: b: address 10.0.0.2 -> 10.0.0.9\n"
		"+ portal: c: address: 10.0.0.3, port: 9\n"
		"- host: h: nqn: nqn.2026-01.org.example:h\n");
}

static void a_subsystem_with_all_in_it(void **state)
{
	static const char subsystem[] = HEAD PORTALS
		"subsystems:\n  - nqn: " NQN "\n    allow_hosts: ['nqn.a', 'nqn.b']\n"
		"    namespaces: [{nsid: 2, ram: 1MiB, block_size: 4096}]\n";
	char removed[400];

	expect_diff(HEAD PORTALS, subsystem,
		    "+ subsystem: " NQN ": \n"
		    "+ allow_hosts: " NQN ": nqn.a\n"
		    "+ allow_hosts: " NQN ": nqn.b\n"
		    "+ namespace: " NQN "/2: ram: 1MiB, block_size: 4KiB\n");
	snprintf(removed, sizeof(removed),
		 "- subsystem: %s: \n- allow_hosts: %s: nqn.a\n- allow_hosts: %s: nqn.b\n"
		 "- namespace: %s/2: ram: 1MiB, block_size: 4KiB\n",
		 NQN, NQN, NQN, NQN);
	expect_diff(subsystem, HEAD PORTALS, removed);
}

static void what_a_namespace_may_change(void **state)
{
	static const char head[] = HEAD PORTALS "subsystems:\n  - nqn: " NQN "\n    namespaces:\n";
	static const struct {
		const char *before, *after, *wanted;
	} cases[] = {
		{"ram: 1MiB, qos: {burst: 1s}",
		 "ram: 1MiB, qos: {iops: 7, write_bandwidth: 1MiB, burst: 1s}",
		 "~ qos: " NQN "/1: iops  -> 7\n"
		 "~ qos: " NQN "/1: write_bandwidth  -> 1MiB\n"},
		{"ram: 1MiB", "ram: 2MiB", "~ namespace: " NQN "/1: ram 1MiB -> 2MiB\n"},
		{"ram: 2MiB", "ram: 1MiB", "~! namespace: " NQN "/1: ram 2MiB -> 1MiB\n"},
		{"file: /a, create: true, size: 1GiB", "file: /a",
		 "~ namespace: " NQN "/1: size 1GiB -> \n"
		 "~ namespace: " NQN "/1: create true -> false\n"},
		{"file: /a", "file: /b", "~! namespace: " NQN "/1: file /a -> /b\n"},
		{"file: /a", "device: /a",
		 "~! namespace: " NQN "/1: file /a -> \n"
		 "~! namespace: " NQN "/1: device  -> /a\n"},
		{"file: /a", "file: /a, read_only: true",
		 "~! namespace: " NQN "/1: read_only false -> true\n"},
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char before[512], after[512];

		snprintf(before, sizeof(before), "%s      - {nsid: 1, %s}\n", head,
			 cases[i].before);
		snprintf(after, sizeof(after), "%s      - {nsid: 1, %s}\n", head, cases[i].after);
		expect_diff(before, after, cases[i].wanted);
	}
}

static void ana_states(void **state)
{
	static const char head[] = HEAD PORTALS "subsystems:\n  - nqn: " NQN "\n";

	char before[512], after[512];

	snprintf(before, sizeof(before),
		 "%s    ana_groups: [{id: 1}, {id: 2, portals: [{portal: a, state: change}]}]\n"
		 "    namespaces: [{nsid: 1, ram: 1MiB}]\n",
		 head);
	snprintf(
		after, sizeof(after),
		"%s    ana_groups: [{id: 2, state: inaccessible, portals: [{portal: b, state: optimized}]}]\n    namespaces: [{nsid: 1, ram: 1MiB, ana_group: 2}]\n",
		head);
	expect_diff(before, after,
		    "- ANA group: " NQN "/1: \n"
		    "~ ANA group: " NQN "/2: state optimized -> inaccessible\n"
		    "- portal of an ANA group: " NQN "/2/a: state: change\n"
		    "+ portal of an ANA group: " NQN "/2/b: state: optimized\n"
		    "~ namespace: " NQN "/1: ana_group 1 -> 2\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_different),
		cmocka_unit_test(values),
		cmocka_unit_test(things_with_names),
		cmocka_unit_test(a_subsystem_with_all_in_it),
		cmocka_unit_test(what_a_namespace_may_change),
		cmocka_unit_test(ana_states),
	};

	return cmocka_run_group_tests_name("config_diff", tests, NULL, NULL);
}
