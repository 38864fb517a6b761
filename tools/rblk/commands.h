/* SPDX-License-Identifier: BSD-3-Clause */
/* The subcommands of rblk, one file each. argv[0] is the subcommand; they return exit codes. */
#pragma once

int attach_main(int argc, char **argv);
int bench_main(int argc, char **argv);
int detach_main(int argc, char **argv);
int discover_main(int argc, char **argv);
int list_main(int argc, char **argv);
int serve_main(int argc, char **argv);
int status_main(int argc, char **argv);
