/* SPDX-License-Identifier: BSD-3-Clause */
/* See bench_result.h. Keys are never renamed: records of old builds are compared with new ones. */
#include <json-c/json.h>
#include <stdio.h>

#include "base/bits.h"
#include "base/units.h"
#include "tools/rblk/bench_result.h"
#include "tools/rblk/report.h"
#include "tools/shared/table.h"

static const struct quantile {
	const char *key;
	double fraction;
} quantiles[] = {{"p50_ns", 0.5}, {"p99_ns", 0.99}, {"p999_ns", 0.999}};

static uint64_t latency_of(const struct bench_result *result, unsigned i)
{
	return histogram_quantile(&result->latency, quantiles[i].fraction);
}

/* ---- for scripts ---- */

static void add_count(struct json_object *o, const char *key, uint64_t value)
{
	json_object_object_add(o, key, json_object_new_uint64(value));
}

/* One digit behind the point. A double would else print 17, and comparisons of records would show
 * noise. */
static void add_number(struct json_object *o, const char *key, double value)
{
	char text[32];

	snprintf(text, sizeof(text), "%.1f", value);
	json_object_object_add(o, key, json_object_new_double_s(value, text));
}

/* The figures of each depth. */
static void add_figures(struct json_object *o, const struct bench_result *result)
{
	add_count(o, "depth", result->depth);
	add_count(o, "iops", (uint64_t)result->iops);
	for (unsigned i = 0; i < ARRAY_LEN(quantiles); i++)
		add_count(o, quantiles[i].key, latency_of(result, i));
	add_number(o, "mb_per_s", result->mb_per_s);
	json_object_object_add(o, "cpu_us_per_io", json_object_new_double(result->cpu_us_per_io));
}

static struct json_object *list_depths(const struct bench_result *results, unsigned n)
{
	struct json_object *depths = json_object_new_array();

	for (unsigned i = 0; i < n; i++) {
		struct json_object *o = json_object_new_object();

		add_figures(o, &results[i]);
		json_object_array_add(depths, o);
	}
	return depths;
}

static struct json_object *list_samples(const struct bench_result *result)
{
	struct json_object *rate = json_object_new_array();

	for (unsigned i = 0; i < result->n_samples; i++) {
		struct json_object *o = json_object_new_object();

		add_count(o, "at_ms", (uint64_t)(result->samples[i].at_s * 1e3));
		add_count(o, "iops", (uint64_t)result->samples[i].iops);
		json_object_array_add(rate, o);
	}
	return rate;
}

/* The last result, and the others only where there are several. */
static void print_json(const struct bench_result *results, unsigned n)
{
	const struct bench_result *last = &results[n - 1];
	struct json_object *whole = json_object_new_object();

	json_object_object_add(whole, "schema", json_object_new_int(1));
	json_object_object_add(whole, "test", json_object_new_string(last->test));
	add_count(whole, "block", last->block_bytes);
	add_count(whole, "queues", last->n_queues);
	add_count(whole, "threads", last->n_threads);
	add_figures(whole, last);
	add_count(whole, "queue_min_iops", (uint64_t)((double)last->min_done / last->seconds));
	add_count(whole, "queue_max_iops", (uint64_t)((double)last->max_done / last->seconds));
	add_count(whole, "errors", last->n_errors);
	if (n > 1 || last->n_samples) {
		json_object_object_add(whole, "depths", list_depths(results, n));
		json_object_object_add(whole, "rate", list_samples(last));
	}
	report_json(whole);
}

/* ---- for people ---- */

/* A row for each depth, with as many digits as runs repeat. */
static void add_row(struct table *table, const struct bench_result *result)
{
	char text[UNITS_MAX];

	table_add(table, result->test);
	table_addf(table, "%zu", result->block_bytes);
	table_addf(table, "%u", result->depth);
	table_addf(table, "%u", result->n_queues);
	table_addf(table, "%.0f", result->iops);
	table_addf(table, "%.1f", result->mb_per_s);
	for (unsigned i = 0; i < ARRAY_LEN(quantiles); i++)
		table_add(table, units_format_duration(text, latency_of(result, i)));
	table_addf(table, "%.2f", result->cpu_us_per_io);
}

/* With one queue nothing is lost if its column has no room. */
static void print_table(const struct bench_result *results, unsigned n)
{
	static const char *const titles[] = {"TEST",   ">BLOCK",     ">DEPTH", "?>QUEUES",
					     ">IOPS",  ">MB/s",	     ">p50",   ">p99",
					     ">p99.9", ">CPU us/IO", NULL};
	struct table table;

	table_begin(&table, titles);
	for (unsigned i = 0; i < n; i++)
		add_row(&table, &results[i]);
	table_end(&table);
}

int bench_results_print(const char *program, const struct bench_result *results, unsigned n,
			enum output output)
{
	uint64_t n_done = 0, n_errors = 0;

	if (output == OUTPUT_JSON)
		print_json(results, n);
	else
		print_table(results, n);
	for (unsigned i = 0; i < n; i++) {
		n_done += results[i].n_done;
		n_errors += results[i].n_errors;
	}
	if (!n_errors)
		return EXIT_OK;
	return fail_with(program, EXIT_FAILED, NULL, "%llu of %llu I/O failed",
			 (unsigned long long)n_errors, (unsigned long long)n_done);
}
