/* SPDX-License-Identifier: BSD-3-Clause */
/* See prometheus.h. */
#include <inttypes.h>

#include "base/clock.h"
#include "base/histogram.h"
#include "base/prometheus.h"

enum {
	/* Buckets from 4 us to 8.6 s. */
	FIRST_BIT = 12,
	LAST_BIT = 33,
};

void prometheus_family(const struct prometheus *p, const char *name, const char *type,
		       const char *help)
{
	fprintf(p->f, "# HELP %s%s %s\n# TYPE %s%s %s\n", p->prefix, name, help, p->prefix, name,
		type);
}

/* Peers choose some of the values. */
static void print_escaped(FILE *f, const char *s)
{
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (c == '\\' || c == '"')
			fprintf(f, "\\%c", c);
		else if (c >= ' ' && c <= '~')
			fputc(c, f);
		else
			fprintf(f, "\\\\x%02x", c);
	}
}

static void print_seconds(FILE *f, uint64_t ns)
{
	fprintf(f, "%" PRIu64 ".%09" PRIu64, (uint64_t)(ns / NSEC_PER_SEC),
		(uint64_t)(ns % NSEC_PER_SEC));
}

/* The part before the value; le_ns: of a bucket that ends there, UINT64_MAX: of the last one. */
static void print_labels(const struct prometheus *p, const struct prometheus_label *labels,
			 const uint64_t *le_ns)
{
	char before = '{';

	for (; labels && labels->key; labels++, before = ',') {
		fprintf(p->f, "%c%s=\"", before, labels->key);
		print_escaped(p->f, labels->value);
		fputc('"', p->f);
	}
	if (le_ns) {
		fprintf(p->f, "%cle=\"", before);
		if (*le_ns == UINT64_MAX)
			fputs("+Inf", p->f);
		else
			print_seconds(p->f, *le_ns);
		fputc('"', p->f);
		before = ',';
	}
	fputs(before == ',' ? "} " : " ", p->f);
}

static void begin(const struct prometheus *p, const char *name, const char *ending,
		  const struct prometheus_label *labels)
{
	fprintf(p->f, "%s%s%s", p->prefix, name, ending);
	print_labels(p, labels, NULL);
}

void prometheus_uint(const struct prometheus *p, const char *name,
		     const struct prometheus_label *labels, uint64_t value)
{
	begin(p, name, "", labels);
	fprintf(p->f, "%" PRIu64 "\n", value);
}

void prometheus_seconds(const struct prometheus *p, const char *name,
			const struct prometheus_label *labels, uint64_t ns)
{
	begin(p, name, "", labels);
	print_seconds(p->f, ns);
	fputc('\n', p->f);
}

void prometheus_one(const struct prometheus *p, const char *name, const char *type,
		    const char *help, const struct prometheus_label *labels, uint64_t value)
{
	prometheus_family(p, name, type, help);
	prometheus_uint(p, name, labels, value);
}

static void print_bucket(const struct prometheus *p, const char *name,
			 const struct prometheus_label *labels, uint64_t end_ns, uint64_t n)
{
	fprintf(p->f, "%s%s_bucket", p->prefix, name);
	print_labels(p, labels, &end_ns);
	fprintf(p->f, "%" PRIu64 "\n", n);
}

void prometheus_histogram(const struct prometheus *p, const char *name,
			  const struct prometheus_label *labels, const struct histogram *h)
{
	uint64_t n = 0;
	unsigned at = 0;

	for (unsigned bit = FIRST_BIT; bit <= LAST_BIT; bit++) {
		uint64_t end_ns = (1ULL << bit) - 1;

		for (; at <= histogram_step(end_ns); at++)
			n += h->counts[at];
		print_bucket(p, name, labels, end_ns, n);
	}
	/* not h->n: a histogram that was read while it was written may differ from its sum */
	for (; at < ARRAY_LEN(h->counts); at++)
		n += h->counts[at];
	print_bucket(p, name, labels, UINT64_MAX, n);
	begin(p, name, "_sum", labels);
	print_seconds(p->f, h->sum_ns);
	fputc('\n', p->f);
	begin(p, name, "_count", labels);
	fprintf(p->f, "%" PRIu64 "\n", n);
}
