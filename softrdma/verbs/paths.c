/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The functions of libc that name a file, so that programs find the device's files (sysfs.h). A
 * name of ours stands for the symbol of libc: headers give some of these two names, or none.
 *
 * A sanitizer has such functions itself. Constructors of other libraries call them before its
 * runtime is ready, which instrumented code of ours does not survive: there are none then.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <sys/types.h>

#include "softrdma/process/api.h"
#include "softrdma/verbs/sysfs.h"

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

#	define CALL(...) __VA_ARGS__
/* A function of libc that has the path between these arguments. */
#	define ON_PATH(type, name, parameters, before, after)                                     \
		SR_API type sr_libc_##name parameters __asm__(#name);                              \
		SR_API type sr_libc_##name parameters                                              \
		{                                                                                  \
			static type(*real) parameters;                                             \
			char place[PATH_MAX];                                                      \
                                                                                                   \
			if (!real)                                                                 \
				*(void **)&real = dlsym(RTLD_NEXT, #name);                         \
			return real(before sr_sysfs_place(path, place) after);                     \
		}
#	define AT_PATH(type, name, parameters, after)                                             \
		ON_PATH(type, name, parameters, CALL(fd, ), CALL(, after))

/* A variadic function takes a mode where another takes its third argument; without O_CREAT it has
 * any value, and is not read. */
ON_PATH(int, open, (const char *path, int flags, mode_t mode), , CALL(, flags, mode))
ON_PATH(int, open64, (const char *path, int flags, mode_t mode), , CALL(, flags, mode))
ON_PATH(int, __open_2, (const char *path, int flags), , CALL(, flags))
ON_PATH(int, __open64_2, (const char *path, int flags), , CALL(, flags))
ON_PATH(void *, fopen, (const char *path, const char *mode), , CALL(, mode))
ON_PATH(void *, fopen64, (const char *path, const char *mode), , CALL(, mode))
ON_PATH(void *, opendir, (const char *path), , )
ON_PATH(int, stat, (const char *path, void *st), , CALL(, st))
ON_PATH(int, stat64, (const char *path, void *st), , CALL(, st))
ON_PATH(int, lstat, (const char *path, void *st), , CALL(, st))
ON_PATH(int, lstat64, (const char *path, void *st), , CALL(, st))
ON_PATH(int, access, (const char *path, int mode), , CALL(, mode))
ON_PATH(ssize_t, readlink, (const char *path, char *text, size_t n), , CALL(, text, n))
ON_PATH(char *, realpath, (const char *path, char *text), , CALL(, text))
AT_PATH(int, openat, (int fd, const char *path, int flags, mode_t mode), CALL(flags, mode))
AT_PATH(int, openat64, (int fd, const char *path, int flags, mode_t mode), CALL(flags, mode))
AT_PATH(int, fstatat, (int fd, const char *path, void *st, int flags), CALL(st, flags))
AT_PATH(int, fstatat64, (int fd, const char *path, void *st, int flags), CALL(st, flags))
AT_PATH(int, statx, (int fd, const char *path, int flags, unsigned mask, void *st),
	CALL(flags, mask, st))
AT_PATH(int, faccessat, (int fd, const char *path, int mode, int flags), CALL(mode, flags))
/* programs from before glibc 2.33 */
AT_PATH(int, __xstat, (int fd, const char *path, void *st), CALL(st))
AT_PATH(int, __xstat64, (int fd, const char *path, void *st), CALL(st))
AT_PATH(int, __lxstat, (int fd, const char *path, void *st), CALL(st))
AT_PATH(int, __lxstat64, (int fd, const char *path, void *st), CALL(st))

#endif
