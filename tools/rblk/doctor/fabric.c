/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RDMA devices, as the kernel shows them in sysfs
 * (Documentation/ABI/stable/sysfs-class-infiniband); see doctor.h. Device nodes are what libibverbs
 * and librdmacm open.
 */
#include <dirent.h>
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tools/rblk/doctor/doctor.h"
#include "tools/rblk/doctor/findings.h"
#include "transport/fabric.h"

#define DEVICES "/sys/class/infiniband"
#define NODES	"/dev/infiniband"
#define NO_GID	"0000:0000:0000:0000:0000:0000:0000:0000"

enum {
	GIDS_LOOKED_AT = 64,
	NAME_MAX_SYSFS = 64,
	MTU_FOR_4096 = 4200, /* 4096 bytes and the headers of RoCE v2 */
};

struct port {
	const char *device;
	const char *number;
	char netdev[NAME_MAX_SYSFS]; /* "": none */
};

/* ---- one port ---- */

/* A GID of RoCE v2 exists for each IP address of the interface. InfiniBand has always one. */
static bool has_gid(struct port *port)
{
	char gid[NAME_MAX_SYSFS], type[NAME_MAX_SYSFS];

	for (unsigned i = 0; i < GIDS_LOOKED_AT; i++) {
		if (doctor_read_line(gid, sizeof(gid), DEVICES "/%s/ports/%s/gids/%u", port->device,
				     port->number, i) < 0 ||
		    !strcmp(gid, NO_GID))
			continue;
		if (doctor_read_line(type, sizeof(type), DEVICES "/%s/ports/%s/gid_attrs/types/%u",
				     port->device, port->number, i) < 0 ||
		    strcmp(type, "IB/RoCE v1") != 0)
			return true;
	}
	return false;
}

/* The interface below the port, "" where there is none. */
static void find_netdev(struct port *port)
{
	for (unsigned i = 0; i < GIDS_LOOKED_AT; i++)
		if (doctor_read_line(port->netdev, sizeof(port->netdev),
				     DEVICES "/%s/ports/%s/gid_attrs/ndevs/%u", port->device,
				     port->number, i) == 0)
			return;
	port->netdev[0] = '\0';
}

/* The path MTU of RoCE is a power of two that fits the frame: 1500 gives 1024 bytes a packet. */
static void check_mtu(struct doctor *doctor, const struct port *port)
{
	char mtu[NAME_MAX_SYSFS];

	if (!*port->netdev ||
	    doctor_read_line(mtu, sizeof(mtu), "/sys/class/net/%s/mtu", port->netdev) < 0)
		return;
	if (atoi(mtu) < MTU_FOR_4096)
		doctor_found(doctor, FINDING_NOTE, "mtu",
			     "ip link set INTERFACE mtu 9000, also on the switch and the target",
			     "%s has %s; from 4200 on a 4 KiB block is one packet", port->netdev,
			     mtu);
	else
		doctor_found(doctor, FINDING_OK, "mtu", NULL, "%s has %s", port->netdev, mtu);
}

/* state is "4: ACTIVE". Returns whether the port can carry anything. */
static bool check_port(struct doctor *doctor, struct port *port)
{
	char state[NAME_MAX_SYSFS] = "?", link[NAME_MAX_SYSFS] = "?";

	find_netdev(port);
	doctor_read_line(state, sizeof(state), DEVICES "/%s/ports/%s/state", port->device,
			 port->number);
	doctor_read_line(link, sizeof(link), DEVICES "/%s/ports/%s/link_layer", port->device,
			 port->number);
	if (!strstr(state, "ACTIVE")) {
		doctor_found(doctor, FINDING_WARNING, "rdma_port",
			     *port->netdev ? "ip link set INTERFACE up; check the cable"
					   : "check the cable and the subnet manager",
			     "port %s of %s is not active (%s)%s%s", port->number, port->device,
			     state, *port->netdev ? ", interface " : "", port->netdev);
		return false;
	}
	if (!has_gid(port)) {
		doctor_found(doctor, FINDING_WARNING, "rdma_address",
			     "give the interface an IP address: ip address add ...",
			     "port %s of %s has no address that RDMA can use (GID)%s%s",
			     port->number, port->device, *port->netdev ? ", interface " : "",
			     port->netdev);
		return false;
	}
	doctor_found(doctor, FINDING_OK, "rdma_port", NULL, "port %s of %s is active, %s%s%s",
		     port->number, port->device, link, *port->netdev ? " on " : "", port->netdev);
	check_mtu(doctor, port);
	return true;
}

/* ---- devices ---- */

