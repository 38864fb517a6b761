/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Configuration files: the values read, and each error message word for word. The messages are what
 * an administrator reads first, so a review must see a change of them.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bits.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/conf.h"
#include "base/conf_file.h"
#include "base/conf_guess.h"
#include "base/conf_read.h"
#include "base/conf_report.h"
#include "base/conf_schema.h"

struct place {
	char *portal;
	unsigned state;
	struct conf_mark portal_mark, state_mark;
};

struct reference {
	char *name;
	struct conf_mark mark;
};

struct space {
	uint64_t nsid;
	uint64_t size;
	char *device;
	struct conf_list places;
	struct conf_list references;
	struct conf_mark mark, nsid_mark;
};

struct logging {
	unsigned level;
	uint64_t slow_io;
	char *tag;
};

struct key_files {
	char *own;
};

struct top {
	uint64_t version;
	struct logging log;
	struct key_files keys;
	struct conf_list spaces;
	struct conf_list names;
	bool is_on;
	uint64_t cpu;
	uint64_t any;
};

static const char *const states[] = {"optimized", "non-optimized", "inaccessible", NULL};
static const char *const levels[] = {"error", "warn", "info", "debug", NULL};

static const char *check_path(const char *value)
{
	return value[0] == '/' ? NULL : "must be an absolute path";
}

static const char *parse_cpu(const char *value, void *field)
{
	if (!strcmp(value, "auto"))
		*(uint64_t *)field = 0;
	else if (strspn(value, "0123456789") == strlen(value))
		*(uint64_t *)field = strtoull(value, NULL, 10);
	else
		return "must be auto or a number";
	return NULL;
}

#define AT(type, field) .offset = offsetof(struct type, field)

static const struct conf_key place_keys[] = {
	{.name = "portal",
	 .type = CONF_STRING,
	 AT(place, portal),
	 .min = 1,
	 .mark_offset = offsetof(struct place, portal_mark)},
	{.name = "state",
	 .type = CONF_ENUM,
	 AT(place, state),
	 .names = states,
	 .mark_offset = offsetof(struct place, state_mark)},
	{0},
};
static const struct conf_schema place_schema = {
	.what = "places", .size = sizeof(struct place), .keys = place_keys};

static const struct conf_key reference_keys[] = {
	{.name = "",
	 .type = CONF_STRING,
	 AT(reference, name),
	 .min = 1,
	 .mark_offset = offsetof(struct reference, mark)},
	{0},
};
static const struct conf_schema reference_schema = {
	.what = "reference", .size = sizeof(struct reference), .keys = reference_keys};

static const struct conf_key space_keys[] = {
	{.name = "nsid",
	 .type = CONF_UINT,
	 AT(space, nsid),
	 .is_required = true,
	 .min = 1,
	 .max = 1024,
	 .mark_offset = offsetof(struct space, nsid_mark)},
	{.name = "size", .type = CONF_SIZE, AT(space, size), .min = 4096, .default_value = "1GiB"},
	{.name = "device", .type = CONF_STRING, AT(space, device), .max = 20, .check = check_path},
	{.name = "places", .type = CONF_MAP, AT(space, places), .schema = &place_schema},
	{.name = "references",
	 .type = CONF_LIST,
	 AT(space, references),
	 .schema = &reference_schema},
	{0},
};
static const struct conf_schema space_schema = {.what = "namespace",
						.size = sizeof(struct space),
						.mark_offset = offsetof(struct space, mark),
						.keys = space_keys};

static const struct conf_key log_keys[] = {
	{.name = "level",
	 .type = CONF_ENUM,
	 AT(logging, level),
	 .names = levels,
	 .default_value = "info"},
	{.name = "slow_io",
	 .type = CONF_DURATION,
	 AT(logging, slow_io),
	 .min = NSEC_PER_MSEC,
	 .max = 60 * NSEC_PER_SEC,
	 .default_value = "500ms"},
	{.name = "tag", .type = CONF_STRING, AT(logging, tag), .default_value = "rblk"},
	{0},
};
static const struct conf_schema log_schema = {
	.what = "log", .size = sizeof(struct logging), .keys = log_keys};

static const struct conf_key key_file_keys[] = {
	{.name = "own", .type = CONF_STRING, AT(key_files, own), .is_required = true},
	{0},
};
static const struct conf_schema key_file_schema = {
	.what = "keys", .size = sizeof(struct key_files), .keys = key_file_keys};

