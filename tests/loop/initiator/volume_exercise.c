/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * volume_exercise: verified random I/O through initiator/control/volume.h, without NBD: all
 * operations, all sizes, several queues each on a thread of its own. Runs against any
 * target, real or fake. A test kills the target meanwhile, and this program reports whether
 * anything was lost.
 *
 *   volume_exercise --queues 4 --depth 32 --time 10s ADDRESS:PORT NQN
 *
 * Exits with 0 when every I/O succeeded and every read was right; prints one line of
 * figures, and with --table the latencies of each operation.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/args.h"
#include "base/bits.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/output.h"
#include "base/units.h"
#include "initiator/control/host_identity.h"
#include "tests/loop/initiator/worker.h"

static struct {
	struct loop control;
	struct volume *volume;
	struct plan plan;
	struct worker *workers;
	unsigned n_workers, n_done, n_removed;
	uint64_t start_ns, elapsed_ns, time_ns, min_reconnects;
	struct loop_timer end;
	bool is_closed, has_failed;
} all;

static const char *const op_names[OPS] = {"read", "write", "flush", "zero", "trim"};

/* ---- the end ---- */

/* The time is over. A worker that waits for a reconnect goes on until it has reconnected. */
static void on_end(struct loop_timer *timer)
{
	struct volume_status status;

	volume_get_status(all.volume, &status);
	if (status.n_reconnects >= all.min_reconnects)
		atomic_store(&all.plan.is_over, true);
	else
		loop_timer_start(&all.control, timer, NSEC_PER_SEC / 10);
}

static void on_removed(void *context)
{
	if (++all.n_removed < all.n_workers)
		return;
	for (unsigned i = 0; i < all.n_workers; i++)
		worker_join(&all.workers[i]);
	volume_close(all.volume);
}

static void on_worker_done(struct loop_msg *msg)
{
	if (++all.n_done < all.n_workers)
		return;
	all.elapsed_ns = clock_ns() - all.start_ns;
	for (unsigned i = 0; i < all.n_workers; i++)
		volume_queue_remove(all.workers[i].queue, on_removed, NULL);
}

static void on_closed(void *context)
{
	all.is_closed = true;
}

/* ---- the start ---- */

static int add_worker(unsigned i, uint64_t n_blocks)
{
	struct worker *worker = &all.workers[i];
	int r = loop_init(&worker->loop, 20 * NSEC_PER_USEC, NULL);

	if (r < 0)
		return r;
	worker->plan = &all.plan;
	worker->control = &all.control;
	worker->done_msg.run = on_worker_done;
	worker->start_block = i * n_blocks;
	worker->n_blocks = n_blocks;
	r = volume_queue_add(all.volume, &worker->loop, &worker->queue);
	return r < 0 ? r : worker_start(worker);
}

static void on_opened(void *context, const struct error *error)
{
	struct volume_info *info = &all.plan.info;

	if (error) {
		fail_with("volume_exercise", error->code, error->hint[0] ? error->hint : NULL, "%s",
			  error->message);
		all.has_failed = true;
		volume_close(all.volume);
		return;
	}
	volume_get_info(all.volume, info);
	all.n_workers = MIN(all.n_workers, info->n_queues_granted);
	if (!all.plan.max_io_bytes || all.plan.max_io_bytes > info->max_io_bytes)
		all.plan.max_io_bytes = info->max_io_bytes;
	all.start_ns = clock_ns();
	all.end.on_expiry = on_end;
	loop_timer_start(&all.control, &all.end, all.time_ns);
	for (unsigned i = 0; i < all.n_workers; i++)
		if (add_worker(i, info->size_bytes / info->block_size / all.n_workers) != 0) {
			fprintf(stderr, "volume_exercise: cannot start a worker\n");
			exit(1);
		}
}

static const struct volume_callbacks callbacks = {
	.on_opened = on_opened,
	.on_closed = on_closed,
};

/* ---- figures ---- */

static void print_table(void)
{
	for (unsigned op = 0; op < OPS; op++) {
		struct histogram sum = {0};
		char p50[UNITS_MAX], p99[UNITS_MAX], max[UNITS_MAX];

		for (unsigned i = 0; i < all.n_workers; i++)
			histogram_merge(&sum, &all.workers[i].latency[op]);
		printf("%-6s %9llu  p50 %8s  p99 %8s  max %8s\n", op_names[op],
		       (unsigned long long)sum.n,
		       units_format_duration(p50, histogram_quantile(&sum, 0.5)),
		       units_format_duration(p99, histogram_quantile(&sum, 0.99)),
		       units_format_duration(max, sum.max_ns));
	}
}

