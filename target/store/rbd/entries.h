/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Entries of the blocklist whose clients are over. An owner is fenced for ten years, because its
 * process may stand still for as long. Once that process has ended, or has closed that client, only
 * the network and OSDs can have something of it, and for those the time is enough that Ceph itself
 * takes: mon_osd_blocklist_default_expire, an hour. Afterwards the entry is removed, if the user
 * may do that.
 *
 * A record beside the image (lease_note_fenced) tells of the process. Only a process of the same
 * machine and boot can know that it is over.
 */
#pragma once

#include "target/store/rbd/image.h"

/*
 * Looks at the records of an image, of which the names and the pool are needed, and logs what
 * becomes of their clients. Waits for the cluster: the opener's thread. When to look again, as of
 * rbd_host->now_ns; UINT64_MAX: an entry only becomes ripe if another client ends.
 */
uint64_t entries_look(const struct image *image);
