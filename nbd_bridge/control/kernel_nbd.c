/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Netlink to the nbd driver (family "nbd", linux/nbd-netlink.h). Each call builds one message,
 * sends it and waits for the answer or the acknowledgement, which the driver gives without any I/O
 * to the device. Errors of libnl are turned into errno values.
 */
#include <errno.h>
#include <limits.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <linux/nbd-netlink.h>
#include <netlink/genl/ctrl.h>
#include <netlink/genl/genl.h>
#include <netlink/netlink.h>

#include "base/cleanup.h"
#include "nbd_bridge/control/kernel_nbd.h"

enum {
	CLIENT_DESTROY_ON_DISCONNECT = 1 << 0, /* NBD_CFLAG_DESTROY_ON_DISCONNECT */
	CLIENT_DISCONNECT_ON_CLOSE = 1 << 1,   /* NBD_CFLAG_DISCONNECT_ON_CLOSE */
};

static int to_errno(int nl_error)
{
	switch (-nl_error) {
	case NLE_SUCCESS:
		return 0;
	case NLE_PERM:
		return -EPERM;
	case NLE_BUSY:
		return -EBUSY;
	case NLE_NOMEM:
		return -ENOMEM;
	case NLE_OBJ_NOTFOUND:
	case NLE_NODEV:
		return -ENOENT;
	case NLE_INVAL:
		return -EINVAL;
	case NLE_OPNOTSUPP:
		return -EOPNOTSUPP;
	default:
		return -EIO;
	}
}

/* The program by which the kernel itself loads modules. False: there is none, as in a kernel
 * without modules. */
static bool find_modprobe(char path[PATH_MAX])
{
	_autofclose_ FILE *f = fopen("/proc/sys/kernel/modprobe", "re");

	if (!f || !fgets(path, PATH_MAX, f))
		return false;
	path[strcspn(path, "\n")] = '\0';
	return path[0] == '/' && access(path, X_OK) == 0;
}

/* Without our environment, which may preload the software provider. */
static void load_module(void)
{
	char path[PATH_MAX], quiet[] = "-q", module[] = "nbd", max[] = "nbds_max=0";
	char *argv[] = {path, quiet, module, max, NULL}, *env[] = {NULL};
	pid_t pid;

	if (geteuid() == 0 && find_modprobe(path) &&
	    posix_spawn(&pid, path, NULL, NULL, argv, env) == 0)
		waitpid(pid, NULL, 0);
}

int kernel_nbd_probe(void)
{
	struct kernel_nbd nbd = {0};
	int r = kernel_nbd_open(&nbd);

	if (r < 0) {
		load_module();
		r = kernel_nbd_open(&nbd);
	}
	kernel_nbd_close(&nbd);
	return r < 0 ? -ENOENT : 0;
}

int kernel_nbd_open(struct kernel_nbd *nbd)
{
	int r;

	nbd->sock = nl_socket_alloc();
	if (!nbd->sock)
		return -ENOMEM;
	r = genl_connect(nbd->sock);
	if (r == 0)
		r = genl_ctrl_resolve(nbd->sock, NBD_GENL_FAMILY_NAME);
	if (r < 0) {
		kernel_nbd_close(nbd);
		return to_errno(r);
	}
	nbd->family = r;
	return 0;
}

void kernel_nbd_close(struct kernel_nbd *nbd)
{
	if (nbd->sock)
		nl_socket_free(nbd->sock);
	nbd->sock = NULL;
}

/* Owned by the caller, NULL without memory. */
static struct nl_msg *message_new(const struct kernel_nbd *nbd, uint8_t command)
{
	struct nl_msg *msg = nlmsg_alloc();

	if (msg && !genlmsg_put(msg, NL_AUTO_PORT, NL_AUTO_SEQ, nbd->family, 0, 0, command, 0)) {
		nlmsg_free(msg);
		return NULL;
	}
	return msg;
}

static int put_sockets(struct nl_msg *msg, const struct kernel_nbd_params *params)
{
	struct nlattr *list = nla_nest_start(msg, NBD_ATTR_SOCKETS);
	int r = list ? 0 : -NLE_NOMEM;

	for (unsigned i = 0; r == 0 && i < params->n_sockets; i++) {
		struct nlattr *item = nla_nest_start(msg, NBD_SOCK_ITEM);

		if (!item)
			return -NLE_NOMEM;
		r = nla_put_u32(msg, NBD_SOCK_FD, (uint32_t)params->sockets[i]);
		nla_nest_end(msg, item);
	}
	if (list)
		nla_nest_end(msg, list);
	return r;
}

/* Sends and waits for the acknowledgement; takes over msg. */
static int send_and_free(struct kernel_nbd *nbd, struct nl_msg *msg, int r)
{
	if (r == 0)
		r = nl_send_auto(nbd->sock, msg);
	if (r >= 0)
		r = nl_recvmsgs_default(nbd->sock);
	nlmsg_free(msg);
	return to_errno(r < 0 ? r : 0);
}

