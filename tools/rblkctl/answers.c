/* SPDX-License-Identifier: BSD-3-Clause */
/* Answers of rblkd that are one line. */
#include <inttypes.h>
#include <stdio.h>

#include "tools/rblkctl/options.h"
#include "tools/rblkctl/rblkctl.h"

/* The counters stay: an error that occurs again makes rblkd degraded again. */
void show_cleared(const struct options *options, struct json_object *result)
{
	uint64_t n = answer_number(result, "cleared");

	printf("cleared: %" PRIu64 " namespace%s\n", n, n == 1 ? "" : "s");
}

/* The host is told to be gone, and may be back before this is printed. A host that is configured
 * and not connected is no error: there is nothing to end. */
void show_ended(const struct options *options, struct json_object *result)
{
	uint64_t n = answer_number(result, "controllers");

	if (n)
		printf("%s: %" PRIu64 " association%s ended; it may connect again\n",
		       answer_string(result, "host"), n, n == 1 ? "" : "s");
	else
		printf("%s: not connected\n", answer_string(result, "host"));
}

/* Both sizes: "as before" means that the file or device has not grown yet. */
void show_resized(const struct options *options, struct json_object *result)
{
	uint64_t old_size = answer_number(result, "old_size_bytes");
	uint64_t size = answer_number(result, "size_bytes");
	char was[UNITS_MAX], is[UNITS_MAX];

	printf("%s/%u: %s", answer_string(result, "subsystem"),
	       (unsigned)answer_number(result, "nsid"), format_size(options, was, old_size));
	if (size == old_size)
		puts(", as before");
	else
		printf(" -> %s\n", format_size(options, is, size));
}
