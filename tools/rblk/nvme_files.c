/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See nvme_files.h. Both formats have the same settings under similar names, so one table describes
 * them. The facts are those of nvme-discover(1), nvme-connect-all(1) and libnvme's schema of
 * config.json (versions 2.3 and 1.3).
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/cleanup.h"
#include "base/units.h"
#include "tools/rblk/nvme_files.h"
#include "tools/rblk/target_name.h"
#include "transport/wire/fabrics.h"

enum kind {
	SET_TRANSPORT,
	SET_ADDRESS,
	SET_PORT,
	SET_NQN,
	SET_HOSTNQN,
	SET_HOSTID,
	SET_TEXT,    /* the option .rblk with the same text */
	SET_NUMBER,  /* the same with a number */
	SET_SECONDS, /* the same with a time; -1 is never */
	SET_SECRET,  /* the entry cannot be used without it */
	SET_UNKNOWN, /* rblk has nothing like it: noted, unless it is off */
	SET_FLAG,    /* the same, without a value */
	SET_NOTHING, /* concerns nvme-cli's own work */
	SET_NOTHING_FLAG,
};

static const struct setting {
	const char *name; /* of the option, and with '_' for '-' of the key */
	char letter;
	enum kind kind;
	const char *rblk;
} settings[] = {
	{"transport", 't', SET_TRANSPORT, NULL},
	{"traddr", 'a', SET_ADDRESS, NULL},
	{"trsvcid", 's', SET_PORT, NULL},
	{"nqn", 'n', SET_NQN, NULL},
	{"hostnqn", 'q', SET_HOSTNQN, NULL},
	{"hostid", 'I', SET_HOSTID, NULL},
	{"host-traddr", 'w', SET_TEXT, "--host-address"},
	{"nr-io-queues", 'i', SET_NUMBER, "--queues"},
	{"queue-size", 'Q', SET_NUMBER, "--queue-size"},
	{"keep-alive-tmo", 'k', SET_SECONDS, "--keep-alive"},
	{"reconnect-delay", 'c', SET_SECONDS, "--reconnect-delay"},
	{"ctrl-loss-tmo", 'l', SET_SECONDS, "--ctrl-loss-tmo"},
	{"fast-io-fail-tmo", 'F', SET_SECONDS, "--fast-io-fail-tmo"},
	{"fast_io_fail_tmo", 0, SET_SECONDS, "--fast-io-fail-tmo"},
	{"dhchap-secret", 'S', SET_SECRET, "--dhchap-secret-file"},
	{"dhchap-ctrl-secret", 'C', SET_SECRET, "--dhchap-ctrl-secret-file"},
	{"dhchap-key", 0, SET_SECRET, "--dhchap-secret-file"},
	{"dhchap-ctrl-key", 0, SET_SECRET, "--dhchap-ctrl-secret-file"},
	{"host-iface", 'f', SET_UNKNOWN, NULL},
	{"nr-write-queues", 'W', SET_UNKNOWN, NULL},
	{"nr-poll-queues", 'P', SET_UNKNOWN, NULL},
	{"tos", 'T', SET_UNKNOWN, NULL},
	{"keyring", 0, SET_UNKNOWN, NULL},
	{"tls-key", 0, SET_UNKNOWN, NULL},
	{"tls_key", 0, SET_UNKNOWN, NULL},
	{"tls", 0, SET_FLAG, NULL},
	{"concat", 0, SET_FLAG, NULL},
	{"duplicate-connect", 'D', SET_FLAG, NULL},
	{"disable-sqflow", 'd', SET_FLAG, NULL},
	{"hdr-digest", 'g', SET_FLAG, NULL},
	{"data-digest", 'G', SET_FLAG, NULL},
	{"persistent", 'p', SET_NOTHING_FLAG, NULL},
	{"quiet", 0, SET_NOTHING_FLAG, NULL},
	{"force", 0, SET_NOTHING_FLAG, NULL},
	{"discovery", 0, SET_NOTHING_FLAG, NULL},
	{"raw", 'r', SET_NOTHING, NULL},
	{"device", 0, SET_NOTHING, NULL},
	{"config", 'J', SET_NOTHING, NULL},
	{"output-format", 'o', SET_NOTHING, NULL},
	{"application", 0, SET_NOTHING, NULL},
};

