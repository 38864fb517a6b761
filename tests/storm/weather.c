/* SPDX-License-Identifier: BSD-3-Clause */
/* The weather of a storm: an administrator changes the configuration, and the disk hangs for up to
 * 1.5 s. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/bits.h"
#include "base/cleanup.h"
#include "base/rpc.h"
#include "base/rpc_client.h"
#include "tests/storm/storm.h"

enum {
	PATIENCE_MS = 120000,
	STARTING_MIB = 16,
	GROWN_MIB = 48, /* at most */
};

static unsigned disk_mib = STARTING_MIB; /* files do not shrink */
static struct storm_sizes sizes;

struct storm_sizes storm_sizes_of(uint64_t seed)
{
	static const unsigned transfers[] = {8 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB};
	static const unsigned inlines[] = {KIB, 4 * KIB, 16 * KIB}; /* Connect needs 1 KiB */
	static const unsigned depths[] = {64, 128, 1024};
	static const unsigned receives[] = {16, 96, 256}; /* more are registered when needed */
	struct dice dice = dice_of(seed, STREAM_SIZES);

	return (struct storm_sizes){.max_transfer = transfers[seed % ARRAY_LEN(transfers)],
				    .inline_data = inlines[roll(&dice, ARRAY_LEN(inlines))],
				    .queue_depth = depths[roll(&dice, ARRAY_LEN(depths))],
				    .shared_receives = receives[roll(&dice, ARRAY_LEN(receives))],
				    .workers = chance(&dice, 250) ? 1
								  : 2 + (unsigned)roll(&dice, 2)};
}

void set_weather_sizes(const struct storm_sizes *now)
{
	sizes = *now;
}

/* ---- the configuration ---------------------------------------------------------------------- */

static const char *any_rate(struct dice *dice)
{
	static const char *const rates[] = {"",
					    "",
					    "",
					    ", qos: {iops: 2000, burst: 100ms}",
					    ", qos: {write_bandwidth: 4MiB}",
					    ", qos: {iops: 300, read_bandwidth: 8MiB}"};

	return dice ? rates[roll(dice, ARRAY_LEN(rates))] : "";
}

/* Three namespaces are in RAM: daemon_wait_registered expects as many. */
static void write_storm_namespaces(FILE *f, const struct daemon *d, struct dice *dice)
{
	const char *dir = d->folder;
	bool is_there[STORM_NAMESPACES];

	for (unsigned i = 0; i < STORM_NAMESPACES; i++)
		is_there[i] = !dice || i == 2 || chance(dice, 850); /* at least one */
	if (is_there[0])
		fprintf(f, "      - {nsid: 1, ram: 16MiB, block_size: 512, ana_group: 1%s}\n",
			any_rate(dice));
	if (is_there[1])
		fprintf(f,
			"      - {nsid: 2, file: %s/disk, size: %uMiB, create: true, block_size: 4096, ana_group: 7%s}\n",
			dir, disk_mib, any_rate(dice));
	if (is_there[2])
		fprintf(f,
			"      - {nsid: 3, file: %s/fixed, block_size: 512, read_only: true, ana_group: 1}\n",
			dir);
	if (is_there[3])
		fprintf(f, "      - {nsid: 4, ram: 32MiB, block_size: 4096, ana_group: 7%s}\n",
			any_rate(dice));
	if (is_there[4])
		fprintf(f,
			"      - {nsid: 5, file: %s/other, size: 16MiB, create: true, block_size: 512, ana_group: 1%s}\n",
			dir, any_rate(dice));
}

static void write_hosts(FILE *f, struct dice *dice)
{
	fprintf(f, "hosts:\n  - {name: raw, nqn: '%s'}\n", RAW_HOSTNQN);
	for (unsigned i = 0; i < STORM_HOSTS; i++)
		fprintf(f, "  - {name: h%u, nqn: '" STORM_HOSTNQN "'%s}\n", i, i, any_rate(dice));
}

/* dice: NULL for fair weather. */
static void write_config(const struct daemon *d, struct dice *dice)
{
	_autofclose_ FILE *f = NULL;
	char path[128];

	snprintf(path, sizeof(path), "%s/target.yaml", d->folder);
	f = fopen(path, "w");
	assert_non_null(f);
	fprintf(f,
		"version: 1\ncontrol_socket: %s/sock\nstate_directory: %s\n"
		"tuning: {max_transfer: %u, inline_data: %u, queue_depth: %u, shared_receives: %u, workers: %u, buffers: 8MiB}\n"
		"limits: {pending: 64, connect_timeout: 5s, connect_rate: 100000, connect_rate_per_host: 100000}\n"
		"portals:\n  - {name: p, address: 127.0.0.1, port: %u}\n"
		"  - {name: q, address: 127.0.0.1, port: %u}\n",
		d->folder, d->folder, sizes.max_transfer, sizes.inline_data, sizes.queue_depth,
		sizes.shared_receives, sizes.workers, d->port, d->second_port);
	write_hosts(f, dice);
	fprintf(f,
		"subsystems:\n  - nqn: " RAW_SUBNQN "\n    allow_hosts: [raw]\n    namespaces:\n"
		"      - {nsid: 1, ram: 16MiB, block_size: 512}\n"
		"      - {nsid: %u, file: %s/stamps/disk, size: 1MiB, create: true, block_size: 4096%s}\n",
		STAMPS_NSID, d->folder, any_rate(dice));
	fprintf(f,
		"  - nqn: " STORM_SUBNQN "\n    allow_hosts: [h0, h1%s]\n    ana_groups:\n"
		"      - {id: 7, state: non_optimized, portals: [{portal: q, state: optimized}]}\n"
		"      - {id: 1}\n    namespaces:\n",
		dice && chance(dice, 200) ? "" : ", h2");
	write_storm_namespaces(f, d, dice);
}

