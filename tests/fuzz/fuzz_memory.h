/* SPDX-License-Identifier: BSD-3-Clause */
/* Allocation failures on demand, for programs that are linked with --wrap (meson.build). */
#pragma once

/* Call number `which` of malloc and calloc from now on fails, counted over all threads; 0: none. */
void memory_fail(unsigned which);
