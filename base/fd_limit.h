/* SPDX-License-Identifier: BSD-3-Clause */
/* The limit of open files of this process. Connections need many. */
#pragma once

/* At the start of main: raises the soft limit to the hard limit. 0; or an exit code, after a
 * message, if that is less than any use of an RDMA device needs. */
int fd_limit_raise(const char *program);
