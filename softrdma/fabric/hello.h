/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How two processes introduce themselves: one packet each way, with {memfd, wake eventfd} beside
 * it.
 *
 * It travels on a node socket (the program exchanged queue pair numbers) or inside the connection
 * manager's REQ and REP. Each side reads the other's nonce with process_vm_readv, so a pair that
 * cannot copy is refused here, with an error, and not discovered during a transfer.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

struct sr_hello {
	uint64_t magic;
	uint32_t version;
	int32_t pid;
	uint64_t instance;
	uint64_t nonce_addr; /* the receiver reads the nonce here by process_vm_readv */
	uint64_t nonce;
};

/* Once, when seg_self exists. The descriptors stay the caller's. */
void sr_hello_init(int mem_fd, int wake_fd);
/* Our hello, and the two descriptors that go with it (borrowed). Any thread. */
void sr_hello_fill(struct sr_hello *ret, int ret_fds[2]);
/* Whether the sender of h is a process of this user, and this one may copy to it. 0 or -errno. */
int sr_hello_check(const struct sr_hello *h, const struct ucred *cred);
/* Whether the process of that pid is still the one that sent this nonce (exec changes it). */
bool sr_hello_is_true(int32_t pid, uint64_t nonce_addr, uint64_t nonce);

/* The abstract socket on which the owner of the queue pair numbers base << 8 listens. Returns the
 * length of the name. */
int sr_node_name(uint16_t base, struct sockaddr_un *ret);

/* sendmsg/recvmsg of one packet with two descriptors or none (-1: none came; any other number is
 * closed). fds may be NULL when sending. 0 or -errno; the length or -errno. */
int sr_packet_send(int sock, const void *data, size_t len, const int *fds);
ssize_t sr_packet_recv(int sock, void *data, size_t len, int fds[2]);
/* Closes the received descriptors. */
void sr_packet_close(int fds[2]);
/* Closes all descriptors that came with a message: any user can send them to an abstract socket. */
void sr_packet_refuse(struct msghdr *msg);
