/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections with other machines: the connection manager's messages as MADs on queue pair 1.
 * Everything is called under sr_cm_lock, unless a line says otherwise.
 */
#pragma once

#include "softrdma/cm/cm_way.h"

struct sr_cm_id;

extern const struct sr_cm_way sr_cm_by_mads;
