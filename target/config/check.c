/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * If two things clash, the message is at the later one in the file and names the line of the
 * earlier one.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>
#include <uuid/uuid.h>

#include "base/conf_guess.h"
#include "base/conf_report.h"
#include "base/cpus.h"
#include "base/bits.h"
#include "base/cleanup.h"
#include "base/units.h"
#include "target/config/check.h"
#include "target/config/config.h"
#include "target/config/store.h"
#include "target/store/backends.h"
#include "target/config/credentials.h"
#include "transport/wire/fabrics.h"
#include "transport/wire/strings.h"

enum {
	RATE_HOLDS_S = 5,
};

/* A namespace seen before, to find stores that are exported twice. */
struct seen {
	const struct config_namespace *ns;
	const struct backend_ops *ops;
	const char *path;
	uint64_t identity[2];
};

struct checker {
	struct target_config *config;
	const char *path; /* of the configuration file, for warnings */
	struct conf *conf;
	FILE *out;
	struct seen *seen; /* owned */
	unsigned n_seen;
	const char **names; /* owned: room for the names of all portals, or all hosts */
};

static bool is_same(const char *a, const char *b)
{
	return a && b && !strcmp(a, b);
}

__attribute__((format(printf, 3, 4))) static void
warn_at(const struct checker *c, struct conf_mark mark, const char *fmt, ...)
{
	va_list ap;

	fprintf(c->out, "%s:%u:%u: warning: ", c->path, mark.line, mark.column);
	va_start(ap, fmt);
	vfprintf(c->out, fmt, ap);
	va_end(ap);
	fputc('\n', c->out);
}

/* ---- portals and hosts ---------------------------------------------------------------------- */

static bool has_address(const struct config_portal *portal)
{
	return portal->addr.sa.sa_family != AF_UNSPEC;
}

static bool covers(const struct config_portal *wide, const struct config_portal *narrow)
{
	return wide->addr.sa.sa_family == narrow->addr.sa.sa_family &&
	       addr_port(&wide->addr) == addr_port(&narrow->addr) && addr_is_wildcard(&wide->addr);
}

static void compare_portals(struct checker *c, const struct config_portal *portal,
			    const struct config_portal *earlier)
{
	char text[ADDR_STRING_MAX];

	if (is_same(portal->name, earlier->name))
		conf_error(c->conf, portal->mark, "portal '%s' is there already, on line %u",
			   portal->name, earlier->mark.line);
	if (!has_address(portal) || !has_address(earlier))
		return;
	if (addr_is_equal(&portal->addr, &earlier->addr))
		conf_error(c->conf, portal->address_mark,
			   "portal '%s' on line %u listens on %s already", earlier->name,
			   earlier->mark.line, addr_format(text, &portal->addr));
	else if (covers(earlier, portal) || covers(portal, earlier))
		conf_error(
			c->conf, portal->address_mark,
			"portals '%s' on line %u and '%s' overlap: one of them listens on all addresses",
			earlier->name, earlier->mark.line, portal->name);
}

static void check_portals(struct checker *c)
{
	struct config_portal *portals = c->config->portals.items;

	for (unsigned i = 0; i < c->config->portals.n; i++) {
		struct config_portal *portal = &portals[i];

		if (portal->address && portal->port &&
		    addr_parse(portal->address, (uint16_t)portal->port, &portal->addr) < 0)
			conf_error(c->conf, portal->address_mark,
				   "address '%s' names no interface of this machine",
				   portal->address);
		else if (has_address(portal) && addr_lacks_scope(&portal->addr))
			conf_error(c->conf, portal->address_mark,
				   "address '%s' is link-local: name its interface, as in %s%%eth0",
				   portal->address, portal->address);
		for (unsigned j = 0; j < i; j++)
			compare_portals(c, portal, &portals[j]);
	}
}