static const struct conf_key top_keys[] = {
	{.name = "version", .type = CONF_UINT, AT(top, version), .is_required = true},
	{.name = "log", .type = CONF_STRUCT, AT(top, log), .schema = &log_schema},
	{.name = "keys", .type = CONF_STRUCT, AT(top, keys), .schema = &key_file_schema},
	{.name = "namespaces", .type = CONF_LIST, AT(top, spaces), .schema = &space_schema},
	{.name = "names", .type = CONF_LIST, AT(top, names), .min = 1, .max = 3},
	{.name = "is_on", .type = CONF_BOOL, AT(top, is_on)},
	{.name = "cpu",
	 .type = CONF_CUSTOM,
	 AT(top, cpu),
	 .parse = parse_cpu,
	 .default_value = "3"},
	{.name = "any", .type = CONF_UINT, AT(top, any), .min = 2},
	{0},
};
static const struct conf_schema schema = {
	.what = "the file", .size = sizeof(struct top), .keys = top_keys};

static struct top top;
static char *said; /* printed by the last read */

static unsigned read_n(const char *text, size_t n)
{
	struct conf *conf = NULL;
	size_t n_said;
	unsigned n_errors;
	FILE *out;

	conf_release(&schema, &top);
	free(said);
	said = NULL;
	out = open_memstream(&said, &n_said);
	assert_int_equal(conf_read_text("t.yaml", text, n, &schema, &top, out, &conf), 0);
	fclose(out);
	n_errors = conf_n_errors(conf);
	conf_free(conf);
	return n_errors;
}

static unsigned read_string(const char *text)
{
	return read_n(text, strlen(text));
}

static int release(void **state)
{
	conf_release(&schema, &top);
	conf_release(&schema, &top); /* twice is harmless */
	free(said);
	said = NULL;
	return 0;
}

static void expect_errors(const char *text, unsigned n, const char *messages)
{
	unsigned n_errors = read_string(text);

	if (n_errors != n || strcmp(said, messages))
		fail_msg("%s\nsays (%u mistakes)\n%s\nnot\n%s", text, n_errors, said, messages);
}

/* One error at line:column; the source lines are not compared. */
static void expect_error(const char *text, const char *message)
{
	unsigned n_errors = read_string(text);

	if (strchr(said, '\n'))
		*strchr(said, '\n') = '\0';
	if (n_errors != 1 || strcmp(said, message))
		fail_msg("%s\nsays (%u mistakes)\n%s\nnot\n%s", text, n_errors, said, message);
}

static void test_all_types(void **state)
{
	struct space *s;
	struct place *place;
	struct reference *reference;

	assert_int_equal(read_string("# comment\n"
				     "version: 1\n"
				     "log: {level: warn, slow_io: '2s', tag: \"a b\"}\n"
				     "is_on: true\n"
				     "cpu: auto\n"
				     "names: [a, '2', \"\\u00e9\"]\n"
				     "namespaces:\n"
				     "  - {nsid: 1, size: 64MiB, device: /dev/a}\n"
				     "  - nsid: 2\n"
				     "    places:\n"
				     "      left: optimized\n"
				     "      right: inaccessible\n"
				     "    references: [x,\n"
				     "                 y]\n"),
			 0);
	assert_string_equal(said, "");
	assert_int_equal(top.version, 1);
	assert_int_equal(top.log.level, 1);
	assert_int_equal(top.log.slow_io, 2 * NSEC_PER_SEC);
	assert_string_equal(top.log.tag, "a b");
	assert_true(top.is_on);
	assert_int_equal(top.cpu, 0);
	assert_int_equal(top.names.n, 3);
	assert_string_equal(((char **)top.names.items)[1], "2");
	assert_string_equal(((char **)top.names.items)[2], "\xc3\xa9");
	assert_int_equal(top.spaces.n, 2);
	s = top.spaces.items;
	assert_int_equal(s[0].size, 64 * MIB);
	assert_string_equal(s[0].device, "/dev/a");
	assert_int_equal(s[0].nsid_mark.line, 8);
	assert_int_equal(s[0].nsid_mark.column, 12);
	assert_int_equal(s[1].mark.line, 9);
	assert_int_equal(s[1].nsid, 2);
	assert_int_equal(s[1].size, GIB);
	assert_null(s[1].device);
	assert_int_equal(s[1].places.n, 2);
	place = s[1].places.items;
	assert_string_equal(place[1].portal, "right");
	assert_int_equal(place[1].portal_mark.line, 12);
	assert_int_equal(place[1].portal_mark.column, 7);
	assert_int_equal(place[1].state, 2);
	assert_int_equal(place[1].state_mark.column, 14);
	reference = s[1].references.items;
	assert_string_equal(reference[1].name, "y");
	assert_int_equal(reference[1].mark.line, 14);
}

