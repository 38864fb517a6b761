/* SPDX-License-Identifier: BSD-3-Clause */
/* The initiator's smaller parts: command identifiers, the bytes of Connect, texts of errors, the
 * options of a volume. */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/bits.h"
#include "base/clock.h"
#include "initiator/io/command.h"
#include "initiator/io/connect.h"
#include "initiator/control/errors.h"
#include "initiator/control/volume_config.h"
#include "initiator/io/io_status.h"

/* ---- commands ---- */

static uint16_t cid_of(const struct command *command)
{
	return get_le16(command->capsule->sqe.cid);
}

static void test_command_table(void **state)
{
	struct command_table table;
	struct command *commands[24], *a, *b;
	uint16_t old;

	assert_int_equal(command_table_init(&table, NULL, 24), 0);
	for (unsigned i = 0; i < 24; i++) {
		commands[i] = command_take(&table);
		assert_non_null(commands[i]);
		command_start(&table, commands[i], i);
		for (unsigned j = 0; j < i; j++)
			assert_int_not_equal(cid_of(commands[i]), cid_of(commands[j]));
	}
	assert_null(command_take(&table));
	assert_int_equal(table.n_in_flight, 24);
	a = commands[7];
	old = cid_of(a);
	assert_ptr_equal(command_find(&table, old), a);
	command_stop(&table, a);
	assert_null(command_find(&table, old)); /* a duplicate answer */
	command_give(&table, a);
	b = command_take(&table);
	assert_ptr_equal(a, b);
	command_start(&table, b, 99);
	assert_null(command_find(&table, old)); /* a late one, to the slot's former use */
	assert_ptr_equal(command_find(&table, cid_of(b)), b);
	assert_null(command_find(&table, 24)); /* no such slot */
	assert_null(command_find(&table, 31));
	assert_ptr_equal(list_entry(table.in_flight.prev, struct command, node), b);
	for (unsigned i = 0; i < 24; i++) {
		command_stop(&table, commands[i]);
		command_give(&table, commands[i]);
	}
	assert_int_equal(table.n_free, 24);
	command_table_deinit(&table);
}

/* Every identifier except the one in flight is unknown. A slot's identifiers repeat only after
 * all generations. */
static void test_command_identifiers(void **state)
{
	struct command_table table;
	unsigned n_found = 0, n_uses = 0;
	uint16_t first;

	assert_int_equal(command_table_init(&table, NULL, 256), 0);
	for (;;) {
		struct command *command = command_take(&table);

		command_start(&table, command, 0);
		if (!n_uses++)
			first = cid_of(command);
		else if (cid_of(command) == first)
			break;
		if (n_uses == 2)
			for (unsigned cid = 0; cid <= UINT16_MAX; cid++)
				n_found += command_find(&table, (uint16_t)cid) != NULL;
		command_stop(&table, command);
		command_give(&table, command);
	}
	assert_int_equal(n_found, 1);
	assert_int_equal(n_uses, 257);
	command_stop(&table, list_entry(table.in_flight.next, struct command, node));
	command_table_deinit(&table);
}

/* ---- the bytes of wire reference, section 21 ---- */

static void test_private_data(void **state)
{
	static const uint8_t want[32] = {0, 0, 1, 0, 0x80, 0, 0x7f, 0, 5};
	uint8_t rep[196] = {0, 0, 0x80, 0};
	struct nvmf_cm_req req;
	unsigned n;

	connect_fill_private(&req, 1, 128, 128, 5);
	assert_memory_equal(&req, want, sizeof(want));
	assert_int_equal(connect_parse_private(rep, sizeof(rep), &n), 0);
	assert_int_equal(n, 128);
	assert_int_equal(connect_parse_private(rep, 31, &n), 0);
	assert_int_equal(n, UINT_MAX);
	assert_int_equal(connect_parse_private(NULL, 0, &n), 0);
	rep[2] = 0;
	assert_int_equal(connect_parse_private(rep, 32, &n), 0);
	assert_int_equal(n, UINT_MAX);
	rep[0] = 1;
	assert_int_equal(connect_parse_private(rep, 32, &n), -EPROTO);
}

