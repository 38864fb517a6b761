/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bytes in and out of a connection's socket. Many requests are received, and many replies sent,
 * with one system call each. The tail of a payload that has not arrived yet goes past the input
 * buffer, straight into registered memory.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/bits.h"
#include "base/check.h"
#include "nbd_bridge/io/nbd_part.h"
#include "nbd_bridge/io/nbd_socket.h"

enum {
	SEND_IOV = 64,
};

/* How much to receive past the current payload. Behind one large payload another is likely: then
 * only its header is received, so that the payload itself goes straight to its place and is not
 * copied. */
static size_t room_ahead(const struct nbd_conn *conn, size_t n_left)
{
	const size_t n_header = sizeof(struct nbd_request_header);

	if (conn->input.is_bulk && n_left < n_header &&
	    (conn->state == CONN_REQUEST || conn->state == CONN_PAYLOAD))
		return n_header - n_left;
	return CONN_RECV_BYTES - n_left;
}

ssize_t nbd_socket_receive(struct nbd_conn *conn, bool *ret_is_short)
{
	struct nbd_part *part = conn->input.filling;
	size_t n_payload = 0, n_left = nbd_conn_n_input(conn);
	size_t n_ahead = room_ahead(conn, n_left);
	struct iovec iov[2];
	unsigned n_iov = 0;
	ssize_t n;

	memmove(conn->input.bytes, conn->input.bytes + conn->input.at, n_left);
	conn->input.at = 0;
	conn->input.end = n_left;
	if (part) {
		n_payload = part->length - part->n_filled;
		iov[n_iov++] = (struct iovec){part->payload + part->n_filled, n_payload};
	}
	iov[n_iov++] = (struct iovec){conn->input.bytes + n_left, n_ahead};
	n = readv(conn->fd, iov, (int)n_iov);
	if (n <= 0)
		return n;
	*ret_is_short = (size_t)n < n_payload + n_ahead;
	if (part)
		part->n_filled += (uint32_t)MIN((size_t)n, n_payload);
	conn->input.end += (size_t)n - MIN((size_t)n, n_payload);
	return n;
}

/* The outs, whole, as far as there is room. */
static unsigned gather(const struct nbd_conn *conn, struct iovec *iov, size_t *ret_n_bytes)
{
	size_t n_bytes = 0;
	unsigned n = 0;

	list_for_each (node, &conn->output.outs) {
		struct nbd_out *out = list_entry(node, struct nbd_out, node);

		if (n + 2 > SEND_IOV)
			break;
		n_bytes += out->header_length + out->payload_length;
		if (out->header_length)
			iov[n++] = (struct iovec){out->header, out->header_length};
		if (out->payload_length)
			iov[n++] = (struct iovec){(void *)(uintptr_t)out->payload,
						  out->payload_length};
	}
	*ret_n_bytes = n_bytes;
	return n;
}

/* Less what was sent of the first out. */
static void trim(struct msghdr *msg, size_t n_sent)
{
	while (n_sent && n_sent >= msg->msg_iov->iov_len) {
		n_sent -= msg->msg_iov->iov_len;
		msg->msg_iov++;
		msg->msg_iovlen--;
	}
	if (n_sent) {
		msg->msg_iov->iov_base = (uint8_t *)msg->msg_iov->iov_base + n_sent;
		msg->msg_iov->iov_len -= n_sent;
	}
}

static void finish_sent(struct nbd_conn *conn, size_t n_bytes)
{
	conn->output.n_sent += n_bytes;
	while (!list_is_empty(&conn->output.outs)) {
		struct nbd_out *out = list_entry(conn->output.outs.next, struct nbd_out, node);
		size_t n_out = out->header_length + out->payload_length;

		if (conn->output.n_sent < n_out)
			break;
		conn->output.n_sent -= n_out;
		list_remove(&out->node);
		out->sent(out);
	}
}

void nbd_socket_discard(struct nbd_conn *conn)
{
	struct list *node;

	while ((node = list_take_first(&conn->output.outs))) {
		struct nbd_out *out = list_entry(node, struct nbd_out, node);

		out->sent(out);
	}
}

/* Since when the client takes nothing. */
static NOINLINE void note_progress(struct nbd_conn *conn, bool took_some)
{
	uint64_t *since = &conn->figures.blocked_ns;

	if (!conn->output.is_blocked)
		counter_set(since, 0);
	else if (took_some || !*since)
		counter_set(since, conn->thread->loop.now_ns);
}

int nbd_socket_send(struct nbd_conn *conn)
{
	struct iovec iov[SEND_IOV] UNINITIALIZED;
	size_t n_bytes;
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = gather(conn, iov, &n_bytes)};
	ssize_t n;

	trim(&msg, conn->output.n_sent);
	n_bytes -= conn->output.n_sent;
	n = sendmsg(conn->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n < 0 && errno != EAGAIN && errno != EINTR)
		return -errno;
	finish_sent(conn, n < 0 ? 0 : (size_t)n);
	conn->output.is_blocked = n < (ssize_t)n_bytes;
	if (conn->output.is_blocked || conn->figures.blocked_ns)
		note_progress(conn, n > 0);
	return 0;
}