static void test_defaults(void **state)
{
	assert_int_equal(read_string("version: 0"), 0);
	assert_int_equal(top.log.level, 2);
	assert_int_equal(top.log.slow_io, NSEC_PER_SEC / 2);
	assert_string_equal(top.log.tag, "rblk");
	assert_int_equal(top.cpu, 3);
	assert_null(top.keys.own); /* required only within keys, which may be absent */
	assert_int_equal(top.spaces.n, 0);
	/* An empty value where a mapping or a list is expected is an empty one. */
	assert_int_equal(read_string("version: 0\nlog:\nnamespaces: ~\n"), 0);
	assert_string_equal(top.log.tag, "rblk");
}

static void test_json(void **state)
{
	assert_int_equal(read_string("{\n\t\"version\": 1,\n\t\"is_on\": true,\n"
				     "\t\"names\": [\"a\\/b\", \"c\"],\n"
				     "\t\"namespaces\": [{\"nsid\":5}]\n}\n"),
			 0);
	assert_int_equal(top.spaces.n, 1);
	assert_string_equal(((char **)top.names.items)[0], "a/b");
}

static void test_byte_order_mark_and_line_ends(void **state)
{
	assert_int_equal(read_string("\xef\xbb\xbfversion: 1\r\nis_on: true\r\n"), 0);
	assert_true(top.is_on);
	expect_errors("\xef\xbb\xbfversion: x\r\n", 1,
		      "t.yaml:1:10: error: version must be a number, not 'x'\n"
		      "version: x\n"
		      "         ^\n");
}

static void test_all_mistakes_at_once(void **state)
{
	expect_errors(
		"version: 1\n"
		"log: {level: inf, slow_io: 5x}\n"
		"namespaces:\n"
		"  - {nsidd: 2, size: 1KiB, device: dev}\n"
		"  - nsid: 2\n"
		"    nsid: 3\n"
		"is_on: yes\n",
		8,
		"t.yaml:2:14: error: level must be one of error, warn, info, debug, not 'inf' (did you mean 'info'?)\n"
		"log: {level: inf, slow_io: 5x}\n"
		"             ^~~\n"
		"t.yaml:2:28: error: slow_io must be a duration such as 500ms, not '5x'\n"
		"log: {level: inf, slow_io: 5x}\n"
		"                           ^~\n"
		"t.yaml:4:6: error: unknown key 'nsidd' in namespace (did you mean 'nsid'?)\n"
		"  - {nsidd: 2, size: 1KiB, device: dev}\n"
		"     ^~~~~\n"
		"t.yaml:4:22: error: size must be at least 4KiB, not 1KiB\n"
		"  - {nsidd: 2, size: 1KiB, device: dev}\n"
		"                     ^~~~\n"
		"t.yaml:4:36: error: device must be an absolute path\n"
		"  - {nsidd: 2, size: 1KiB, device: dev}\n"
		"                                   ^~~\n"
		"t.yaml:4:5: error: namespace lacks the required key 'nsid'\n"
		"  - {nsidd: 2, size: 1KiB, device: dev}\n"
		"    ^\n"
		"t.yaml:6:5: error: key 'nsid' is given twice, first on line 5\n"
		"    nsid: 3\n"
		"    ^~~~\n"
		"t.yaml:7:8: error: is_on must be true or false, not 'yes'\n"
		"is_on: yes\n"
		"       ^~~\n");
}

