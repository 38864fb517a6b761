/* SPDX-License-Identifier: BSD-3-Clause */
/* The volume process: one attached namespace, its workers and its front ends. */
#pragma once

#include "nbd_bridge/control/bridge_options.h"

/* Connects, serves until SIGTERM, SIGINT or a `detach` call, closes. Returns an exit code, with
 * *error filled unless it is EXIT_OK. Called once, before any other thread exists. */
int bridge_run(const struct bridge_config *config, struct error *error);
