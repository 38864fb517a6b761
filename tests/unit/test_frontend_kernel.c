/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The front end /dev/nbdN without a kernel: which jobs it gives to its helper, and when. The test
 * implements the helper and sysfs; a job completes when the test orders it.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bits.h"
#include "base/clock.h"
#include "nbd_bridge/control/frontend.h"
#include "nbd_bridge/control/frontend_kernel.h"
#include "nbd_bridge/control/kernel_device.h"
#include "nbd_bridge/control/kernel_helper.h"
#include "nbd_bridge/control/kernel_name.h"

enum {
	NO_JOB = -1,
	CONNS_MAX = 64,
};

static struct {
	char folder[64];
	struct loop loop;
	struct nbd_export export;
	struct volume_info info;
	struct frontend_host host;
	struct frontend *frontend;
	struct kernel_helper *helper;
	int device;	      /* shown in sysfs; -1: none */
	int job;	      /* given and not completed yet */
	int conns[CONNS_MAX]; /* our ends */
	unsigned n_conns, n_started, n_ended, n_lost;
	struct error error; /* passed to on_started */
} the;

/* ---- in place of the kernel's side ---------------------------------------------------------- */

int kernel_device_find(const char *sys_block, const char *backend, uint32_t *ret_index)
{
	assert_string_equal(backend, "01020304-0000-0000-0000-000000000005");
	if (the.device < 0)
		return -ENOENT;
	*ret_index = (uint32_t)the.device;
	return 0;
}

int kernel_helper_start(struct kernel_helper *helper, struct loop *control)
{
	the.helper = helper;
	helper->is_running = true;
	return 0;
}

void kernel_helper_end(struct kernel_helper *helper)
{
	helper->is_running = false;
}

void kernel_helper_give(struct kernel_helper *helper, enum kernel_job job)
{
	assert_false(helper->is_busy);
	helper->is_busy = true;
	the.job = (int)job;
}

/* The sockets that the job carries; the other end of each is a connection. */
static unsigned n_sockets(void)
{
	return the.helper->params.n_sockets;
}

static void done(enum kernel_job job, int result)
{
	assert_int_equal(the.job, job);
	for (unsigned i = 0; i < n_sockets(); i++)
		close(the.helper->params.sockets[i]);
	the.helper->params.n_sockets = 0;
	the.helper->is_busy = false;
	the.job = NO_JOB;
	the.helper->on_done(the.helper, job, result);
}

/* ---- in place of the volume process --------------------------------------------------------- */

static int add_conn(struct frontend_host *host, int fd, bool is_kernel, bool must_exit)
{
	assert_true(is_kernel && !must_exit && the.n_conns < CONNS_MAX);
	the.conns[the.n_conns++] = fd;
	return 0;
}

static void on_started(struct frontend_host *host, const struct error *error)
{
	the.n_started++;
	if (error)
		the.error = *error;
}

static void on_left(struct frontend_host *host, const struct error *why)
{
	assert_int_equal(why->code, EXIT_BUSY);
	assert_non_null(strstr(why->message, "/dev/nbd7 is in use"));
	the.n_ended++;
}

static void on_lost(struct frontend_host *host)
{
	the.n_lost++;
}

static void make_frontend(unsigned n_connections)
{
	const struct frontend_kernel_config config = {
		.n_connections = n_connections, .io_timeout_s = 660, .names_directory = the.folder};

	the.frontend = frontend_kernel_new(&the.host, &config);
	assert_non_null(the.frontend);
}

static int start(void)
{
	struct error error = {0};
	int r = the.frontend->ops->start(the.frontend, &error);

	the.error = error;
	return r;
}

/* Attached, as /dev/nbd7. */
static void attach(unsigned n_connections)
{
	make_frontend(n_connections);
	assert_int_equal(start(), 0);
	the.helper->index = 7;
	done(KERNEL_ATTACH, 0);
	assert_int_equal(the.n_started, 1);
}

