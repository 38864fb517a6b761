/* SPDX-License-Identifier: BSD-3-Clause */
/* Asking the kernel for the unix sockets of this network namespace, sock_diag(7); see owner.h. */
#include "softrdma/fabric/roce/owner.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	ANSWER_BYTES = 32 << 10,
};

struct question {
	struct nlmsghdr head;
	struct unix_diag_req about;
};

static int ask(void)
{
	struct question q = {
		.head = {.nlmsg_len = sizeof(q),
			 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			 .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
		.about = {.sdiag_family = AF_UNIX,
			  .udiag_states = UINT32_MAX,
			  .udiag_show = UDIAG_SHOW_NAME | UDIAG_SHOW_UID},
	};
	int sock = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);

	if (sock >= 0 && send(sock, &q, sizeof(q), 0) == (ssize_t)sizeof(q))
		return sock;
	if (sock >= 0)
		close(sock);
	return -1;
}

/* Whether one socket has such a name and is another user's. */
static bool is_of_others(const struct nlmsghdr *h, const char *prefix, uid_t *ret_uid)
{
	const struct unix_diag_msg *m = NLMSG_DATA(h);
	const struct rtattr *a = (const void *)(m + 1);
	int left = (int)h->nlmsg_len - (int)NLMSG_LENGTH(sizeof(*m));
	size_t n = strlen(prefix);
	bool matches = false;
	uint32_t uid = geteuid();

	for (; RTA_OK(a, left); a = RTA_NEXT(a, left)) {
		const char *name = RTA_DATA(a);

		if (a->rta_type == UNIX_DIAG_UID && RTA_PAYLOAD(a) == sizeof(uid))
			memcpy(&uid, RTA_DATA(a), sizeof(uid));
		else if (a->rta_type == UNIX_DIAG_NAME && RTA_PAYLOAD(a) > n)
			matches = !name[0] && !memcmp(name + 1, prefix, n);
	}
	if (!matches || uid == geteuid())
		return false;
	*ret_uid = uid;
	return true;
}

unsigned roce_names_of_others(const char *prefix, uid_t *ret_uid)
{
	_Alignas(struct nlmsghdr) char answer[ANSWER_BYTES];
	int sock = ask();
	bool goes_on = sock >= 0;
	unsigned found = 0;

	while (goes_on) {
		ssize_t n = recv(sock, answer, sizeof(answer), 0);
		struct nlmsghdr *h = (struct nlmsghdr *)answer;

		goes_on = n > 0;
		for (; goes_on && NLMSG_OK(h, (size_t)n); h = NLMSG_NEXT(h, n)) {
			goes_on = h->nlmsg_type == SOCK_DIAG_BY_FAMILY;
			found += goes_on && is_of_others(h, prefix, ret_uid);
		}
	}
	if (sock >= 0)
		close(sock);
	return found;
}
