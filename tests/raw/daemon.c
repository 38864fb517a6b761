/* SPDX-License-Identifier: BSD-3-Clause */
/* See daemon.h. The program is $RBLKD. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/rpc.h"
#include "base/rpc_client.h"
#include "tests/lib/free_port.h"
#include "tests/raw/daemon.h"
#include "tests/raw/failure.h"
#include "tests/raw/host.h"

enum {
	PATIENCE_S = 120,
	ANSWER_MS = 60000,
	N_RAM = 3, /* namespaces in RAM, see write_config */
};

static void write_secret(const struct daemon *d, const char *secret)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/key", d->folder);
	f = fopen(path, "w");
	assert_non_null(f);
	fprintf(f, "%s\n", secret);
	fclose(f);
	assert_int_equal(chmod(path, 0600), 0);
}

#define ANA_GROUPS                                                                                 \
	"    ana_groups:\n"                                                                        \
	"      - {id: 9, state: change}\n"                                                         \
	"      - {id: 7, state: non_optimized,"                                                    \
	" portals: [{portal: q, state: inaccessible}]}\n"                                          \
	"      - {id: 1}\n"

FILE *daemon_open_config(const struct daemon *d)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/target.yaml", d->folder);
	f = fopen(path, "w");
	assert_non_null(f);
	return f;
}

static void write_config(const struct daemon *d, const char *tuning, const char *limits,
			 const char *secret)
{
	char path[128], state[160] = "", second[128] = "";
	const char *member = d->second_port ? ", ana_group: 7" : "";
	FILE *f;

	if (d->keeps_state)
		snprintf(state, sizeof(state), "state_directory: %s\n", d->folder);
	if (d->second_port)
		snprintf(second, sizeof(second), "  - {name: q, address: 127.0.0.1, port: %u}\n",
			 d->second_port);
	f = daemon_open_config(d);
	fprintf(f,
		"version: 1\n"
		"control_socket: %s/sock\n"
		"%stuning: {spin: auto%s%s%s}\n"
		"limits: {pending: 8, %sconnections_per_host: 16%s}\n"
		"portals:\n  - {name: p, address: 127.0.0.1, port: %u}\n%shosts:\n  - {name: raw, nqn: '%s'%s%s%s}\n"
		"subsystems:\n"
		"  - nqn: %s\n    allow_hosts: [raw]\n%s    namespaces:\n"
		"      - {nsid: 1, ram: 16MiB, block_size: 512, uuid: 0b1e6c5e-5a55-4c0e-9b0c-2f6f4b5d1a11}\n"
		"      - {nsid: 2, file: %s/disk, size: 16MiB, create: true, block_size: 4096%s}\n"
		"      - {nsid: 3, file: %s/fixed, block_size: 512, read_only: true}\n"
		"      - {nsid: 4, ram: 256MiB, block_size: 4096, uuid: 0b1e6c5e-5a55-4c0e-9b0c-2f6f4b5d1a14%s}\n"
		"  - nqn: nqn.2026-01.org.example:others\n    allow_hosts: []\n    namespaces:\n"
		"      - {nsid: 1, ram: 1MiB}\n",
		d->folder, state, strstr(tuning, "max_transfer") ? "" : ", max_transfer: 1MiB",
		strstr(tuning, "buffers") ? "" : ", buffers: 8MiB", tuning,
		strstr(limits, "connect_timeout") ? "" : "connect_timeout: 5s, ", limits, d->port,
		second, RAW_HOSTNQN, secret ? ", dhchap_key_file: " : "", secret ? d->folder : "",
		secret ? "/key" : "", RAW_SUBNQN, d->second_port ? ANA_GROUPS : "", d->folder,
		member, d->folder, member);
	if (secret)
		write_secret(d, secret);
	fclose(f);
	snprintf(path, sizeof(path), "%s/fixed", d->folder);
	f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(ftruncate(fileno(f), 1024 * 1024), 0);
	fclose(f);
}

static void run_program(const struct daemon *d)
{
	const char *program = getenv("RBLKD");
	char config[128], log[128];
	int fd;

	snprintf(config, sizeof(config), "%s/target.yaml", d->folder);
	snprintf(log, sizeof(log), "%s/log", d->folder);
	fd = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	dup2(fd, STDERR_FILENO);
	dup2(fd, STDOUT_FILENO);
	execl(program, program, "--config", config, "--log-level", "debug", NULL);
	_exit(127);
}