static void test_keys(void **state)
{
	expect_error(
		"version: 1\nversoin: 2",
		"t.yaml:2:1: error: unknown key 'versoin' in the file (did you mean 'version'?)");
	expect_error("version: 1\nzzz: 2", "t.yaml:2:1: error: unknown key 'zzz' in the file");
	expect_error("version: 1\n<<: {a: b}", "t.yaml:2:1: error: unknown key '<<' in the file");
	expect_error("version: 1\n? [a]\n: b",
		     "t.yaml:2:3: error: a key in the file must be a name, not a list");
	expect_error("version: 1\n\"a\\0\\e[31m\": b",
		     "t.yaml:2:1: error: NUL characters (\\0) are not supported");
	expect_error("version: 1\n\"a\\e[31m\": b",
		     "t.yaml:2:1: error: unknown key 'a\\x1b[31m' in the file");
	expect_error("is_on: true", "t.yaml:1:1: error: the file lacks the required key 'version'");
	expect_error("{}", "t.yaml:1:1: error: the file lacks the required key 'version'");
	expect_error("version: 1\nkeys: {}",
		     "t.yaml:2:7: error: keys lacks the required key 'own'");
}

static void test_kinds(void **state)
{
	expect_error("5",
		     "t.yaml:1:1: error: the file must be keys and values, not a single value");
	expect_error("- 5", "t.yaml:1:1: error: the file must be keys and values, not a list");
	expect_error("version: [1]",
		     "t.yaml:1:10: error: version must be a single value, not a list");
	expect_error("version: {a: 1}",
		     "t.yaml:1:10: error: version must be a single value, not a mapping");
	expect_error("version: 1\nlog: []",
		     "t.yaml:2:6: error: log must be keys and values, not a list");
	expect_error("version: 1\nlog: x",
		     "t.yaml:2:6: error: log must be keys and values, not a single value");
	expect_error("version: 1\nnames: x",
		     "t.yaml:2:8: error: names must be a list, not a single value");
	expect_error("version: 1\nnames: [[x]]",
		     "t.yaml:2:9: error: names must be a single value, not a list");
	expect_error("version: 1\nnamespaces: [5]",
		     "t.yaml:2:14: error: namespace must be keys and values, not a single value");
	expect_error("version: 1\nnamespaces: [{nsid: 1, places: [a]}]",
		     "t.yaml:2:32: error: places must be a mapping, not a list");
}

static void test_values(void **state)
{
	expect_error("version:", "t.yaml:1:9: error: version has no value");
	expect_error("version: null", "t.yaml:1:10: error: version has no value");
	expect_error("version: \"\"", "t.yaml:1:10: error: version must be a number, not ''");
	expect_error("version: -1", "t.yaml:1:10: error: version must be a number, not '-1'");
	expect_error("version: 18446744073709551616",
		     "t.yaml:1:10: error: version is too large: 18446744073709551616");
	expect_error("version: \"1\\0\"",
		     "t.yaml:1:10: error: NUL characters (\\0) are not supported");
	expect_error("version: 1\nany: 1", "t.yaml:2:6: error: any must be at least 2, not 1");
	expect_error("version: 1\nis_on: True",
		     "t.yaml:2:8: error: is_on must be true or false, not 'True'");
	expect_error("version: 1\ncpu: x", "t.yaml:2:6: error: cpu must be auto or a number");
	expect_error("version: 1\nlog: {slow_io: 2min}",
		     "t.yaml:2:16: error: slow_io must be between 1ms and 1min00s, not 2min");
	expect_error("version: 1\nnamespaces: [{nsid: 1025}]",
		     "t.yaml:2:21: error: nsid must be between 1 and 1024, not 1025");
	expect_error(
		"version: 1\nnamespaces: [{nsid: 99999999999999999999}]",
		"t.yaml:2:21: error: nsid must be between 1 and 1024, not 99999999999999999999");
	expect_error("version: 1\nnamespaces: [{nsid: 1, device: /23456789012345678901}]",
		     "t.yaml:2:32: error: device must have at most 20 characters, not 21");
	expect_error("version: 1\nnamespaces: [{nsid: 1, references: ['']}]",
		     "t.yaml:2:37: error: reference must not be empty");
	expect_error("version: 1\nnamespaces: [{nsid: 1, places: {'': optimized}}]",
		     "t.yaml:2:33: error: portal must not be empty");
	expect_error(
		"version: 1\nnamespaces: [{nsid: 1, places: {a: optimised}}]",
		"t.yaml:2:36: error: state must be one of optimized, non-optimized, inaccessible, not 'optimised' (did you mean 'optimized'?)");
	expect_error("version: 1\nnames: []",
		     "t.yaml:2:8: error: names must have at least 1 entry");
	expect_error("version: 1\nnames: [a, b, c, d]",
		     "t.yaml:2:8: error: names must have at most 3 entries, not 4");
}

