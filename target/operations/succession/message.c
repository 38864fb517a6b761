/* SPDX-License-Identifier: BSD-3-Clause */
/* See message.h. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "target/operations/succession/message.h"

static const char *const words[MESSAGE_WORDS] = {
	[MESSAGE_PREPARED] = "prepared",
	[MESSAGE_LISTEN] = "listen",
	[MESSAGE_LISTENING] = "listening",
	[MESSAGE_HANDOVER] = "handover",
	[MESSAGE_MEMORY] = "memory",
	[MESSAGE_YOURS] = "yours",
	[MESSAGE_SERVING] = "serving",
	[MESSAGE_FAILED] = "failed",
	[MESSAGE_END] = "end",
};

enum {
	PATIENCE_S = 10,
};

union control {
	struct cmsghdr header; /* aligns the bytes */
	char bytes[CMSG_SPACE(sizeof(int) * MESSAGE_FDS)];
};

int message_pair(int ret_sockets[2])
{
	const struct timeval patience = {.tv_sec = PATIENCE_S};

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ret_sockets) < 0)
		return -errno;
	for (unsigned i = 0; i < 2; i++)
		(void)setsockopt(ret_sockets[i], SOL_SOCKET, SO_SNDTIMEO, &patience,
				 sizeof(patience));
	return 0;
}

/* ---- sending -------------------------------------------------------------------------------- */

static int send_packet(int socket, const struct msghdr *packet)
{
	ssize_t n;

	do
		n = sendmsg(socket, packet, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

int message_send(int socket, enum message_word word, const char *text)
{
	char line[MESSAGE_TEXT_MAX + 32];
	struct iovec part = {.iov_base = line};
	const struct msghdr packet = {.msg_iov = &part, .msg_iovlen = 1};

	check(words[word]);
	part.iov_len = (size_t)snprintf(line, sizeof(line), "%s%s%.*s", words[word],
					text ? " " : "", MESSAGE_TEXT_MAX - 1, text ?: "");
	return send_packet(socket, &packet);
}

int message_send_fds(int socket, enum message_word word, const int *fds, unsigned n)
{
	union control control = {0};
	struct iovec part = {(void *)(uintptr_t)words[word], strlen(words[word])};
	const struct msghdr packet = {.msg_iov = &part,
				      .msg_iovlen = 1,
				      .msg_control = control.bytes,
				      .msg_controllen = CMSG_SPACE(sizeof(int) * n)};

	check(n > 0 && n <= MESSAGE_FDS);
	control.header = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
					  .cmsg_type = SCM_RIGHTS,
					  .cmsg_len = CMSG_LEN(sizeof(int) * n)};
	memcpy(CMSG_DATA(&control.header), fds, sizeof(int) * n);
	return send_packet(socket, &packet);
}

/* ---- receiving ------------------------------------------------------------------------------ */

static void take_fds(struct msghdr *packet, struct message *message)
{
	struct cmsghdr *header = CMSG_FIRSTHDR(packet);

	if (!header || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
		return;
	message->n_fds = (unsigned)((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
	memcpy(message->fds, CMSG_DATA(header), sizeof(int) * message->n_fds);
}

static void parse(char *line, struct message *message)
{
	char *text = strchr(line, ' ');

	if (text)
		*text++ = '\0';
	for (unsigned i = 0; i < MESSAGE_WORDS; i++)
		if (words[i] && !strcmp(line, words[i]))
			message->word = i;
	if (text)
		log_quote(message->text, sizeof(message->text), text, (unsigned)strlen(text));
	while (message->word == MESSAGE_GONE && message->n_fds)
		close(message->fds[--message->n_fds]);
}

void message_receive(int socket, struct message *ret_message)
{
	char line[MESSAGE_TEXT_MAX + 32];
	struct iovec part = {line, sizeof(line) - 1};
	union control control;
	struct msghdr packet = {.msg_iov = &part,
				.msg_iovlen = 1,
				.msg_control = control.bytes,
				.msg_controllen = sizeof(control.bytes)};
	ssize_t n;

	*ret_message = (struct message){.word = MESSAGE_GONE};
	do
		n = recvmsg(socket, &packet, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		ret_message->word = MESSAGE_NONE;
	if (n <= 0)
		return;
	line[n] = '\0';
	take_fds(&packet, ret_message);
	parse(line, ret_message);
}