static void wait_for_job(enum kernel_job job)
{
	uint64_t deadline = clock_ns() + 60 * NSEC_PER_SEC;

	while (the.job == NO_JOB && clock_ns() < deadline)
		loop_turn(&the.loop, NSEC_PER_SEC);
	assert_int_equal(the.job, job);
}

/* Ends n of the connections. */
static void lose(bool was_used, unsigned n_left)
{
	the.frontend->ops->conn_gone(the.frontend, was_used, n_left);
}

static void end(void)
{
	the.frontend->ops->free(the.frontend);
	the.frontend = NULL;
}

static void name_is(const char *expected)
{
	char command[128], text[128] = "";
	FILE *f;

	snprintf(command, sizeof(command), "cat %s/* 2>/dev/null", the.folder);
	f = popen(command, "r");
	assert_non_null(f);
	if (!fgets(text, sizeof(text), f))
		text[0] = '\0';
	pclose(f);
	assert_string_equal(text, expected);
}

static int set_up(void **state)
{
	memset(&the, 0, sizeof(the));
	the.device = -1;
	the.job = NO_JOB;
	strcpy(the.folder, "/tmp/rblk-test.XXXXXX");
	the.info = (struct volume_info){.size_bytes = 1 << 20,
					.block_size = 4096,
					.max_io_bytes = 65536,
					.uuid = {1, 2, 3, 4, [15] = 5}};
	the.host = (struct frontend_host){.loop = &the.loop,
					  .export = &the.export,
					  .info = &the.info,
					  .add_conn = add_conn,
					  .on_started = on_started,
					  .on_left = on_left,
					  .on_lost = on_lost};
	if (!mkdtemp(the.folder) || loop_init(&the.loop, 0, NULL) < 0)
		return -1;
	return nbd_export_init(&the.export, "vol", "a namespace", &the.info, 1 << 20);
}

static int tear_down(void **state)
{
	char command[128];

	if (the.frontend)
		end();
	for (unsigned i = 0; i < the.n_conns; i++)
		close(the.conns[i]);
	nbd_export_deinit(&the.export);
	loop_deinit(&the.loop);
	snprintf(command, sizeof(command), "rm -rf '%s'", the.folder);
	return system(command);
}

/* ---- attaching ------------------------------------------------------------------------------ */

static void makes_a_fresh_device(void **state)
{
	make_frontend(1);
	assert_int_equal(start(), 0);
	assert_int_equal(the.job, KERNEL_ATTACH);
	assert_false(the.helper->is_found);
	assert_int_equal(n_sockets(), 1);
	/* With one connection the kernel's timeout may be short. */
	assert_int_equal(the.helper->params.io_timeout_s, 0);
	name_is("vol 1 4096\n");
	the.helper->index = 7;
	done(KERNEL_ATTACH, 0);
	assert_string_equal(frontend_kernel_device(the.frontend), "/dev/nbd7");
}

static void several_connections_need_a_long_timeout(void **state)
{
	attach(3);
	assert_int_equal(the.n_conns, 3);
	assert_int_equal(the.helper->params.io_timeout_s, 660);
}

/* The file that a killed process leaves. */
static void leave_behind(const char *volume, unsigned n, uint32_t block_size)
{
	struct kernel_name_content content = {.n_sockets = n, .block_size = block_size};
	struct kernel_name name;

	snprintf(content.volume, sizeof(content.volume), "%s", volume);
	assert_int_equal(kernel_name_take(&name, the.folder, the.info.uuid,
					  &(struct kernel_name_content){0}),
			 0);
	assert_int_equal(kernel_name_write(&name, &content), 0);
	kernel_name_release(&name, false);
	the.device = 5;
}

static void takes_a_device_over_with_the_places_it_has(void **state)
{
	leave_behind("vol", 3, 4096);
	make_frontend(1);
	assert_int_equal(start(), 0);
	assert_true(the.helper->is_found);
	assert_int_equal(the.helper->index, 5);
	assert_int_equal(n_sockets(), 3);
	assert_int_equal(the.helper->params.io_timeout_s, 660);
	done(KERNEL_ATTACH, 0);
	assert_string_equal(frontend_kernel_device(the.frontend), "/dev/nbd5");
	name_is("vol 3 4096\n");
}