/* A target while its settings are read. */
struct draft {
	struct nvme_entries *entries;
	struct nvme_entry *entry;
	char address[256], port[16], transport[16];
	const char *lacks; /* what rblk cannot do without; NULL: nothing */
};

/* ---- entries ---- */

void nvme_entries_init(struct nvme_entries *entries)
{
	*entries = (struct nvme_entries){.notes = json_object_new_array()};
}

static void release(struct nvme_entry *entry)
{
	for (unsigned i = 0; i < entry->n_words; i++)
		free(entry->words[i]);
	entry->n_words = 0;
}

void nvme_entries_release(struct nvme_entries *entries)
{
	for (unsigned i = 0; i < entries->n; i++)
		release(&entries->list[i]);
	free(entries->list);
	json_object_put(entries->notes);
	*entries = (struct nvme_entries){0};
}

struct nvme_entry *nvme_entries_add(struct nvme_entries *entries, const char *source)
{
	struct nvme_entry *list = realloc(entries->list, (entries->n + 1) * sizeof(*list)), *entry;

	if (!list)
		return NULL;
	entries->list = list;
	entry = &list[entries->n++];
	*entry = (struct nvme_entry){0};
	snprintf(entry->source, sizeof(entry->source), "%s", source);
	return entry;
}

void nvme_entries_note(struct nvme_entries *entries, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	json_object_array_add(entries->notes, json_object_new_string(text));
}

/* ---- settings ---- */

__attribute__((format(printf, 3, 4))) static int fail(struct error *error, const char *source,
						      const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	error_set(error, EXIT_CONFIG, "correct it, or name the target: rblk attach --all ADDRESS",
		  "%.150s: %.300s", source, text);
	return EXIT_CONFIG;
}

static int add_word(struct draft *d, const char *word, struct error *error)
{
	struct nvme_entry *entry = d->entry;

	if (entry->n_words == NVME_WORDS_MAX)
		return fail(error, entry->source, "too many settings");
	entry->words[entry->n_words] = strdup(word);
	if (!entry->words[entry->n_words])
		return fail(error, entry->source, "out of memory");
	entry->n_words++;
	return 0;
}

static int copy_text(char *into, size_t n, const struct setting *s, const char *value,
		     struct draft *d, struct error *error)
{
	if (!*value || strlen(value) >= n)
		return fail(error, d->entry->source, "%s: '%.100s' is not one", s->name, value);
	strcpy(into, value);
	return 0;
}

/* nvme-cli's times are seconds without a unit, and its numbers may be 0 for the default. */
static int set_option(struct draft *d, const struct setting *s, const char *value,
		      struct error *error)
{
	char text[NVME_WORD_MAX];
	uint64_t n = 0;
	bool is_never = s->kind == SET_SECONDS && !strcmp(value, "-1");

	if (s->kind != SET_TEXT && !is_never && units_parse_uint(value, &n) < 0)
		return fail(error, d->entry->source, "%s: '%.100s' is not a number", s->name,
			    value);
	if (s->kind == SET_NUMBER && !n)
		return 0; /* the default */
	if (!*value || strlen(value) >= sizeof(text) - 1)
		return fail(error, d->entry->source, "%s: '%.100s' is not one", s->name, value);
	snprintf(text, sizeof(text), "%s%s", is_never ? "never" : value,
		 s->kind == SET_SECONDS && !is_never ? "s" : "");
	return add_word(d, s->rblk, error) ?: add_word(d, text, error);
}

/* "", "0", "none" and "false" ask for nothing. */
static bool is_off(const char *value)
{
	return !*value || !strcmp(value, "0") || !strcmp(value, "none") || !strcmp(value, "false");
}