/* Checks the node that programs open to reach the device. */
static void check_node(struct doctor *doctor, const char *node, const char *module)
{
	char path[sizeof(NODES) + NAME_MAX_SYSFS + 1], hint[160];

	snprintf(path, sizeof(path), NODES "/%s", node);
	if (access(path, R_OK | W_OK) == 0)
		return;
	if (errno == ENOENT)
		snprintf(hint, sizeof(hint), "modprobe %s; a container needs --device=" NODES,
			 module);
	else
		snprintf(hint, sizeof(hint), "let your user read and write it, e.g. by group rdma");
	doctor_found(doctor, FINDING_PROBLEM, "rdma_nodes", hint, "%s: %s", path, strerror(errno));
}

/* uverbsN is named after no device; its file ibdev says whose it is. */
static void check_verbs_node(struct doctor *doctor, const char *device)
{
	char name[NAME_MAX_SYSFS];

	for (unsigned i = 0; i < GIDS_LOOKED_AT; i++) {
		if (doctor_read_line(name, sizeof(name),
				     "/sys/class/infiniband_verbs/uverbs%u/ibdev", i) < 0 ||
		    strcmp(name, device) != 0)
			continue;
		snprintf(name, sizeof(name), "uverbs%u", i);
		check_node(doctor, name, "ib_uverbs");
		return;
	}
	doctor_found(doctor, FINDING_PROBLEM, "rdma_nodes", "modprobe ib_uverbs",
		     "the kernel offers %s to no program", device);
}

/* Calls each for the entries of a directory of sysfs, in the order of the kernel. */
static unsigned each_port(struct doctor *doctor, const char *device)
{
	char path[sizeof(DEVICES) + 2 * NAME_MAX_SYSFS];
	struct dirent *entry;
	unsigned n_good = 0;
	DIR *dir;

	snprintf(path, sizeof(path), DEVICES "/%.*s/ports", NAME_MAX_SYSFS - 1, device);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		struct port port = {.device = device, .number = entry->d_name};

		if (entry->d_name[0] != '.')
			n_good += check_port(doctor, &port);
	}
	if (dir)
		closedir(dir);
	return n_good;
}

/* One port that can be used is enough, so a port that is down is a warning as long as there is
 * another. */
static void each_device(struct doctor *doctor, unsigned *n_devices, unsigned *n_good)
{
	struct dirent *entry;
	DIR *dir = opendir(DEVICES);

	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.' || strlen(entry->d_name) >= NAME_MAX_SYSFS)
			continue;
		(*n_devices)++;
		check_verbs_node(doctor, entry->d_name);
		*n_good += each_port(doctor, entry->d_name);
	}
	if (dir)
		closedir(dir);
}

/* By a socket, because /sys may be that of another network namespace. 0: unknown. */
static int mtu_of(const char *interface)
{
	_autoclose_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq request = {0};

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", interface);
	return fd >= 0 && ioctl(fd, SIOCGIFMTU, &request) == 0 ? request.ifr_mtu : 0;
}

/* Both sides must have the same: softrdma refuses a connection with larger packets. */
static void check_roce(struct doctor *doctor)
{
	struct if_nameindex *list = if_nameindex();

	doctor_found(doctor, FINDING_OK, "roce", NULL,
		     "other hosts are reached by UDP port 4791, which no firewall may drop");
	for (unsigned i = 0; list && list[i].if_index; i++) {
		int mtu = strcmp(list[i].if_name, "lo") ? mtu_of(list[i].if_name) : 0;

		if (mtu)
			doctor_found(doctor, FINDING_OK, "roce_mtu", NULL,
				     "%s has %d; the target's interface needs the same",
				     list[i].if_name, mtu);
	}
	if (list)
		if_freenameindex(list);
}

/* Which machines it reaches is what its user has to know. */
static void check_software(struct doctor *doctor, bool has_device)
{
	bool is_roce = fabric_kind() == FABRIC_SOFT_ROCE;

	doctor_found(doctor, FINDING_OK, "software_provider",
		     is_roce ? NULL : "--fabric soft-roce reaches other hosts",
		     "in use%s; its timings are not those of RDMA%s",
		     has_device ? "" : ", because there is no RDMA device",
		     is_roce ? "" : ", and it reaches this machine only");
	if (is_roce)
		check_roce(doctor);
}

void doctor_fabric(struct doctor *doctor)
{
	unsigned n_devices = 0, n_good = 0;

	doctor->section = "fabric";
	each_device(doctor, &n_devices, &n_good);
	if (n_devices) {
		check_node(doctor, "rdma_cm", "rdma_ucm");
		if (!n_good)
			doctor_found(doctor, FINDING_PROBLEM, "rdma_devices",
				     "see the ports above; or --fabric soft",
				     "no port can be used");
	}
	if (fabric_is_soft())
		check_software(doctor, n_devices > 0);
	else if (!n_devices)
		doctor_found(doctor, FINDING_PROBLEM, "rdma_devices",
			     "install softrdma; or: rdma link add rxe0 type rxe netdev INTERFACE",
			     "there is neither a device nor the software provider");
}
