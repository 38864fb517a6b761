/* SPDX-License-Identifier: BSD-3-Clause */
/* In the place of nbd_tls.c in a build without GnuTLS: no keys can be made, so nothing else runs.
 * */
#include <errno.h>

#include "nbd_bridge/io/nbd_tls.h"

int nbd_tls_keys_new(const struct nbd_tls_config *config, struct nbd_tls_keys **ret_keys,
		     struct error *error)
{
	*ret_keys = NULL;
	error_set(error, EXIT_FAILED, "build it with libgnutls", "rblk was built without TLS");
	return EXIT_FAILED;
}

void nbd_tls_keys_free(struct nbd_tls_keys *keys)
{
}

struct nbd_tls *nbd_tls_new(const struct nbd_tls_keys *keys, int fd)
{
	return NULL;
}

void nbd_tls_free(struct nbd_tls *tls)
{
}

ssize_t nbd_tls_receive(struct nbd_tls *tls, void *buffer, size_t n, const char **ret_why)
{
	errno = EPROTO;
	return -1;
}

bool nbd_tls_has_input(const struct nbd_tls *tls)
{
	return false;
}

bool nbd_tls_is_open(const struct nbd_tls *tls)
{
	return false;
}

void *nbd_tls_buffer(struct nbd_tls *tls)
{
	return NULL;
}

ssize_t nbd_tls_send(struct nbd_tls *tls, size_t n, const char **ret_why)
{
	errno = EPROTO;
	return -1;
}

void nbd_tls_end(struct nbd_tls *tls)
{
}
