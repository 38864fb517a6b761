/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections and their first messages: connect requests, Connect and its data, authentication, at
 * a target with no host or two hosts connected (fuzz_host.h). The first byte is the world, bit 0 of
 * the second chooses the two connected hosts, the rest is the script.
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