/* A flag's value is "true". 0, or an exit code with *error filled. */
static int set(struct draft *d, const struct setting *s, const char *value, struct error *error)
{
	struct nvme_entry *entry = d->entry;

	switch (s->kind) {
	case SET_TRANSPORT:
		return copy_text(d->transport, sizeof(d->transport), s, value, d, error);
	case SET_ADDRESS:
		return copy_text(d->address, sizeof(d->address), s, value, d, error);
	case SET_PORT:
		return copy_text(d->port, sizeof(d->port), s, value, d, error);
	case SET_NQN:
		return copy_text(entry->nqn, sizeof(entry->nqn), s, value, d, error);
	case SET_HOSTNQN:
		return copy_text(entry->hostnqn, sizeof(entry->hostnqn), s, value, d, error);
	case SET_HOSTID:
		return copy_text(entry->hostid, sizeof(entry->hostid), s, value, d, error);
	case SET_TEXT:
	case SET_NUMBER:
	case SET_SECONDS:
		return set_option(d, s, value, error);
	case SET_SECRET:
		if (!is_off(value))
			d->lacks = s->rblk;
		return 0;
	case SET_UNKNOWN:
	case SET_FLAG:
		if (!is_off(value))
			nvme_entries_note(d->entries, "%s: %s is not supported, and ignored",
					  entry->source, s->name);
		return 0;
	case SET_NOTHING:
	case SET_NOTHING_FLAG:
		return 0;
	}
	return 0;
}

static int begin(struct draft *d, struct nvme_entries *entries, const char *source,
		 struct error *error)
{
	*d = (struct draft){.entries = entries, .entry = nvme_entries_add(entries, source)};
	return d->entry ? 0 : fail(error, source, "out of memory");
}

static void drop(struct draft *d)
{
	release(d->entry);
	d->entries->n--;
}

/* Behind the other settings, so that they are in one place of the command line. */
static int add_identity(struct draft *d, struct error *error)
{
	struct nvme_entry *entry = d->entry;
	int r = 0;

	if (*entry->hostnqn)
		r = add_word(d, "--hostnqn", error) ?: add_word(d, entry->hostnqn, error);
	if (!r && *entry->hostid)
		r = add_word(d, "--hostid", error) ?: add_word(d, entry->hostid, error);
	return r;
}

/* Everything of the target was read: what rblk cannot use is left out, with a note. A port of
 * discovery, 8009, is asked as any other. */
static int finish(struct draft *d, struct error *error)
{
	struct nvme_entry *entry = d->entry;
	bool is_v6 = strchr(d->address, ':') != NULL;
	char text[sizeof(d->address) + sizeof(d->port) + 8];
	union addr addr;

	if (!*d->transport)
		return fail(error, entry->source, "there is no transport");
	if (strcmp(d->transport, "rdma") != 0) {
		nvme_entries_note(d->entries, "%s: transport %s is left out: rblk has rdma only",
				  entry->source, d->transport);
		drop(d);
		return 0;
	}
	if (!*d->address)
		return fail(error, entry->source, "there is no traddr");
	if (d->lacks) {
		nvme_entries_note(d->entries, "%s: left out: its secret must be in a file, for %s",
				  entry->source, d->lacks);
		drop(d);
		return 0;
	}
	snprintf(text, sizeof(text), is_v6 ? "[%s]:%s" : "%s:%s", d->address,
		 *d->port ? d->port : "4420");
	if (addr_parse_with_port(text, TARGET_DEFAULT_PORT, &addr) < 0)
		return fail(error, entry->source,
			    "%.100s is not an address with a port (names are not resolved)", text);
	addr_format(entry->target, &addr);
	if (!strcmp(entry->nqn, NVMF_DISCOVERY_NQN))
		entry->nqn[0] = '\0';
	return add_identity(d, error);
}

/* ---- discovery.conf ---- */

static const struct setting *find_long(const char *name, size_t n)
{
	for (unsigned i = 0; i < ARRAY_LEN(settings); i++)
		if (strlen(settings[i].name) == n && !memcmp(settings[i].name, name, n))
			return &settings[i];
	return NULL;
}

static const struct setting *find_letter(char letter)
{
	for (unsigned i = 0; i < ARRAY_LEN(settings); i++)
		if (letter && settings[i].letter == letter)
			return &settings[i];
	return NULL;
}

/* Flags of discovery.conf stand alone; in config.json they are true or false. */
static bool has_value(const struct setting *s)
{
	return s->kind != SET_FLAG && s->kind != SET_NOTHING_FLAG;
}

