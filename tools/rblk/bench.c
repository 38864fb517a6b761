/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rblk bench: load on a namespace through the host library, without NBD: measures the fabric and
 * the target alone. One line of result, or JSON.
 *
 * The control thread opens the volume, spreads its queues over worker threads (bench_worker.c),
 * lets them run, and takes everything down in the reverse order:
 *
 *   OPENING -> RAMP -> MEASURING -> STOPPING (what is in flight) -> REMOVING -> CLOSING
 *
 * The ramp is not measured: in it queues connect, caches fill and polling settles. Failures are
 * reported after everything is down, because the volume's memory is the target's until then.
 *
 * For a picture (--plot, bench_plot.c) all of this is done for each depth.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/fd_limit.h"
#include "base/bits.h"
#include "base/check.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/counter.h"
#include "base/log.h"
#include "base/spin.h"
#include "base/units.h"
#include "initiator/control/host_identity.h"
#include "tools/rblk/bench_plot.h"
#include "tools/rblk/bench_worker.h"
#include "tools/rblk/arguments.h"
#include "tools/rblk/commands.h"
#include "tools/rblk/report.h"
#include "tools/rblk/spin_option.h"
#include "tools/rblk/target_name.h"
#include "transport/fabric.h"

static const char program[] = "rblk bench";
#define BYTES_MAX (512 * MIB) /* in flight a queue; its memory is twice that */

static const char *const modes[] = {"randread", "randwrite", "read", "write", NULL};

struct bench {
	/* Thread: control, except for the workers (bench_worker.h) */
	struct loop loop;
	struct volume *volume;
	struct volume_info info;
	struct bench_load load;
	struct bench_worker workers[VOLUME_QUEUES_MAX];
	unsigned n_workers, n_queues, n_running;
	uint64_t ramp_ns, runtime_ns, started_ns, took_ns;
	uint64_t cpu_us; /* of the whole process, while measuring */
	struct loop_timer ramp, end, sample;
	uint64_t sample_ns, sampled_ns, n_sampled; /* between two samples; 0: none are taken */
	struct bench_result *result;		   /* borrowed: where they go */
	struct error error;
	bool has_failed;
};

