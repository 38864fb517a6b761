/* SPDX-License-Identifier: BSD-3-Clause */
/* The CRC-32 of Ethernet and zlib. Pure, any thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The CRC of a run of bytes followed by these n; crc is that of the run before them, 0 if there is
 * none. Not for data paths: it takes some cycles a byte. */
uint32_t crc32_add(uint32_t crc, const void *data, size_t n);
