/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See journal.h. A datagram has one field after the other: "NAME=value\n", or, if the value has a
 * newline in it, "NAME\n", its length in 8 bytes (little endian), the value, "\n".
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/journal.h"

enum {
	DATAGRAM_MAX = 4096, /* a record, four names and what surrounds them */
};

static int journal_fd = -1;
static struct sockaddr_un journal_addr;

struct datagram {
	char bytes[DATAGRAM_MAX];
	size_t n;
	bool is_cut;
};

void journal_open(void)
{
	const char *path = getenv("RBLK_JOURNAL_SOCKET");

	journal_addr = (struct sockaddr_un){.sun_family = AF_UNIX};
	snprintf(journal_addr.sun_path, sizeof(journal_addr.sun_path), "%s",
		 path ? path : "/run/systemd/journal/socket");
	if (journal_fd < 0)
		journal_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

static void put(struct datagram *d, const void *bytes, size_t n)
{
	if (n > sizeof(d->bytes) - d->n) {
		d->is_cut = true;
		return;
	}
	memcpy(d->bytes + d->n, bytes, n);
	d->n += n;
}

static void put_field(struct datagram *d, const char *name, const char *value, size_t n)
{
	le64 length = put_le64(n);

	put(d, name, strlen(name));
	if (memchr(value, '\n', n)) {
		put(d, "\n", 1);
		put(d, &length, sizeof(length));
	} else {
		put(d, "=", 1);
	}
	put(d, value, n);
	put(d, "\n", 1);
}

static void put_name(struct datagram *d, const char *name, const char *value)
{
	if (value && *value)
		put_field(d, name, value, strlen(value));
}

static void put_about(struct datagram *d, const struct log_about *about)
{
	char nsid[16] = "";

	if (about->nsid)
		snprintf(nsid, sizeof(nsid), "%u", about->nsid);
	put_name(d, "RBLK_SUBSYSTEM", about->subsystem);
	put_name(d, "RBLK_NSID", nsid);
	put_name(d, "RBLK_HOST", about->host);
	put_name(d, "RBLK_PORTAL", about->portal);
	put_name(d, "RBLK_VOLUME", about->volume);
}

bool journal_send(int priority, const char *program, const struct log_about *about,
		  const char *text, size_t n)
{
	struct datagram d;
	char digit = (char)('0' + priority);

	if (journal_fd < 0)
		return false;
	d.n = 0;
	d.is_cut = false;
	put_field(&d, "PRIORITY", &digit, 1);
	put_name(&d, "SYSLOG_IDENTIFIER", program);
	put_field(&d, "MESSAGE", text, n);
	if (about)
		put_about(&d, about);
	return !d.is_cut &&
	       sendto(journal_fd, d.bytes, d.n, MSG_DONTWAIT | MSG_NOSIGNAL,
		      (const struct sockaddr *)&journal_addr, sizeof(journal_addr)) == (ssize_t)d.n;
}
