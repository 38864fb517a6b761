/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which RDMA devices a library's process uses. A program starts again under the software provider
 * (fabric.h); a library cannot. So librblk is not linked with libibverbs and librdmacm: provider.c
 * defines the functions that transport/ calls, and each of them calls the one that was found when
 * the first volume was opened, in the real libraries or in the provider.
 */
#pragma once

struct error;

/* "auto" (as NULL), "soft", "soft-roce" or the name of a device, as fabric_select has them. The
 * first choice holds for the process. Any thread. 0, or -errno with *error. */
int provider_choose(const char *fabric, struct error *error);
