/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The front end for NBD clients of this machine: a unix socket, unix sockets inherited from a
 * service manager, standard input and output. Over TCP nbdkit serves them (nbdkit-rblk-plugin(1)).
 */
#pragma once

struct frontend;
struct frontend_host;
struct frontend_socket_config;

/* How many listening sockets a service manager gave to this process ($LISTEN_FDS, $LISTEN_PID). */
unsigned frontend_n_inherited(void);
struct frontend *frontend_socket_new(struct frontend_host *host,
				     const struct frontend_socket_config *config);