/* Microseconds of CPU that this process has used. */
static uint64_t cpu_used_us(void)
{
	struct rusage usage = {0};

	getrusage(RUSAGE_SELF, &usage);
	return (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
	       (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/* ---- stopping ---- */

/* The last queue: the volume closes, and on_closed ends the loop. */
static void on_removed(void *context)
{
	struct bench *bench = context;

	check(bench->n_running > 0);
	if (--bench->n_running == 0)
		volume_close(bench->volume);
}

/* A worker has nothing in flight any more. */
static void on_worker_stopped(struct loop_msg *msg)
{
	struct bench_worker *worker = container_of(msg, struct bench_worker, stopped);
	struct bench *bench = worker->context;

	check(bench->n_running > 0);
	if (--bench->n_running)
		return;
	bench->took_ns = clock_ns() - bench->started_ns;
	bench->cpu_us = cpu_used_us() - bench->cpu_us;
	bench->n_running = bench->n_queues;
	for (unsigned i = 0; i < bench->n_queues; i++) {
		worker = &bench->workers[i % bench->n_workers];
		volume_queue_remove(worker->queues[i / bench->n_workers].volume, on_removed, bench);
	}
}

/* The workers count while this is read: the sum is not of a moment, but it only grows. */
static uint64_t count_done(const struct bench *bench)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < bench->n_queues; i++)
		n += counter_get(
			&bench->workers[i % bench->n_workers].queues[i / bench->n_workers].n_done);
	return n;
}

/* The workers may clear their counts after the first sample, which then shows nothing. */
static void on_sample(struct loop_timer *timer)
{
	struct bench *bench = container_of(timer, struct bench, sample);
	struct bench_result *result = bench->result;
	uint64_t now_ns = clock_ns(), n = count_done(bench);
	double seconds = (double)(now_ns - bench->sampled_ns) / 1e9;

	if (n >= bench->n_sampled && seconds > 0 && result->n_samples < BENCH_SAMPLES_MAX) {
		unsigned i = result->n_samples++;

		result->samples[i].at_s = (double)(now_ns - bench->started_ns) / 1e9;
		result->samples[i].iops = (double)(n - bench->n_sampled) / seconds;
	}
	bench->n_sampled = n;
	bench->sampled_ns = now_ns;
	loop_timer_start(&bench->loop, timer, bench->sample_ns);
}

/* Each worker lets its I/O in flight finish: what was submitted counts, and so does its time. */
static void on_end(struct loop_timer *timer)
{
	struct bench *bench = container_of(timer, struct bench, end);

	loop_timer_stop(&bench->sample);
	for (unsigned i = 0; i < bench->n_workers; i++)
		bench_worker_stop(&bench->workers[i]);
}

/* ---- starting ---- */

/* The workers clear their own counts, by message: no counter is written by two threads. */
static void on_ramped(struct loop_timer *timer)
{
	struct bench *bench = container_of(timer, struct bench, ramp);

	for (unsigned i = 0; i < bench->n_workers; i++)
		bench_worker_measure(&bench->workers[i]);
	bench->started_ns = clock_ns();
	bench->cpu_us = cpu_used_us();
	bench->sampled_ns = bench->started_ns;
	if (bench->sample_ns)
		loop_timer_start(&bench->loop, &bench->sample, bench->sample_ns);
	loop_timer_start(&bench->loop, &bench->end, bench->runtime_ns);
}

/* Worker i has the queues i, i + n_workers, i + 2 n_workers... */
static int start_worker(struct bench *bench, unsigned i)
{
	struct bench_worker *worker = &bench->workers[i];
	unsigned n = (bench->n_queues - i + bench->n_workers - 1) / bench->n_workers;
	int r = bench_worker_init(worker, &bench->load, n, &bench->loop, on_worker_stopped, bench);

	for (unsigned k = 0; k < n && r == 0; k++)
		r = bench_worker_add_queue(worker, bench->volume, k, i + k * bench->n_workers);
	return r < 0 ? r : bench_worker_start(worker);
}

/* Otherwise each I/O would fail, without a message that helps. */
static bool can_do_load(struct bench *bench)
{
	const struct volume_info *info = &bench->info;
	size_t block = bench->load.block_bytes;

	if (block % info->block_size)
		error_set(&bench->error, EXIT_USAGE, NULL,
			  "--bs: %zu bytes are no multiple of the namespace's blocks of %u", block,
			  info->block_size);
	else if (block > info->size_bytes)
		error_set(&bench->error, EXIT_USAGE, NULL,
			  "--bs: %zu bytes are more than the namespace has (%llu)", block,
			  (unsigned long long)info->size_bytes);
	return !bench->error.code;
}

/* Queues are granted by the target, which may give fewer than were asked for. The load is then
 * spread over those, and the result shows their number. */
static void on_opened(void *context, const struct error *error)
{
	struct bench *bench = context;

	if (error) {
		bench->has_failed = true;
		bench->error = *error;
		volume_close(bench->volume);
		return;
	}
	volume_get_info(bench->volume, &bench->info);
	if (!can_do_load(bench)) {
		bench->has_failed = true;
		volume_close(bench->volume);
		return;
	}
	if (bench->info.n_queues_granted < bench->n_queues)
		log_warn("the target grants %u queues", bench->info.n_queues_granted);
	bench->n_queues = MIN(bench->n_queues, bench->info.n_queues_granted);
	bench->n_workers = MIN(bench->n_workers, bench->n_queues);
	bench->load.size_bytes = bench->info.size_bytes;
	for (unsigned i = 0; i < bench->n_workers; i++) {
		int r = start_worker(bench, i);

		if (r < 0) {
			log_errno(r, "cannot start worker %u", i);
			exit(EXIT_FAILED); /* nothing is lost: it is a benchmark */
		}
	}
	bench->n_running = bench->n_workers;
	loop_timer_start(&bench->loop, &bench->ramp, bench->ramp_ns);
}

static void on_state(void *context, enum volume_state state)
{
	if (volume_state_holds(state))
		log_warn("the connection was lost; the figures include the outage");
}

/* A namespace that grows in between changes nothing: offsets were chosen for its old size. */
static void on_changed(void *context)
{
}

static void on_closed(void *context)
{
	loop_stop(&((struct bench *)context)->loop);
}

static const struct volume_callbacks callbacks = {.on_opened = on_opened,
						  .on_state = on_state,
						  .on_changed = on_changed,
						  .on_closed = on_closed};

/* ---- the result ---- */

/* Latency counts successes only; n_done counts all I/O, since a queue that only fails is not idle.
 * min and max show whether the target treats queues alike. */
static void collect(const struct bench *bench, struct bench_result *result)
{
	result->min_done = UINT64_MAX;
	for (unsigned i = 0; i < bench->n_queues; i++) {
		const struct bench_worker *worker = &bench->workers[i % bench->n_workers];
		uint64_t n = worker->queues[i / bench->n_workers].n_done;

		if (i < bench->n_workers) {
			histogram_merge(&result->latency, &worker->latency);
			result->n_errors += worker->n_errors;
		}
		result->n_done += n;
		result->min_done = MIN(result->min_done, n);
		result->max_done = MAX(result->max_done, n);
	}
	result->depth = bench->load.depth;
	result->n_queues = bench->n_queues;
	result->seconds = (double)bench->took_ns / 1e9;
	result->iops = (double)(result->n_done - result->n_errors) / result->seconds;
	result->mb_per_s = result->iops * (double)bench->load.block_bytes / 1e6;
	if (result->n_done)
		result->cpu_us_per_io = (double)bench->cpu_us / (double)result->n_done;
}

/* One digit: a double would else print 17, and comparisons of records would show noise. */
static void add_number(struct json_object *o, const char *key, double value)
{
	char text[32];

	snprintf(text, sizeof(text), "%.1f", value);
	json_object_object_add(o, key, json_object_new_double_s(value, text));
}

/* Keys are never renamed: records of older builds are compared with those of new ones. */
static int print_json(const struct bench *bench, const struct bench_result *results, unsigned n,
		      const char *mode)
{
	const struct bench_result *result = &results[n - 1];
	const struct {
		const char *key;
		uint64_t value;
	} numbers[] = {
		{"block", bench->load.block_bytes},
		{"depth", result->depth},
		{"queues", result->n_queues},
		{"threads", bench->n_workers},
		{"iops", (uint64_t)result->iops},
		{"p50_ns", histogram_quantile(&result->latency, 0.5)},
		{"p99_ns", histogram_quantile(&result->latency, 0.99)},
		{"p999_ns", histogram_quantile(&result->latency, 0.999)},
		{"queue_min_iops", (uint64_t)((double)result->min_done / result->seconds)},
		{"queue_max_iops", (uint64_t)((double)result->max_done / result->seconds)},
		{"errors", result->n_errors},
	};
	struct json_object *whole = json_object_new_object();

	json_object_object_add(whole, "schema", json_object_new_int(1));
	json_object_object_add(whole, "test", json_object_new_string(mode));
	for (unsigned i = 0; i < ARRAY_LEN(numbers); i++)
		json_object_object_add(whole, numbers[i].key,
				       json_object_new_uint64(numbers[i].value));
	add_number(whole, "mb_per_s", result->mb_per_s);
	json_object_object_add(whole, "cpu_us_per_io",
			       json_object_new_double(result->cpu_us_per_io));
	if (n > 1 || result->n_samples)
		bench_plot_add_json(whole, results, n);
	return report_json(whole);
}

static void print_table(const struct bench *bench, const struct bench_result *result,
			const char *mode, bool has_titles)
{
	char p50[UNITS_MAX], p99[UNITS_MAX], p999[UNITS_MAX];
	const struct histogram *latency = &result->latency;

	if (has_titles)
		printf("%-9s  %8s  %5s  %6s  %9s  %8s  %7s  %7s  %7s  %9s\n", "TEST", "BLOCK",
		       "DEPTH", "QUEUES", "IOPS", "MB/s", "p50", "p99", "p99.9", "CPU us/IO");
	printf("%-9s  %8zu  %5u  %6u  %9.0f  %8.1f  %7s  %7s  %7s  %9.2f\n", mode,
	       bench->load.block_bytes, result->depth, result->n_queues, result->iops,
	       result->mb_per_s, units_format_duration(p50, histogram_quantile(latency, 0.5)),
	       units_format_duration(p99, histogram_quantile(latency, 0.99)),
	       units_format_duration(p999, histogram_quantile(latency, 0.999)),
	       result->cpu_us_per_io);
}

/* The figures are printed even when I/O failed: how many of how many is what one wants to know. */
static int print_results(const struct bench *bench, const struct bench_result *results, unsigned n,
			 const char *mode, enum output output)
{
	uint64_t n_done = 0, n_errors = 0;

	if (output == OUTPUT_JSON)
		print_json(bench, results, n, mode);
	for (unsigned i = 0; i < n; i++) {
		if (output == OUTPUT_TABLE)
			print_table(bench, &results[i], mode, i == 0);
		n_done += results[i].n_done;
		n_errors += results[i].n_errors;
	}
	if (!n_errors)
		return EXIT_OK;
	return fail_with(program, EXIT_FAILED, NULL, "%llu of %llu I/O failed",
			 (unsigned long long)n_errors, (unsigned long long)n_done);
}

/* ---- the command line ---- */

/* The loop runs until on_closed. Workers are joined after it, because queues end by messages. */
static int run(struct bench *bench, const struct volume_config *config)
{
	int r = loop_init(&bench->loop, 0, NULL);

	bench->ramp.on_expiry = on_ramped;
	bench->end.on_expiry = on_end;
	bench->sample.on_expiry = on_sample;
	if (r == 0)
		r = volume_open(&bench->loop, config, &callbacks, bench, &bench->volume);
	if (r < 0) {
		log_errno(r, "cannot open the volume");
		return EXIT_FAILED;
	}
	loop_run(&bench->loop);
	for (unsigned i = 0; i < bench->n_workers && !bench->has_failed; i++)
		bench_worker_join(&bench->workers[i]);
	loop_deinit(&bench->loop);
	return bench->has_failed ? report_error(program, &bench->error) : EXIT_OK;
}

struct bench_options {
	uint64_t block, depth, n_queues, n_threads, buffer_bytes, nsid, runtime_ns, ramp_ns;
	unsigned mode, output;
	const char *fabric, *hostnqn, *hostid, *spin, *plot;
};

/* The load's own need is known; --buffers beyond it allows larger I/O. */
static int apply_buffers(const struct bench_options *options, struct volume_config *config,
			 struct error *error)
{
	uint64_t needed = MAX(config->slab_bytes, (uint64_t)VOLUME_SLAB_MIN);
	char text[UNITS_MAX];

	if (!options->buffer_bytes)
		return 0;
	config->slab_bytes = options->buffer_bytes / options->n_queues;
	if (config->slab_bytes >= needed)
		return 0;
	error_set(error, EXIT_USAGE, "take less --depth, a smaller --bs or fewer --queues",
		  "--buffers: this load needs %s",
		  units_format_size(text, needed * options->n_queues));
	return EXIT_USAGE;
}

/* 0, or an exit code with *error filled. */
static int configure(const struct bench_options *options, const char *target,
		     struct volume_config *config, struct error *error)
{
	uint64_t spin;
	int code;

	volume_config_init(config);
	if (options->depth * options->block > BYTES_MAX) {
		error_set(error, EXIT_USAGE, "take less --depth or a smaller --bs",
			  "more than 512 MiB in flight a queue");
		return EXIT_USAGE;
	}
	code = spin_option(options->spin, &spin, error) ?: target_name_parse(target, config, error);
	if (code == 0 &&
	    host_identity_load("/etc/nvme", options->hostnqn, options->hostid, config, error) < 0)
		code = (int)error->code;
	config->nsid = (uint32_t)options->nsid;
	config->n_queues = (unsigned)options->n_queues;
	config->queue_size = (unsigned)MIN(MAX(config->queue_size, options->depth + 1),
					   (uint64_t)BENCH_DEPTH_MAX);
	/* little, as there may be hundreds of queues; one I/O gets a quarter of it at most */
	config->slab_bytes = MAX(2 * options->depth, UINT64_C(4)) * options->block;
	config->may_shrink_slab = false;
	config->is_slab_whole = true;
	return code ? code : apply_buffers(options, config, error);
}

/* On the heap: the workers with their histograms are too large for a stack. */
static int bench_new(const struct bench_options *options, struct bench **ret_bench)
{
	struct bench *bench = calloc(1, sizeof(*bench));

	if (!bench)
		return fail_with(program, EXIT_FAILED, NULL, "out of memory");
	bench->n_queues = bench->n_workers = (unsigned)options->n_queues;
	if (options->n_threads)
		bench->n_workers = (unsigned)MIN(options->n_threads, options->n_queues);
	bench->ramp_ns = options->ramp_ns;
	bench->runtime_ns = options->runtime_ns;
	if (options->plot)
		bench->sample_ns = MAX(options->runtime_ns / (BENCH_SAMPLES_MAX / 2),
				       NSEC_PER_MSEC);
	bench->load = (struct bench_load){
		.is_random = options->mode < 2,
		.is_write = options->mode % 2 == 1,
		.block_bytes = options->block,
		.depth = (unsigned)options->depth,
	};
	spin_parse(options->spin, &bench->load.spin_ns); /* configure has checked it */
	*ret_bench = bench;
	return 0;
}

/* One depth. The bench stays, for what is the same for all depths; the caller frees it. */
static int measure(const struct bench_options *options, const char *target,
		   struct bench **ret_bench, struct bench_result *result)
{
	struct volume_config config;
	struct error error = {0};
	struct bench *bench;
	int code = configure(options, target, &config, &error);

	if (code)
		return report_error(program, &error);
	code = bench_new(options, &bench);
	if (code)
		return code;
	bench->result = result;
	code = run(bench, &config);
	if (code == EXIT_OK)
		collect(bench, result);
	for (unsigned i = 0; i < bench->n_workers && !bench->has_failed; i++)
		bench_worker_deinit(&bench->workers[i]);
	free(*ret_bench);
	*ret_bench = bench;
	return code;
}

/* The title says what was measured, because the picture leaves the terminal. */
static int draw(const struct bench_options *options, FILE *f, const char *target,
		const struct bench_result *results, unsigned n)
{
	char title[512], size[UNITS_MAX];

	snprintf(title, sizeof(title), "%s, %s, %u queue%s: %s", modes[options->mode],
		 units_format_size(size, options->block), results->n_queues,
		 results->n_queues == 1 ? "" : "s", target);
	if (bench_plot_write(f, title, results, n) == 0)
		return EXIT_OK;
	return fail_with(program, EXIT_FAILED, NULL, "cannot write %.200s", options->plot);
}

/* Without a picture one depth is measured, with one several, from 1 on. The file is opened first: a
 * path that cannot be written costs no measurement. */
static int run_with(struct bench_options *options, const char *target)
{
	unsigned depths[BENCH_DEPTHS_MAX] = {(unsigned)options->depth}, n = 1, n_done = 0;
	_autofree_ struct bench_result *results = calloc(BENCH_DEPTHS_MAX, sizeof(*results));
	_autofclose_ FILE *f = options->plot ? fopen(options->plot, "we") : NULL;
	_autofree_ struct bench *bench = NULL;
	int code = EXIT_OK;

	if (!results)
		return fail_with(program, EXIT_FAILED, NULL, "out of memory");
	if (options->plot && !f)
		return fail_with(program, EXIT_FAILED, NULL, "--plot: %.200s: %s", options->plot,
				 strerror(errno));
	if (f)
		n = bench_plot_depths((unsigned)options->depth, depths);
	for (; code == EXIT_OK && n_done < n; n_done++) {
		options->depth = depths[n_done];
		code = measure(options, target, &bench, &results[n_done]);
	}
	if (code == EXIT_OK)
		code = print_results(bench, results, n, modes[options->mode],
				     (enum output)options->output);
	if (code == EXIT_OK && f)
		code = draw(options, f, target, results, n);
	if (code != EXIT_OK && f)
		unlink(options->plot);
	return code;
}

int bench_main(int argc, char **argv)
{
	struct bench_options o = {.block = 4096,
				  .depth = 32,
				  .n_queues = 1,
				  .nsid = 1,
				  .spin = "auto",
				  .runtime_ns = 5 * NSEC_PER_SEC,
				  .ramp_ns = 100 * NSEC_PER_MSEC};
	const struct arg table[] = {
		{"ns", 'n', ARG_UINT, &o.nsid, "N", "namespace id", 1, UINT32_MAX - 1, NULL},
		{"rw", 0, ARG_CHOICE, &o.mode, "randread|randwrite|read|write",
		 "what to do; writing destroys what is there", 0, 0, modes},
		{"bs", 0, ARG_SIZE, &o.block, "SIZE", "of one I/O", 512, 16 * MIB, NULL},
		{"depth", 'd', ARG_UINT, &o.depth, "N", "I/O in flight a queue", 1, BENCH_DEPTH_MAX,
		 NULL},
		{"queues", 'q', ARG_UINT, &o.n_queues, "N", "I/O queues", 1, VOLUME_QUEUES_MAX,
		 NULL},
		{"threads", 0, ARG_UINT, &o.n_threads, "N",
		 "threads that share the queues (default: one each)", 1, VOLUME_QUEUES_MAX, NULL},
		{"buffers", 0, ARG_SIZE, &o.buffer_bytes, "SIZE",
		 "locked memory of all queues (default: what the load needs)", MIB, 64 * GIB, NULL},
		{"runtime", 't', ARG_DURATION, &o.runtime_ns, "TIME", "how long to measure",
		 NSEC_PER_MSEC, 3600 * NSEC_PER_SEC, NULL},
		{"ramp", 0, ARG_DURATION, &o.ramp_ns, "TIME", "how long to run before that", 0,
		 3600 * NSEC_PER_SEC, NULL},
		{"plot", 0, ARG_STRING, &o.plot, "FILE.svg",
		 "measure depths from 1 on, each for that time, and draw latency and rate", 0, 0,
		 NULL},
		{"spin", 0, ARG_STRING, &o.spin, "auto|always|never|TIME",
		 "how long to poll before sleeping (default: auto)", 0, 0, NULL},
		{"hostnqn", 0, ARG_STRING, &o.hostnqn, "NQN",
		 "this host's NQN (default: /etc/nvme/hostnqn)", 0, 0, NULL},
		{"hostid", 0, ARG_STRING, &o.hostid, "UUID",
		 "this host's id (default: /etc/nvme/hostid)", 0, 0, NULL},
		{"fabric", 0, ARG_STRING, &o.fabric, "auto|soft|soft-roce|DEVICE",
		 "RDMA device, or the software provider (default: auto)", 0, 0, NULL},
		{"output", 'o', ARG_CHOICE, &o.output, OUTPUT_CHOICES, OUTPUT_HELP, 0, 0,
		 output_names},
		{0},
	};
	const struct args_usage usage = {
		program, "NQN@ADDRESS[:PORT]",
		"Measure a namespace through the host library, without NBD.", 1, 1};
	int at, code = args_parse(&usage, table, argc, argv, &at);

	if (code >= 0)
		return code;
	code = fd_limit_raise(program) ?: fabric_select(program, o.fabric, arguments);
	return code ? code : run_with(&o, argv[at]);
}
