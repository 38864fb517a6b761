/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The service rblkd.service as systemd knows it, drop-ins included: the user that it runs as, and
 * what its sandbox lets it have. For --check, which root calls and the service is to agree with.
 * Main thread, before others start.
 */
#pragma once

#include <stdbool.h>

#include "base/error.h"

enum {
	SERVICE_TEXT_MAX = 8192,
	SERVICE_USER_MAX = 64,
};

struct service {
	char user[SERVICE_USER_MAX];
	char text[SERVICE_TEXT_MAX]; /* lines "Property=value" */
};

/* Asks systemctl. false: no systemd answers, or its service is not this very program. */
bool service_find(struct service *ret_service);
/* The caller becomes this user for good, with the groups of the service if it is its user;
 * service may be NULL. 0, or an exit code with *error filled. */
int service_become(const struct service *service, const char *user, struct error *error);

/* Whether the sandbox lets the service write below this path, or have disks. */
bool service_may_write(const struct service *service, const char *path);
bool service_may_have_disks(const struct service *service);
