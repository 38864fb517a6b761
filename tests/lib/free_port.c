/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <endian.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/lib/free_port.h"

enum {
	/* Below the ephemeral ports, which connections get for their own end. */
	PORT_BASE = 10000,
	PORT_RANGE = 22000,
};

uint16_t free_port(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET,
				 .sin_addr.s_addr = htobe32(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	static unsigned n_tried;

	assert_true(fd >= 0);
	for (unsigned i = 0; i < PORT_RANGE; i++) {
		uint16_t port = (uint16_t)(PORT_BASE +
					   ((unsigned)getpid() * 7 + n_tried++) % PORT_RANGE);

		at.sin_port = htobe16(port);
		if (bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0)
			return port;
	}
	fail_msg("no port is free");
	return 0;
}
