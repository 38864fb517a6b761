/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory whose contents belong to users outside this process, such as the blocks of a namespace in
 * RAM. Two hosts may write one block at the same time through different threads of ours, and it is
 * for them to order that. To us the bytes are opaque, so these functions hide the access from
 * ThreadSanitizer. Any thread.
 */
#pragma once

#include <string.h>

#ifdef __SANITIZE_THREAD__
/* ThreadSanitizer's: it ignores the thread's reads or writes in between. */
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);
#else
#	define AnnotateIgnoreReadsBegin(file, line)
#	define AnnotateIgnoreReadsEnd(file, line)
#	define AnnotateIgnoreWritesBegin(file, line)
#	define AnnotateIgnoreWritesEnd(file, line)
#endif

/* memcpy from or to such memory. */
static inline void shared_copy(void *to, const void *from, size_t n)
{
	AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
	AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
	memcpy(to, from, n);
	AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
	AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
}

/* memset with zero of such memory. */
static inline void shared_zero(void *to, size_t n)
{
	AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
	memset(to, 0, n);
	AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
}