static void compare_hosts(struct checker *c, const struct config_host *host,
			  const struct config_host *earlier)
{
	if (is_same(host->name, earlier->name))
		conf_error(c->conf, host->mark, "host '%s' is there already, on line %u",
			   host->name, earlier->mark.line);
	if (is_same(host->nqn, earlier->nqn))
		conf_error(c->conf, host->nqn_mark, "host '%s' on line %u has this NQN already",
			   earlier->name ? earlier->name : "", earlier->mark.line);
	if (host->hostid && earlier->hostid && !memcmp(host->id, earlier->id, sizeof(host->id)))
		conf_error(c->conf, host->hostid_mark,
			   "host '%s' on line %u has this identifier already",
			   earlier->name ? earlier->name : "", earlier->mark.line);
}

static void check_choices(struct checker *c, const struct conf_list *list)
{
	const struct config_choice *choices = list->items;

	for (unsigned i = 0; i < list->n; i++)
		for (unsigned j = 0; j < i; j++)
			if (choices[i].value == choices[j].value)
				conf_error(c->conf, choices[i].mark, "this is in the list twice");
}

static void check_keys(struct checker *c, const struct config_host *host)
{
	if (!host->key_file && host->ctrl_key_file)
		conf_error(
			c->conf, host->ctrl_key_mark,
			"dhchap_ctrl_key_file needs dhchap_key_file: the host proves itself first");
	if (!host->key_file && (host->hashes.n || host->dhgroups.n))
		conf_error(c->conf, host->mark,
			   "dhchap_hashes and dhchap_dhgroups need dhchap_key_file");
	check_choices(c, &host->hashes);
	check_choices(c, &host->dhgroups);
}

static void check_hosts(struct checker *c)
{
	struct config_host *hosts = c->config->hosts.items;
	struct credentials_list credentials;

	for (unsigned i = 0; i < c->config->hosts.n; i++) {
		if (hosts[i].hostid)
			uuid_parse(hosts[i].hostid, hosts[i].id);
		for (unsigned j = 0; j < i; j++)
			compare_hosts(c, &hosts[i], &hosts[j]);
		check_keys(c, &hosts[i]);
	}
	credentials_load(c->config, c->conf, &credentials);
	credentials_release(&credentials);
}

/* ---- references to names -------------------------------------------------------------------- */

static void report_unknown(struct checker *c, const char *what, const struct config_name *name,
			   unsigned n_names)
{
	const char *guess;

	c->names[n_names] = NULL;
	guess = conf_did_you_mean(name->name, c->names);
	conf_error(c->conf, name->mark, "there is no %s '%s'%s%s%s", what, name->name,
		   guess ? " (did you mean '" : "", guess ? guess : "", guess ? "'?)" : "");
}

static void check_portal_name(struct checker *c, const struct config_name *name)
{
	const struct config_portal *portals = c->config->portals.items;
	unsigned n = 0;

	for (unsigned i = 0; i < c->config->portals.n; i++) {
		if (is_same(portals[i].name, name->name))
			return;
		if (portals[i].name)
			c->names[n++] = portals[i].name;
	}
	report_unknown(c, "portal", name, n);
}

static void check_host_name(struct checker *c, const struct config_name *name)
{
	const struct config_host *hosts = c->config->hosts.items;
	const char *wrong;
	unsigned n = 0;

	if (!strncmp(name->name, "nqn.", 4)) {
		wrong = nqn_check(name->name);
		if (wrong)
			conf_error(c->conf, name->mark, "host's NQN %s", wrong);
		return;
	}
	for (unsigned i = 0; i < c->config->hosts.n; i++) {
		if (is_same(hosts[i].name, name->name))
			return;
		if (hosts[i].name)
			c->names[n++] = hosts[i].name;
	}
	report_unknown(c, "host", name, n);
}

static void check_names(struct checker *c, const struct conf_list *list,
			void (*check_name)(struct checker *c, const struct config_name *name))
{
	const struct config_name *names = list->items;

	for (unsigned i = 0; i < list->n; i++) {
		if (names[i].name)
			check_name(c, &names[i]);
		for (unsigned j = 0; j < i; j++)
			if (is_same(names[i].name, names[j].name))
				conf_error(c->conf, names[i].mark, "'%s' is in this list twice",
					   names[i].name);
	}
}

/* ---- ANA ------------------------------------------------------------------------------------ */

/* Whether that portal reaches the subsystem. */
static bool has_portal(const struct config_subsystem *subsystem, const char *portal)
{
	const struct config_name *names = subsystem->portals.items;

	for (unsigned i = 0; i < subsystem->portals.n; i++)
		if (is_same(names[i].name, portal))
			return true;
	return !subsystem->portals.n;
}

