/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See bench_plot.h. Two panels beside each other: percentiles of the latency over the depth, both
 * logarithmic, and the rate over the time of the deepest run. The picture is a file of its own,
 * with no script and no font but the viewer's.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/bits.h"
#include "base/units.h"
#include "tools/rblk/bench_plot.h"

enum {
	WIDTH = 460, /* of a panel */
	HEIGHT = 320,
	LEFT = 72,
	RIGHT = 16,
	TOP = 56,
	BOTTOM = 48,
	TICKS = 5,
};

static const struct percentile {
	const char *name, *colour;
	double fraction;
} percentiles[] = {
	{"p50", "#1f4e9c", 0.5},
	{"p99", "#d1730f", 0.99},
	{"p99.9", "#8a4fa3", 0.999},
};

/* Where a value is on the paper: low at start, high at end. */
struct axis {
	double low, high, start, end;
};

static double place(const struct axis *axis, double value)
{
	double share = (value - axis->low) / (axis->high - axis->low);

	return axis->start + share * (axis->end - axis->start);
}

unsigned bench_plot_depths(unsigned last, unsigned ret_depths[BENCH_DEPTHS_MAX])
{
	unsigned n = 0;

	for (unsigned depth = 1; depth < last && n < BENCH_DEPTHS_MAX - 1; depth *= 2)
		ret_depths[n++] = depth;
	ret_depths[n++] = last;
	return n;
}

/* ---- parts ---- */

/* Titles hold what the user typed: nothing of it may be read as markup. */
static void put_text(FILE *f, double x, double y, const char *anchor, const char *text)
{
	fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
	for (; *text; text++) {
		if (*text == '<' || *text == '&' || *text == '>')
			fprintf(f, "&#%d;", *text);
		else
			fputc(*text, f);
	}
	fputs("</text>\n", f);
}

static void put_line(FILE *f, double x1, double y1, double x2, double y2)
{
	fprintf(f, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#ccc\"/>\n", x1,
		y1, x2, y2);
}

/* The points follow, and the closing quote. */
static void begin_curve(FILE *f, const char *colour)
{
	fprintf(f, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"", colour);
}

/* ---- latency over depth ---- */

static double latency_of(const struct bench_result *result, unsigned i)
{
	return (double)MAX(histogram_quantile(&result->latency, percentiles[i].fraction),
			   UINT64_C(1));
}

/* Powers of ten around all latencies. */
static struct axis latency_axis(const struct bench_result *results, unsigned n)
{
	struct axis axis = {INFINITY, -INFINITY, HEIGHT - BOTTOM, TOP};

	for (unsigned i = 0; i < n * ARRAY_LEN(percentiles); i++) {
		double value = log10(latency_of(&results[i / ARRAY_LEN(percentiles)],
						i % ARRAY_LEN(percentiles)));

		axis.low = fmin(axis.low, floor(value));
		axis.high = fmax(axis.high, ceil(value));
	}
	axis.high = fmax(axis.high, axis.low + 1);
	return axis;
}

/* A line for each power of ten, which the eye can read off, and for each depth that was measured.
 * */
static void put_latency_grid(FILE *f, const struct axis *x, const struct axis *y,
			     const struct bench_result *results, unsigned n)
{
	char text[UNITS_MAX];

	for (double power = y->low; power <= y->high; power++) {
		put_line(f, x->start, place(y, power), x->end, place(y, power));
		put_text(f, x->start - 6, place(y, power) + 4, "end",
			 units_format_duration(text, (uint64_t)(pow(10, power) + 0.5)));
	}
	for (unsigned i = 0; i < n; i++) {
		double at = place(x, log2(results[i].depth));

		put_line(f, at, y->start, at, y->end);
		snprintf(text, sizeof(text), "%u", results[i].depth);
		put_text(f, at, y->start + 16, "middle", text);
	}
	put_text(f, (x->start + x->end) / 2, y->start + 36, "middle", "I/O in flight a queue");
	put_text(f, x->start, y->end - 12, "start", "latency");
}

/* A curve for each percentile; its name stands above, in its colour. */
static void put_latency(FILE *f, const struct bench_result *results, unsigned n)
{
	struct axis x = {0, fmax(1, log2(results[n - 1].depth)), LEFT, WIDTH - RIGHT};
	struct axis y = latency_axis(results, n);

	put_latency_grid(f, &x, &y, results, n);
	for (unsigned i = 0; i < ARRAY_LEN(percentiles); i++) {
		begin_curve(f, percentiles[i].colour);
		for (unsigned k = 0; k < n; k++)
			fprintf(f, "%.1f,%.1f ", place(&x, log2(results[k].depth)),
				place(&y, log10(latency_of(&results[k], i))));
		fputs("\"/>\n", f);
		fprintf(f, "<g fill=\"%s\">", percentiles[i].colour);
		put_text(f, WIDTH - RIGHT - 50 * (double)(ARRAY_LEN(percentiles) - 1 - i), TOP - 12,
			 "end", percentiles[i].name);
		fputs("</g>\n", f);
	}
}

/* ---- rate over time ---- */

/* 1, 2 or 5 times a power of ten, so that TICKS of them are enough. */
static double step_of(double most)
{
	double power = pow(10, floor(log10(fmax(most, 1) / TICKS)));
	double share = fmax(most, 1) / TICKS / power;

	return power * (share > 5 ? 10 : share > 2 ? 5 : share > 1 ? 2 : 1);
}

/* From zero: a rate that falls by a tenth must not look like one that breaks down. */
static void put_rate(FILE *f, const struct bench_result *result)
{
	struct axis x = {0, fmax(result->seconds, 1e-3), LEFT, WIDTH - RIGHT};
	struct axis y = {0, 1, HEIGHT - BOTTOM, TOP};
	double most = result->iops, step;
	char text[64];

	for (unsigned i = 0; i < result->n_samples; i++)
		most = fmax(most, result->samples[i].iops);
	step = step_of(most);
	y.high = step * fmax(1, ceil(most / step));
	for (double value = 0; value <= y.high + step / 2; value += step) {
		put_line(f, x.start, place(&y, value), x.end, place(&y, value));
		snprintf(text, sizeof(text), "%.0f", value);
		put_text(f, x.start - 6, place(&y, value) + 4, "end", text);
	}
	for (unsigned i = 0; i <= 4; i++) {
		snprintf(text, sizeof(text), "%.3g s", x.high * i / 4);
		put_text(f, place(&x, x.high * i / 4), y.start + 16, "middle", text);
	}
	snprintf(text, sizeof(text), "time, with %u in flight a queue", result->depth);
	put_text(f, (x.start + x.end) / 2, y.start + 36, "middle", text);
	put_text(f, x.start, y.end - 12, "start", "I/O a second");
	begin_curve(f, percentiles[0].colour);
	for (unsigned i = 0; i < result->n_samples; i++)
		fprintf(f, "%.1f,%.1f ", place(&x, fmin(result->samples[i].at_s, x.high)),
			place(&y, result->samples[i].iops));
	fputs("\"/>\n", f);
}

int bench_plot_write(FILE *f, const char *title, const struct bench_result *results, unsigned n)
{
	fprintf(f,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
		"viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"12\">\n"
		"<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
		2 * WIDTH, HEIGHT, 2 * WIDTH, HEIGHT);
	put_text(f, WIDTH, 18, "middle", title);
	put_latency(f, results, n);
	fprintf(f, "<g transform=\"translate(%d 0)\">\n", WIDTH);
	put_rate(f, &results[n - 1]);
	fputs("</g>\n</svg>\n", f);
	return fflush(f) == 0 && !ferror(f) ? 0 : -EIO;
}
