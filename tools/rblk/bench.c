/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rblk bench: load on a namespace through librblk, as any program that uses it, without NBD:
 * measures the library, the fabric and the target. One line of result, or JSON.
 *
 * The main thread opens the volume, spreads its queues over worker threads (bench_worker.c), lets
 * them run while its loop has the timers, and takes everything down in the reverse order:
 *
 *   set_up -> ramp -> measuring -> stopping (what is in flight) -> take_down
 *
 * The ramp is not measured: in it queues connect, caches fill and polling settles. Failures are
 * reported after everything is down.
 *
 * For a picture (--plot, bench_plot.c) all of this is done for each depth.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/addr.h"
#include "base/arena_memory.h"
#include "base/bits.h"
#include "base/check.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/counter.h"
#include "base/fd_limit.h"
#include "base/log.h"
#include "base/output.h"
#include "base/spin.h"
#include "base/units.h"
#include "library/rblk.h"
#include "tools/rblk/arguments.h"
#include "tools/rblk/bench_plot.h"
#include "tools/rblk/bench_result.h"
#include "tools/rblk/bench_worker.h"
#include "tools/rblk/commands.h"
#include "tools/rblk/interrupt.h"
#include "tools/rblk/report.h"
#include "tools/rblk/spin_option.h"
#include "tools/rblk/target_name.h"
#include "transport/fabric.h"

static const char program[] = "rblk bench";
#define BYTES_MAX (512 * MIB) /* in flight a queue */

static const char *const modes[] = {"randread", "randwrite", "read", "write", NULL};

enum {
	MEMORY_SHARED,
	MEMORY_PRIVATE
};
static const char *const memories[] = {
	[MEMORY_SHARED] = "shared", [MEMORY_PRIVATE] = "private", NULL};