/* The answer to CONNECT. */
static int on_connected(struct nl_msg *msg, void *arg)
{
	struct nlattr *attrs[NBD_ATTR_MAX + 1];
	struct kernel_nbd *nbd = arg;

	if (genlmsg_parse(nlmsg_hdr(msg), 0, attrs, NBD_ATTR_MAX, NULL) == 0 &&
	    attrs[NBD_ATTR_INDEX])
		nbd->index = nla_get_u32(attrs[NBD_ATTR_INDEX]);
	return NL_OK;
}

int kernel_nbd_connect(struct kernel_nbd *nbd, const struct kernel_nbd_params *params,
		       uint32_t *ret_index)
{
	struct nl_msg *msg = message_new(nbd, NBD_CMD_CONNECT);
	int r = 0;

	if (!msg)
		return -ENOMEM;
	nl_socket_modify_cb(nbd->sock, NL_CB_VALID, NL_CB_CUSTOM, on_connected, nbd);
	nbd->index = UINT32_MAX;
	r |= nla_put_u64(msg, NBD_ATTR_SIZE_BYTES, params->size_bytes);
	r |= nla_put_u64(msg, NBD_ATTR_BLOCK_SIZE_BYTES, params->block_size);
	r |= nla_put_u64(msg, NBD_ATTR_TIMEOUT, params->io_timeout_s);
	r |= nla_put_u64(msg, NBD_ATTR_DEAD_CONN_TIMEOUT, params->dead_conn_timeout_s);
	r |= nla_put_u64(msg, NBD_ATTR_SERVER_FLAGS, params->flags);
	r |= nla_put_u64(msg, NBD_ATTR_CLIENT_FLAGS, CLIENT_DESTROY_ON_DISCONNECT);
	r |= nla_put_string(msg, NBD_ATTR_BACKEND_IDENTIFIER, params->backend);
	r |= put_sockets(msg, params);
	r = send_and_free(nbd, msg, r ? -NLE_NOMEM : 0);
	if (r == 0 && nbd->index == UINT32_MAX) /* that was the device; its ack comes after */
		r = to_errno(nl_recvmsgs_default(nbd->sock));
	if (r == 0)
		*ret_index = nbd->index;
	return r;
}

/* A change of device index, to which the caller adds; the kernel compares the backend. */
static struct nl_msg *reconfigure_new(struct kernel_nbd *nbd, uint32_t index,
				      const struct kernel_nbd_params *params)
{
	struct nl_msg *msg = message_new(nbd, NBD_CMD_RECONFIGURE);

	if (msg && (nla_put_u32(msg, NBD_ATTR_INDEX, index) ||
		    nla_put_string(msg, NBD_ATTR_BACKEND_IDENTIFIER, params->backend))) {
		nlmsg_free(msg);
		return NULL;
	}
	return msg;
}

int kernel_nbd_reconfigure(struct kernel_nbd *nbd, uint32_t index,
			   const struct kernel_nbd_params *params)
{
	struct nl_msg *msg = reconfigure_new(nbd, index, params);
	int r = 0;

	if (!msg)
		return -ENOMEM;
	r |= nla_put_u64(msg, NBD_ATTR_SIZE_BYTES, params->size_bytes);
	r |= nla_put_u64(msg, NBD_ATTR_TIMEOUT, params->io_timeout_s);
	r |= nla_put_u64(msg, NBD_ATTR_DEAD_CONN_TIMEOUT, params->dead_conn_timeout_s);
	r |= nla_put_u64(msg, NBD_ATTR_CLIENT_FLAGS, CLIENT_DESTROY_ON_DISCONNECT);
	r |= put_sockets(msg, params);
	return send_and_free(nbd, msg, r ? -NLE_NOMEM : 0);
}

/* Changes one number. */
static int reconfigure_u64(struct kernel_nbd *nbd, uint32_t index,
			   const struct kernel_nbd_params *params, int attribute, uint64_t value)
{
	struct nl_msg *msg = reconfigure_new(nbd, index, params);

	if (!msg)
		return -ENOMEM;
	return send_and_free(nbd, msg, nla_put_u64(msg, attribute, value) ? -NLE_NOMEM : 0);
}

int kernel_nbd_resize(struct kernel_nbd *nbd, uint32_t index,
		      const struct kernel_nbd_params *params)
{
	return reconfigure_u64(nbd, index, params, NBD_ATTR_SIZE_BYTES, params->size_bytes);
}

int kernel_nbd_end_on_close(struct kernel_nbd *nbd, uint32_t index,
			    const struct kernel_nbd_params *params)
{
	return reconfigure_u64(nbd, index, params, NBD_ATTR_CLIENT_FLAGS,
			       CLIENT_DESTROY_ON_DISCONNECT | CLIENT_DISCONNECT_ON_CLOSE);
}

int kernel_nbd_disconnect(struct kernel_nbd *nbd, uint32_t index)
{
	struct nl_msg *msg = message_new(nbd, NBD_CMD_DISCONNECT);

	if (!msg)
		return -ENOMEM;
	return send_and_free(nbd, msg, nla_put_u32(msg, NBD_ATTR_INDEX, index) ? -NLE_NOMEM : 0);
}