static void test_connect_command(void **state)
{
	static const uint8_t head[8] = {0x7f, 0x40, 0x00, 0x10, 0x01};
	static const uint8_t admin[12] = {0, 0, 0, 0, 0x1f, 0, 0, 0, 0x88, 0x13, 0, 0};
	static const uint8_t io[12] = {0, 0, 1, 0, 0x7f, 0, 0, 0, 0, 0, 0, 0};
	struct nvme_sqe sqe = {.cid = put_le16(0x1000)};

	connect_fill_command(&sqe, 0, 32, 5000);
	assert_memory_equal(&sqe, head, sizeof(head));
	assert_memory_equal((uint8_t *)&sqe + 40, admin, sizeof(admin));
	sqe = (struct nvme_sqe){.cid = put_le16(0x1000)};
	connect_fill_command(&sqe, 1, 128, 5000);
	assert_memory_equal((uint8_t *)&sqe + 40, io, sizeof(io));
}

static void test_connect_data(void **state)
{
	struct volume_config config;
	struct nvmf_connect_data data;
	const uint8_t *bytes = (const uint8_t *)&data;

	volume_config_init(&config);
	memset(config.hostnqn, 'h', sizeof(config.hostnqn) - 1);
	uuid_parse("00112233-4455-6677-8899-aabbccddeeff", config.hostid);
	connect_fill_data(&data, config.hostid, config.hostnqn, "nqn.x", 0xffff);
	assert_int_equal(bytes[0], 0x00);
	assert_int_equal(bytes[15], 0xff);
	assert_int_equal(bytes[16], 0xff);
	assert_string_equal((const char *)bytes + 256, "nqn.x");
	assert_int_equal(strlen((const char *)bytes + 512), 223);
	for (unsigned i = 768; i < 1024; i++)
		assert_int_equal(bytes[i], 0);
}

/* ---- errors ---- */

static void test_io_errors(void **state)
{
	assert_int_equal(io_status_errno(NVME_OK, VOLUME_READ), 0);
	assert_int_equal(io_status_errno(0x4080, VOLUME_READ), -EINVAL);
	assert_int_equal(io_status_errno(0x4080, VOLUME_WRITE), -ENOSPC);
	assert_int_equal(io_status_errno(0x4080, VOLUME_WRITE_ZEROES), -ENOSPC);
	assert_int_equal(io_status_errno(0x4080, VOLUME_TRIM), -EINVAL);
	assert_int_equal(io_status_errno(0x0081, VOLUME_WRITE), -ENOSPC);
	assert_int_equal(io_status_errno(0x4020, VOLUME_WRITE), -EPERM);
	assert_int_equal(io_status_errno(0x0182, VOLUME_WRITE), -EPERM);
	assert_int_equal(io_status_errno(0x4002, VOLUME_WRITE), -EINVAL);
	assert_int_equal(io_status_errno(0x4001, VOLUME_TRIM), -EOPNOTSUPP);
	assert_int_equal(io_status_errno(0x4281, VOLUME_READ), -EIO);
	assert_int_equal(io_status_errno(0x4083, VOLUME_READ), -EIO);
}

static void expect_pair(unsigned compare, unsigned write, unsigned status, bool may_repeat)
{
	bool may;

	assert_int_equal(io_status_of_pair(compare, write, &may), status);
	if (status)
		assert_int_equal(may, may_repeat);
}

