/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Choice of the RDMA devices; see fabric.h. The software provider is a preloaded library that
 * defines the same ibv_ and rdma_ functions, so the program must start again to use it.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <infiniband/verbs.h>

#include "base/addr.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/output.h"
#include "transport/fabric.h"

#define PROVIDER       "libsoftrdma.so"
#define ROCE_ADDRESSES "SOFTRDMA_ROCE" /* softrdma(1): any, or the one local address to use */
#define AUTO_IS	       "RBLK_FABRIC_AUTO"

bool fabric_is_soft(void)
{
	const char *preload = getenv("LD_PRELOAD");

	return preload && strstr(preload, PROVIDER);
}

enum fabric_kind fabric_kind(void)
{
	const char *address = getenv(ROCE_ADDRESSES);

	if (!fabric_is_soft())
		return FABRIC_DEVICES;
	return address && *address ? FABRIC_SOFT_ROCE : FABRIC_SOFT;
}

bool fabric_find_provider(char path[PATH_MAX], const char *self)
{
	const char *env = getenv("SOFTRDMA_LIB");
	ssize_t n = self ? (ssize_t)strlen(self) : 0;

	if (env && snprintf(path, PATH_MAX, "%s", env) < PATH_MAX && !access(path, R_OK))
		return true;
	for (unsigned up = 0; n > 0 && up < 4; up++) {
		char *slash = memrchr(self, '/', (size_t)n);

		if (!slash)
			break;
		n = slash - self;
		if (snprintf(path, PATH_MAX, "%.*s/softrdma/" PROVIDER, (int)n, self) < PATH_MAX &&
		    !access(path, R_OK))
			return true;
	}
	snprintf(path, PATH_MAX, "%s", SOFTRDMA_INSTALLED);
	return !access(path, R_OK);
}

static bool find_provider(char path[PATH_MAX])
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	self[n > 0 ? n : 0] = '\0';
	return fabric_find_provider(path, self);
}

/* Programs that are started from now on preload the provider. */
static int preload(const char *program, const char *why)
{
	const char *before = getenv("LD_PRELOAD");
	char path[PATH_MAX];
	_autofree_ char *value = NULL;

	if (!find_provider(path))
		return fail_with(program, EXIT_PRIVILEGE,
				 "install softrdma or set SOFTRDMA_LIB to " PROVIDER,
				 "%s, and the software RDMA provider was not found", why);
	if (asprintf(&value, "%s%s%s", before ? before : "", before ? ":" : "", path) < 0 ||
	    setenv("LD_PRELOAD", value, 1) < 0)
		return fail_with(program, EXIT_FAILED, NULL, "out of memory");
	fprintf(stderr, "%s: %s: using the software RDMA provider\n", program, why);
	return 0;
}

bool fabric_has_device(const char *name)
{
	int n = 0;
	struct ibv_device **list = ibv_get_device_list(&n);
	bool found = false;

	for (int i = 0; list && i < n; i++)
		found |= !name || !strcmp(ibv_get_device_name(list[i]), name);
	if (list)
		ibv_free_device_list(list);
	return found;
}

/* RoCE is allowed before the provider looks, which is at the first use of a device. */
static int allow_roce(const char *program)
{
	const char *address = getenv(ROCE_ADDRESSES);
	struct in6_addr parsed;
	struct error error;

	if (addr_check_ip("soft-roce", &error) < 0)
		return fail_with(program, error.code, error.hint, "%s", error.message);
	if (!address || !*address)
		return setenv(ROCE_ADDRESSES, "any", 1)
			       ? fail_with(program, EXIT_FAILED, NULL, "out of memory")
			       : 0;
	if (!strcmp(address, "any") || inet_pton(AF_INET, address, &parsed) == 1 ||
	    inet_pton(AF_INET6, address, &parsed) == 1)
		return 0;
	return fail_with(program, EXIT_USAGE, "unset it, or name a local address",
			 ROCE_ADDRESSES " is '%s', which is neither 'any' nor an IP address",
			 address);
}

bool fabric_auto_may_be_soft(void)
{
	const char *value = getenv(AUTO_IS);

	return !value || strcmp(value, "device") != 0;
}

static int no_device(const char *program)
{
	return fail_with(program, EXIT_NOT_FOUND,
			 "softrdma has to be asked for here: fabric soft-roce (" AUTO_IS
			 " is device)",
			 "there is no RDMA device");
}

static int no_such_device(const char *program, const char *fabric)
{
	bool is_soft = !strncmp(fabric, "soft", 4) || !strcmp(fabric, "roce");

	return fail_with(program, EXIT_NOT_FOUND,
			 is_soft ? "softrdma is --fabric soft, with other hosts --fabric soft-roce"
				 : "list devices with: rdma link; or take --fabric auto",
			 "there is no RDMA device '%s'", fabric);
}

int fabric_choose(const char *program, const char *fabric)
{
	bool is_auto = !fabric || !strcmp(fabric, "auto");
	bool is_roce = fabric && !strcmp(fabric, "soft-roce");
	int code = is_roce ? allow_roce(program) : 0;

	if (code || fabric_is_soft())
		return code;
	if (is_roce)
		return preload(program, "RoCE v2 over UDP asked for, which authenticates nothing");
	if (fabric && !strcmp(fabric, "soft"))
		return preload(program, "software fabric asked for");
	if (fabric_has_device(is_auto ? NULL : fabric))
		return 0;
	if (!is_auto)
		return no_such_device(program, fabric);
	return fabric_auto_may_be_soft() ? preload(program, "no RDMA device") : no_device(program);
}

int fabric_select(const char *program, const char *fabric, char **argv)
{
	bool was_soft = fabric_is_soft();
	int code = fabric_choose(program, fabric);

	if (code || was_soft || !fabric_is_soft())
		return code;
	execv("/proc/self/exe", argv);
	return fail_with(program, EXIT_FAILED, NULL,
			 "cannot run again under the software RDMA provider: %s", strerror(errno));
}

bool fabric_is_there(const char *fabric)
{
	bool is_auto = !fabric || !strcmp(fabric, "auto"),
	     is_soft = fabric && (!strcmp(fabric, "soft") || !strcmp(fabric, "soft-roce"));
	char path[PATH_MAX];

	if (fabric_is_soft() || (!is_soft && fabric_has_device(is_auto ? NULL : fabric)))
		return true;
	return (is_soft || (is_auto && fabric_auto_may_be_soft())) && find_provider(path);
}