static void refuses_a_device_with_other_blocks(void **state)
{
	leave_behind("vol", 1, 512);
	make_frontend(1);
	assert_int_equal(start(), EXIT_FAILED);
	assert_non_null(strstr(the.error.message, "/dev/nbd5 was left with blocks of 512"));
	assert_int_equal(the.job, NO_JOB);
	end();
	name_is("vol 1 512\n"); /* kept for the administrator's repair */
}

static void refuses_a_namespace_that_has_a_device(void **state)
{
	struct kernel_name_content content = {.volume = "first"};
	struct kernel_name name;

	assert_int_equal(kernel_name_take(&name, the.folder, the.info.uuid, &content), 0);
	strcpy(content.volume, "first");
	assert_int_equal(kernel_name_write(&name, &content), 0);
	make_frontend(1);
	assert_int_equal(start(), EXIT_BUSY);
	assert_non_null(strstr(the.error.message, "as volume 'first'"));
	end();
	name_is("first 0 0\n");
	kernel_name_release(&name, true);
}

static void attaches_without_a_name(void **state)
{
	rmdir(the.folder);
	strcpy(the.folder, "/dev/null/nothing");
	attach(1);
	assert_int_equal(the.n_conns, 1);
	assert_int_equal(the.helper->params.size_bytes, 1 << 20);
}

static void says_why_it_cannot_attach(void **state)
{
	make_frontend(1);
	assert_int_equal(start(), 0);
	done(KERNEL_ATTACH, -EPERM);
	assert_int_equal(the.n_started, 1);
	assert_int_equal(the.error.code, EXIT_PRIVILEGE);
	end();
	name_is("");
}

/* ---- connections that end ------------------------------------------------------------------- */

static void replaces_what_ends(void **state)
{
	attach(3);
	lose(true, 2);
	wait_for_job(KERNEL_RECONNECT);
	assert_int_equal(n_sockets(), 1);
	done(KERNEL_RECONNECT, 0);
	lose(true, 0); /* the last one: now all are gone */
	wait_for_job(KERNEL_RECONNECT);
	assert_int_equal(n_sockets(), 3);
	done(KERNEL_RECONNECT, 0);
	assert_int_equal(the.job, NO_JOB);
}

static void leaves_alone_what_the_kernel_had_no_place_for(void **state)
{
	attach(3);
	lose(false, 2);
	assert_int_equal(the.job, NO_JOB);
	lose(false, 0); /* but one connection must remain */
	wait_for_job(KERNEL_RECONNECT);
	assert_int_equal(n_sockets(), 3);
	done(KERNEL_RECONNECT, 0);
}

/* The kernel has not noticed the predecessor's death yet: it closes the sockets that we offer. */
static void tries_again_until_the_kernel_takes_them(void **state)
{
	leave_behind("vol", 1, 4096);
	make_frontend(1);
	assert_int_equal(start(), 0);
	lose(false, 0);
	done(KERNEL_ATTACH, 0);
	for (unsigned i = 0; i < 3; i++) {
		wait_for_job(KERNEL_RECONNECT);
		assert_int_equal(n_sockets(), 1);
		lose(false, 0);
		done(KERNEL_RECONNECT, 0);
	}
	wait_for_job(KERNEL_RECONNECT);
	done(KERNEL_RECONNECT, 0);
	assert_int_equal(the.n_started, 1);
	assert_int_equal(the.n_lost, 0);
}

static void tries_again_after_an_error(void **state)
{
	attach(1);
	lose(true, 0);
	wait_for_job(KERNEL_RECONNECT);
	done(KERNEL_RECONNECT, -ENOMEM);
	wait_for_job(KERNEL_RECONNECT);
	assert_int_equal(n_sockets(), 1);
	done(KERNEL_RECONNECT, 0);
}

static void ends_when_somebody_else_detached_it(void **state)
{
	attach(1);
	lose(true, 0);
	wait_for_job(KERNEL_RECONNECT);
	done(KERNEL_RECONNECT, -ENOENT);
	assert_int_equal(the.n_lost, 1);
	the.frontend->ops->stop(the.frontend, true);
	assert_int_equal(the.job, NO_JOB);
}

