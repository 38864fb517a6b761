/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Words, exit codes and errno values for everything that can go wrong between us and a
 * target. All the messages about connecting live here, so that they can be read and
 * tested in one place.
 *
 * Functions without effects, any thread; the environment says which fabric is used. A message is
 * one line that says what failed, where, and why; its hint says what to do. Strings that a peer
 * chose never enter a message: only our own configuration, addresses, and the specifications' names
 * of status codes do.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <uuid/uuid.h>

#include "base/bits.h"
#include "initiator/control/errors.h"
#include "transport/fabric.h"
#include "transport/wire/fabrics.h"
#include "transport/wire/rdma_cm.h"
#include "transport/wire/strings.h"

/* The longest names are cut in hints rather than refused: they are in the message
 * already. */
#pragma GCC diagnostic ignored "-Wformat-truncation"

static bool is_nobody_listening(const struct cm_error *cm)
{
	return cm->reason == CM_REASON_NO_LISTENER || cm->reason == -ECONNREFUSED ||
	       cm->reason == ECONNREFUSED || cm->error == -ECONNREFUSED;
}

static void from_reject(struct error *error, const char *where, const struct cm_error *cm)
{
	const char *words;

	if (cm->nvmf_status) {
		words = nvmf_cm_status_string((enum nvmf_cm_status)cm->nvmf_status);
		error_set(error, cm->nvmf_status == NVMF_CM_NO_RESOURCES ? EXIT_BUSY : EXIT_FAILED,
			  NULL, "%s rejected the connection: %s (NVMe/RDMA status %u)", where,
			  words, cm->nvmf_status);
		return;
	}
	if (is_nobody_listening(cm)) {
		error_set(
			error, EXIT_UNREACHABLE,
			"check 'rblkctl status' on the target: is it running, and is this one of its portals?",
			"%s rejected the connection: nothing listens there (CM status %d)", where,
			cm->reason);
		return;
	}
	if (cm->reason == CM_REASON_STALE) {
		error_set(
			error, EXIT_UNREACHABLE, NULL,
			"%s rejected the connection: it still holds an older one of ours (CM status %d)",
			where, cm->reason);
		return;
	}
	if (cm->reason == CM_REASON_PATH_MTU) {
		error_set(
			error, EXIT_UNREACHABLE,
			"give the network interfaces of both sides the same MTU ('ip link' shows it)",
			"%s rejected the connection: its MTU is smaller than ours (CM status %d)",
			where, cm->reason);
		return;
	}
	error_set(error, EXIT_FAILED, NULL, "%s rejected the connection (CM status %d)", where,
		  cm->reason);
}

/* A shortage of this process, whatever its destination. */
static bool from_shortage(struct error *error, const char *where, int r)
{
	struct rlimit limit = {0};

	if (r != -EMFILE && r != -ENFILE)
		return false;
	getrlimit(RLIMIT_NOFILE, &limit);
	error_set(error, EXIT_PRIVILEGE,
		  "raise it: LimitNOFILE=65536 in the unit, or ulimit -n 65536",
		  "cannot connect to %s: %s: the limit of open files is %llu", where, strerror(-r),
		  (unsigned long long)limit.rlim_cur);
	return true;
}

/* softrdma: the two programs may not access each other's memory. */
static bool from_other_user(struct error *error, const char *where, const struct cm_error *cm)
{
	char hint[128];

	if (!(cm->failure == CM_UNREACHABLE && (cm->error == -EPERM || cm->error == -EXDEV)) &&
	    !(cm->failure == CM_REJECTED && cm->reason == CM_REASON_UNSUPPORTED))
		return false;
	snprintf(hint, sizeof(hint),
		 "run both as one user (this program runs as uid %u), or take an RDMA device",
		 (unsigned)geteuid());
	error_set(
		error, EXIT_UNREACHABLE, hint,
		"cannot reach %s: softrdma connects programs of one user in one container, and the target is another's",
		where);
	return true;
}

/* The fabric that was chosen decides what the address lacks. */
static void from_no_route(struct error *error, const union addr *address, const char *where)
{
	switch (fabric_kind()) {
	case FABRIC_SOFT:
		error_set(
			error, EXIT_UNREACHABLE,
			"fabric soft-roce (--fabric) reaches other hosts by UDP; fabric: soft-roce at the target, too",
			"cannot reach %s: softrdma without RoCE reaches this machine only", where);
		return;
	case FABRIC_SOFT_ROCE:
		if (addr_is_link_local(address)) {
			error_set(
				error, EXIT_UNREACHABLE,
				"give the target's portal a unique local (fd00::/8) or global address, and use that",
				"cannot reach %s: softrdma's RoCE leaves out link-local addresses",
				where);
			return;
		}
		error_set(
			error, EXIT_UNREACHABLE,
			"'ip route get ADDRESS' shows the way there; SOFTRDMA_ROCE may leave only one address of ours",
			"cannot reach %s: there is no route to that address", where);
		return;
	case FABRIC_DEVICES:
		error_set(
			error, EXIT_UNREACHABLE,
			"'rdma link' lists the RDMA devices; 'rdma link add rxe0 type rxe netdev eth0' makes one of a network card",
			"cannot reach %s: no RDMA device has a route to that address", where);
	}
}

