/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Admin and I/O commands with their payloads, of two hosts that are connected and whose controllers
 * are enabled. The first byte is the world, the rest the script: fuzz_host.h.
 */
#include "tests/fuzz/fuzz_host.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	if (n < 1)
		return 0;
	host_begin(data[0], true);
	host_play(data + 1, n - 1);
	host_end();
	return 0;
}