static void test_syntax(void **state)
{
	expect_error("", "t.yaml: error: the file is empty");
	assert_int_equal(read_n(NULL, 0), 1);
	expect_error("\n# nothing\n\n", "t.yaml: error: the file is empty");
	expect_error("---\n...\n", "t.yaml: error: the file is empty");
	expect_error("~", "t.yaml: error: the file is empty");
	expect_error("version: 1\n---\nversion: 2\n",
		     "t.yaml:2:1: error: only one document is allowed in a file");
	expect_error("log:\n\tlevel: info\n",
		     "t.yaml:2:1: error: a tab cannot be used for indentation, use spaces");
	expect_error(
		"names: [a\nversion: 3\n",
		"t.yaml:2:8: error: did not find expected ',' or ']' while parsing a flow sequence that starts on line 1");
	expect_error("a: b: c\n",
		     "t.yaml:1:5: error: mapping values are not allowed in this context");
	expect_error(
		"version: \"1\n",
		"t.yaml:2:1: error: found unexpected end of stream while scanning a quoted scalar that starts on line 1");
	expect_error("version: 1\n  is_on: true\n",
		     "t.yaml:2:8: error: mapping values are not allowed in this context");
}

static void test_encoding(void **state)
{
	expect_error("version: 1\nis_on: \xff\n",
		     "t.yaml:2:8: error: not UTF-8 text: invalid leading UTF-8 octet");
	expect_error("version: \xc3\xa9\xc3(\n",
		     "t.yaml:1:12: error: not UTF-8 text: invalid trailing UTF-8 octet");
	expect_error("version: \a\n",
		     "t.yaml:1:10: error: control character U+0007 is not allowed");
	expect_error("version: \xed\xa0\x80\n",
		     "t.yaml:1:10: error: not UTF-8 text: invalid Unicode character");
	assert_int_equal(read_n("\xff\xfev\0e\0r\0", 8), 1); /* UTF-16 */
	assert_int_equal(read_n("\0", 1), 1);
}

/* The caret points at the error, whatever precedes it in the line. */
static void test_carets(void **state)
{
	char text[400];

	expect_errors(
		"version: 1\n\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80: 2\n", 1,
		"t.yaml:2:1: error: unknown key '\\xc3\\xa9\\xe2\\x82\\xac\\xf0\\x9f\\x98\\x80' "
		"in the file\n"
		"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80: 2\n"
		"^~~\n");
	expect_errors("version:\t\t\"x\ty\"\n", 1,
		      "t.yaml:1:11: error: version must be a number, not 'x\\x09y'\n"
		      "version:  \"x y\"\n"
		      "          ^~~~~\n");
	expect_errors("version: \"x\n  y\"\n", 1,
		      "t.yaml:1:10: error: version must be a number, not 'x y'\n"
		      "version: \"x\n"
		      "         ^\n");
	snprintf(text, sizeof(text), "{version: 1, names: [%0100d, %0100d], is_on: maybe}", 0, 0);
	expect_errors(text, 1,
		      "t.yaml:1:234: error: is_on must be true or false, not 'maybe'\n"
		      "...00000000000000000000000000000000000000000000000000], is_on: maybe}\n"
		      "                                                               ^~~~~\n");
}

static void test_extras_are_refused(void **state)
{
	expect_error("version: &a 1",
		     "t.yaml:1:10: error: anchors (&name) are not supported, repeat the text");
	expect_error("version: *a",
		     "t.yaml:1:10: error: aliases (*name) are not supported, repeat the text");
	expect_error("version: !!int 1",
		     "t.yaml:1:10: error: tags (!type) are not supported, leave it out");
	expect_error("version: 1\nlog: *b",
		     "t.yaml:2:6: error: aliases (*name) are not supported, repeat the text");
	expect_error("version: 1\nnames: *b",
		     "t.yaml:2:8: error: aliases (*name) are not supported, repeat the text");
	expect_error("version: 1\n*b : c",
		     "t.yaml:2:1: error: aliases (*name) are not supported, repeat the text");
	assert_int_equal(read_string("a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\n"), 11);
}

