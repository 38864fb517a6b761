/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See nbd_tls.h. TLS 1.2 and 1.3 with ephemeral keys, so that what was recorded stays secret when a
 * key is lost. A client always proves itself: a port without that would be no safer than plain TCP.
 */
#include <errno.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/check.h"
#include "nbd_bridge/io/nbd_tls.h"

#define VERSIONS "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

struct nbd_tls_keys {
	gnutls_certificate_credentials_t certificates; /* NULL: none */
	gnutls_psk_server_credentials_t psk;	       /* NULL: none */
};

enum tls_state {
	TLS_HANDSHAKE,
	TLS_OPEN,
	TLS_ENDED, /* the client has ended its side */
};

struct nbd_tls {
	gnutls_session_t session;
	enum tls_state state;
	bool is_sending; /* a record is under way */
	uint8_t record[NBD_TLS_RECORD];
};

/* ---- secrets ---- */

static int fail(struct error *error, const char *path, const char *why, const char *hint)
{
	error_set(error, EXIT_CONFIG, hint, "%.200s: %s", path, why);
	return EXIT_CONFIG;
}

/* A secret that others can read is none. */
static int check_secret(const char *path, mode_t others, struct error *error)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return fail(error, path, strerror(errno), NULL);
	if (!S_ISREG(st.st_mode))
		return fail(error, path, "is not a file", NULL);
	if (st.st_mode & others)
		return fail(error, path, "others may read this secret", "chmod 600 it");
	return 0;
}

static int add_psk(struct nbd_tls_keys *keys, const char *path, struct error *error)
{
	int r = check_secret(path, 077, error);

	if (r)
		return r;
	r = gnutls_psk_allocate_server_credentials(&keys->psk);
	if (r == 0)
		r = gnutls_psk_set_server_credentials_file(keys->psk, path);
	return r < 0 ? fail(error, path, gnutls_strerror(r), "psktool makes such files") : 0;
}

static int add_trust(struct nbd_tls_keys *keys, const char *directory, struct error *error)
{
	char path[PATH_MAX];
	struct stat st;
	int n;

	snprintf(path, sizeof(path), "%s/ca-cert.pem", directory);
	n = gnutls_certificate_set_x509_trust_file(keys->certificates, path, GNUTLS_X509_FMT_PEM);
	if (n <= 0)
		return fail(error, path, n < 0 ? gnutls_strerror(n) : "has no certificate",
			    "the directory has ca-cert.pem, server-cert.pem and server-key.pem");
	snprintf(path, sizeof(path), "%s/ca-crl.pem", directory);
	if (stat(path, &st) < 0 && errno == ENOENT)
		return 0;
	n = gnutls_certificate_set_x509_crl_file(keys->certificates, path, GNUTLS_X509_FMT_PEM);
	return n < 0 ? fail(error, path, gnutls_strerror(n), NULL) : 0;
}

static int add_certificates(struct nbd_tls_keys *keys, const char *directory, struct error *error)
{
	char certificate[PATH_MAX], key[PATH_MAX];
	int r;

	snprintf(certificate, sizeof(certificate), "%s/server-cert.pem", directory);
	snprintf(key, sizeof(key), "%s/server-key.pem", directory);
	if (gnutls_certificate_allocate_credentials(&keys->certificates) < 0)
		return fail(error, directory, strerror(ENOMEM), NULL);
	r = add_trust(keys, directory, error) ?: check_secret(key, 07, error);
	if (r)
		return r;
	r = gnutls_certificate_set_x509_key_file(keys->certificates, certificate, key,
						 GNUTLS_X509_FMT_PEM);
	return r < 0 ? fail(error, certificate, gnutls_strerror(r),
			    "server-cert.pem and server-key.pem belong together")
		     : 0;
}

int nbd_tls_keys_new(const struct nbd_tls_config *config, struct nbd_tls_keys **ret_keys,
		     struct error *error)
{
	struct nbd_tls_keys *keys = calloc(1, sizeof(*keys));
	int r = 0;

	*ret_keys = NULL;
	if (!keys) {
		error_set(error, EXIT_FAILED, NULL, "no memory for TLS");
		return EXIT_FAILED;
	}
	if (config->psk)
		r = add_psk(keys, config->psk, error);
	if (!r && config->certificates)
		r = add_certificates(keys, config->certificates, error);
	if (r) {
		nbd_tls_keys_free(keys);
		return r;
	}
	*ret_keys = keys;
	return 0;
}

void nbd_tls_keys_free(struct nbd_tls_keys *keys)
{
	if (!keys)
		return;
	if (keys->psk)
		gnutls_psk_free_server_credentials(keys->psk);
	if (keys->certificates)
		gnutls_certificate_free_credentials(keys->certificates);
	free(keys);
}

/* ---- a session ---- */