void daemon_show_log(const struct daemon *d)
{
	char command[128];

	snprintf(command, sizeof(command), "sed 's/^/# /' %s/log >&2", d->folder);
	if (system(command))
		fprintf(stderr, "# no log\n");
}

static void wait_ready(struct daemon *d)
{
	uint64_t deadline = clock_ns() + PATIENCE_S * NSEC_PER_SEC;
	int status;

	while (!daemon_has_logged(d, d->second_port ? "ready, portals 2/2 listening"
						    : "ready, portals 1/1 listening")) {
		/* The teardown must notice that rblkd has ended. */
		if (daemon_has_ended(d, &status) || clock_ns() > deadline) {
			daemon_show_log(d);
			fail_msg("rblkd does not start");
		}
		usleep(10000);
	}
}

static void spawn(struct daemon *d)
{
	char log[128];

	/* The last daemon's line must not be mistaken for this one's. */
	snprintf(log, sizeof(log), "%s/log", d->folder);
	unlink(log);
	d->is_terminated = d->has_ended = false;
	d->pid = fork();
	assert_true(d->pid >= 0);
	if (d->pid == 0)
		run_program(d);
	failure_watch(d->folder, d->pid);
}

static void launch(struct daemon *d)
{
	spawn(d);
	wait_ready(d);
}

bool daemon_has_ended(struct daemon *d, int *ret_status)
{
	if (!d->has_ended && waitpid(d->pid, &d->status, WNOHANG) == d->pid) {
		d->has_ended = true;
		failure_watch(d->folder, 0);
	}
	*ret_status = d->status;
	return d->has_ended;
}

bool daemon_try(struct daemon *d, int *ret_status)
{
	uint64_t deadline = clock_ns() + PATIENCE_S * NSEC_PER_SEC;

	spawn(d);
	while (!daemon_has_logged(d, "ready, portals ")) {
		if (daemon_has_ended(d, ret_status))
			return false;
		if (clock_ns() > deadline) {
			daemon_show_log(d);
			fail_msg("rblkd neither starts nor ends");
		}
		usleep(2000);
	}
	return true;
}

static void make_folder(struct daemon *d)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(d->folder, sizeof(d->folder), "%s/rblk-raw.XXXXXX", tmp ? tmp : "/tmp");
	assert_non_null(mkdtemp(d->folder));
}

static void start(struct daemon *d, const char *tuning, const char *limits, const char *secret)
{
	make_folder(d);
	write_config(d, tuning, limits, secret);
	launch(d);
}

void daemon_start(struct daemon *d, const char *tuning)
{
	daemon_start_limited(d, tuning, "");
}

void daemon_start_limited(struct daemon *d, const char *tuning, const char *limits)
{
	*d = (struct daemon){.port = free_port()};
	start(d, tuning, limits, NULL);
}

void daemon_start_with_secret(struct daemon *d, const char *secret)
{
	daemon_start_with_secret_limited(d, secret, ", auth_timeout: 5s");
}

void daemon_start_with_secret_limited(struct daemon *d, const char *secret, const char *limits)
{
	*d = (struct daemon){.port = free_port()};
	start(d, "", limits, secret);
}

void daemon_start_configured(struct daemon *d, void (*write)(const struct daemon *d))
{
	*d = (struct daemon){.port = free_port(), .second_port = free_port()};
	make_folder(d);
	write(d);
	launch(d);
}

void daemon_start_keeping(struct daemon *d)
{
	*d = (struct daemon){.port = free_port(), .keeps_state = true};
	start(d, "", "", NULL);
}

void daemon_start_ana(struct daemon *d)
{
	*d = (struct daemon){.port = free_port()};
	d->second_port = free_port();
	start(d, "", "", NULL);
}

void daemon_kill_and_restart(struct daemon *d)
{
	kill(d->pid, SIGKILL);
	waitpid(d->pid, NULL, 0);
	launch(d);
}

struct json_object *daemon_ask(const struct daemon *d, const char *method)
{
	struct json_object *result = NULL;
	struct error error = {0};
	char path[128];

	snprintf(path, sizeof(path), "%s/sock", d->folder);
	if (rpc_call(path, method, NULL, ANSWER_MS, &result, &error) < 0) {
		daemon_show_log(d);
		fail_msg("rblkd does not answer to %s: %s", method, error.message);
	}
	return result;
}

