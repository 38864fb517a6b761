/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Uevents of the kernel. A process may use a device without a connection or a bound listener on
 * it: a portal at every address, or a volume between two attempts. When such a device is removed,
 * the connection manager raises no event, and rxe and siw raise none of verbs. But the kernel
 * removes the file of the device before it begins to wait for the process, and a uevent reports
 * that.
 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <linux/netlink.h>

#include "base/bits.h"
#include "base/cleanup.h"
#include "transport/uevent.h"

enum {
	KERNEL_GROUP = 1,
	MESSAGE_MAX = 8192,
};

/* "remove@/devices/virtual/infiniband_verbs/uverbs0", then its properties. */
static bool is_removal(const char *text)
{
	return !strncmp(text, "remove@", 7) && strstr(text, "/infiniband");
}

static void on_message(struct loop_fd *lfd, uint32_t events)
{
	struct uevents *uevents = container_of(lfd, struct uevents, lfd);
	struct sockaddr_nl from = {0};
	socklen_t n_from = sizeof(from);
	char text[MESSAGE_MAX + 1];
	ssize_t n = recvfrom(lfd->fd, text, MESSAGE_MAX, 0, (struct sockaddr *)&from, &n_from);

	if (n < 0) {
		if (errno == ENOBUFS) /* some messages were lost */
			uevents->on_removal();
		return;
	}
	text[n] = '\0';
	if (from.nl_pid == 0 && is_removal(text))
		uevents->on_removal();
}

int uevents_open(struct uevents *uevents, struct loop *loop, void (*on_removal)(void))
{
	struct sockaddr_nl addr = {.nl_family = AF_NETLINK, .nl_groups = KERNEL_GROUP};
	_autoclose_ int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK,
				    NETLINK_KOBJECT_UEVENT);
	int r;

	*uevents = (struct uevents){0};
	if (fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
		return -errno;
	*uevents = (struct uevents){.lfd = {.fd = fd, .events = EPOLLIN, .on_event = on_message},
				    .on_removal = on_removal};
	r = loop_fd_add(loop, &uevents->lfd);
	if (r == 0)
		take_fd(&fd);
	return r;
}

void uevents_close(struct uevents *uevents)
{
	if (!uevents->lfd.loop)
		return;
	loop_fd_remove(&uevents->lfd);
	close(uevents->lfd.fd);
}
