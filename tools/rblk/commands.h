/* SPDX-License-Identifier: BSD-3-Clause */
/* The subcommands of rblk, one file each. argv[0] is the subcommand; they return exit codes. */
#pragma once

/* Starts a volume process and waits until it is ready. */
int attach_main(int argc, char **argv);
/* Measures a namespace, without a volume process. */
int bench_main(int argc, char **argv);
/* Flushes a volume and ends its process. */
int detach_main(int argc, char **argv);
/* Looks for what is wrong: machine, target, volumes. */
int doctor_main(int argc, char **argv);
/* Prints the discovery log page of a target. */
int discover_main(int argc, char **argv);
/* These two read the control sockets of all volume processes. */
int list_main(int argc, char **argv);
int status_main(int argc, char **argv);
/* Counts and latencies of the volumes. */
int stats_main(int argc, char **argv);
/* The same and more, as Prometheus reads it. */
int metrics_main(int argc, char **argv);
/* The next commands of a volume, as a file for Wireshark. */
int capture_main(int argc, char **argv);
/* Paths of a volume, while it is used. */
int path_add_main(int argc, char **argv);
int path_remove_main(int argc, char **argv);
/* The volume process itself, in the foreground. */
int serve_main(int argc, char **argv);
