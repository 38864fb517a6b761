/* SPDX-License-Identifier: BSD-3-Clause */
/* "NQN@ADDRESS[:PORT]", the name of a subsystem on the command line. */
#pragma once

#include <stdbool.h>

#include "base/addr.h"
#include "base/error.h"

struct volume_config;

enum {
	TARGET_DEFAULT_PORT = 4420,
	TARGET_NQN_MAX = 224, /* with NUL */
	VOLUME_NAME_MAX = 64, /* with NUL; of volumes on this machine */
};

/* 0, or an exit code with *error filled. */
int target_name_split(const char *text, char ret_nqn[TARGET_NQN_MAX], union addr *ret_address,
		      struct error *error);
/* Fills config's subnqn and address. 0, or an exit code with *error filled. */
int target_name_parse(const char *text, struct volume_config *config, struct error *error);
/* Only "ADDRESS[:PORT]". */
int target_address_parse(const char *text, union addr *ret_addr, struct error *error);

/* Letters, digits, '.', '_' and '-', so that a name fits paths and URIs as it is. */
bool volume_name_is_valid(const char *name);
/* "db" from nqn.2026-01.com.example:db, namespace 1; "db-5" for namespace 5. */
void volume_name_default(const struct volume_config *config, char name[VOLUME_NAME_MAX]);