void daemon_begin_upgrade(struct daemon *d)
{
	struct json_object *result = daemon_ask(d, "upgrade");

	d->successor = json_object_get_int(json_object_object_get(result, "successor"));
	json_object_put(result);
}

void daemon_end_upgrade(struct daemon *d)
{
	uint64_t deadline = clock_ns() + PATIENCE_S * NSEC_PER_SEC;
	int status = -1;

	while (!daemon_has_ended(d, &status)) {
		if (clock_ns() > deadline) {
			daemon_show_log(d);
			fail_msg("rblkd does not end for its successor");
		}
		usleep(2000);
	}
	assert_int_equal(status, 0);
	d->pid = d->successor;
	d->has_ended = false;
}

void daemon_upgrade(struct daemon *d)
{
	daemon_begin_upgrade(d);
	daemon_end_upgrade(d);
}

void daemon_terminate(struct daemon *d)
{
	kill(d->pid, SIGTERM);
	d->is_terminated = true;
}

int daemon_end(struct daemon *d)
{
	uint64_t deadline = clock_ns() + PATIENCE_S * NSEC_PER_SEC;
	bool is_aborted = false;
	int status = -1;

	if (!d->is_terminated && !daemon_has_ended(d, &status))
		daemon_terminate(d);
	while (!daemon_has_ended(d, &status)) {
		if (clock_ns() > deadline && !is_aborted) {
			fprintf(stderr,
				"# rblkd does not end within %d s of SIGTERM: aborted by the test\n",
				PATIENCE_S);
			is_aborted = kill(d->pid, SIGABRT) == 0;
		}
		usleep(2000);
	}
	if (status)
		daemon_show_log(d);
	return status;
}

void daemon_remove(struct daemon *d)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", d->folder);
	if (system(command))
		fprintf(stderr, "# %s stays\n", d->folder);
	failure_forget(d->folder);
}

void daemon_restart(struct daemon *d)
{
	assert_int_equal(daemon_end(d), 0);
	launch(d);
}

void daemon_stop(struct daemon *d)
{
	int status = daemon_end(d);

	daemon_remove(d);
	assert_int_equal(status, 0);
}

uint64_t daemon_n_commands(const struct daemon *d)
{
	struct json_object *result = daemon_ask(d, "list");
	struct json_object *list = json_object_object_get(result, "connections");
	uint64_t n = 0;

	for (size_t i = 0; i < json_object_array_length(list); i++) {
		struct json_object *queue = json_object_array_get_idx(list, i);

		if (json_object_get_int(json_object_object_get(queue, "queue")))
			n += json_object_get_uint64(json_object_object_get(queue, "commands"));
	}
	json_object_put(result);
	return n;
}

unsigned daemon_n_connections(const struct daemon *d)
{
	struct json_object *result = daemon_ask(d, "status");
	unsigned n = (unsigned)json_object_get_int(json_object_object_get(result, "connections"));

	json_object_put(result);
	return n;
}

void daemon_wait_empty(const struct daemon *d)
{
	uint64_t deadline = clock_ns() + PATIENCE_S * NSEC_PER_SEC;

	while (daemon_n_connections(d)) {
		if (clock_ns() > deadline)
			fail_msg("rblkd keeps connections");
		usleep(5000);
	}
}

unsigned daemon_n_logged(const struct daemon *d, const char *text)
{
	_autofclose_ FILE *f = NULL;
	char path[128], line[1024];
	unsigned n = 0;

	snprintf(path, sizeof(path), "%s/log", d->folder);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f))
		n += strstr(line, text) != NULL;
	return n;
}

bool daemon_has_logged(const struct daemon *d, const char *text)
{
	return daemon_n_logged(d, text) > 0;
}

void daemon_wait_logged_again(const struct daemon *d, const char *text, unsigned n)
{
	uint64_t deadline = clock_ns() + PATIENCE_S * NSEC_PER_SEC;

	while (daemon_n_logged(d, text) < n) {
		if (clock_ns() > deadline) {
			daemon_show_log(d);
			fail_msg("not in the log: %s", text);
		}
		usleep(5000);
	}
}

void daemon_wait_logged(const struct daemon *d, const char *text)
{
	daemon_wait_logged_again(d, text, 1);
}

void daemon_wait_registered(const struct daemon *d)
{
	const char *like = getenv("SOFTRDMA_LIKE");

	if (!like || strcmp(like, "siw") != 0) /* iWARP: RAM is never registered */
		daemon_wait_logged_again(d, ": registered with", N_RAM);
}
