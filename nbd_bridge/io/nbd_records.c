/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lists of pieces in and out of the records of TLS. A record that was begun and that the socket
 * does not take is finished by the next call; its bytes count only then, so the caller offers them
 * again.
 */
#include <errno.h>
#include <string.h>

#include "base/bits.h"
#include "nbd_bridge/io/nbd_records.h"

/* Fills what the records at hand fill; an error behind them comes with the next call. */
ssize_t nbd_records_receive(struct nbd_conn *conn, const struct iovec *iov, unsigned n_iov)
{
	ssize_t n_all = 0, n;

	for (unsigned i = 0; i < n_iov; i++)
		for (size_t at = 0; at < iov[i].iov_len; at += (size_t)n) {
			uint8_t *place = iov[i].iov_base;

			n = nbd_tls_receive(conn->tls, place + at, iov[i].iov_len - at, &conn->why);
			if (n <= 0)
				return n_all ? n_all : n;
			n_all += n;
		}
	return n_all;
}

/* Headers and data of many replies make one record. Copies what is behind the first skip bytes;
 * returns how much. */
static size_t fill(uint8_t *record, const struct iovec *iov, unsigned n_iov, size_t skip)
{
	size_t at = 0;

	for (unsigned i = 0; i < n_iov && at < NBD_TLS_RECORD; i++) {
		const uint8_t *bytes = iov[i].iov_base;
		size_t n_skipped = MIN(skip, iov[i].iov_len);
		size_t n = MIN(iov[i].iov_len - n_skipped, NBD_TLS_RECORD - at);

		if (n)
			memcpy(record + at, bytes + n_skipped, n);
		at += n;
		skip -= n_skipped;
	}
	return at;
}

ssize_t nbd_records_send(struct nbd_conn *conn, const struct iovec *iov, unsigned n_iov)
{
	size_t n_all = 0;

	while (true) {
		uint8_t *record = nbd_tls_buffer(conn->tls); /* NULL: one was begun */
		size_t n_record = record ? fill(record, iov, n_iov, n_all) : 0;
		ssize_t n;

		if (record && !n_record)
			return (ssize_t)n_all;
		n = nbd_tls_send(conn->tls, n_record, &conn->why);
		if (n < 0)
			return n_all && errno == EAGAIN ? (ssize_t)n_all : n;
		n_all += (size_t)n;
	}
}