static void test_pairs(void **state)
{
	expect_pair(0, 0, 0, false);
	expect_pair(0x4285, 0x4009, 0x4285, true); /* nothing was written */
	expect_pair(0x0302, 0x4009, 0x0302, true);
	expect_pair(0x0021, 0x0009, 0x0021, true);
	expect_pair(0x400a, 0x400a, 0x400a, true);
	expect_pair(0x4009, 0x0303, 0x0303, true); /* refused before it began */
	expect_pair(0x4009, 0x0019, 0x0019, true);
	expect_pair(0x0000, 0x0082, 0x0082, true);
	expect_pair(0x4009, 0x0021, 0x0021, false); /* perhaps in the middle */
	expect_pair(0x4009, 0x0300, 0x0300, false);
	expect_pair(0x0000, 0x4280, 0x4280, false);
	expect_pair(0x0000, 0x4285, 0x4285, false);
	expect_pair(0x4009, 0x4009, 0x4009, false);
	expect_pair(0x4285, 0x0000, 0x4285, false); /* cannot be true */
	expect_pair(0x4009, 0x0000, 0x4009, false);
}

static void test_retries(void **state)
{
	static const unsigned counted[] = {0x21, 0x22, 0x07, 0x08, 0x181};
	static const unsigned lost[] = {0x19, 0x82, 0x300, 0x302, 0x303, 0x360};
	static const unsigned never[] = {0x01, 0x02, 0x80, 0x81, 0x281, 0x370, 0x20, 0x301};

	for (unsigned i = 0; i < ARRAY_LEN(counted); i++) {
		assert_int_equal(io_status_retry(counted[i]), IO_RETRY_COUNTED);
		assert_int_equal(io_status_retry(counted[i] | NVME_DNR), IO_RETRY_NO);
	}
	for (unsigned i = 0; i < ARRAY_LEN(lost); i++) {
		assert_int_equal(io_status_retry(lost[i]), IO_RETRY_WHILE_LOST);
		assert_int_equal(io_status_retry(lost[i] | NVME_DNR), IO_RETRY_NO);
	}
	for (unsigned i = 0; i < ARRAY_LEN(never); i++)
		assert_int_equal(io_status_retry(never[i]), IO_RETRY_NO);
}

static struct volume_config some_config(void)
{
	struct volume_config config;

	volume_config_init(&config);
	strcpy(config.subnqn, "nqn.2026-01.com.example:bd");
	strcpy(config.hostnqn, "nqn.2014-08.org.nvmexpress:uuid:me");
	addr_parse_with_port("10.77.0.1", 4420, &config.address);
	return config;
}

static void expect_cm(struct cm_error cm, enum exit_code code, const char *message)
{
	struct volume_config config = some_config();
	struct error error;

	error_from_cm(&error, &config.address, &cm);
	assert_string_equal(error.message, message);
	assert_int_equal(error.code, code);
}

static void test_cm_errors(void **state)
{
	expect_cm((struct cm_error){.failure = CM_ADDRESS, .error = -ENODEV}, EXIT_UNREACHABLE,
		  "cannot reach 10.77.0.1:4420: no RDMA device has a route to that address");
	expect_cm((struct cm_error){.failure = CM_REJECTED, .reason = 8}, EXIT_UNREACHABLE,
		  "10.77.0.1:4420 rejected the connection: nothing listens there (CM status 8)");
	expect_cm((struct cm_error){.failure = CM_REJECTED, .reason = -ECONNREFUSED},
		  EXIT_UNREACHABLE,
		  "10.77.0.1:4420 rejected the connection: nothing listens there (CM status -111)");
	expect_cm((struct cm_error){.failure = CM_UNREACHABLE}, EXIT_UNREACHABLE,
		  "cannot reach 10.77.0.1:4420: no answer");
	assert_true(error_cm_is_transient(
		&(struct cm_error){.failure = CM_REJECTED, .reason = 28, .nvmf_status = 6}));
	assert_true(
		error_cm_is_transient(&(struct cm_error){.failure = CM_REJECTED, .reason = 10}));
	assert_false(
		error_cm_is_transient(&(struct cm_error){.failure = CM_REJECTED, .reason = 8}));
}

