/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that runs out: of targets that are linked with --wrap (meson.build). */
#pragma once

/* This call of malloc and calloc from now on fails, by all threads; 0: none does. */
void memory_fail(unsigned which);
