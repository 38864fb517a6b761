/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes the text that Prometheus reads (exposition format 0.0.4), family by family, as the format
 * requires. Times are seconds, sizes bytes. Plain functions on a stream of the caller's, which
 * looks for its errors at the end.
 */
#pragma once

#include <stdint.h>
#include <stdio.h>

struct histogram;

struct prometheus {
	FILE *f;
	const char *prefix; /* of all names: "rblkd_" */
};

/* A value may have any bytes: those that are not printable ASCII become \xHH. */
struct prometheus_label {
	const char *key, *value;
};
/* {"host", nqn}, {"op", "read"}: an argument of the functions below; without one: NULL. */
#define PROMETHEUS_LABELS(...) ((const struct prometheus_label[]){__VA_ARGS__, {NULL, NULL}})

/* The names below have no prefix. type: "counter", "gauge" or "histogram". */
void prometheus_family(const struct prometheus *p, const char *name, const char *type,
		       const char *help);
/* A sample of the family that was begun last; labels end with a NULL. */
void prometheus_uint(const struct prometheus *p, const char *name,
		     const struct prometheus_label *labels, uint64_t value);
/* The same of a time. */
void prometheus_seconds(const struct prometheus *p, const char *name,
			const struct prometheus_label *labels, uint64_t ns);
/* A family of one sample. */
void prometheus_one(const struct prometheus *p, const char *name, const char *type,
		    const char *help, const struct prometheus_label *labels, uint64_t value);
/* The samples of a family of type histogram. The buckets end where octaves of the histogram end, at
 * 2^k - 1 ns, so their counts are exact: from 4 us to 8.6 s. */
void prometheus_histogram(const struct prometheus *p, const char *name,
			  const struct prometheus_label *labels, const struct histogram *h);
