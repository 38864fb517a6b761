/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The RDMA devices that this process uses, and registered memory. A device is in the table from the
 * first connection or listener on it until it is removed. The target has one protection domain for
 * each device. The initiator has one for each controller, so that a hostile target cannot reach
 * memory that is registered for another.
 *
 * Thread: control. The fields up to limits are then read-only for any thread. Errors are -errno.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/loop.h"

enum {
	DEVICE_MAX = 8,
	DEVICE_NAME_MAX = 64,
};

struct ibv_context;
struct ibv_pd;
struct ibv_mr;

struct device_limits {
	unsigned max_qp_wr;
	unsigned max_cqe;
	unsigned max_sge;    /* of SEND and WRITE */
	unsigned max_sge_rd; /* of RDMA READ; 1 on iWARP */
	unsigned max_srq_wr;
	unsigned max_rd_atom;	   /* READs a peer may have in flight towards us */
	unsigned max_init_rd_atom; /* READs we may have in flight */
	bool has_srq;
	bool has_send_invalidate; /* SEND_WITH_INV (IBV_DEVICE_MEM_MGT_EXTENSIONS) */
	unsigned max_windows;	  /* type 2 memory windows; 0: none */
	bool is_iwarp;		  /* a READ's sink must be remotely writable; one SGE a READ */
};

struct device {
	/* Thread: control creates. Read-only for any thread up to limits; then control's */
	unsigned index; /* 0 .. DEVICE_MAX - 1 */
	char name[DEVICE_NAME_MAX];
	struct ibv_context *verbs; /* borrowed from librdmacm; NULL: a free entry */
	struct device_limits limits;
	struct list users; /* of struct device_user (node) */
	struct list told;  /* the users that on_removed has notified */
	struct loop_fd events;
	bool is_removed;     /* takes no new user; the last release frees the entry */
	bool is_telling;     /* device_removed iterates over users */
	unsigned n_releases; /* queue pairs destroyed with lost work requests */
};

/* An object that holds a device: a connection, a listener, a domain. */
struct device_user {
	/* Thread: control */
	struct device *device; /* NULL: none is held */
	struct list node;
	/* The device is being removed: call device_release, now or later. At most once. NULL where
	 * another user of the same owner is notified. */
	void (*on_removed)(struct device_user *user);
};

struct domain { /* a protection domain */
	struct device *device;
	struct ibv_pd *pd;
	struct device_user user;
};

/* ---- control thread: devices come and go (ARCHITECTURE, "When a device goes away") ---- */

/* Watches for removals on this loop from here on; NULL ends that. Called twice, as by two
 * connection managers of one loop, the second end counts. */
void devices_watch(struct loop *control);
/* Holds the device of an open context; adds it to the table if it is new. 0; -ENODEV: it is being
 * removed; or -errno. */
int device_hold(struct device_user *user, struct ibv_context *verbs);
/* The last release of a removed device closes it. Accepts a user that holds nothing. */
void device_release(struct device_user *user);
/* The device is being removed: notifies its users, once. Some may be freed on return. */
void device_removed(struct device *device);
/* Finds removed devices, after an event that does not name the device. */
void devices_look(void);

/* 0 or -errno. The caller must not move the domain until domain_close. */
int domain_open(struct device *device, struct domain *domain);
/* Accepts a zeroed one. */
void domain_close(struct domain *domain);

/* The access of a peer to registered memory. */
enum mr_access {
	MR_LOCAL,	 /* the source of our WRITEs and SENDs, the sink of receives */
	MR_SINK,	 /* the sink of our READs: MR_LOCAL, on iWARP also writable */
	MR_REMOTE_READ,	 /* a peer may RDMA READ it (the host's data of a write) */
	MR_REMOTE_WRITE, /* a peer may RDMA WRITE it (the host's buffer of a read) */
	MR_REMOTE_BOTH,
	MR_WINDOWS, /* memory windows on it set the access (transport/window.h) */
};

struct mr {
	struct ibv_mr *verbs; /* NULL: not registered */
	uint32_t lkey, rkey;
};

/*
 * Registers memory, which must stay mapped until mr_close. On iWARP a READ's sink must be remotely
 * writable (RFC 5040, 5.2), so there MR_SINK is writable by all peers of the domain. 0 or -errno.
 * -ENOMEM nearly always means RLIMIT_MEMLOCK; mr_explain words the message.
 */
int mr_open(const struct domain *domain, void *base, size_t n_bytes, enum mr_access access,
	    struct mr *ret_mr);
void mr_close(struct mr *mr); /* accepts a zeroed one */
/* The bytes above which RLIMIT_MEMLOCK, where it binds, refuses any registration; SIZE_MAX: no
 * limit. Any thread. */
size_t mr_limit_bytes(void);
/* Whether n_bytes more stay within RLIMIT_MEMLOCK, whatever the device takes for locked: no device
 * refuses them because of it. Any thread. */
bool mr_limit_has_room(size_t n_bytes);
/* Writes "cannot register 256MiB for RDMA: locked-memory limit is 8MiB" into buf. Returns the
 * hint, static. */
const char *mr_explain(int error, size_t n_bytes, char *buf, size_t n);