static int report(bool with_table, const struct volume_status *status)
{
	uint64_t n = 0, bytes = 0, errors = 0, mismatches = 0;
	double seconds = (double)MAX(all.elapsed_ns, 1u) / 1e9;

	for (unsigned i = 0; i < all.n_workers; i++) {
		const struct worker *worker = &all.workers[i];

		for (unsigned op = 0; op < OPS; op++)
			n += worker->n_ops[op];
		bytes += worker->n_bytes;
		errors += worker->n_errors;
		mismatches += worker->n_mismatches;
	}
	if (with_table)
		print_table();
	printf("ops %llu  iops %.0f  MB/s %.1f  errors %llu  mismatches %llu  reconnects %llu  invalidated %llu  revoked %llu\n",
	       (unsigned long long)n, (double)n / seconds, (double)bytes / seconds / 1e6,
	       (unsigned long long)errors, (unsigned long long)mismatches,
	       (unsigned long long)status->n_reconnects, (unsigned long long)status->n_invalidated,
	       (unsigned long long)status->n_revoked);
	return errors || mismatches ? EXIT_FAILED : EXIT_OK;
}

int main(int argc, char **argv)
{
	struct volume_config config;
	struct error error;
	struct volume_status status = {0};
	const char *hostnqn = NULL;
	uint64_t n_queues = 2, depth = 16, seed = 1, nsid = 1, max_io = 0, queue_size = 128;
	bool with_table = false, is_verbose = false, has_windows = false;
	int at, r;
	struct arg table[] = {
		{"queues", 'q', ARG_UINT, &n_queues, "N", "queues, each with a thread", 1,
		 VOLUME_QUEUES_MAX, NULL},
		{"depth", 'd', ARG_UINT, &depth, "N", "I/Os in flight a queue", 1, DEPTH_MAX, NULL},
		{"queue-size", 0, ARG_UINT, &queue_size, "N", "entries of a queue", 16, 1024, NULL},
		{"memory-windows", 0, ARG_FLAG, &has_windows, NULL, "a key for each command", 0, 0,
		 NULL},
		{"time", 't', ARG_DURATION, &all.time_ns, "TIME", "how long", 0, 0, NULL},
		{"reconnects", 0, ARG_UINT, &all.min_reconnects, "N",
		 "go on until it has reconnected so often", 0, UINT64_MAX, NULL},
		{"max-io", 0, ARG_SIZE, &max_io, "SIZE", "largest I/O", 4096, 1 << 20, NULL},
		{"seed", 0, ARG_UINT, &seed, "N", "of the random numbers", 0, UINT64_MAX, NULL},
		{"nsid", 'n', ARG_UINT, &nsid, "N", "namespace", 1, 0xfffffffe, NULL},
		{"hostnqn", 0, ARG_STRING, &hostnqn, "NQN", "the host NQN to use", 0, 0, NULL},
		{"fresh", 0, ARG_FLAG, &all.plan.is_fresh, NULL, "it reads as zeroes now", 0, 0,
		 NULL},
		{"read-only", 0, ARG_FLAG, &all.plan.reads_only, NULL, "only read", 0, 0, NULL},
		{"table", 0, ARG_FLAG, &with_table, NULL, "show latencies", 0, 0, NULL},
		{"verbose", 'v', ARG_FLAG, &is_verbose, NULL, "log more", 0, 0, NULL},
		{0},
	};
	const struct args_usage usage = {"volume_exercise", "ADDRESS:PORT NQN",
					 "Verified random I/O on a namespace.", 2, 2};

	all.time_ns = 5 * NSEC_PER_SEC;
	r = args_parse(&usage, table, argc, argv, &at);
	if (r >= 0)
		return r;
	log_init("volume_exercise", is_verbose ? LOG_DEBUG : LOG_INFO);
	volume_config_init(&config);
	config.n_queues = (unsigned)n_queues;
	config.queue_size = (unsigned)queue_size;
	config.has_windows = has_windows;
	config.nsid = (uint32_t)nsid;
	config.reconnect_delay_ns = 500 * NSEC_PER_MSEC;
	config.ctrl_loss_tmo_ns = 60 * NSEC_PER_SEC;
	snprintf(config.subnqn, sizeof(config.subnqn), "%s", argv[at + 1]);
	if (addr_parse_with_port(argv[at], 4420, &config.address) < 0)
		return fail_with("volume_exercise", EXIT_USAGE, NULL, "bad address '%s'", argv[at]);
	if (host_identity_load("/etc/nvme", hostnqn, NULL, &config, &error) < 0)
		return fail_with("volume_exercise", error.code, error.hint, "%s", error.message);
	all.n_workers = (unsigned)n_queues;
	all.plan.depth = (unsigned)depth;
	all.plan.seed = seed;
	all.plan.max_io_bytes = (uint32_t)max_io;
	all.workers = calloc(all.n_workers, sizeof(*all.workers));
	if (!all.workers || loop_init(&all.control, 0, NULL) < 0 ||
	    volume_open(&all.control, &config, &callbacks, NULL, &all.volume) < 0)
		return EXIT_FAILED;
	while (!all.is_closed) {
		loop_turn(&all.control, UINT64_MAX);
		if (!all.is_closed)
			volume_get_status(all.volume, &status);
	}
	loop_deinit(&all.control);
	r = all.has_failed ? EXIT_FAILED : report(with_table, &status);
	free(all.workers);
	return r;
}
