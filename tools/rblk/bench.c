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
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/fd_limit.h"
#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/spin.h"
#include "base/units.h"
#include "initiator/control/host_identity.h"
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
	struct loop_timer ramp, end;
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

/* Each worker lets its I/O in flight finish: what was submitted counts, and so does its time. */
static void on_end(struct loop_timer *timer)
{
	struct bench *bench = container_of(timer, struct bench, end);

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

struct result {
	struct histogram latency;
	uint64_t n_done, n_errors;
	uint64_t min_done, max_done; /* of one queue: is the target fair? */
	double seconds, iops, mb_per_s, cpu_us_per_io;
};

/* Latency counts successes only; n_done counts all I/O, since a queue that only fails is not idle.
 * min and max show whether the target treats queues alike. */
static void collect(const struct bench *bench, struct result *result)
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
static int print_json(const struct bench *bench, const struct result *result, const char *mode)
{
	const struct {
		const char *key;
		uint64_t value;
	} numbers[] = {
		{"block", bench->load.block_bytes},
		{"depth", bench->load.depth},
		{"queues", bench->n_queues},
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
	return report_json(whole);
}

static int print_table(const struct bench *bench, const struct result *result, const char *mode)
{
	char p50[UNITS_MAX], p99[UNITS_MAX], p999[UNITS_MAX];
	const struct histogram *latency = &result->latency;

	printf("%-9s  %8s  %5s  %6s  %9s  %8s  %7s  %7s  %7s  %9s\n", "TEST", "BLOCK", "DEPTH",
	       "QUEUES", "IOPS", "MB/s", "p50", "p99", "p99.9", "CPU us/IO");
	printf("%-9s  %8zu  %5u  %6u  %9.0f  %8.1f  %7s  %7s  %7s  %9.2f\n", mode,
	       bench->load.block_bytes, bench->load.depth, bench->n_queues, result->iops,
	       result->mb_per_s, units_format_duration(p50, histogram_quantile(latency, 0.5)),
	       units_format_duration(p99, histogram_quantile(latency, 0.99)),
	       units_format_duration(p999, histogram_quantile(latency, 0.999)),
	       result->cpu_us_per_io);
	return EXIT_OK;
}

/* The figures are printed even when I/O failed: how many of how many is what one wants to know. */
static int print_result(const struct bench *bench, const char *mode, enum output output)
{
	struct result result = {0};

	collect(bench, &result);
	if (output == OUTPUT_JSON)
		print_json(bench, &result, mode);
	else
		print_table(bench, &result, mode);
	if (!result.n_errors)
		return EXIT_OK;
	return fail_with(program, EXIT_FAILED, NULL, "%llu of %llu I/O failed",
			 (unsigned long long)result.n_errors, (unsigned long long)result.n_done);
}

/* ---- the command line ---- */

/* The loop runs until on_closed. Workers are joined after it, because queues end by messages. */
static int run(struct bench *bench, const struct volume_config *config, enum output output)
{
	int r = loop_init(&bench->loop, 0, NULL);

	bench->ramp.on_expiry = on_ramped;
	bench->end.on_expiry = on_end;
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
	const char *fabric, *hostnqn, *hostid, *spin;
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

static int run_with(const struct bench_options *options, const char *target)
{
	enum output output = (enum output)options->output;
	struct volume_config config;
	struct error error = {0};
	struct bench *bench;
	int code = configure(options, target, &config, &error);

	if (code)
		return report_error(program, &error);
	code = bench_new(options, &bench);
	if (code)
		return code;
	code = run(bench, &config, output);
	if (code == EXIT_OK)
		code = print_result(bench, modes[options->mode], output);
	for (unsigned i = 0; i < bench->n_workers && !bench->has_failed; i++)
		bench_worker_deinit(&bench->workers[i]);
	free(bench);
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
