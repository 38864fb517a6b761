/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A new key needs an entry here and a field in config.h. The reader derives the rest: unknown keys,
 * did-you-mean, ranges and duplicates. There is no key without an effect.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>
#include <uuid/uuid.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/conf_schema.h"
#include "base/spin.h"
#include "base/units.h"
#include "target/config/schema.h"
#include "target/config/store.h"
#include "target/config/target_config.h"
#include "target/store/backends.h"
#include "transport/wire/fabrics.h"
#include "transport/wire/auth.h"
#include "transport/wire/strings.h"

enum {
	HOSTS_MAX = 4096,
	SUBSYSTEMS_MAX = 1024,
	NAME_MAX_LENGTH = 64,
	REFERRALS_MAX = 32,
	SOCKET_PATH_MAX = 107,
};

#define AT(type, field)	  .offset = offsetof(struct type, field)
#define MARK(type, field) .mark_offset = offsetof(struct type, field)

/* ---- checks of one value -------------------------------------------------------------------- */

static const char *check_name(const char *s)
{
	static const char legal[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

	if (strspn(s, legal) != strlen(s) || !*s)
		return "must be letters, digits, '.', '_' and '-' only";
	return strncmp(s, "nqn.", 4) ? NULL : "must not begin with 'nqn.'";
}

static const char *check_address(const char *s)
{
	char host[INET6_ADDRSTRLEN + 1];
	struct in6_addr addr;
	size_t n = strcspn(s, "%"); /* fe80::1%eth0 */

	if (n < sizeof(host)) {
		memcpy(host, s, n);
		host[n] = '\0';
		if (inet_pton(AF_INET6, host, &addr) == 1 ||
		    (!s[n] && inet_pton(AF_INET, host, &addr) == 1))
			return NULL;
	}
	return "must be an IPv4 or IPv6 address, such as 192.0.2.1 or 2001:db8::1";
}

static const char *check_uuid(const char *s)
{
	uuid_t uuid;

	if (uuid_parse(s, uuid) < 0)
		return "must be a UUID, such as 0b1e6c5e-5a55-4c0e-9b0c-2f6f4b5d1a10 (uuidgen makes one)";
	return uuid_is_null(uuid) ? "must not be all zeroes" : NULL;
}

static bool is_hex(const char *s, size_t n)
{
	static const char digits[] = "0123456789abcdefABCDEF";

	return strlen(s) == n && strspn(s, digits) == n && strspn(s, "0") != n;
}

static const char *check_nguid(const char *s)
{
	return is_hex(s, 32) ? NULL : "must be 32 hexadecimal digits, not all zero";
}

static const char *check_eui64(const char *s)
{
	return is_hex(s, 16) ? NULL : "must be 16 hexadecimal digits, not all zero";
}

static const char *check_subnqn(const char *s)
{
	if (!strcmp(s, NVMF_DISCOVERY_NQN))
		return "is the discovery service's own, choose another";
	return nqn_check(s);
}

/* No host names: a lookup may return another address tomorrow. */
static const char *check_listen(const char *s)
{
#ifdef HAVE_MICROHTTPD
	union addr addr;

	if (addr_parse_numeric(s, METRICS_PORT, &addr) == 0)
		return NULL;
	return "must be an address with a port, such as 127.0.0.1:9807 or [::1]:9807";
#else
	return "is not available: this rblkd was built without libmicrohttpd";
#endif
}

static const char *parse_version(const char *value, void *field)
{
	uint64_t version;

	if (units_parse_uint(value, &version) < 0 || version != 1)
		return "must be 1, the only format there is";
	memcpy(field, &version, sizeof(version));
	return NULL;
}

static const char *parse_workers(const char *value, void *field)
{
	uint64_t n = 0;

	static_assert(POLLERS_MAX == 8, "said below");
	if (strcmp(value, "auto") && (units_parse_uint(value, &n) < 0 || n < 1 || n > POLLERS_MAX))
		return "must be auto, or a number from 1 to 8";
	memcpy(field, &n, sizeof(n));
	return NULL;
}

static const char *parse_spin(const char *value, void *field)
{
	uint64_t spin;

	if (spin_parse(value, &spin) < 0)
		return "must be auto, always, never, or a time up to 1s";
	memcpy(field, &spin, sizeof(spin));
	return NULL;
}

static const char *parse_max_transfer(const char *value, void *field)
{
	uint64_t n;

	if (units_parse_size(value, &n) < 0 || n < MAX_TRANSFER_MIN || n > MAX_TRANSFER_MAX ||
	    !is_power_of_2(n))
		return "must be a power of 2 from 8KiB to 16MiB";
	memcpy(field, &n, sizeof(n));
	return NULL;
}

static const char *parse_inline_data(const char *value, void *field)
{
	uint64_t n;

	if (units_parse_size(value, &n) < 0 || n > INLINE_DATA_MAX || n % 512)
		return "must be a multiple of 512 from 0 to 16KiB";
	memcpy(field, &n, sizeof(n));
	return NULL;
}

static const char *parse_block_size(const char *value, void *field)
{
	uint64_t n;

	if (units_parse_size(value, &n) < 0 || (n != 512 && n != 4096))
		return "must be 512 or 4096";
	memcpy(field, &n, sizeof(n));
	return NULL;
}

/* ---- rates ---------------------------------------------------------------------------------- */

static const struct conf_key qos_keys[] = {
	{"iops", CONF_UINT, AT(config_qos, iops), .min = 1, .max = 1000000000,
	 .help = "Most operations a second."},
	{"read_bandwidth", CONF_SIZE, AT(config_qos, read_bandwidth), .min = 4096,
	 .max = 1000 * GIB, .help = "Most bytes a second that are read."},
	{"write_bandwidth", CONF_SIZE, AT(config_qos, write_bandwidth), .min = 4096,
	 .max = 1000 * GIB, .help = "Most bytes a second that are written."},
	{"burst", CONF_DURATION, AT(config_qos, burst_ns), .min = NSEC_PER_MSEC,
	 .max = 10 * NSEC_PER_SEC, .default_value = "100ms",
	 .help = "How long an unused rate accumulates, to be used at once later."},
	{0},
};

const struct conf_schema config_qos_schema = {
	.what = "qos",
	.size = sizeof(struct config_qos),
	.keys = qos_keys,
};

/* ---- namespaces ----------------------------------------------------------------------------- */

static const struct conf_key identity_keys[] = {
	{"nsid", CONF_UINT, AT(config_namespace, nsid), MARK(config_namespace, nsid_mark),
	 .is_required = true, .min = 1, .max = NSID_MAX,
	 .help = "Namespace identifier, unique within the subsystem."},
	{"uuid", CONF_STRING, AT(config_namespace, uuid), MARK(config_namespace, uuid_mark),
	 .check = check_uuid,
	 .help = "Identity that hosts see (UUID, NGUID); by default made from NQN and nsid."},
	{"nguid", CONF_STRING, AT(config_namespace, nguid), MARK(config_namespace, nguid_mark),
	 .check = check_nguid, .help = "NGUID that hosts see, if it is not to be the UUID."},
	{"eui64", CONF_STRING, AT(config_namespace, eui64), MARK(config_namespace, eui64_mark),
	 .check = check_eui64, .help = "EUI-64 that hosts see; none without this key."},
};

/* By enum config_cache. */
static const char *const cache_names[] = {"auto", "write-back", "write-through", NULL};

/* The keys of the stores are between these two (store.c). */
static const struct conf_key option_keys[] = {
	{"size", CONF_SIZE, AT(config_namespace, size), MARK(config_namespace, size_mark),
	 .min = 4096, .max = 1ULL << 60, .help = "Size of a file that create makes."},
	{"create", CONF_BOOL, AT(config_namespace, must_create),
	 MARK(config_namespace, create_mark), .default_value = "false",
	 .help = "Makes the file, sparse, when it is not there."},
	{"block_size", CONF_CUSTOM, AT(config_namespace, block_size), .default_value = "512",
	 .parse = parse_block_size, .help = "Logical block size: 512 or 4096."},
	{"read_only", CONF_BOOL, AT(config_namespace, is_read_only), .default_value = "false",
	 .help = "Refuses writes."},
	{"cache", CONF_ENUM, AT(config_namespace, cache), MARK(config_namespace, cache_mark),
	 .names = cache_names, .default_value = "auto",
	 .help = "write-through: each write is durable before it is answered, and hosts see no cache."},
	{"qos", CONF_STRUCT, AT(config_namespace, qos), .schema = &config_qos_schema,
	 .help = "Rates of the namespace, for all hosts together."},
	{"shared", CONF_BOOL, AT(config_namespace, is_shared), MARK(config_namespace, shared_mark),
	 .default_value = "false",
	 .help = "Others own the file, too, with reservations of their own: nothing proves resets."},
	{"ana_group", CONF_UINT, AT(config_namespace, ana_group),
	 MARK(config_namespace, ana_group_mark), .min = 1, .max = ANA_GROUP_ID_MAX,
	 .default_value = "1", .help = "The ANA group it belongs to."},
	{0},
};

/* Filled before main, then constant. */
static struct conf_key
	namespace_keys[ARRAY_LEN(identity_keys) + CONFIG_STORE_KEYS_MAX + ARRAY_LEN(option_keys)];

__attribute__((constructor)) static void add_store_keys(void)
{
	struct conf_key *keys = namespace_keys + ARRAY_LEN(identity_keys);

	memcpy(namespace_keys, identity_keys, sizeof(identity_keys));
	memcpy(keys + config_store_keys(keys), option_keys, sizeof(option_keys));
	for (const struct conf_key *key = namespace_keys; key->name; key++)
		for (const struct conf_key *other = namespace_keys; other < key; other++)
			check(strcmp(key->name, other->name)); /* two backends have it */
}

static const struct conf_schema namespace_schema = {
	.what = "namespace",
	.size = sizeof(struct config_namespace),
	MARK(config_namespace, mark),
	.keys = namespace_keys,
};

/* ---- subsystems ----------------------------------------------------------------------------- */

static const struct conf_key name_keys[] = {
	{"", CONF_STRING, AT(config_name, name), MARK(config_name, mark), .min = 1},
	{0},
};

static const struct conf_schema portal_name_schema = {
	.what = "portal",
	.size = sizeof(struct config_name),
	MARK(config_name, mark),
	.keys = name_keys,
};

static const struct conf_schema host_name_schema = {
	.what = "host",
	.size = sizeof(struct config_name),
	MARK(config_name, mark),
	.keys = name_keys,
};

const char *const config_ana_states[] = {"optimized",	    "non_optimized", "inaccessible",
					 "persistent_loss", "change",	     NULL};

static const struct conf_key ana_portal_keys[] = {
	{"portal", CONF_STRING, AT(config_ana_portal, portal), .is_required = true, .min = 1,
	 .help = "Name of a portal of the subsystem."},
	{"state", CONF_ENUM, AT(config_ana_portal, state), .is_required = true,
	 .names = config_ana_states, .help = "State through this portal."},
	{0},
};

static const struct conf_schema ana_portal_schema = {
	.what = "portal of an ANA group",
	.size = sizeof(struct config_ana_portal),
	MARK(config_ana_portal, mark),
	.keys = ana_portal_keys,
};

static const char *const owner_names[] = {
	[CONFIG_OWNER_THIS] = "this", [CONFIG_OWNER_LOCK] = "lock", NULL};

static const struct conf_key ana_group_keys[] = {
	{"id", CONF_UINT, AT(config_ana_group, id), .is_required = true, .min = 1,
	 .max = ANA_GROUP_ID_MAX, .help = "By which namespaces refer to it."},
	{"state", CONF_ENUM, AT(config_ana_group, state), .names = config_ana_states,
	 .default_value = "optimized",
	 .help = "optimized, non_optimized, inaccessible, persistent_loss or change."},
	{"owner", CONF_ENUM, AT(config_ana_group, owner), MARK(config_ana_group, owner_mark),
	 .names = owner_names, .default_value = "this",
	 .help = "lock: the rblkd that has the locks of its stores; others stand by."},
	{"lease", CONF_DURATION, AT(config_ana_group, lease_ns), .min = 2 * NSEC_PER_SEC,
	 .max = 60 * NSEC_PER_SEC, .default_value = "5s",
	 .help = "With images: silence of the owner after which another one fences it."},
	{"portals", CONF_LIST, AT(config_ana_group, portals), .max = PORTALS_MAX,
	 .schema = &ana_portal_schema, .help = "Portals through which the state is another one."},
	{0},
};

static const struct conf_schema ana_group_schema = {
	.what = "ANA group",
	.size = sizeof(struct config_ana_group),
	MARK(config_ana_group, mark),
	.keys = ana_group_keys,
};

static const struct conf_key subsystem_keys[] = {
	{"nqn", CONF_STRING, AT(config_subsystem, nqn), MARK(config_subsystem, nqn_mark),
	 .is_required = true, .check = check_subnqn,
	 .help = "NVMe qualified name, by which hosts attach."},
	{"serial", CONF_STRING, AT(config_subsystem, serial), .min = 1, .max = 20,
	 .check = conf_check_ascii, .help = "Serial number; by default made from the NQN."},
	{"model", CONF_STRING, AT(config_subsystem, model), .min = 1, .max = 40,
	 .check = conf_check_ascii, .default_value = "rblk", .help = "Model that hosts see."},
	{"portals", CONF_LIST, AT(config_subsystem, portals), .max = PORTALS_MAX,
	 .schema = &portal_name_schema,
	 .help = "Names of the portals it is reached through; all without this key."},
	{"allow_hosts", CONF_LIST, AT(config_subsystem, allow_hosts), .max = HOSTS_MAX,
	 .schema = &host_name_schema,
	 .help = "Names (from hosts) or NQNs of the hosts that may attach."},
	{"allow_any_host", CONF_BOOL, AT(config_subsystem, allows_any_host),
	 MARK(config_subsystem, allow_any_mark), .default_value = "false",
	 .help = "Lets every host attach that can reach a portal."},
	{"ana_groups", CONF_LIST, AT(config_subsystem, ana_groups), .max = ANA_GROUPS_MAX,
	 .schema = &ana_group_schema,
	 .help = "Groups of namespaces whose paths differ (ANA); none without this key."},
	{"namespaces", CONF_LIST, AT(config_subsystem, namespaces), .max = NSID_MAX,
	 .schema = &namespace_schema, .help = "Disks that the subsystem offers."},
	{0},
};

static const struct conf_schema subsystem_schema = {
	.what = "subsystem",
	.size = sizeof(struct config_subsystem),
	MARK(config_subsystem, mark),
	.keys = subsystem_keys,
};

/* ---- portals, hosts ------------------------------------------------------------------------- */

static const struct conf_key portal_keys[] = {
	{"name", CONF_STRING, AT(config_portal, name), .is_required = true, .max = NAME_MAX_LENGTH,
	 .check = check_name, .help = "Used within this file."},
	{"address", CONF_STRING, AT(config_portal, address), MARK(config_portal, address_mark),
	 .is_required = true, .check = check_address,
	 .help = "Address of an RDMA interface; 0.0.0.0 or :: means all."},
	{"port", CONF_UINT, AT(config_portal, port), .min = 1, .max = UINT16_MAX,
	 .default_value = "4420", .help = "Port."},
	{0},
};

static const struct conf_schema portal_schema = {
	.what = "portal",
	.size = sizeof(struct config_portal),
	MARK(config_portal, mark),
	.keys = portal_keys,
};

static const char *const hash_names[] = {
	[NVMF_HASH_SHA256 - 1] = "sha256",
	[NVMF_HASH_SHA384 - 1] = "sha384",
	[NVMF_HASH_SHA512 - 1] = "sha512",
	NULL,
};

static const char *const dhgroup_names[] = {
	[NVMF_DH_NULL] = "none", /* unquoted, YAML reads null as no value */
	[NVMF_DH_2048] = "ffdhe2048", [NVMF_DH_3072] = "ffdhe3072", [NVMF_DH_4096] = "ffdhe4096",
	[NVMF_DH_6144] = "ffdhe6144", [NVMF_DH_8192] = "ffdhe8192", NULL,
};

static const struct conf_key hash_keys[] = {
	{"", CONF_ENUM, AT(config_choice, value), MARK(config_choice, mark), .names = hash_names},
	{0},
};

static const struct conf_key dhgroup_keys[] = {
	{"", CONF_ENUM, AT(config_choice, value), MARK(config_choice, mark),
	 .names = dhgroup_names},
	{0},
};

static const struct conf_schema hash_schema = {
	.what = "hash",
	.size = sizeof(struct config_choice),
	MARK(config_choice, mark),
	.keys = hash_keys,
};

static const struct conf_schema dhgroup_schema = {
	.what = "Diffie-Hellman group",
	.size = sizeof(struct config_choice),
	MARK(config_choice, mark),
	.keys = dhgroup_keys,
};

static const struct conf_key host_keys[] = {
	{"name", CONF_STRING, AT(config_host, name), .is_required = true, .max = NAME_MAX_LENGTH,
	 .check = check_name, .help = "Used within this file."},
	{"nqn", CONF_STRING, AT(config_host, nqn), MARK(config_host, nqn_mark), .is_required = true,
	 .check = nqn_check, .help = "The host's NQN, as in its /etc/nvme/hostnqn."},
	{"hostid", CONF_STRING, AT(config_host, hostid), MARK(config_host, hostid_mark),
	 .check = check_uuid,
	 .help = "The host's identifier, as in its /etc/nvme/hostid: no other host gets in with it."},
	{"dhchap_key_file", CONF_STRING, AT(config_host, key_file), MARK(config_host, key_mark),
	 .max = PATH_MAX - 1, .check = conf_check_path,
	 .help = "File with the secret that the host must prove to have (DH-HMAC-CHAP)."},
	{"dhchap_ctrl_key_file", CONF_STRING, AT(config_host, ctrl_key_file),
	 MARK(config_host, ctrl_key_mark), .max = PATH_MAX - 1, .check = conf_check_path,
	 .help = "File with the secret by which rblkd proves itself to the host."},
	{"dhchap_hashes", CONF_LIST, AT(config_host, hashes), .max = NVMF_HASHES - 1,
	 .schema = &hash_schema,
	 .help = "sha256, sha384, sha512: the first that the host offers is used."},
	{"dhchap_dhgroups", CONF_LIST, AT(config_host, dhgroups), .max = NVMF_DH_GROUPS,
	 .schema = &dhgroup_schema,
	 .help = "none, ffdhe2048, ffdhe3072, ffdhe4096, ffdhe6144, ffdhe8192: likewise."},
	{"qos", CONF_STRUCT, AT(config_host, qos), .schema = &config_qos_schema,
	 .help = "Rates of the host, for all namespaces together."},
	{0},
};

static const struct conf_schema host_schema = {
	.what = "host",
	.size = sizeof(struct config_host),
	MARK(config_host, mark),
	.keys = host_keys,
};

/* ---- discovery ------------------------------------------------------------------------------ */

static const struct conf_key referral_keys[] = {
	{"address", CONF_STRING, AT(config_referral, address), MARK(config_referral, address_mark),
	 .is_required = true, .check = check_address,
	 .help = "Address of another discovery service."},
	{"port", CONF_UINT, AT(config_referral, port), .min = 1, .max = UINT16_MAX,
	 .default_value = "4420", .help = "Its port."},
	{"nqn", CONF_STRING, AT(config_referral, nqn), .check = nqn_check,
	 .default_value = NVMF_DISCOVERY_NQN, .help = "Its NQN."},
	{0},
};

static const struct conf_schema referral_schema = {
	.what = "referral",
	.size = sizeof(struct config_referral),
	MARK(config_referral, mark),
	.keys = referral_keys,
};

static const struct conf_key discovery_keys[] = {
	{"nqn", CONF_STRING, AT(config_discovery, nqn), .check = check_subnqn,
	 .help = "A name of its own for the discovery service, beside the well-known one."},
	{"referrals", CONF_LIST, AT(config_discovery, referrals), .max = REFERRALS_MAX,
	 .schema = &referral_schema, .help = "Other discovery services that hosts shall ask, too."},
	{0},
};

static const struct conf_schema discovery_schema = {
	.what = "discovery",
	.size = sizeof(struct config_discovery),
	.keys = discovery_keys,
};

/* ---- controller ids ------------------------------------------------------------------------- */

static const struct conf_key controller_ids_keys[] = {
	{"min", CONF_UINT, AT(config_controller_ids, min), .min = 1, .max = NVMF_CNTLID_MAX,
	 .default_value = "1", .help = "The first."},
	{"max", CONF_UINT, AT(config_controller_ids, max), MARK(config_controller_ids, max_mark),
	 .min = 1, .max = NVMF_CNTLID_MAX, .default_value = "65519", .help = "The last."},
	{0},
};

static const struct conf_schema controller_ids_schema = {
	.what = "controller_ids",
	.size = sizeof(struct config_controller_ids),
	.keys = controller_ids_keys,
};

/* ---- log, tuning, limits -------------------------------------------------------------------- */

static const char *const log_levels[] = {
	[LOG_ERR] = "error",
	[LOG_WARN] = "warning",
	[LOG_INFO] = "info",
	[LOG_DEBUG] = "debug",
	NULL,
};

/* The level is in struct target_config itself. */
static const struct conf_key log_keys[] = {
	{"level", CONF_ENUM, .offset = 0, .names = log_levels, .default_value = "info",
	 .help = "error, warning, info or debug."},
	{0},
};

static const struct conf_schema log_schema = {
	.what = "log",
	.size = sizeof(unsigned),
	.keys = log_keys,
};

static const struct conf_key tuning_keys[] = {
	{"workers", CONF_CUSTOM, AT(config_tuning, workers), .default_value = "auto",
	 .parse = parse_workers,
	 .help = "Threads that move data: auto (one a CPU, at most 8) or a number."},
	{"spin", CONF_CUSTOM, AT(config_tuning, spin), .default_value = "auto", .parse = parse_spin,
	 .format = spin_format,
	 .help = "How long a thread without work polls before it sleeps: auto, always, never, or a time."},
	{"queue_depth", CONF_UINT, AT(config_tuning, queue_depth), .min = 16,
	 .max = QUEUE_DEPTH_MAX, .default_value = "128",
	 .help = "Most commands a host may have in a queue."},
	{"inline_data", CONF_CUSTOM, AT(config_tuning, inline_data), .default_value = "4KiB",
	 .parse = parse_inline_data, .help = "Largest write whose data comes with the command."},
	{"max_transfer", CONF_CUSTOM, AT(config_tuning, max_transfer), .default_value = "1MiB",
	 .parse = parse_max_transfer, .help = "Most data of one command, a power of 2."},
	{"buffers", CONF_SIZE, AT(config_tuning, buffers), MARK(config_tuning, buffers_mark),
	 .min = 1 * MIB, .max = 1024 * GIB, .default_value = "64MiB",
	 .help = "Registered memory for data in flight, of all workers together."},
	{"shared_receives", CONF_UINT, AT(config_tuning, shared_receives), .min = 16, .max = 32768,
	 .default_value = "8192",
	 .help = "Commands a worker can receive at once, of all connections, at most."},
	{"io_queues", CONF_UINT, AT(config_tuning, io_queues), .min = 1, .max = 1024,
	 .default_value = "64", .help = "Most I/O queues of one controller."},
	{0},
};

static const struct conf_schema tuning_schema = {
	.what = "tuning",
	.size = sizeof(struct config_tuning),
	.keys = tuning_keys,
};

static const struct conf_key limits_keys[] = {
	{"connections", CONF_UINT, AT(config_limits, connections), .min = 1, .max = 65535,
	 .default_value = "1024", .help = "Most queue pairs in all."},
	{"connections_per_host", CONF_UINT, AT(config_limits, connections_per_host), .min = 2,
	 .max = 65535, .default_value = "512", .help = "Most queue pairs of one host."},
	{"connections_per_address", CONF_UINT, AT(config_limits, connections_per_address), .min = 1,
	 .max = 65535, .help = "Most queue pairs from one address, of whatever hosts."},
	{"controllers_per_host", CONF_UINT, AT(config_limits, controllers_per_host), .min = 1,
	 .max = 65535, .default_value = "128", .help = "Most associations of one host."},
	{"discovery", CONF_UINT, AT(config_limits, discovery), .min = 1, .max = 65535,
	 .default_value = "256",
	 .help = "Most discovery associations; never more than half of limits.connections."},
	{"discovery_per_address", CONF_UINT, AT(config_limits, discovery_per_address), .min = 1,
	 .max = 65535, .default_value = "64", .help = "The same from one address."},
	{"discovery_timeout", CONF_DURATION, AT(config_limits, discovery_timeout_ns),
	 .min = 100 * NSEC_PER_MSEC, .max = 3600 * NSEC_PER_SEC, .default_value = "120s",
	 .help = "How long a discovery association without keep alive may last."},
	{"buffers_per_host", CONF_UINT, AT(config_limits, buffers_per_host), .min = 1, .max = 100,
	 .default_value = "80",
	 .help = "Most of a worker's tuning.buffers that one host may have, in percent of what is free and its own."},
	{"bytes_per_host", CONF_SIZE, AT(config_limits, bytes_per_host), .min = 64 * KIB,
	 .max = 1024 * GIB, .help = "Most bytes of buffers that one host may hold."},
	{"io_queues_per_host", CONF_UINT, AT(config_limits, io_queues_per_host), .min = 1,
	 .max = 65535, .default_value = "384", .help = "Most I/O queues of one host."},
	{"connect_rate", CONF_UINT, AT(config_limits, connect_rate), .min = 1, .max = 1000000,
	 .default_value = "200",
	 .help = "New connections a second in the long run; a burst of limits.connections passes."},
	{"connect_rate_per_host", CONF_UINT, AT(config_limits, connect_rate_per_host), .min = 1,
	 .max = 1000000, .default_value = "100",
	 .help = "The same from one address; a burst of half of limits.connections passes."},
	{"pending", CONF_UINT, AT(config_limits, pending), .min = 1, .max = 65535,
	 .default_value = "256",
	 .help = "Most connections that have not sent Connect yet, or not proven their host (hosts with a key)."},
	{"pending_per_host", CONF_UINT, AT(config_limits, pending_per_host), .min = 1, .max = 65535,
	 .default_value = "72", .help = "The same from one address."},
	{"connect_timeout", CONF_DURATION, AT(config_limits, connect_timeout_ns),
	 .min = 100 * NSEC_PER_MSEC, .max = 300 * NSEC_PER_SEC, .default_value = "5s",
	 .help = "How long a connection may take to say it."},
	{"auth_timeout", CONF_DURATION, AT(config_limits, auth_timeout_ns),
	 .min = 100 * NSEC_PER_MSEC, .max = 300 * NSEC_PER_SEC, .default_value = "10s",
	 .help = "How long a connection may take to prove it (hosts with a key)."},
	{0},
};

static const struct conf_schema limits_schema = {
	.what = "limits",
	.size = sizeof(struct config_limits),
	.keys = limits_keys,
};

static const struct conf_key fencing_keys[] = {
	{"quiesce", CONF_DURATION, AT(config_fencing, quiesce_ns), .min = 2 * NSEC_PER_SEC,
	 .max = 65 * NSEC_PER_SEC, .default_value = "10s",
	 .help = "How long writes of an association that has ended may still take (CQT)."},
	{0},
};

static const struct conf_schema fencing_schema = {
	.what = "fencing",
	.size = sizeof(struct config_fencing),
	.keys = fencing_keys,
};

static const struct conf_key metrics_keys[] = {
	{"listen", CONF_STRING, AT(config_metrics, listen), .max = 63, .check = check_listen,
	 .help = "Where Prometheus finds /metrics over HTTP."},
	{0},
};

static const struct conf_schema metrics_schema = {
	.what = "metrics",
	.size = sizeof(struct config_metrics),
	.keys = metrics_keys,
};

/* ---- the file ------------------------------------------------------------------------------- */

static const struct conf_key keys[] = {
	{"version", CONF_CUSTOM, AT(target_config, version), .is_required = true,
	 .parse = parse_version, .help = "Format of this file: 1."},
	{"log", CONF_STRUCT, AT(target_config, log_level), .schema = &log_schema,
	 .help = "Which records are logged."},
	{"slow_io", CONF_DURATION, AT(target_config, slow_io_ns), .max = 60 * NSEC_PER_SEC,
	 .default_value = "0s", .help = "Commands that take as long are logged; 0s: none."},
	{"fabric", CONF_STRING, AT(target_config, fabric), .min = 1, .max = 63, .check = check_name,
	 .default_value = "auto",
	 .help = "auto: RDMA devices if there are any, else soft; soft: the software provider; soft-roce: with other hosts too; or the name of a device."},
	{"control_socket", CONF_STRING, AT(target_config, control_socket), .max = SOCKET_PATH_MAX,
	 .check = conf_check_path,
	 .help = "Where rblkctl finds rblkd; by default rblkd.sock in the run directory."},
	{"state_directory", CONF_STRING, AT(target_config, state_directory),
	 MARK(target_config, state_mark), .max = PATH_MAX - 64, .check = conf_check_path,
	 .help = "Where reservations, write protection and uncorrectable blocks are kept over a restart; by default the one systemd gives, or none."},
	{"group_directory", CONF_STRING, AT(target_config, group_directory),
	 MARK(target_config, group_directory_mark), .max = PATH_MAX - 64, .check = conf_check_path,
	 .help = "The same of groups with owner: lock; all rblkd that stand by for each other name one."},
	{"tuning", CONF_STRUCT, AT(target_config, tuning), .schema = &tuning_schema,
	 .help = "Speed and memory."},
	{"limits", CONF_STRUCT, AT(target_config, limits), .schema = &limits_schema,
	 .help = "The most that hosts may use."},
	{"metrics", CONF_STRUCT, AT(target_config, metrics), .schema = &metrics_schema,
	 .help = "An endpoint for Prometheus."},
	{"portals", CONF_LIST, AT(target_config, portals), .is_required = true, .min = 1,
	 .max = PORTALS_MAX, .schema = &portal_schema, .help = "Where hosts reach us."},
	{"hosts", CONF_LIST, AT(target_config, hosts), .max = HOSTS_MAX, .schema = &host_schema,
	 .help = "Names for hosts."},
	{"discovery", CONF_STRUCT, AT(target_config, discovery), .schema = &discovery_schema,
	 .help = "The discovery service, besides the subsystems."},
	{"controller_ids", CONF_STRUCT, AT(target_config, controller_ids),
	 .schema = &controller_ids_schema,
	 .help = "Ids that associations get; apart for targets that export the same."},
	{"fencing", CONF_STRUCT, AT(target_config, fencing), .schema = &fencing_schema,
	 .help = "How old writes of a host are kept from landing after newer ones."},
	{"subsystems", CONF_LIST, AT(target_config, subsystems), .max = SUBSYSTEMS_MAX,
	 .schema = &subsystem_schema,
	 .help = "Subsystems: which disks are exported, and to which hosts."},
	{0},
};

const struct conf_schema config_schema = {
	.what = "configuration",
	.size = sizeof(struct target_config),
	.keys = keys,
};
