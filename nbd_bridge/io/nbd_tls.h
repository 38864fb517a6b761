/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TLS for the connections of TCP clients, by GnuTLS: a client asks for it with the option STARTTLS
 * and proves itself by a certificate of our CA, or by a pre-shared key. The session is on the
 * connection's socket; nbd_socket.c receives and sends through it once it exists.
 *
 * GnuTLS allocates for each record, so the rule that the data path allocates nothing holds only
 * without TLS. If it has no memory, the connection ends.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"

enum nbd_tls_policy {
	NBD_TLS_OFF,
	NBD_TLS_ALLOW,	 /* the client decides */
	NBD_TLS_REQUIRE, /* without it only STARTTLS and ABORT are served */
};

struct nbd_tls_config {
	enum nbd_tls_policy policy;
	const char *certificates; /* directory; NULL: none */
	const char *psk;	  /* file; NULL: none */
};

/* Our side's secrets. Read only once made, so any thread may use it. */
struct nbd_tls_keys;
/* One connection's session. Thread: the worker's. */
struct nbd_tls;

/* Control thread: reads ca-cert.pem, server-cert.pem, server-key.pem and, if it is there,
 * ca-crl.pem from the directory. The file with keys is read again for each client. 0, or an exit
 * code with *error filled: a file is missing or wrong, others may read a secret, this build has no
 * TLS. */
int nbd_tls_keys_new(const struct nbd_tls_config *config, struct nbd_tls_keys **ret_keys,
		     struct error *error);
void nbd_tls_keys_free(struct nbd_tls_keys *keys); /* accepts NULL */

/* Worker thread: a session on fd, which is borrowed. NULL: no memory. */
struct nbd_tls *nbd_tls_new(const struct nbd_tls_keys *keys, int fd);
void nbd_tls_free(struct nbd_tls *tls); /* accepts NULL */

/* The first call continues the handshake. As read(2): the number of bytes, 0 at the end of the
 * input, or -1 with errno: EAGAIN, or *ret_why is a text that stays valid. */
ssize_t nbd_tls_receive(struct nbd_tls *tls, void *buffer, size_t n, const char **ret_why);
/* Received and decrypted already, or the end: nbd_tls_receive would not wait, and the socket has no
 * event for it. */
bool nbd_tls_has_input(const struct nbd_tls *tls);
/* Once the handshake is over: what is sent goes through nbd_tls_send. */
bool nbd_tls_is_open(const struct nbd_tls *tls);

enum {
	NBD_TLS_RECORD = 16384,
};

/* Sends the first n bytes of nbd_tls_buffer as one record. As write(2). After -1 with EAGAIN the
 * next call continues, ignores n and the buffer, and returns the earlier n. */
ssize_t nbd_tls_send(struct nbd_tls *tls, size_t n, const char **ret_why);
/* NBD_TLS_RECORD bytes, the caller's between two calls; NULL while a send has to be continued. */
void *nbd_tls_buffer(struct nbd_tls *tls);
/* The orderly end: tells the client, if the socket takes it. */
void nbd_tls_end(struct nbd_tls *tls);