static void from_address(struct error *error, const union addr *address, const char *where, int r)
{
	if (r == -EADDRNOTAVAIL)
		error_set(
			error, EXIT_UNREACHABLE,
			"'ip address' lists the addresses, 'rdma link' the RDMA devices",
			"cannot connect to %s: no RDMA device here has the address of --host-address",
			where);
	else
		from_no_route(error, address, where);
}

/* softrdma reports the closed port of RoCE. A device never does: it just has no answer. */
static void from_unreachable(struct error *error, const char *where, int r)
{
	if (r == -ECONNREFUSED)
		error_set(
			error, EXIT_UNREACHABLE,
			"is rblkd there, with an RDMA device or with fabric: soft-roce? 'soft' is reached from its own machine only",
			"cannot reach %s: nothing receives RoCE there (UDP port 4791 is closed)",
			where);
	else
		error_set(
			error, EXIT_UNREACHABLE,
			"is the target's host up, and does a firewall drop RDMA (UDP port 4791 for RoCE)?",
			"cannot reach %s: no answer", where);
}

void error_from_cm(struct error *error, const union addr *address, const struct cm_error *cm)
{
	char where[ADDR_STRING_MAX];

	addr_format(where, address);
	if (from_shortage(error, where, cm->error) || from_other_user(error, where, cm))
		return;
	switch (cm->failure) {
	case CM_REJECTED:
		from_reject(error, where, cm);
		return;
	case CM_ADDRESS:
		from_address(error, address, where, cm->error);
		return;
	case CM_ROUTE:
		error_set(error, EXIT_UNREACHABLE, NULL,
			  "cannot reach %s: no route to it was found%s%s", where,
			  cm->error ? ": " : "", cm->error ? strerror(-cm->error) : "");
		return;
	case CM_UNREACHABLE:
		from_unreachable(error, where, cm->error);
		return;
	case CM_CONNECT:
		error_set(error, EXIT_FAILED, NULL, "cannot connect to %s: %s", where,
			  cm->error ? strerror(-cm->error) : "the connection manager failed");
		return;
	}
}

bool error_cm_is_transient(const struct cm_error *cm)
{
	return cm->failure == CM_REJECTED &&
	       (cm->reason == CM_REASON_STALE || cm->nvmf_status == NVMF_CM_NO_RESOURCES);
}

const char *error_of_disconnect(const struct cm_conn *conn)
{
	return cm_removed_device(conn) ? "our RDMA device went away"
				       : "the target closed the connection";
}

/* Targets let no two hosts have one identifier, because reservations know hosts by it alone. */
static void from_host_identifier(struct error *error, const struct volume_config *config)
{
	char id[UUID_STR_LEN];

	uuid_unparse_lower(config->hostid, id);
	error_set(
		error, EXIT_DENIED,
		"each host needs a hostnqn and a hostid of its own (/etc/nvme); the target's log names the other host, and 'rblkctl registrant list' there what it has registered",
		"target refuses our host identifier %s: it is another host's there, or not the one that it has for us",
		id);
}

/* 1.82h reports the offset of the invalid field, and whether it is in the data or in the
 * command. */
