/* SPDX-License-Identifier: BSD-3-Clause */
/* Only the shared library has this file: it finds its RDMA devices at run time, and is silent until
 * the program takes its messages. */
#include "library/process.h"
#include "library/rblk.h"
#include "transport/provider.h"

static __attribute__((constructor)) void prepare(void)
{
	process_choose_fabric = provider_choose;
	rblk_set_log(NULL, NULL);
}