static void check_ana_portals(struct checker *c, const struct config_subsystem *subsystem,
			      const struct config_ana_group *group)
{
	const struct config_ana_portal *portals = group->portals.items;

	for (unsigned i = 0; i < group->portals.n; i++) {
		struct config_name name = {portals[i].portal, portals[i].mark};
		unsigned n_before = conf_n_errors(c->conf);

		if (!name.name)
			continue;
		check_portal_name(c, &name);
		if (conf_n_errors(c->conf) == n_before && !has_portal(subsystem, name.name))
			conf_error(c->conf, name.mark,
				   "the subsystem is not on portal '%s': see its key portals",
				   name.name);
		for (unsigned j = 0; j < i; j++)
			if (is_same(name.name, portals[j].portal))
				conf_error(c->conf, name.mark, "portal '%s' is in this list twice",
					   name.name);
	}
}

static void check_ana_groups(struct checker *c, const struct config_subsystem *subsystem)
{
	const struct config_ana_group *groups = subsystem->ana_groups.items;

	for (unsigned i = 0; i < subsystem->ana_groups.n; i++) {
		for (unsigned j = 0; groups[i].id && j < i; j++)
			if (groups[i].id == groups[j].id)
				conf_error(c->conf, groups[i].mark,
					   "ANA group %" PRIu64 " is there already, on line %u",
					   groups[i].id, groups[j].mark.line);
		check_ana_portals(c, subsystem, &groups[i]);
	}
}

static void check_ana_group(struct checker *c, const struct config_subsystem *subsystem,
			    const struct config_namespace *ns)
{
	const struct config_ana_group *groups = subsystem->ana_groups.items;
	bool is_written = ns->ana_group_mark.line;

	for (unsigned i = 0; i < subsystem->ana_groups.n; i++)
		if (groups[i].id == ns->ana_group || !groups[i].id)
			return; /* a wrong one has a message already */
	if (!ns->ana_group)
		return;
	if (subsystem->ana_groups.n)
		conf_error(c->conf, is_written ? ns->ana_group_mark : ns->mark,
			   "there is no ANA group %" PRIu64 " in this subsystem%s", ns->ana_group,
			   is_written ? "" : ": name one with ana_group");
	else if (is_written)
		conf_error(c->conf, ns->ana_group_mark,
			   "ana_group needs ana_groups in the subsystem");
}

/* Why no other rblkd could stand by for the namespace; NULL: one can. */
static const char *refuse_owner(const struct config_namespace *ns, const struct backend_ops *ops,
				const struct backend_config *backend)
{
	const char *why = ops->refuse_owner ? ops->refuse_owner(backend) : NULL;

	if (!ops->look)
		return "this kind of store has no lock by which another rblkd could know that its I/O is over";
	if (ns->is_shared)
		return "shared: true is for several owners at once";
	if (why)
		return why;
	return ns->is_read_only ? "what is read_only needs no owner" : NULL;
}

static void check_owner(struct checker *c, const struct config_subsystem *subsystem,
			const struct config_namespace *ns)
{
	const struct config_controller_ids *ids = &c->config->controller_ids;
	const struct config_ana_group *group = config_find_group(subsystem, ns->ana_group);
	struct backend_config backend;
	struct conf_mark mark;
	const struct backend_ops *ops = config_backend(ns, &backend, &mark);
	const char *why = refuse_owner(ns, ops, &backend);

	if (!group || group->owner != CONFIG_OWNER_LOCK)
		return;
	if (why)
		conf_error(c->conf, mark, "group %" PRIu64 " has owner: lock, but %s", group->id,
			   why);
	if (!c->config->group_directory && !ops->has_cluster)
		conf_error(c->conf, group->owner_mark,
			   "owner: lock needs a group_directory, which the other rblkd name, too");
	if (ids->min <= 1 && ids->max >= NVMF_CNTLID_MAX)
		conf_error(
			c->conf, group->owner_mark,
			"owner: lock needs controller_ids: a host may have no two controllers of one id");
}

