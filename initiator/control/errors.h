/* SPDX-License-Identifier: BSD-3-Clause */
/* Failures as messages for people (struct error), and as errno for front ends. Pure. */
#pragma once

#include "base/error.h"
#include "initiator/control/volume_config.h"
#include "initiator/io/auth.h"
#include "transport/cm.h"
#include "transport/wire/nvme.h"

/* Why the connection manager could not connect to address. */
void error_from_cm(struct error *error, const union addr *address, const struct cm_error *cm);
/* True for failures that pass without help: a stale connection, a target short of resources. */
bool error_cm_is_transient(const struct cm_error *cm);

/* In on_disconnected: which side ended the connection. */
const char *error_of_disconnect(const struct cm_conn *conn);

/* The answer to a Connect command; result is the first quadword of the completion. */
void error_from_connect(struct error *error, const struct volume_config *config, unsigned qid,
			enum nvme_status status, uint64_t result);
/* Authentication failed; explanation is that of a message that said so. */
void error_from_auth(struct error *error, const struct volume_config *config,
		     enum auth_host_failure failure, enum nvmf_auth_failure explanation);
/* True when asking again is pointless. 1.81h (busy) never is, whatever its DNR says. */
bool error_connect_is_permanent(enum nvme_status status);

/* An answer other than success to the command called what. */
void error_from_status(struct error *error, const char *what, enum nvme_status status);
