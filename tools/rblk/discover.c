/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rblk discover: the discovery log page of a target (NVMe-oF 5.2), as a table or JSON. The target
 * lists only subsystems that this host may use, so --hostnqn changes the result.
 */
#include <stdio.h>
#include <string.h>

#include "base/fd_limit.h"
#include "base/bits.h"
#include "base/units.h"
#include "initiator/control/discover.h"
#include "initiator/control/host_identity.h"
#include "tools/rblk/arguments.h"
#include "tools/rblk/commands.h"
#include "tools/rblk/report.h"
#include "tools/rblk/target_name.h"
#include "tools/shared/table.h"
#include "transport/fabric.h"

static const char program[] = "rblk discover";

enum {
	SUBTYPE_REFERRAL = 1,
	SUBTYPE_SUBSYSTEM = 2,
};

/* NVMe-oF 1.1, SUBTYPE: 3 is the current discovery subsystem itself. */
static const char *type_name(const struct discover_record *record)
{
	return record->subtype == SUBTYPE_REFERRAL    ? "referral"
	       : record->subtype == SUBTYPE_SUBSYSTEM ? "subsystem"
						      : "discovery";
}

/* NVMe-oF 1.1, TRTYPE. A log may list subsystems that rblk cannot attach; they are shown, too. */
static const char *transport_name(const struct discover_record *record)
{
	static const char *const names[] = {[1] = "rdma", [2] = "fc", [3] = "tcp"};

	return record->transport < ARRAY_LEN(names) && names[record->transport]
		       ? names[record->transport]
		       : "other";
}

/* As `rblk attach` takes it: an IPv6 address needs its brackets before a port. */
static const char *format_address(char *buf, size_t n, const struct discover_record *record)
{
	bool is_v6 = record->address_family == 2;

	snprintf(buf, n, "%s%s%s:%s", is_v6 ? "[" : "", record->traddr, is_v6 ? "]" : "",
		 record->trsvcid);
	return buf;
}

/* The name is what attach takes, so a pipe has it whole; a terminal cuts its beginning. */
static int print_table(const struct discover_result *result)
{
	static const char *const titles[] = {"~SUBSYSTEM", "~ADDRESS", "TRANSPORT", "TYPE", NULL};
	struct table table;
	char address[512];

	table_begin(&table, titles);
	for (unsigned i = 0; i < result->n_records; i++) {
		const struct discover_record *record = &result->records[i];

		table_add(&table, record->subnqn);
		table_add(&table, format_address(address, sizeof(address), record));
		table_add(&table, transport_name(record));
		table_add(&table, type_name(record));
	}
	table_end(&table);
	return EXIT_OK;
}

/* A service id of RDMA is a port number (NVMe-oF, TRSVCID); anything else stays a text. */
static struct json_object *port_of(const struct discover_record *record)
{
	uint64_t port;

	if (units_parse_uint(record->trsvcid, &port) < 0)
		return json_object_new_string(record->trsvcid);
	return json_object_new_uint64(port);
}

static int print_json(const struct discover_result *result)
{
	struct json_object *whole = json_object_new_object(), *array = json_object_new_array();

	for (unsigned i = 0; i < result->n_records; i++) {
		const struct discover_record *record = &result->records[i];
		struct json_object *o = json_object_new_object();

		json_object_object_add(o, "subsystem", json_object_new_string(record->subnqn));
		json_object_object_add(o, "address", json_object_new_string(record->traddr));
		json_object_object_add(o, "port", port_of(record));
		json_object_object_add(o, "transport",
				       json_object_new_string(transport_name(record)));
		json_object_object_add(o, "type", json_object_new_string(type_name(record)));
		json_object_array_add(array, o);
	}
	json_object_object_add(whole, "schema", json_object_new_int(1));
	json_object_object_add(whole, "generation", json_object_new_uint64(result->genctr));
	json_object_object_add(whole, "subsystems", array);
	return report_json(whole);
}

/* nqn and id decide what a target lists, so they are read as for an attach. */
static int run(const char *address, const char *hostnqn, const char *hostid, unsigned output)
{
	struct discover_result result = {0};
	struct error error = {0};
	struct volume_config config;
	int code;

	volume_config_init(&config);
	code = target_address_parse(address, &config.address, &error);
	if (code == 0 && (host_identity_load("/etc/nvme", hostnqn, hostid, &config, &error) < 0 ||
			  discover(&config, &result, &error) < 0))
		code = (int)error.code;
	if (code)
		return report_error(program, &error);
	code = output == OUTPUT_JSON ? print_json(&result) : print_table(&result);
	discover_result_release(&result);
	return code;
}

int discover_main(int argc, char **argv)
{
	const char *fabric = NULL, *hostnqn = NULL, *hostid = NULL;
	unsigned output = OUTPUT_TABLE;
	const struct arg table[] = {
		{"hostnqn", 0, ARG_STRING, &hostnqn, "NQN",
		 "this host's NQN (default: /etc/nvme/hostnqn)", 0, 0, NULL},
		{"hostid", 0, ARG_STRING, &hostid, "UUID",
		 "this host's id (default: /etc/nvme/hostid)", 0, 0, NULL},
		{"fabric", 0, ARG_STRING, &fabric, "auto|soft|soft-roce|DEVICE",
		 "RDMA device, or the software provider (default: auto)", 0, 0, NULL},
		{"output", 'o', ARG_CHOICE, &output, OUTPUT_CHOICES, OUTPUT_HELP, 0, 0,
		 output_names},
		{0},
	};
	const struct args_usage usage = {program, "ADDRESS[:PORT]",
					 "Show which subsystems a target offers to this host.", 1,
					 1};
	int at, code = args_parse(&usage, table, argc, argv, &at);

	if (code >= 0)
		return code;
	code = fd_limit_raise(program) ?: fabric_select(program, fabric, arguments);
	return code ? code : run(argv[at], hostnqn, hostid, output);
}