static void expect_cm_hint(struct cm_error cm, const char *message, const char *hint)
{
	struct volume_config config = some_config();
	struct error error;

	error_from_cm(&error, &config.address, &cm);
	assert_non_null(strstr(error.message, message));
	assert_non_null(strstr(error.hint, hint));
}

static void expect_no_route_to(const char *address, const char *message, const char *hint)
{
	static const struct cm_error no_route = {.failure = CM_ADDRESS, .error = -EHOSTUNREACH};
	struct error error;
	union addr to;

	assert_int_equal(addr_parse(address, 4420, &to), 0);
	error_from_cm(&error, &to, &no_route);
	assert_non_null(strstr(error.message, message));
	assert_non_null(strstr(error.hint, hint));
}

/* The hints are of the fabric that is used. */
static void test_cm_hints(void **state)
{
	static const struct cm_error no_route = {.failure = CM_ADDRESS, .error = -EHOSTUNREACH};
	static const struct cm_error closed = {.failure = CM_UNREACHABLE, .error = -ECONNREFUSED};
	static const struct cm_error silent = {.failure = CM_UNREACHABLE, .error = -ETIMEDOUT};
	static const struct cm_error mtu = {.failure = CM_REJECTED, .reason = 26};
	const char *preload = getenv("LD_PRELOAD");
	char before[4096];

	snprintf(before, sizeof(before), "%s", preload ? preload : "");
	unsetenv("LD_PRELOAD");
	unsetenv("SOFTRDMA_ROCE");
	expect_cm_hint(no_route, "no RDMA device has a route", "rdma link add rxe0");
	setenv("LD_PRELOAD", "/usr/lib/rblk/libsoftrdma.so", 1);
	expect_cm_hint(no_route, "softrdma without RoCE reaches this machine only", "--fabric");
	setenv("SOFTRDMA_ROCE", "any", 1);
	expect_cm_hint(no_route, "there is no route to that address", "ip route get");
	expect_cm_hint(closed, "nothing receives RoCE there", "fabric: soft-roce");
	expect_cm_hint(silent, "no answer", "UDP port 4791");
	expect_cm_hint(mtu, "its MTU is smaller than ours (CM status 26)", "the same MTU");
	expect_no_route_to("fe80::1%lo", "leaves out link-local addresses", "unique local");
	expect_no_route_to("fd99::1", "there is no route to that address", "ip route get");
	unsetenv("SOFTRDMA_ROCE");
	setenv("LD_PRELOAD", before, 1);
}

static void expect_connect(unsigned status, uint64_t result, enum exit_code code,
			   const char *message)
{
	struct volume_config config = some_config();
	struct error error;

	error_from_connect(&error, &config, 0, status, result);
	assert_string_equal(error.message, message);
	assert_int_equal(error.code, code);
	if (code == EXIT_NOT_FOUND) /* it can be run as it is */
		assert_non_null(strstr(error.hint, "'rblk discover 10.77.0.1:4420'"));
}

static void test_connect_errors(void **state)
{
	expect_connect(0x4182, 256 | 1 << 16, EXIT_NOT_FOUND,
		       "target does not know subsystem 'nqn.2026-01.com.example:bd'");
	expect_connect(0x4184, 512 | 1 << 16, EXIT_DENIED,
		       "target refuses host nqn.2014-08.org.nvmexpress:uuid:me");
	expect_connect(
		0x4182, 0 | 1 << 16, EXIT_DENIED,
		"target refuses our host identifier 00000000-0000-0000-0000-000000000000: it is another host's there, or not the one that it has for us");
	expect_connect(0x4182, 44, EXIT_FAILED,
		       "target refuses the Connect: queue size 128 is not valid");
	expect_connect(0x4182, 99, EXIT_FAILED,
		       "target refuses the Connect: invalid parameter at byte 99 of the command");
	expect_connect(0x0181, 0, EXIT_BUSY, "target is busy: it takes no further connection now");
	assert_true(error_connect_is_permanent(0x4184));
	assert_false(error_connect_is_permanent(0x4181));
	assert_false(error_connect_is_permanent(0x0182));
}

