/* SPDX-License-Identifier: BSD-3-Clause */
/* What every file of the library may need of the language. */
#pragma once

#include <stddef.h>

/* A public function of libibverbs or librdmacm; everything else is hidden (softrdma.map). */
#define SR_API __attribute__((visibility("default")))

#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))
