/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs a fuzz target over a kept corpus (argv[1]: the folder). Each file runs whole, then truncated
 * and damaged: at each byte, or in a longer file at as many places as argv[2] gives, by default
 * 100; 0: whole only. Prints TAP.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum {
	FILE_MAX = 32768,
	PLACES = 100,
};

static void replay(uint8_t *data, size_t n, size_t n_places)
{
	size_t step = n_places ? 1 + n / n_places : 1;

	LLVMFuzzerTestOneInput(data, n);
	if (!n_places)
		return;
	for (size_t cut = 0; cut < n; cut += step)
		LLVMFuzzerTestOneInput(data, cut);
	for (size_t i = 0; i < n; i += step) {
		uint8_t was = data[i];

		data[i] = (uint8_t)~was;
		LLVMFuzzerTestOneInput(data, n);
		data[i] = 0;
		LLVMFuzzerTestOneInput(data, n);
		data[i] = was;
	}
}

int main(int argc, char **argv)
{
	static uint8_t data[FILE_MAX];
	unsigned n_files = 0;
	struct dirent *entry;
	DIR *dir = argc >= 2 ? opendir(argv[1]) : NULL;
	size_t n_places = argc >= 3 ? strtoul(argv[2], NULL, 10) : PLACES;

	while (dir && (entry = readdir(dir))) {
		_autofclose_ FILE *f = NULL;
		char path[4096];

		if (*entry->d_name == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", argv[1], entry->d_name);
		f = fopen(path, "rb");
		if (!f)
			continue;
		replay(data, fread(data, 1, sizeof(data), f), n_places);
		printf("ok %u - %s\n", ++n_files, entry->d_name);
	}
	if (dir)
		closedir(dir);
	if (n_files == 0)
		printf("not ok 1 - a corpus\n");
	printf("1..%u\n", n_files ? n_files : 1);
	return n_files == 0;
}