struct bench {
	/* Thread: control, except for the workers (bench_worker.h) */
	struct loop loop;
	struct rblk_volume *volume;
	struct rblk_info info;
	struct bench_load load;
	struct bench_worker workers[BENCH_QUEUES_MAX];
	bool has_private_memory;
	struct arena_memory memory; /* of all queues, one behind the other */
	struct rblk_memory *registered;
	unsigned n_workers, n_queues, n_running;
	uint64_t ramp_ns, runtime_ns, started_ns, took_ns;
	uint64_t cpu_us; /* of the whole process, while measuring */
	struct loop_timer ramp, end, sample;
	struct interrupt interrupt;
	bool is_interrupted;
	uint64_t sample_ns, sampled_ns, n_sampled; /* between two samples; 0: none are taken */
	struct bench_result *result;		   /* borrowed: where they go */
	struct error error;
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
	loop_stop(&bench->loop);
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

/* The result is of the time until now, if need be of the ramp. */
static void on_interrupt(struct interrupt *interrupt)
{
	struct bench *bench = container_of(interrupt, struct bench, interrupt);

	bench->is_interrupted = true;
	loop_timer_stop(&bench->ramp);
	loop_timer_stop(&bench->end);
	on_end(&bench->end);
}

/* ---- starting ---- */

static void begin_to_count(struct bench *bench)
{
	bench->started_ns = clock_ns();
	bench->cpu_us = cpu_used_us();
}

/* The workers clear their own counts: no counter is written by two threads. */
static void on_ramped(struct loop_timer *timer)
{
	struct bench *bench = container_of(timer, struct bench, ramp);

	for (unsigned i = 0; i < bench->n_workers; i++)
		bench_worker_measure(&bench->workers[i]);
	begin_to_count(bench);
	bench->sampled_ns = bench->started_ns;
	if (bench->sample_ns)
		loop_timer_start(&bench->loop, &bench->sample, bench->sample_ns);
	loop_timer_start(&bench->loop, &bench->end, bench->runtime_ns);
}

/* Otherwise each I/O would fail, without a message that helps. */
static bool can_do_load(struct bench *bench)
{
	const struct rblk_info *info = &bench->info;
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

/* The command line was checked before, so -EINVAL is a file: the host's name. */
static enum exit_code exit_code_of(int r)
{
	switch (-r) {
	case EINVAL:
		return EXIT_CONFIG;
	case ENOENT:
		return EXIT_NOT_FOUND;
	case EHOSTUNREACH:
		return EXIT_UNREACHABLE;
	case EACCES:
		return EXIT_DENIED;
	default:
		return error_code_of(r);
	}
}

static void take_error(struct bench *bench, const struct rblk_error *error)
{
	error_set(&bench->error, exit_code_of(error->code), error->hint, "%s", error->message);
}

static size_t queue_bytes(const struct bench *bench)
{
	return bench->load.depth * bench->load.block_bytes;
}

/* One registration for all queues: I/O names it, so that the library registers nothing while it is
 * measured. */
static int take_memory(struct bench *bench, struct rblk_error *error)
{
	size_t n = queue_bytes(bench) * bench->n_queues;
	int r = bench->has_private_memory ? arena_memory_map_private(&bench->memory, n)
					  : arena_memory_map(&bench->memory, n);

	if (r == 0) {
		arena_memory_populate(&bench->memory, 0, n);
		return rblk_memory_register(bench->volume, bench->memory.base, n,
					    &bench->registered, error);
	}
	*error = (struct rblk_error){.code = r, .message = "out of memory"};
	return r;
}

/* Worker i has the queues i, i + n_workers, i + 2 n_workers... */
static int make_worker(struct bench *bench, unsigned i, struct rblk_error *error)
{
	struct bench_worker *worker = &bench->workers[i];
	unsigned n = (bench->n_queues - i + bench->n_workers - 1) / bench->n_workers;
	int r = bench_worker_init(worker, &bench->load, n, &bench->loop, on_worker_stopped, bench);

	if (r < 0)
		*error = (struct rblk_error){.code = r, .message = "out of memory"};
	for (unsigned k = 0; k < n && r == 0; k++) {
		unsigned number = i + k * bench->n_workers;
		struct bench_memory memory = {(char *)bench->memory.base +
						      number * queue_bytes(bench),
					      bench->registered};

		r = bench_worker_add_queue(worker, bench->volume, k, number, memory, error);
	}
	return r;
}

/* Queues are granted by the target, which may give fewer than were asked for. The load is then
 * spread over those, and the result shows their number. */
static void spread(struct bench *bench)
{
	if (bench->info.n_queues < bench->n_queues)
		log_warn("the target grants %u queues", bench->info.n_queues);
	bench->n_queues = MIN(bench->n_queues, bench->info.n_queues);
	bench->n_workers = MIN(bench->n_workers, bench->n_queues);
	bench->load.size_bytes = bench->info.size_bytes;
}

/* False: bench->error says why. take_down accepts what is there. */
static bool set_up(struct bench *bench, const char *uri, const struct rblk_option *options)
{
	struct rblk_error error;
	int r = rblk_open(uri, options, &bench->volume, &error);

	if (r < 0) {
		take_error(bench, &error);
		return false;
	}
	rblk_get_info(bench->volume, &bench->info);
	if (!can_do_load(bench))
		return false;
	spread(bench);
	r = take_memory(bench, &error);
	for (unsigned i = 0; i < bench->n_workers && r == 0; i++)
		r = make_worker(bench, i, &error);
	if (r < 0)
		take_error(bench, &error);
	return r == 0;
}

/* In the reverse order of set_up, from wherever that has come to. Nothing is in flight. */
static void take_down(struct bench *bench)
{
	for (unsigned i = 0; i < bench->n_workers; i++)
		bench_worker_close(&bench->workers[i]);
	rblk_memory_unregister(bench->registered);
	check(rblk_close(bench->volume) == 0);
	arena_memory_unmap(&bench->memory);
}

/* The loop has the timers: on_ramped, on_sample, on_end; the last worker that stops ends it. A
 * namespace that grows in between changes nothing: offsets were chosen for its old size. */
static void run_workers(struct bench *bench)
{
	int error = interrupt_watch(&bench->interrupt, &bench->loop);

	if (error < 0)
		log_errno(error, "a signal ends this without a result");
	bench->n_running = bench->n_workers;
	begin_to_count(bench);
	for (unsigned i = 0; i < bench->n_workers; i++) {
		int r = bench_worker_start(&bench->workers[i]);

		if (r < 0) {
			log_errno(r, "cannot start worker %u", i);
			exit(EXIT_FAILED); /* nothing is lost: it is a benchmark */
		}
	}
	loop_timer_start(&bench->loop, &bench->ramp, bench->ramp_ns);
	loop_run(&bench->loop);
	for (unsigned i = 0; i < bench->n_workers; i++)
		bench_worker_join(&bench->workers[i]);
	if (error == 0)
		interrupt_leave(&bench->interrupt);
}

/* The library reconnects by itself, and I/O only takes longer. */
static void warn_of_losses(const struct bench *bench)
{
	struct json_object *status;
	char *text;

	if (rblk_get_status(bench->volume, &text) < 0)
		return;
	status = json_tokener_parse(text);
	if (json_number(status, "reconnects"))
		log_warn("the connection was lost; the figures include the outage");
	json_object_put(status);
	rblk_free(text);
}

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
	result->block_bytes = bench->load.block_bytes;
	result->depth = bench->load.depth;
	result->n_queues = bench->n_queues;
	result->n_threads = bench->n_workers;
	result->seconds = (double)bench->took_ns / 1e9;
	result->iops = (double)(result->n_done - result->n_errors) / result->seconds;
	result->mb_per_s = result->iops * (double)bench->load.block_bytes / 1e6;
	if (result->n_done)
		result->cpu_us_per_io = (double)bench->cpu_us / (double)result->n_done;
}

/* ---- the command line ---- */

/* A person sees that it has begun. */
static void say_time(const struct bench *bench)
{
	char text[UNITS_MAX];

	if (isatty(STDERR_FILENO))
		fprintf(stderr, "%s: measuring for %s at depth %u\n", program,
			units_format_duration(text, bench->ramp_ns + bench->runtime_ns),
			(unsigned)bench->load.depth);
}

static int run(struct bench *bench, const char *uri, const struct rblk_option *options)
{
	int r = loop_init(&bench->loop, 0, NULL);

	if (r < 0) {
		log_errno(r, "cannot make a loop");
		return EXIT_FAILED;
	}
	bench->ramp.on_expiry = on_ramped;
	bench->end.on_expiry = on_end;
	bench->sample.on_expiry = on_sample;
	bench->interrupt.on_interrupt = on_interrupt;
	if (set_up(bench, uri, options)) {
		say_time(bench);
		run_workers(bench);
		warn_of_losses(bench);
	}
	take_down(bench);
	loop_deinit(&bench->loop);
	return bench->error.code ? report_error(program, &bench->error) : EXIT_OK;
}

struct bench_options {
	uint64_t block, depth, n_queues, n_threads, buffer_bytes, nsid, runtime_ns, ramp_ns;
	unsigned mode, output, memory;
	const char *fabric, *hostnqn, *hostid, *spin, *plot;
};

/* The load's own need is known, and is what is registered. Memory that the library registers for
 * itself is not counted: it does not grow with the load. */
static int check_buffers(const struct bench_options *options, struct error *error)
{
	uint64_t needed = options->depth * options->block * options->n_queues;
	char text[UNITS_MAX];

	if (!options->buffer_bytes || options->buffer_bytes >= needed)
		return 0;
	error_set(error, EXIT_USAGE, "take less --depth, a smaller --bs or fewer --queues",
		  "--buffers: this load needs %s", units_format_size(text, needed));
	return EXIT_USAGE;
}

enum {
	OPTIONS_MAX = 8,
	URI_MAX = 3 * TARGET_NQN_MAX + ADDR_STRING_MAX + 16,
};

/* The arguments of rblk_open. */
struct bench_volume {
	char uri[URI_MAX], ns[16], queues[16], queue_size[16];
	struct rblk_option options[OPTIONS_MAX];
};

/* As librblk(3) wants it: what is none of the letters of an NQN is escaped. */
static void fill_uri(char uri[URI_MAX], const char *nqn, const union addr *address)
{
	char text[ADDR_STRING_MAX];
	size_t n = (size_t)snprintf(uri, URI_MAX, "nvme+rdma://%s/", addr_format(text, address));

	for (; *nqn; nqn++)
		n += (size_t)snprintf(
			uri + n, URI_MAX - n,
			isalnum((unsigned char)*nqn) || strchr(".:-_@", *nqn) ? "%c" : "%%%02x",
			(unsigned char)*nqn);
}

static void fill_options(const struct bench_options *options, struct bench_volume *volume)
{
	uint64_t queue_size = MIN(MAX(options->depth + 1, UINT64_C(128)), UINT64_C(1024));
	const struct rblk_option all[] = {
		{"ns", volume->ns},
		{"queues", volume->queues},
		{"spin", options->spin},
		{"queue-size", volume->queue_size},
		{"hostnqn", options->hostnqn},
		{"hostid", options->hostid},
	};
	unsigned n = 0;

	snprintf(volume->ns, sizeof(volume->ns), "%" PRIu64, options->nsid);
	snprintf(volume->queues, sizeof(volume->queues), "%" PRIu64, options->n_queues);
	snprintf(volume->queue_size, sizeof(volume->queue_size), "%" PRIu64, queue_size);
	for (unsigned i = 0; i < ARRAY_LEN(all); i++)
		if (all[i].value)
			volume->options[n++] = all[i];
}

/* 0, or an exit code with *error filled. */
static int configure(const struct bench_options *options, const char *target,
		     struct bench_volume *volume, struct error *error)
{
	char nqn[TARGET_NQN_MAX];
	union addr address;
	uint64_t spin;
	int code;

