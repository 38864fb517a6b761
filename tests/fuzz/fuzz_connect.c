/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections and what they begin with: connect requests, Connect and its data, authentication, at a
 * target where nobody or two hosts are connected (fuzz_host.h). The
 * first byte is the world, the second says whether there are others, the rest is the script.
 */
#include "tests/fuzz/fuzz_host.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	if (n < 2)
		return 0;
	host_begin(data[0], data[1] & 1);
	host_play(data + 2, n - 2);
	host_end();
	return 0;
}