void write_fair_weather(const struct daemon *d)
{
	char path[128];
	int fd;

	disk_mib = STARTING_MIB;
	snprintf(path, sizeof(path), "%s/fixed", d->folder);
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 1 << 20), 0);
	close(fd);
	snprintf(path, sizeof(path), "%s/stamps", d->folder);
	assert_int_equal(mkdir(path, 0700), 0);
	write_config(d, NULL);
}

/* ---- changes --------------------------------------------------------------------------- */

/* Calls a method and frees params. True: it succeeded. Fails the test where rblkd does not
 * answer. */
static bool ask(const struct daemon *d, const char *method, struct json_object *params)
{
	struct error error = {.code = EXIT_OK};
	struct json_object *result = NULL;
	char path[128];
	int r;

	snprintf(path, sizeof(path), "%s/sock", d->folder);
	r = rpc_call(path, method, params, PATIENCE_MS, &result, &error);
	json_object_put(params);
	json_object_put(result);
	if (r < 0 && r != -EREMOTEIO) {
		daemon_show_log(d);
		fail_msg("rblkd does not answer %s: %s", method, strerror(-r));
	}
	return r == 0;
}

static struct json_object *parse(const char *text)
{
	struct json_object *o = json_tokener_parse(text);

	assert_non_null(o);
	return o;
}

static void hang_disk(const struct daemon *d, struct dice *dice)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%shung", d->folder, chance(dice, 500) ? "" : "stamps/");
	close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	usleep((unsigned)roll(dice, 1500) * 1000);
	unlink(path);
}

/* Mostly for a moment, so that commands get through. */
static void set_ana(const struct daemon *d, struct dice *dice)
{
	unsigned group = chance(dice, 500) ? 1 : 7;
	static const char *const states[] = {"optimized",    "non_optimized",	"optimized",
					     "inaccessible", "persistent_loss", "change"};
	char text[256];

	snprintf(text, sizeof(text),
		 "{\"subsystem\": \"" STORM_SUBNQN "\", \"group\": %u, \"state\": \"%s\"%s}", group,
		 states[roll(dice, 6)], chance(dice, 500) ? "" : ", \"portal\": \"p\"");
	ask(d, "ana_set", parse(text));
	if (chance(dice, 100))
		return;
	usleep((unsigned)roll(dice, 200) * 1000);
	snprintf(text, sizeof(text),
		 "{\"subsystem\": \"" STORM_SUBNQN "\", \"group\": %u, \"state\": \"optimized\"}",
		 group);
	ask(d, "ana_set", parse(text));
}

static void set_rate(const struct daemon *d, struct dice *dice)
{
	static const char *const values[] = {"\"iops\": \"none\"",
					     "\"iops\": \"500\"",
					     "\"write_bandwidth\": \"2MiB\"",
					     "\"write_bandwidth\": \"none\"",
					     "\"read_bandwidth\": \"8MiB\"",
					     "\"read_bandwidth\": \"none\""};
	char text[256];

	snprintf(text, sizeof(text), "{\"name\": \"" STORM_SUBNQN "/%u\", \"qos\": {%s}}",
		 1 + (unsigned)roll(dice, STORM_NAMESPACES), values[roll(dice, 6)]);
	ask(d, "qos_set", parse(text));
}

static void grow(const struct daemon *d, struct dice *dice)
{
	char text[256];

	if (disk_mib >= GROWN_MIB)
		return;
	snprintf(text, sizeof(text),
		 "{\"subsystem\": \"" STORM_SUBNQN "\", \"nsid\": 2, \"size_bytes\": %u}",
		 (disk_mib + 1) << 20);
	disk_mib += ask(d, "ns_resize", parse(text));
}

static void drain(const struct daemon *d, struct dice *dice)
{
	const char *portal = chance(dice, 500) ? "p" : "q";
	char text[64];

	snprintf(text, sizeof(text), "{\"portal\": \"%s\"}", portal);
	ask(d, "drain", parse(text));
	usleep(200000);
	snprintf(text, sizeof(text), "{\"portal\": \"%s\", \"undo\": true}", portal);
	ask(d, "drain", parse(text));
}

static void look(const struct daemon *d, struct dice *dice)
{
	static const char *const methods[] = {"status",	  "list",     "stats",
					      "capsules", "ana_list", "qos_list"};

	ask(d, methods[roll(dice, 6)], NULL);
}

void change_weather(const struct daemon *d, struct dice *dice)
{
	switch (roll(dice, 12)) {
	case 0:
	case 1:
		write_config(d, dice);
		ask(d, "apply", NULL);
		break;
	case 2:
	case 3:
		write_config(d, NULL);
		ask(d, "apply", NULL);
		break;
	case 4:
	case 5:
		hang_disk(d, dice);
		break;
	case 6:
		set_ana(d, dice);
		break;
	case 7:
		set_rate(d, dice);
		break;
	case 8:
		grow(d, dice);
		break;
	case 9:
		drain(d, dice);
		break;
	default:
		look(d, dice);
	}
	usleep((unsigned)roll(dice, 300) * 1000);
}

bool clear_up(const struct daemon *d)
{
	write_config(d, NULL);
	return ask(d, "apply", NULL);
}