static void from_invalid_param(struct error *error, const struct volume_config *config,
			       uint64_t result)
{
	unsigned offset = (unsigned)(result & 0xffff);
	bool in_data = result & NVMF_CONNECT_IATTR_DATA;
	char hint[256], where[ADDR_STRING_MAX];

	addr_format(where, &config->address);
	if (in_data && offset == offsetof(struct nvmf_connect_data, subnqn)) {
		snprintf(hint, sizeof(hint),
			 "'rblk discover %s' lists the subsystems that this host may use", where);
		error_set(error, EXIT_NOT_FOUND, hint, "target does not know subsystem '%s'",
			  config->subnqn);
	} else if (in_data && offset == offsetof(struct nvmf_connect_data, hostnqn)) {
		error_set(error, EXIT_DENIED, NULL, "target refuses host NQN '%s'",
			  config->hostnqn);
	} else if (in_data && offset == offsetof(struct nvmf_connect_data, hostid)) {
		from_host_identifier(error, config);
	} else if (in_data && offset == offsetof(struct nvmf_connect_data, cntlid)) {
		error_set(error, EXIT_FAILED, NULL,
			  "target refuses the Connect: controller id is not valid any more");
	} else if (!in_data && offset == offsetof(struct nvmf_connect_cmd, sqsize)) {
		error_set(error, EXIT_FAILED, "try a smaller queue size",
			  "target refuses the Connect: queue size %u is not valid",
			  config->queue_size);
	} else if (!in_data && offset == offsetof(struct nvmf_connect_cmd, qid)) {
		error_set(error, EXIT_FAILED, NULL,
			  "target refuses the Connect: queue id is not valid");
	} else {
		error_set(error, EXIT_FAILED, NULL,
			  "target refuses the Connect: invalid parameter at byte %u of the %s",
			  offset, in_data ? "data" : "command");
	}
}

void error_from_connect(struct error *error, const struct volume_config *config, unsigned qid,
			enum nvme_status status, uint64_t result)
{
	char hint[256];

	switch ((unsigned)nvme_status_code(status)) {
	case NVME_CONNECT_INVALID_PARAM:
		from_invalid_param(error, config, result);
		return;
	case NVME_CONNECT_INVALID_HOST:
		snprintf(hint, sizeof(hint), "add it to the target's allow_hosts: %s",
			 config->hostnqn);
		error_set(error, EXIT_DENIED, hint, "target refuses host %s", config->hostnqn);
		return;
	case NVME_CONNECT_BUSY:
		error_set(
			error, EXIT_BUSY,
			"the target's log says which limit is reached (rblkd: limits in its configuration)",
			"target is busy: it takes no further connection now");
		return;
	case NVME_HOST_ID_INCONSISTENT:
		error_set(
			error, EXIT_DENIED,
			"/etc/nvme/hostid and /etc/nvme/hostnqn belong together: no other host may have a copy of one of them",
			"target has seen our hostid with another host NQN than %s",
			config->hostnqn);
		return;
	case NVME_AUTH_REQUIRED:
		error_set(error, EXIT_DENIED, NULL,
			  "target requires authentication, which is not configured here");
		return;
	default:
		error_set(error, EXIT_FAILED, NULL,
			  "target refuses the Connect of queue %u: %s (status %x.%02x)", qid,
			  nvme_status_string(status), nvme_status_code(status) >> 8 & 7,
			  status & 0xff);
	}
}

void error_from_auth(struct error *error, const struct volume_config *config,
		     enum auth_host_failure failure, enum nvmf_auth_failure explanation)
{
	const char *said = auth_failure_string(explanation);

	switch (failure) {
	case AUTH_HOST_NO_KEY:
		error_set(error, EXIT_DENIED,
			  "give the file of this host's secret: --dhchap-secret-file",
			  "target requires authentication, which is not configured here");
		return;
	case AUTH_HOST_NOT_ASKED:
		error_set(
			error, EXIT_DENIED,
			"set dhchap_key_file and dhchap_ctrl_key_file at the target",
			"target does not authenticate, but must prove itself (--dhchap-ctrl-secret-file)");
		return;
	case AUTH_HOST_REFUSED:
		error_set(error, EXIT_DENIED,
			  "its log says more; is the same secret on both sides?",
			  "authentication failed: the target refuses us: %s (secret in %.100s)",
			  said, config->secret_file);
		return;
	case AUTH_HOST_WRONG_TARGET:
		error_set(
			error, EXIT_DENIED, "another machine may answer in the target's place",
			"authentication failed: the target's response is wrong (secret in %.100s)",
			config->ctrl_secret_file);
		return;
	case AUTH_HOST_PROTOCOL:
		error_set(error, EXIT_DENIED, NULL, "authentication failed: target sent %s", said);
		return;
	case AUTH_HOST_OK:
	case AUTH_HOST_RESOURCES:
		break;
	}
	error_set(error, EXIT_FAILED, NULL,
		  "authentication failed: no memory or random numbers here");
}

bool error_connect_is_permanent(enum nvme_status status)
{
	return status & NVME_DNR && nvme_status_code(status) != NVME_CONNECT_BUSY;
}

void error_from_status(struct error *error, const char *what, enum nvme_status status)
{
	error_set(error, EXIT_FAILED, NULL, "target answered %s with %s (status %x.%02x)", what,
		  nvme_status_string(status), nvme_status_code(status) >> 8 & 7, status & 0xff);
}
