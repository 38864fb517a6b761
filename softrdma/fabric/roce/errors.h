/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The errors that the kernel queues for the sockets: what ICMP says of packets that were sent.
 */
#pragma once

struct roce_port;

/* Reads what the kernel has queued for the socket, ICMP errors of earlier packets. One that is not
 * read fails the next call. Any thread; needs no lock. */
void roce_read_errors(struct roce_port *p, int sock);
