/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages whose memory is mapped here on both sides (fabric/view.h): the processor copies them
 * without a system call. This process' own memory is reached through a view as well, so that it
 * stays there whatever the program unmaps. Small pieces that are sent are the exception: they are
 * read where the program has them, as those of a SEND that travels in its completion.
 */
#pragma once

struct iovec;
struct sr_taken;
struct sr_xact;

/*
 * Whether both sides of the message are mapped here, so that the processor copies it: sets
 * x->is_viewed, fills in x->view, and replaces the responder's addresses by ours. For a WRITE or
 * READ, and for a SEND whose receive was taken. Under the responder's lock, after the checks.
 */
void sr_shm_view_range(struct sr_xact *x, struct iovec *remote);
void sr_shm_view_receive(struct sr_xact *x, const struct sr_taken *t, struct iovec *to, unsigned n);
/* Copies between two lists of pieces that are mapped here. Overlapping ones have any contents. */
void sr_shm_copy_views(const struct iovec *to, unsigned n_to, const struct iovec *from,
		       unsigned n_from);
