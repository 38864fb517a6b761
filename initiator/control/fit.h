/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether a path's association may serve a volume: it leads to the namespace that was attached, and
 * gives what is in use. Control loop only.
 */
#pragma once

struct path;

/* A difference that makes a namespace another one than that which was attached. */
struct difference {
	const char *is_another; /* of a path that was never live */
	const char *has_changed;
};

/* NULL: none. */
const struct difference *fit_find_difference(const struct path *path);
/* For a new association: while others are live it has their size; alone it may have grown. */
const struct difference *fit_find_other_size(const struct path *path);
/* Fills the path's last_error. */
void fit_set_error(struct path *path, const struct difference *difference);
/* 0, or -errno with the path's last_error: the association gives less than what is in use, or has
 * the id of another. */
int fit_check(struct path *path);