/* ---- namespaces ----------------------------------------------------------------------------- */

static bool check_kind(struct checker *c, const struct config_namespace *ns)
{
	char names[BACKENDS_NAMES_MAX];
	struct backend_config backend;
	struct conf_mark mark;
	unsigned n = 0;

	for (unsigned i = 0; i < N_BACKENDS; i++)
		n += !!ns->stores[i].mark.line;
	if (n != 1)
		conf_error(c->conf, ns->mark, "namespace needs %s %s", n ? "only one of" : "one of",
			   backends_names(names, NULL));
	config_backend(ns, &backend, &mark);
	return n == 1 && (backend.path || config_namespace_bytes(ns));
}

static bool can_create(const struct backend_ops *ops)
{
	return ops->can_create;
}

static bool can_share(const struct backend_ops *ops)
{
	return ops->can_share;
}

static bool is_size(const struct backend_ops *ops)
{
	return ops->key.type == CONF_SIZE;
}

/* The backend of the namespace that is_such accepts, or NULL. */
static const struct backend_ops *named(const struct config_namespace *ns,
				       bool (*is_such)(const struct backend_ops *ops))
{
	for (unsigned i = 0; i < N_BACKENDS; i++)
		if (ns->stores[i].mark.line && is_such(backends[i]))
			return backends[i];
	return NULL;
}

static void refuse_size(struct checker *c, const struct config_namespace *ns)
{
	const struct backend_ops *sized = named(ns, is_size);
	char names[BACKENDS_NAMES_MAX];

	conf_error(c->conf, ns->size_mark, "size is for %s only%s%s%s",
		   backends_names(names, can_create), sized ? "; " : "", sized ? sized->name : "",
		   sized ? " is its size already" : "");
}

static bool check_size(struct checker *c, const struct config_namespace *ns)
{
	unsigned n_before = conf_n_errors(c->conf);
	const struct backend_ops *creator = named(ns, can_create);
	char names[BACKENDS_NAMES_MAX];

	if (ns->shared_mark.line && !named(ns, can_share))
		conf_error(c->conf, ns->shared_mark,
			   "shared is for %s only: nothing locks a device for other machines",
			   backends_names(names, can_share));
	config_check_store_keys(ns, c->conf);
	if (ns->cache_mark.line && named(ns, is_size))
		conf_error(c->conf, ns->cache_mark,
			   "cache is for stores that keep data: nothing makes %s durable",
			   named(ns, is_size)->name);
	if (ns->must_create && !creator)
		conf_error(c->conf, ns->create_mark, "create is for %s only",
			   backends_names(names, can_create));
	if (ns->must_create && creator && !ns->size_mark.line)
		conf_error(c->conf, ns->create_mark, "create needs a size");
	if (ns->must_create && ns->is_read_only)
		conf_error(c->conf, ns->create_mark, "a file that is read_only cannot be created");
	if (ns->size_mark.line && !creator)
		refuse_size(c, ns);
	if (ns->size_mark.line && creator && !ns->create_mark.line)
		conf_error(c->conf, ns->size_mark,
			   "size is for a file that is made (create: true)");
	if (ns->size && ns->block_size && ns->size % ns->block_size)
		conf_error(c->conf, ns->size_mark,
			   "size: %" PRIu64 " bytes is not a multiple of block_size %" PRIu64,
			   ns->size, ns->block_size);
	return conf_n_errors(c->conf) == n_before;
}

/* Several read-only namespaces may share a store, if its backend allows that. */
static void check_twice(struct checker *c, const struct seen *one, struct conf_mark mark)
{
	for (unsigned i = 0; i < c->n_seen; i++) {
		const struct seen *other = &c->seen[i];
		bool is_same_thing = one->identity[0] || one->identity[1]
					     ? !memcmp(one->identity, other->identity,
						       sizeof(one->identity))
					     : is_same(one->path, other->path);

		if (!is_same_thing || (one->ns->is_read_only && other->ns->is_read_only &&
				       one->ops->has_many_readers && other->ops->has_many_readers))
			continue;
		conf_error(c->conf, mark, "%s is exported already, as nsid %" PRIu64 " on line %u",
			   one->path, other->ns->nsid, other->ns->mark.line);
		return;
	}
}

