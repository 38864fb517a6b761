/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rblk doctor: looks at all that can be wrong before and after an attach, and says it in a
 * checklist with what to do. It changes nothing, so it may run at any time.
 */
#include <stdio.h>

#include "base/json.h"
#include "tools/rblk/arguments.h"
#include "tools/rblk/commands.h"
#include "tools/rblk/doctor/doctor.h"
#include "tools/rblk/doctor/findings.h"
#include "tools/rblk/report.h"
#include "transport/fabric.h"

static const char program[] = "rblk doctor";

static int print_json(struct doctor *doctor)
{
	struct json_object *whole = json_object_new_object();

	json_add(whole, "schema", json_object_new_int(1));
	json_add(whole, "problems", json_object_new_uint64(doctor->counts[FINDING_PROBLEM]));
	json_add(whole, "warnings", json_object_new_uint64(doctor->counts[FINDING_WARNING]));
	json_add(whole, "findings", json_object_get(doctor->findings));
	return report_json(whole);
}

static int run(struct doctor *doctor, enum output output, bool is_quiet)
{
	doctor->findings = json_object_new_array();
	doctor_machine(doctor);
	doctor_fabric(doctor);
	doctor_kernel(doctor);
	doctor_target(doctor);
	doctor_volumes(doctor);
	if (output == OUTPUT_JSON)
		print_json(doctor);
	else
		doctor_print(doctor, is_quiet);
	json_object_put(doctor->findings);
	return doctor->counts[FINDING_PROBLEM] || doctor->counts[FINDING_WARNING] ? EXIT_PARTIAL
										  : EXIT_OK;
}

int doctor_main(int argc, char **argv)
{
	struct doctor doctor = {0};
	const char *fabric = NULL;
	unsigned output = OUTPUT_TABLE;
	uint64_t nsid = 1;
	bool is_quiet = false;
	const struct arg table[] = {
		{"ns", 'n', ARG_UINT, &nsid, "N", "namespace id", 1, UINT32_MAX - 1, NULL},
		{"quiet", 'q', ARG_FLAG, &is_quiet, NULL, "only warnings and problems", 0, 0, NULL},
		{"hostnqn", 0, ARG_STRING, &doctor.hostnqn, "NQN",
		 "this host's NQN (default: /etc/nvme/hostnqn)", 0, 0, NULL},
		{"hostid", 0, ARG_STRING, &doctor.hostid, "UUID",
		 "this host's id (default: /etc/nvme/hostid)", 0, 0, NULL},
		{"dhchap-secret-file", 0, ARG_STRING, &doctor.secret_file, "PATH",
		 "this host's secret, if the target asks for proof", 0, 0, NULL},
		{"dhchap-ctrl-secret-file", 0, ARG_STRING, &doctor.ctrl_secret_file, "PATH",
		 "the target's secret, if it has to prove itself", 0, 0, NULL},
		{"fabric", 0, ARG_STRING, &fabric, "auto|soft|soft-roce|DEVICE",
		 "RDMA device, or the software provider (default: auto)", 0, 0, NULL},
		{"output", 'o', ARG_CHOICE, &output, OUTPUT_CHOICES, OUTPUT_HELP, 0, 0,
		 output_names},
		{0},
	};
	const struct args_usage usage = {
		program, "[ADDRESS[:PORT]|NQN@ADDRESS[:PORT]]",
		"Look for what is wrong on this machine, at a target and with volumes.", 0, 1};
	int at, code = args_parse(&usage, table, argc, argv, &at);

	if (code >= 0)
		return code;
	doctor.has_fabric = fabric_is_there(fabric);
	if (doctor.has_fabric || fabric)
		code = fabric_select(program, fabric, arguments);
	if (code > 0)
		return code; /* there is no such device */
	doctor.nsid = (uint32_t)nsid;
	doctor.target = at < argc ? argv[at] : NULL;
	return run(&doctor, (enum output)output, is_quiet);
}
