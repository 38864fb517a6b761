/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ownership for the length of a function: a variable with _autofree_, _autoclose_ or _autofclose_
 * releases what it holds when it goes out of scope. take_ptr and take_fd hand it to another owner.
 */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define _cleanup_(f) __attribute__((cleanup(f)))
#define _autofree_   _cleanup_(cleanup_free)
#define _autoclose_  _cleanup_(cleanup_close)
#define _autofclose_ _cleanup_(cleanup_fclose)

/* The attributes above call these at the end of the scope. NULL and -1 hold nothing. */
static inline void cleanup_free(void *p)
{
	free(*(void **)p);
}

/* Its result is lost: a writer that must know calls close itself. */
static inline void cleanup_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

/* The same holds of buffered data that cannot be written. */
static inline void cleanup_fclose(FILE **f)
{
	if (*f)
		fclose(*f);
}

#define take_ptr(p)                                                                                \
	({                                                                                         \
		__typeof__(p) taken_ = (p);                                                        \
		(p) = NULL;                                                                        \
		taken_;                                                                            \
	})

/* Hands the descriptor over: *fd is -1 from here on. */
static inline int take_fd(int *fd)
{
	int taken = *fd;

	*fd = -1;
	return taken;
}
