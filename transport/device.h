/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RDMA devices in use by this process, and registered memory. A device is known from the
 * first connection or listener that needs it until it is removed. One protection domain a
 * device for the target; the initiator takes a domain of its own for each controller (a
 * hostile target must not reach what was registered for another).
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
	/* Thread: control creates; read-only afterwards, any thread. The last ones: control */
	unsigned index; /* 0 .. DEVICE_MAX - 1 */
	char name[DEVICE_NAME_MAX];
	struct ibv_context *verbs; /* borrowed from librdmacm; NULL: the place is free */
	struct device_limits limits;
	struct list users; /* of struct device_user (node) */
	struct list told;  /* the same, once they know of the removal */
	struct loop_fd events;
	bool is_removed; /* no new user; forgotten with the last one */
	bool is_telling;
	unsigned n_releases; /* queue pairs destroyed because work requests did not come back */
};

/* Whatever must be gone before a removed device is: a connection, a listener, a domain. */
struct device_user {
	/* Thread: control */
	struct device *device; /* NULL: holds none */
	struct list node;
	/* The device goes away: release what is held, now or later. At most once; may be
	 * NULL where another user brings the news. */
	void (*on_removed)(struct device_user *user);
};

struct domain { /* a protection domain */
	struct device *device;
	struct ibv_pd *pd;
	struct device_user user;
};

/* ---- control thread: devices come and go (ARCHITECTURE, "When a device goes away") ---- */

/* From now on removals are noticed, on this loop; NULL ends that. */
void devices_watch(struct loop *control);
/* The device of an open context, which may be new to us. 0; -ENODEV: it is being removed;
 * or -errno. */
int device_hold(struct device_user *user, struct ibv_context *verbs);
/* The last one out of a removed device closes it. Accepts one that holds nothing. */
void device_release(struct device_user *user);
/* The device is being removed: tells its users, once. Some may be gone on return. */
void device_removed(struct device *device);
/* Finds out which devices are gone: when something says so but not which. */
void devices_look(void);

/* 0 or -errno. The domain stays where it is until domain_close. */
int domain_open(struct device *device, struct domain *domain);
/* Accepts a zeroed one. */
void domain_close(struct domain *domain);

/* What a peer may do with registered memory. */
enum mr_access {
	MR_LOCAL,	 /* our WRITEs and SENDs leave from here, receives land here */
	MR_SINK,	 /* our own READs land here: MR_LOCAL, and what iWARP wants for that */
	MR_REMOTE_READ,	 /* a peer may RDMA READ it (the host's data of a write) */
	MR_REMOTE_WRITE, /* a peer may RDMA WRITE it (the host's buffer of a read) */
	MR_REMOTE_BOTH,
	MR_WINDOWS, /* what memory windows bound to it allow (transport/window.h) */
};

struct mr {
	struct ibv_mr *verbs; /* NULL: not registered */
	uint32_t lkey, rkey;
};

/*
 * Registers memory; it must stay mapped until mr_close. On iWARP MR_SINK becomes remotely
 * writable for all queue pairs of the domain, as that is what a READ's sink needs there
 * (RFC 5040, 5.2). 0 or -errno; -ENOMEM means nearly always RLIMIT_MEMLOCK, which mr_explain
 * puts into words.
 */
int mr_open(const struct domain *domain, void *base, size_t n_bytes, enum mr_access access,
	    struct mr *ret_mr);
void mr_close(struct mr *mr); /* accepts a zeroed one */
/* "cannot register 256MiB for RDMA: locked-memory limit is 8MiB" into buf; returns the
 * hint. */
const char *mr_explain(int error, size_t n_bytes, char *buf, size_t n);
