/* SPDX-License-Identifier: BSD-3-Clause */
/* Whose an abstract socket is: any user can take a name, and the kernel tells its owner. */
#pragma once

#include <sys/types.h>

/* How many abstract sockets with names that begin so are other users', and one of these users. 0
 * also where the kernel does not tell (before 5.3, or without unix_diag). Any thread; costs system
 * calls. */
unsigned roce_names_of_others(const char *prefix, uid_t *ret_uid);