	if (options->depth * options->block > BYTES_MAX) {
		error_set(error, EXIT_USAGE, "take less --depth or a smaller --bs",
			  "more than 512 MiB in flight a queue");
		return EXIT_USAGE;
	}
	code = spin_option(options->spin, &spin, error)
		       ?: target_name_split(target, nqn, &address, error)
		       ?: check_buffers(options, error);
	if (code)
		return code;
	fill_uri(volume->uri, nqn, &address);
	fill_options(options, volume);
	return 0;
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
	bench->has_private_memory = options->memory == MEMORY_PRIVATE;
	*ret_bench = bench;
	return 0;
}

/* One depth. The bench stays, for what is the same for all depths; the caller frees it. */
static int measure(const struct bench_options *options, const char *target,
		   struct bench **ret_bench, struct bench_result *result)
{
	struct bench_volume volume = {.options = {{0}}};
	struct error error = {0};
	struct bench *bench = NULL;
	int code = configure(options, target, &volume, &error);

	if (code)
		return report_error(program, &error);
	code = bench_new(options, &bench);
	if (code)
		return code;
	bench->result = result;
	result->test = modes[options->mode];
	code = run(bench, volume.uri, volume.options);
	if (code == EXIT_OK)
		collect(bench, result);
	for (unsigned i = 0; i < bench->n_workers; i++)
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