static void check_backend(struct checker *c, const struct config_namespace *ns)
{
	struct seen one = {.ns = ns};
	struct backend_config backend;
	struct conf_mark mark;
	struct error error;

	one.ops = config_backend(ns, &backend, &mark);
	if (!ns->block_size)
		return;
	if (one.ops->check(&backend, one.identity, &error) < 0)
		conf_error(c->conf, mark, "%s", error.message);
	one.path = backend.path;
	if (!one.path)
		return;
	check_twice(c, &one, mark);
	c->seen[c->n_seen++] = one;
}

/* There is only one spelling, except for upper and lower case. */
static bool is_same_id(const char *a, const char *b)
{
	return a && b && !strcasecmp(a, b);
}

/* Compares with earlier namespaces of its subsystem. */
static void check_nsid(struct checker *c, const struct config_subsystem *subsystem,
		       const struct config_namespace *ns)
{
	struct config_namespace *first = subsystem->namespaces.items;

	for (struct config_namespace *earlier = first; ns->nsid && earlier < ns; earlier++)
		if (earlier->nsid == ns->nsid)
			conf_error(c->conf, ns->nsid_mark,
				   "nsid %" PRIu64 " is there already, on line %u", ns->nsid,
				   earlier->nsid_mark.line);
}

static void compare_ids(struct checker *c, const struct config_namespace *ns,
			const struct config_namespace *earlier)
{
	const struct {
		const char *what, *is, *was;
		struct conf_mark mark;
	} ids[] = {
		{"UUID", ns->uuid, earlier->uuid, ns->uuid_mark},
		{"NGUID", ns->nguid, earlier->nguid, ns->nguid_mark},
		{"EUI-64", ns->eui64, earlier->eui64, ns->eui64_mark},
	};

	for (unsigned i = 0; i < ARRAY_LEN(ids); i++)
		if (is_same_id(ids[i].is, ids[i].was))
			conf_error(c->conf, ids[i].mark,
				   "the namespace on line %u has this %s already",
				   earlier->mark.line, ids[i].what);
}

/* Compares with all earlier namespaces of the file; its subsystem is the last so far. */
static void check_ids(struct checker *c, const struct config_namespace *ns)
{
	const struct config_subsystem *subsystem = c->config->subsystems.items;

	for (;; subsystem++) {
		const struct config_namespace *namespaces = subsystem->namespaces.items;

		for (unsigned i = 0; i < subsystem->namespaces.n; i++) {
			if (&namespaces[i] == ns)
				return;
			compare_ids(c, ns, &namespaces[i]);
		}
	}
}

static void check_namespace(struct checker *c, const struct config_subsystem *subsystem,
			    const struct config_namespace *ns)
{
	bool is_kind_right = check_kind(c, ns), is_size_right = check_size(c, ns);

	check_nsid(c, subsystem, ns);
	check_ana_group(c, subsystem, ns);
	check_owner(c, subsystem, ns);
	check_ids(c, ns);
	if (is_kind_right && is_size_right)
		check_backend(c, ns);
}

/* ---- subsystems ----------------------------------------------------------------------------- */

static void check_access(struct checker *c, const struct config_subsystem *subsystem)
{
	if (subsystem->allows_any_host && subsystem->allow_hosts.n)
		conf_error(c->conf, subsystem->allow_any_mark,
			   "allow_any_host makes allow_hosts meaningless; keep one of them");
	if (!subsystem->allows_any_host && !subsystem->allow_hosts.n)
		warn_at(c, subsystem->mark,
			"no host can attach to this subsystem: there is neither allow_hosts nor allow_any_host: true");
}

static void check_subsystem(struct checker *c, const struct config_subsystem *subsystem)
{
	const struct config_subsystem *earlier = c->config->subsystems.items;
	const struct config_namespace *namespaces = subsystem->namespaces.items;

	for (; earlier < subsystem; earlier++)
		if (is_same(subsystem->nqn, earlier->nqn))
			conf_error(c->conf, subsystem->nqn_mark,
				   "subsystem '%s' is there already, on line %u", subsystem->nqn,
				   earlier->nqn_mark.line);
	if (is_same(subsystem->nqn, c->config->discovery.nqn))
		conf_error(c->conf, subsystem->nqn_mark,
			   "this is the name of the discovery service");
	check_names(c, &subsystem->portals, check_portal_name);
	check_names(c, &subsystem->allow_hosts, check_host_name);
	check_access(c, subsystem);
	check_ana_groups(c, subsystem);
	for (unsigned i = 0; i < subsystem->namespaces.n; i++)
		check_namespace(c, subsystem, &namespaces[i]);
}