static char *repeat(const char *before, const char *unit, unsigned n, const char *after)
{
	size_t n_unit = strlen(unit), at = strlen(before);
	char *text = malloc(at + n_unit * n + strlen(after) + 1);

	strcpy(text, before);
	for (unsigned i = 0; i < n; i++, at += n_unit)
		memcpy(text + at, unit, n_unit);
	strcpy(text + at, after);
	return text;
}

static void test_limits(void **state)
{
	_autofree_ char *deep = repeat("", "[", 33, "");
	_autofree_ char *very_deep = repeat("a: ", "{a: ", 200000, "");
	_autofree_ char *dashes = repeat("", "- ", 500000, "");
	_autofree_ char *many = repeat("names: [", "a,", 100000, "]");
	_autofree_ char *long_text = repeat("version: 1\n", "#comment\n", 130000, "");
	_autofree_ char *unknown = repeat("version: 1\n", "zzzzzz: 1\n", 40000, "");
	_autofree_ char *wide = repeat("version: ", "1", 1000000, "");
	unsigned n_lines = 0;

	expect_error(deep, "t.yaml:1:33: error: nested more than 32 deep");
	assert_int_equal(read_string(very_deep), 1);
	assert_int_equal(read_string(dashes), 1);
	assert_int_equal(read_string(many), 1);
	assert_non_null(strstr(said, "more than 100000 entries in one file"));
	expect_error(long_text, "t.yaml: error: larger than 1 MiB");
	assert_int_equal(read_string(wide), 1);
	assert_true(strlen(said) < 1000);
	assert_int_equal(read_string(unknown), 40000);
	for (const char *p = said; (p = strstr(p, "error: unknown")); p++)
		n_lines++;
	assert_int_equal(n_lines, 50);
	assert_non_null(
		strstr(said, "\nt.yaml: error: more than 50 mistakes, not all are shown\n"));
}

static void test_files(void **state)
{
	char path[] = "/tmp/test_conf.XXXXXX", name[128], wanted[256];
	int fd = mkstemp(path);
	struct conf *conf = NULL;
	size_t n_said;
	FILE *out = open_memstream(&said, &n_said);

	assert_int_equal(write(fd, "version: 7\n", 11), 11);
	close(fd);
	assert_int_equal(conf_read(path, &schema, &top, out, &conf), 0);
	assert_int_equal(conf_n_errors(conf), 0);
	assert_int_equal(top.version, 7);
	conf_error(conf, (struct conf_mark){1, 10, 1}, "%s is odd", "7");
	conf_error(conf, (struct conf_mark){0}, "no line");
	conf_error(conf, (struct conf_mark){99, 99, 99}, "beyond");
	assert_int_equal(conf_n_errors(conf), 3);
	conf_free(conf);
	conf_release(&schema, &top);
	snprintf(wanted, sizeof(wanted),
		 "%1$s:1:10: error: 7 is odd\nversion: 7\n         ^\n%1$s: error: no line\n"
		 "%1$s:99:99: error: beyond\n",
		 path);
	fflush(out);
	assert_string_equal(said, wanted);

	unlink(path);
	assert_int_equal(conf_read(path, &schema, &top, out, &conf), -ENOENT);
	assert_int_equal(conf_n_errors(conf), 1);
	conf_free(conf);
	fflush(out);
	snprintf(name, sizeof(name), "%s: error: cannot read it: No such file or directory\n",
		 path);
	assert_non_null(strstr(said, name));
	assert_int_equal(conf_read("/", &schema, &top, out, &conf), -EISDIR);
	conf_free(conf);
	conf_free(NULL);
	fclose(out);
}

static void test_standard_input(void **state)
{
	struct conf *conf = NULL;
	int pipe_fds[2], saved = dup(STDIN_FILENO);
	FILE *out = fopen("/dev/null", "w");

	assert_int_equal(pipe(pipe_fds), 0);
	assert_int_equal(write(pipe_fds[1], "version: 8\n", 11), 11);
	close(pipe_fds[1]);
	dup2(pipe_fds[0], STDIN_FILENO);
	close(pipe_fds[0]);
	assert_int_equal(conf_read("-", &schema, &top, out, &conf), 0);
	assert_int_equal(top.version, 8);
	conf_free(conf);
	dup2(saved, STDIN_FILENO);
	close(saved);
	fclose(out);
}