/* ---- size ----------------------------------------------------------------------------------- */

static void tells_the_latest_size(void **state)
{
	attach(1);
	the.info.size_bytes = 2 << 20;
	the.frontend->ops->resize(the.frontend);
	assert_int_equal(the.job, KERNEL_RESIZE);
	assert_int_equal(the.helper->params.size_bytes, 2 << 20);
	the.info.size_bytes = 3 << 20;
	the.frontend->ops->resize(the.frontend);
	the.info.size_bytes = 4 << 20;
	the.frontend->ops->resize(the.frontend);
	done(KERNEL_RESIZE, 0);
	assert_int_equal(the.job, KERNEL_RESIZE);
	assert_int_equal(the.helper->params.size_bytes, 4 << 20);
	done(KERNEL_RESIZE, 0);
	assert_int_equal(the.job, NO_JOB);
}

/* A device that a predecessor attached has the size of that time, not the current one. */
static void tells_its_size_when_it_reconnects(void **state)
{
	attach(1);
	lose(true, 0);
	the.info.size_bytes = 2 << 20;
	wait_for_job(KERNEL_RECONNECT);
	assert_int_equal(the.helper->params.size_bytes, 2 << 20);
	done(KERNEL_RECONNECT, 0);
}

/* ---- the end -------------------------------------------------------------------------------- */

static void leaves_a_device_in_use(void **state)
{
	attach(1);
	the.frontend->ops->stop(the.frontend, true);
	done(KERNEL_LEAVE, -EBUSY);
	while (!the.n_ended)
		loop_turn(&the.loop, NSEC_PER_SEC);
	lose(true, 0); /* a stopped front end replaces none */
	assert_int_equal(the.job, NO_JOB);
	end();
	name_is("vol 1 4096\n");
}

static void detaches_what_nobody_uses(void **state)
{
	attach(1);
	the.frontend->ops->stop(the.frontend, true);
	done(KERNEL_LEAVE, 0);
	done(KERNEL_DETACH, 0);
	assert_int_equal(the.n_ended, 0);
	end();
	name_is("");
}

static void detaches_without_a_question_when_told(void **state)
{
	attach(1);
	the.frontend->ops->stop(the.frontend, false);
	done(KERNEL_DETACH, 0);
	end();
	name_is("");
}

static void detaches_when_told_while_it_attaches(void **state)
{
	make_frontend(1);
	assert_int_equal(start(), 0);
	the.frontend->ops->stop(the.frontend, false);
	done(KERNEL_ATTACH, 0);
	assert_int_equal(the.n_started, 0);
	done(KERNEL_DETACH, 0);
	assert_int_equal(the.job, NO_JOB);
}

static void stops_trying_when_told(void **state)
{
	attach(1);
	lose(true, 0);
	wait_for_job(KERNEL_RECONNECT);
	the.frontend->ops->stop(the.frontend, false);
	the.frontend->ops->resize(the.frontend);
	done(KERNEL_RECONNECT, 0);
	done(KERNEL_DETACH, 0);
	assert_int_equal(the.job, NO_JOB);
}

#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(makes_a_fresh_device),
		T(several_connections_need_a_long_timeout),
		T(takes_a_device_over_with_the_places_it_has),
		T(refuses_a_device_with_other_blocks),
		T(refuses_a_namespace_that_has_a_device),
		T(attaches_without_a_name),
		T(says_why_it_cannot_attach),
		T(replaces_what_ends),
		T(leaves_alone_what_the_kernel_had_no_place_for),
		T(tries_again_until_the_kernel_takes_them),
		T(tries_again_after_an_error),
		T(ends_when_somebody_else_detached_it),
		T(tells_the_latest_size),
		T(tells_its_size_when_it_reconnects),
		T(leaves_a_device_in_use),
		T(detaches_what_nobody_uses),
		T(detaches_without_a_question_when_told),
		T(detaches_when_told_while_it_attaches),
		T(stops_trying_when_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
