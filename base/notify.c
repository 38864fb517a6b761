/* SPDX-License-Identifier: BSD-3-Clause */
/* See notify.h. Not by libsystemd: with the libraries that it needs it takes half a millisecond of
 * each start, and this one datagram is all that is needed of it. */
#include "base/notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"

int notify_manager(const char *state)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	const char *name = getenv("NOTIFY_SOCKET");
	size_t n = name ? strlen(name) : 0;
	_autoclose_ int fd = -1;

	if (!n)
		return 0;
	if ((*name != '/' && *name != '@') || n < 2 || n >= sizeof(to.sun_path))
		return -EINVAL;
	memcpy(to.sun_path, name, n);
	if (*name == '@')
		to.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&to,
			     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n)) < 0)
		return -errno;
	return 0;
}
