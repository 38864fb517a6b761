/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory whose contents belong to users beyond this process: several of them may write the same
 * place at once through different threads of ours, and the outcome is theirs to order. For us the
 * bytes are opaque, so ThreadSanitizer is told not to look.
 */
#pragma once

#include <string.h>

#ifdef __SANITIZE_THREAD__
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

/* memcpy with either end in such memory. */
static inline void shared_copy(void *to, const void *from, size_t n)
{
	AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
	AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
	memcpy(to, from, n);
	AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
	AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
}

static inline void shared_zero(void *to, size_t n)
{
	AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
	memset(to, 0, n);
	AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
}
