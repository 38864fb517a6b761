/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The target's answers, asked in the order in which attach meets them: is there a target, does it
 * offer the subsystem to this host, does it grant the namespace. The first two questions go to the
 * discovery controller. See doctor.h.
 */
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "initiator/control/auth_keys.h"
#include "initiator/control/discover.h"
#include "tools/rblk/doctor/doctor.h"
#include "tools/rblk/doctor/findings.h"
#include "tools/rblk/target_name.h"

enum {
	SUBTYPE_SUBSYSTEM = 2, /* of a discovery record (NVMe-oF 1.1, SUBTYPE) */
};

/* A question to the namespace: one volume, opened and closed on a loop of its own. */
struct visit {
	/* Thread: main */
	struct loop loop;
	struct volume *volume;
	struct volume_info info;
	struct error error; /* code EXIT_OK: the volume was opened */
};

/* ---- discovery ---- */

/* A subsystem has a record for each of its portals. */
static unsigned count_subsystems(const struct discover_result *result)
{
	unsigned n = 0, k;

	for (unsigned i = 0; i < result->n_records; i++) {
		if (result->records[i].subtype != SUBTYPE_SUBSYSTEM)
			continue;
		for (k = 0; k < i; k++)
			if (result->records[k].subtype == SUBTYPE_SUBSYSTEM &&
			    !strcmp(result->records[k].subnqn, result->records[i].subnqn))
				break;
		n += k == i;
	}
	return n;
}

/* Returns whether the target answered. A target lists only what this host may use, so an empty list
 * is nearly always an allow list that has another name. */
static bool check_discovery(struct doctor *doctor, const struct volume_config *config)
{
	struct discover_result result = {0};
	struct error error;
	unsigned n;

	if (discover(config, &result, &error) < 0) {
		doctor_failed(doctor, FINDING_PROBLEM, "target_answers", &error);
		return false;
	}
	n = count_subsystems(&result);
	discover_result_release(&result);
	doctor_found(doctor, n ? FINDING_OK : FINDING_PROBLEM, "target_answers",
		     n ? NULL : "allow this host NQN in the target's configuration (allow_hosts)",
		     "it offers %u subsystem%s to this host", n, n == 1 ? "" : "s");
	return true;
}

/* ---- the namespace ---- */

/* Opened is enough: size and identity are known, and no queue was made. */
static void on_opened(void *context, const struct error *error)
{
	struct visit *visit = context;

	if (error)
		visit->error = *error;
	else
		volume_get_info(visit->volume, &visit->info);
	volume_close(visit->volume);
}

static void on_ignored_state(void *context, enum volume_state state)
{
	(void)context;
	(void)state;
}

static void on_ignored_change(void *context)
{
	(void)context;
}

static void on_closed(void *context)
{
	struct visit *visit = context;

	loop_stop(&visit->loop);
}

static const struct volume_callbacks callbacks = {
	.on_opened = on_opened,
	.on_state = on_ignored_state,
	.on_changed = on_ignored_change,
	.on_closed = on_closed,
};

/* The loop runs until on_closed. */
static int visit_namespace(struct visit *visit, const struct volume_config *config)
{
	int r = loop_init(&visit->loop, 0, NULL);

	if (r < 0)
		return r;
	r = volume_open(&visit->loop, config, &callbacks, visit, &visit->volume);
	if (r == 0)
		loop_run(&visit->loop);
	loop_deinit(&visit->loop);
	return r;
}

/* The words are those of attach: what fails here fails there. */
static void check_namespace(struct doctor *doctor, const struct volume_config *config)
{
	struct visit visit = {0};
	char size[UNITS_MAX];
	int r = visit_namespace(&visit, config);

	if (r < 0)
		error_set(&visit.error, EXIT_FAILED, NULL, "cannot open the volume: %s",
			  strerror(-r));
	if (visit.error.code) {
		doctor_failed(doctor, FINDING_PROBLEM, "namespace", &visit.error);
		return;
	}
	doctor_found(doctor, FINDING_OK, "namespace", NULL,
		     "%u: %s, blocks of %u%s; target: %s, version %s", config->nsid,
		     units_format_size(size, visit.info.size_bytes), visit.info.block_size,
		     visit.info.is_read_only ? ", read only" : "", visit.info.model,
		     visit.info.firmware);
}

/* ---- the section ---- */

/* The least that a volume needs: the target's other hosts shall not notice the visit. */
static int configure(struct doctor *doctor, struct volume_config *config, struct error *error)
{
	bool has_nqn = strchr(doctor->target, '@');
	int code;

	volume_config_init(config);
	code = has_nqn ? target_name_parse(doctor->target, config, error)
		       : target_address_parse(doctor->target, &config->address, error);
	if (code)
		return code;
	memcpy(config->hostnqn, doctor->identity.hostnqn, sizeof(config->hostnqn));
	uuid_copy(config->hostid, doctor->identity.hostid);
	config->nsid = doctor->nsid;
	config->n_queues = 1;
	config->queue_size = 16;
	config->slab_bytes = VOLUME_SLAB_MIN;
	snprintf(config->secret_file, sizeof(config->secret_file), "%s", doctor->secret_file ?: "");
	snprintf(config->ctrl_secret_file, sizeof(config->ctrl_secret_file), "%s",
		 doctor->ctrl_secret_file ?: "");
	return 0;
}

void doctor_target(struct doctor *doctor)
{
	struct volume_config config;
	struct error error;

	doctor->section = "target";
	if (!doctor->target || !doctor->has_identity)
		return;
	if (configure(doctor, &config, &error)) {
		doctor_failed(doctor, FINDING_PROBLEM, "address", &error);
		return;
	}
	if (!doctor->has_fabric)
		return; /* the section fabric says why */
	if (check_discovery(doctor, &config) && *config.subnqn)
		check_namespace(doctor, &config);
}
