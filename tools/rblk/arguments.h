/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The arguments of the process as they came. args_parse permutes argv, and two users need the
 * original order: fabric_select, which runs this program again, and attach, which starts `rblk
 * serve` with the same options. Thread: main; set once, before any other thread exists.
 */
#pragma once

/* NULL-terminated, owned by arguments.c. argv[0] is the program, argv[1] the subcommand. */
extern char **arguments;

/* Copies the vector (the strings are borrowed from argv). 0 or -ENOMEM. */
int arguments_keep(int argc, char **argv);
/* Accepts that nothing was kept. */
void arguments_free(void);
