/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening and closing of memory windows; transport/qp.c binds them. Control thread. */
#include <errno.h>
#include <infiniband/verbs.h>

#include "base/log.h"
#include "transport/window.h"

int window_open(const struct domain *domain, struct window *window)
{
	errno = 0;
	*window = (struct window){.verbs = ibv_alloc_mw(domain->pd, IBV_MW_TYPE_2)};
	if (!window->verbs)
		return errno ? -errno : -ENOMEM;
	window->rkey = window->verbs->rkey;
	return 0;
}

void window_close(struct window *window)
{
	if (window->verbs && ibv_dealloc_mw(window->verbs))
		log_warn("a memory window is still in use and stays");
	*window = (struct window){0};
}