static int use_certificates(struct nbd_tls *tls, const struct nbd_tls_keys *keys)
{
	static unsigned char oid[] = GNUTLS_KP_TLS_WWW_CLIENT; /* GnuTLS does not change it */
	static gnutls_typed_vdata_st purpose = {.type = GNUTLS_DT_KEY_PURPOSE_OID, .data = oid};

	gnutls_certificate_server_set_request(tls->session, GNUTLS_CERT_REQUIRE);
	gnutls_session_set_verify_cert2(tls->session, &purpose, 1, 0);
	return gnutls_credentials_set(tls->session, GNUTLS_CRD_CERTIFICATE, keys->certificates);
}

static const char *priority_of(const struct nbd_tls_keys *keys)
{
	if (!keys->psk)
		return VERSIONS;
	return keys->certificates ? VERSIONS ":+ECDHE-PSK:+DHE-PSK"
				  : VERSIONS ":-KX-ALL:+ECDHE-PSK:+DHE-PSK";
}

static int set_up(struct nbd_tls *tls, const struct nbd_tls_keys *keys, int fd)
{
	int r = gnutls_priority_set_direct(tls->session, priority_of(keys), NULL);

	if (r == 0 && keys->psk)
		r = gnutls_credentials_set(tls->session, GNUTLS_CRD_PSK, keys->psk);
	if (r == 0 && keys->certificates)
		r = use_certificates(tls, keys);
	/* The session's deadline is that of the NBD handshake. */
	gnutls_handshake_set_timeout(tls->session, GNUTLS_INDEFINITE_TIMEOUT);
	gnutls_transport_set_int(tls->session, fd);
	return r;
}

struct nbd_tls *nbd_tls_new(const struct nbd_tls_keys *keys, int fd)
{
	struct nbd_tls *tls = calloc(1, sizeof(*tls));

	if (!tls)
		return NULL;
	if (gnutls_init(&tls->session, GNUTLS_SERVER | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL) < 0) {
		free(tls);
		return NULL;
	}
	if (set_up(tls, keys, fd) < 0) {
		nbd_tls_free(tls);
		return NULL;
	}
	return tls;
}

void nbd_tls_free(struct nbd_tls *tls)
{
	if (!tls)
		return;
	gnutls_deinit(tls->session);
	free(tls);
}

/* A call of GnuTLS that did not succeed, as read(2) and write(2) report it. */
static ssize_t failed(int r, const char **ret_why)
{
	if (r == GNUTLS_E_AGAIN || r == GNUTLS_E_INTERRUPTED) {
		errno = EAGAIN;
		return -1;
	}
	*ret_why = gnutls_strerror(r);
	errno = EPROTO;
	return -1;
}

/* The socket takes the few messages of our side at once, unless the client has filled it before by
 * reading nothing. */
static int shake_hands(struct nbd_tls *tls, const char **ret_why)
{
	int r;

	do {
		r = gnutls_handshake(tls->session);
	} while (r < 0 && r != GNUTLS_E_AGAIN && !gnutls_error_is_fatal(r));
	if (r == GNUTLS_E_AGAIN && gnutls_record_get_direction(tls->session)) {
		*ret_why = "the client does not take the messages of TLS";
		errno = EPROTO;
		return -1;
	}
	if (r < 0)
		return (int)failed(r, ret_why);
	tls->state = TLS_OPEN;
	return 0;
}

ssize_t nbd_tls_receive(struct nbd_tls *tls, void *buffer, size_t n, const char **ret_why)
{
	ssize_t r;

	if (tls->state == TLS_HANDSHAKE && shake_hands(tls, ret_why) < 0)
		return -1;
	if (tls->state == TLS_ENDED)
		return 0;
	do {
		r = gnutls_record_recv(tls->session, buffer, n);
	} while (r == GNUTLS_E_INTERRUPTED);
	if (r > 0)
		return r;
	if (r < 0 && r != GNUTLS_E_PREMATURE_TERMINATION)
		return failed((int)r, ret_why);
	tls->state = TLS_ENDED;
	return 0;
}

bool nbd_tls_has_input(const struct nbd_tls *tls)
{
	return tls->state == TLS_ENDED || gnutls_record_check_pending(tls->session) > 0;
}

bool nbd_tls_is_open(const struct nbd_tls *tls)
{
	return tls->state != TLS_HANDSHAKE;
}

void *nbd_tls_buffer(struct nbd_tls *tls)
{
	return tls->is_sending ? NULL : tls->record;
}

ssize_t nbd_tls_send(struct nbd_tls *tls, size_t n, const char **ret_why)
{
	ssize_t r;

	check(n <= NBD_TLS_RECORD);
	do {
		r = tls->is_sending ? gnutls_record_send(tls->session, NULL, 0)
				    : gnutls_record_send(tls->session, tls->record, n);
	} while (r == GNUTLS_E_INTERRUPTED);
	tls->is_sending = r == GNUTLS_E_AGAIN;
	return r < 0 ? failed((int)r, ret_why) : r;
}

void nbd_tls_end(struct nbd_tls *tls)
{
	if (nbd_tls_is_open(tls) && !tls->is_sending)
		gnutls_bye(tls->session, GNUTLS_SHUT_WR);
}
