/* SPDX-License-Identifier: BSD-3-Clause */
/* The options that say where NBD clients reach a volume; of volume_options.c. Thread: main. */
#pragma once

#include "tools/rblk/volume_options.h"

/* After parsing; *config borrows from *options. 0, or an exit code with *error filled. */
int socket_options_apply(struct volume_options *options, struct bridge_config *config,
			 struct error *error);

/* After volume_options_apply, when there is to be an NBD socket: sets its path, which *config
 * borrows. 0, or an exit code with *error: no socket can be made there. */
int volume_options_socket(struct volume_options *options, struct bridge_config *config,
			  struct error *error);