	snprintf(title, sizeof(title), "%s, %s, %u queue%s: %s", results->test,
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
	for (; code == EXIT_OK && n_done < n && !(bench && bench->is_interrupted); n_done++) {
		options->depth = depths[n_done];
		code = measure(options, target, &bench, &results[n_done]);
	}
	if (code == EXIT_OK)
		code = bench_results_print(program, results, n_done, (enum output)options->output);
	if (code == EXIT_OK && f)
		code = draw(options, f, target, results, n_done);
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
		{"queues", 'q', ARG_UINT, &o.n_queues, "N", "I/O queues", 1, BENCH_QUEUES_MAX,
		 NULL},
		{"threads", 0, ARG_UINT, &o.n_threads, "N",
		 "threads that share the queues (default: one each)", 1, BENCH_QUEUES_MAX, NULL},
		{"buffers", 0, ARG_SIZE, &o.buffer_bytes, "SIZE",
		 "locked memory of all queues; less than the load needs is refused", MIB, 64 * GIB,
		 NULL},
		{"memory", 0, ARG_CHOICE, &o.memory, "shared|private",
		 "what the data is in: a file in memory, or anonymous memory", 0, 0, memories},
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
	const struct args_usage usage = {program, "NQN@ADDRESS[:PORT]",
					 "Measure a namespace through librblk, without NBD.", 1, 1};
	int at, code = args_parse(&usage, table, argc, argv, &at);

	if (code >= 0)
		return code;
	code = fd_limit_raise(program) ?: fabric_select(program, o.fabric, arguments);
	return code ? code : run_with(&o, argv[at]);
}