/* ---- the options of a volume ---- */

/* Each default, as status reports it, sets the same again. */
static void test_option_defaults(void **state)
{
	struct volume_config config, again;
	char text[VOLUME_OPTION_MAX], second[VOLUME_OPTION_MAX];

	volume_config_init(&config);
	for (unsigned i = 0; i < VOLUME_OPTIONS; i++) {
		const struct volume_option *option = &volume_option_table[i];
		const char *is = volume_option_format(option, &config, text);

		assert_ptr_equal(volume_option_find(option->name), option);
		if (!option->standard)
			continue;
		volume_config_init(&again);
		assert_int_equal(volume_option_parse(option, is, &again), 0);
		assert_string_equal(volume_option_format(option, &again, second), is);
		assert_memory_equal(&again, &config, sizeof(config));
	}
	assert_null(volume_option_find("queue"));
	assert_int_equal(config.nsid, 1);
	assert_int_equal(config.ctrl_loss_tmo_ns, 600 * NSEC_PER_SEC);
	assert_int_equal(config.fast_io_fail_tmo_ns, UINT64_MAX);
}

static int parse(const char *name, const char *text, struct volume_config *config)
{
	return volume_option_parse(volume_option_find(name), text, config);
}

static void test_option_bounds(void **state)
{
	static const struct {
		const char *name, *text;
		int r;
	} samples[] = {
		{"queue-size", "16", 0},
		{"queue-size", "15", -ERANGE},
		{"queue-size", "1024", 0},
		{"queue-size", "1025", -ERANGE},
		{"ns", "0", -ERANGE},
		{"ns", "4294967295", -ERANGE},
		{"keep-alive", "0", 0},
		{"keep-alive", "3601s", -ERANGE},
		{"io-timeout", "999ms", -ERANGE},
		{"ctrl-loss-tmo", "-1", 0},
		{"ctrl-loss-tmo", "soon", -EINVAL},
		{"fence", "off", 0},
		{"fence", "maybe", -EINVAL},
		{"memory-windows", "yes", 0},
		{"memory-windows", "", -EINVAL},
		{"spin", "2s", -EINVAL},
		{"dhchap-secret-file", "", -EINVAL},
		{"buffers", "1MiB", 0},
		{"buffers", "1023KiB", -ERANGE},
		{"host-address", "192.0.2.7", 0},
		{"path", "192.0.2.8", 0},
		{"path", "192.0.2.8:4420", -EEXIST},
		{"path", "fe80::1", -EINVAL},
	};
	struct volume_config config;
	char text[VOLUME_OPTION_MAX];

	volume_config_init(&config);
	for (unsigned i = 0; i < ARRAY_LEN(samples); i++)
		assert_int_equal(parse(samples[i].name, samples[i].text, &config), samples[i].r);
	assert_int_equal(config.queue_size, 1024);
	assert_int_equal(config.fence, VOLUME_FENCE_OFF);
	assert_int_equal(config.slab_bytes, 256 * KIB);
	assert_string_equal(volume_option_format(volume_option_find("buffers"), &config, text),
			    "1MiB");
	assert_string_equal(volume_option_format(volume_option_find("path"), &config, text),
			    "192.0.2.8:4420");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_command_table),  cmocka_unit_test(test_command_identifiers),
		cmocka_unit_test(test_private_data),   cmocka_unit_test(test_connect_command),
		cmocka_unit_test(test_connect_data),   cmocka_unit_test(test_io_errors),
		cmocka_unit_test(test_pairs),	       cmocka_unit_test(test_retries),
		cmocka_unit_test(test_cm_errors),      cmocka_unit_test(test_cm_hints),
		cmocka_unit_test(test_connect_errors), cmocka_unit_test(test_option_defaults),
		cmocka_unit_test(test_option_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