/* The last read has found no error: each value is one that its key allows. */
static void expect_legal(void)
{
	const struct space *spaces = top.spaces.items;

	assert_string_equal(said, "");
	assert_in_range(top.log.level, 0, ARRAY_LEN(levels) - 2);
	assert_in_range(top.log.slow_io, NSEC_PER_MSEC, 60 * NSEC_PER_SEC);
	assert_in_range(top.names.n, 0, 3);
	for (size_t i = 0; i < top.spaces.n; i++) {
		assert_in_range(spaces[i].nsid, 1, 1024);
		assert_true(spaces[i].size >= 4096);
		assert_true(!spaces[i].device ||
			    (spaces[i].device[0] == '/' && strlen(spaces[i].device) <= 20));
	}
}

/* Each error has a line that says where. */
static void expect_each_said(unsigned n_errors)
{
	unsigned n = 0;

	for (const char *p = said; (p = strstr(p, ": error: ")); p++)
		n++;
	assert_int_equal(strncmp(said, "t.yaml:", 7), 0);
	assert_int_equal(n, n_errors);
}

/* Mutations of a good file: it is read, or errors are printed. tests/fuzz continues from here. */
static void test_random_damage(void **state)
{
	static const char good[] =
		"version: 1\nlog: {level: warn, slow_io: '2s'}\nnames: [a, \"b\\n\"]\n"
		"namespaces:\n  - {nsid: 1, size: 64MiB, device: /dev/a}\n  - nsid: 2\n"
		"    places:\n      left: optimized\n    references: [x, y]\nkeys: {own: |\n a}\n";
	static const char splices[] = "{}[]:,-?&*!|>'\"%@`#~ \t\n\r\\\0\xff\xc3\xe2\x80\xa8";

	enum {
		ROUNDS = 20000,
	};
	unsigned n_errors, n_legal = 0;

	srandom(1);
	for (unsigned round = 0; round < ROUNDS; round++) {
		char text[sizeof(good)];
		size_t n = 1 + (size_t)random() % (sizeof(good) - 1);

		memcpy(text, good, sizeof(good));
		for (long i = random() % 8; i >= 0; i--)
			text[(size_t)random() % n] =
				splices[(size_t)random() % (sizeof(splices) - 1)];
		n_errors = read_n(text, n);
		n_legal += n_errors == 0;
		if (n_errors)
			expect_each_said(n_errors);
		else
			expect_legal();
	}
	assert_in_range(n_legal, 1, ROUNDS - 1);
}

static void test_did_you_mean(void **state)
{
	static const char *const names[] = {"nsid",	      "size",	"block_size",
					    "allow_any_host", "device", NULL};

	assert_string_equal(conf_did_you_mean("nsidd", names), "nsid");
	assert_string_equal(conf_did_you_mean("NSID", names), "nsid");
	assert_string_equal(conf_did_you_mean("nisd", names), "nsid");
	assert_string_equal(conf_did_you_mean("block-size", names), "block_size");
	assert_string_equal(conf_did_you_mean("blocksize", names), "block_size");
	assert_string_equal(conf_did_you_mean("allow_any_hosts", names), "allow_any_host");
	assert_string_equal(conf_did_you_mean("devcie", names), "device");
	assert_null(conf_did_you_mean("", names));
	assert_null(conf_did_you_mean("ns", names));
	assert_null(conf_did_you_mean("uuid", names));
	assert_null(conf_did_you_mean("portals", names));
	assert_null(conf_did_you_mean("nsid", (const char *const[]){NULL}));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_teardown(f, release)
	const struct CMUnitTest tests[] = {
		TEST(test_all_types),
		TEST(test_defaults),
		TEST(test_json),
		TEST(test_byte_order_mark_and_line_ends),
		TEST(test_all_mistakes_at_once),
		TEST(test_keys),
		TEST(test_kinds),
		TEST(test_values),
		TEST(test_syntax),
		TEST(test_encoding),
		TEST(test_carets),
		TEST(test_extras_are_refused),
		TEST(test_limits),
		TEST(test_files),
		TEST(test_standard_input),
		TEST(test_random_damage),
		TEST(test_did_you_mean),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