/* "--name=value", "--name value", "-nvalue", "-n value"; *rest is behind the word. */
static int read_option(struct draft *d, char *word, char **rest, struct error *error)
{
	bool is_long = !strncmp(word, "--", 2);
	size_t n = strcspn(word, "=");
	const struct setting *s = is_long	   ? find_long(word + 2, n - 2)
				  : word[0] == '-' ? find_letter(word[1])
						   : NULL;
	char *value = is_long ? (word[n] ? word + n + 1 : NULL) : (s && word[2] ? word + 2 : NULL);

	if (!s)
		return fail(error, d->entry->source, "'%.100s' is not understood", word);
	if (!has_value(s)) {
		if (value)
			return fail(error, d->entry->source, "%s takes no value", s->name);
		return set(d, s, "true", error);
	}
	while (!value && (value = strsep(rest, " \t")) && !*value)
		value = NULL;
	if (!value)
		return fail(error, d->entry->source, "%s needs a value", s->name);
	if (!is_long && *value == '=')
		value++; /* getopt takes it so, too */
	return set(d, s, value, error);
}

/* Words are split at blanks, without quotes, as nvme-cli does it. */
static int read_line(struct nvme_entries *entries, const char *source, char *line,
		     struct error *error)
{
	struct draft d;
	char *word;
	int r;

	line += strspn(line, " \t");
	line[strcspn(line, "\r\n")] = '\0';
	if (!*line || *line == '#')
		return 0;
	r = begin(&d, entries, source, error);
	while (!r && (word = strsep(&line, " \t")))
		if (*word)
			r = read_option(&d, word, &line, error);
	return r ?: finish(&d, error);
}

int nvme_files_read_discovery(const char *path, struct nvme_entries *entries, struct error *error)
{
	_autofclose_ FILE *f = fopen(path, "re");
	_autofree_ char *line = NULL;
	char source[sizeof(((struct nvme_entry *)0)->source)];
	size_t n = 0;
	int r = 0;

	if (!f)
		return errno == ENOENT ? -ENOENT : fail(error, path, "%s", strerror(errno));
	for (unsigned number = 1; !r && getline(&line, &n, f) >= 0; number++) {
		snprintf(source, sizeof(source), "%.250s:%u", path, number);
		if (strlen(line) > 4096)
			return fail(error, source, "the line is too long");
		r = read_line(entries, source, line, error);
	}
	if (!r && ferror(f))
		return fail(error, path, "%s", strerror(errno));
	return r;
}

/* ---- config.json ---- */

/* Keys of hosts and subsystems that are no settings of a port. */
static bool is_one_of(const char *key, const char *const *names)
{
	for (; *names; names++)
		if (!strcmp(key, *names))
			return true;
	return false;
}

/* The keys of config.json are the options' names with other separators. */
static const struct setting *find_key(const char *key)
{
	char name[64];

	snprintf(name, sizeof(name), "%s", key);
	for (char *at = name; *at; at++)
		if (*at == '_')
			*at = '-';
	return strchr(key, '-') ? NULL : find_long(name, strlen(name));
}

/* Types are checked, because "tos": true would else be taken for a text. */
static int set_key(struct draft *d, const char *key, struct json_object *value, struct error *error)
{
	const struct setting *s = find_key(key);
	bool is_flag = json_object_is_type(value, json_type_boolean);

	if (!s)
		return fail(error, d->entry->source, "the key '%.60s' is not understood", key);
	if (has_value(s) ? is_flag : !is_flag)
		return fail(error, d->entry->source, "%.60s: %s expected", key,
			    has_value(s) ? "a value" : "true or false");
	if (!is_flag && !json_object_is_type(value, json_type_string) &&
	    !json_object_is_type(value, json_type_int))
		return fail(error, d->entry->source, "%.60s: a text or a number expected", key);
	return set(d, s, json_object_get_string(value), error);
}

/* Settings of a host or a subsystem are those of each of its ports. */
static int set_common(struct draft *d, struct json_object *o, const char *const *others,
		      struct error *error)
{
	json_object_object_foreach(o, key, value)
	{
		int r = is_one_of(key, others) ? 0 : set_key(d, key, value, error);

		if (r)
			return r;
	}
	return 0;
}

struct place {
	struct json_object *host, *subsystem, *port;
};

/* A port has the settings of its host and its subsystem, and its own come last and win. */
static int read_port(struct nvme_entries *entries, const char *source, const struct place *place,
		     struct error *error)
{
	static const char *const of_host[] = {"subsystems", "hostsymname",
					      "persistent_discovery_ctrl", NULL};
	static const char *const of_subsystem[] = {"ports", NULL}, *const none[] = {NULL};
	struct draft d;
	struct json_object *discovery = NULL;
	int r = begin(&d, entries, source, error);

