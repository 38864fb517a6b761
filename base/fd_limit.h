/* SPDX-License-Identifier: BSD-3-Clause */
/* How many files this process may have open: connections need many. */
#pragma once

/* At the start of main: raises the limit to what is allowed. 0, or an exit code, said: fewer than any work with
 * an RDMA device needs. */
int fd_limit_raise(const char *program);