/* ---- all ------------------------------------------------------------------------------------ */

static void check_buffers(struct checker *c)
{
	const struct config_tuning *t = &c->config->tuning;
	uint64_t n = t->workers ? t->workers : MIN((uint64_t)cpus_usable(), POLLERS_MAX);
	char wanted[UNITS_MAX], transfer[UNITS_MAX];

	if (!t->buffers || !t->max_transfer || t->buffers >= 2 * n * t->max_transfer)
		return;
	conf_error(c->conf, t->buffers_mark,
		   "buffers must be at least %s: two of max_transfer (%s) for each of %" PRIu64
		   " workers",
		   units_format_exact(wanted, 2 * n * t->max_transfer),
		   units_format_exact(transfer, t->max_transfer), n);
}

/* Hosts give up a command after 30 s; a single one should take much less. */
static void check_rate(struct checker *c, const struct config_qos *qos, struct conf_mark mark)
{
	uint64_t rates[] = {qos->read_bandwidth, qos->write_bandwidth};
	uint64_t transfer = c->config->tuning.max_transfer;
	char text[UNITS_MAX], size[UNITS_MAX];

	for (unsigned i = 0; i < ARRAY_LEN(rates); i++)
		if (rates[i] && transfer / rates[i] >= RATE_HOLDS_S)
			warn_at(c, mark,
				"qos: at %s a second a command of %s (max_transfer) takes %" PRIu64
				" s, and hosts give up commands after some 30 s; raise %s_bandwidth, or lower max_transfer",
				units_format_exact(text, rates[i]),
				units_format_exact(size, transfer), transfer / rates[i],
				i ? "write" : "read");
}

static void check_rates(struct checker *c)
{
	const struct config_subsystem *subsystems = c->config->subsystems.items;
	const struct config_host *hosts = c->config->hosts.items;

	for (unsigned i = 0; i < c->config->hosts.n; i++)
		check_rate(c, &hosts[i].qos, hosts[i].mark);
	for (unsigned i = 0; i < c->config->subsystems.n; i++) {
		const struct config_namespace *namespaces = subsystems[i].namespaces.items;

		for (unsigned k = 0; k < subsystems[i].namespaces.n; k++)
			check_rate(c, &namespaces[k].qos, namespaces[k].mark);
	}
}

static void check_controller_ids(struct checker *c)
{
	const struct config_controller_ids *ids = &c->config->controller_ids;

	if (ids->min && ids->max && ids->min > ids->max)
		conf_error(c->conf, ids->max_mark,
			   "controller_ids: max %" PRIu64 " is below min %" PRIu64, ids->max,
			   ids->min);
}

void config_check(struct target_config *config, const char *path, struct conf *conf, FILE *out)
{
	struct checker c = {.config = config, .path = path, .conf = conf, .out = out};
	const struct config_subsystem *subsystems = config->subsystems.items;
	_autofree_ struct seen *seen = NULL;
	_autofree_ const char **names = NULL;
	size_t n_namespaces = 0;

	for (unsigned i = 0; i < config->subsystems.n; i++)
		n_namespaces += subsystems[i].namespaces.n;
	seen = c.seen = calloc(n_namespaces + 1, sizeof(*seen));
	names = c.names = calloc(MAX(config->portals.n, config->hosts.n) + 1, sizeof(*names));
	if (!seen || !names) {
		conf_error(conf, (struct conf_mark){0}, "out of memory");
		return;
	}
	check_buffers(&c);
	check_rates(&c);
	check_controller_ids(&c);
	check_portals(&c);
	check_hosts(&c);
	for (unsigned i = 0; i < config->subsystems.n; i++)
		check_subsystem(&c, &subsystems[i]);
}
