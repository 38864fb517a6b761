/* SPDX-License-Identifier: BSD-3-Clause */
/* The identity of this host: /etc/nvme/hostnqn and /etc/nvme/hostid, as nvme-cli keeps them. */
#pragma once

#include "initiator/control/volume.h"

/*
 * Fills config->hostnqn and hostid: from the arguments when not NULL; else from the files
 * in directory (normally "/etc/nvme"); else from $RBLK_STATE_DIR or the run directory, where a
 * generated identity is kept for the time until reboot. 0, or -1 with *error (malformed
 * file, bad NQN).
 */
int host_identity_load(const char *directory, const char *hostnqn, const char *hostid,
		       struct volume_config *config, struct error *error);