	if (!r)
		r = set_common(&d, place->host, of_host, error) ?:
		    set_common(&d, place->subsystem, of_subsystem, error) ?:
		    set_common(&d, place->port, none, error);
	if (r)
		return r;
	if (json_object_object_get_ex(place->port, "discovery", &discovery) &&
	    json_object_get_boolean(discovery))
		d.entry->nqn[0] = '\0';
	else if (!*d.entry->nqn)
		return fail(error, source, "the subsystem has no nqn");
	return finish(&d, error);
}

/* The list under that key, empty if there is none. NULL: it is no list of objects. */
static struct json_object *list_of(struct json_object *o, const char *key, size_t *ret_n)
{
	struct json_object *list = o;

	*ret_n = 0;
	if (key && !json_object_object_get_ex(o, key, &list))
		return o;
	if (!json_object_is_type(list, json_type_array))
		return NULL;
	*ret_n = json_object_array_length(list);
	for (size_t i = 0; i < *ret_n; i++)
		if (!json_object_is_type(json_object_array_get_idx(list, i), json_type_object))
			return NULL;
	return list;
}

static int read_subsystem(struct nvme_entries *entries, const char *source, struct place *place,
			  struct error *error)
{
	char where[sizeof(((struct nvme_entry *)0)->source)];
	size_t n;
	struct json_object *ports = list_of(place->subsystem, "ports", &n);
	int r = ports ? 0 : fail(error, source, "ports: a list of objects expected");

	for (size_t i = 0; !r && i < n; i++) {
		place->port = json_object_array_get_idx(ports, i);
		snprintf(where, sizeof(where), "%.260s, port %zu", source, i + 1);
		r = read_port(entries, where, place, error);
	}
	return r;
}

/* Failures name the place by numbers from 1, because entries of a list have no names. */
static int read_host(struct nvme_entries *entries, const char *source, struct place *place,
		     struct error *error)
{
	char where[sizeof(((struct nvme_entry *)0)->source)];
	size_t n;
	struct json_object *subsystems = list_of(place->host, "subsystems", &n);
	int r = subsystems ? 0 : fail(error, source, "subsystems: a list of objects expected");

	for (size_t i = 0; !r && i < n; i++) {
		place->subsystem = json_object_array_get_idx(subsystems, i);
		snprintf(where, sizeof(where), "%.230s, subsystem %zu", source, i + 1);
		r = read_subsystem(entries, where, place, error);
	}
	return r;
}

/* All of the file: json_object_from_file would accept what is behind the first value. */
static struct json_object *parse_file(FILE *f, const char **ret_why)
{
	struct json_tokener *tokener = json_tokener_new();
	struct json_object *o = NULL;
	_autofree_ char *text = NULL;
	size_t n_room = 0;
	ssize_t n = getdelim(&text, &n_room, '\0', f);

	*ret_why = "out of memory";
	if (tokener && n >= 0 && n < INT32_MAX) {
		json_tokener_set_flags(tokener, JSON_TOKENER_STRICT);
		o = json_tokener_parse_ex(tokener, text, (int)n + 1);
		*ret_why = json_tokener_error_desc(json_tokener_get_error(tokener));
	} else if (n < 0) {
		*ret_why = "it is empty";
	}
	if (tokener)
		json_tokener_free(tokener);
	return o;
}

int nvme_files_read_config(const char *path, struct nvme_entries *entries, struct error *error)
{
	_autofclose_ FILE *f = fopen(path, "re");
	struct json_object *whole, *hosts;
	char where[sizeof(((struct nvme_entry *)0)->source)];
	const char *why;
	size_t n;
	int r;

	if (!f)
		return errno == ENOENT ? -ENOENT : fail(error, path, "%s", strerror(errno));
	whole = parse_file(f, &why);
	if (!whole)
		return fail(error, path, "not JSON: %s", why);
	hosts = list_of(whole, NULL, &n);
	r = hosts ? 0 : fail(error, path, "a list of hosts expected");
	for (size_t i = 0; !r && i < n; i++) {
		struct place place = {.host = json_object_array_get_idx(hosts, i)};

		snprintf(where, sizeof(where), "%.200s, host %zu", path, i + 1);
		r = read_host(entries, where, &place, error);
	}
	json_object_put(whole);
	return r;
}
