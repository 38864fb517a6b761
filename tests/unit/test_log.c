/* SPDX-License-Identifier: BSD-3-Clause */
/* Log records: their prefixes for people and for files, their fields for the journal, and their
 * limits; and what a program writes that crashes. */
#include <regex.h>
#include <signal.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/check.h"
#include "base/fatal.h"
#include "base/log.h"

static int real_stderr, file;

/* From here on stderr is a file in memory. */
static int capture(void **state)
{
	real_stderr = dup(STDERR_FILENO);
	file = memfd_create("stderr", MFD_CLOEXEC);
	unsetenv("JOURNAL_STREAM");
	setenv("RBLK_JOURNAL_SOCKET", "/nonexistent", 1);
	log_show_time(LOG_TIME_NEVER);
	return real_stderr < 0 || file < 0 || dup2(file, STDERR_FILENO) < 0 ? -1 : 0;
}

static int release(void **state)
{
	dup2(real_stderr, STDERR_FILENO);
	close(real_stderr);
	close(file);
	return 0;
}

/* Output since the last call of written(). */
static const char *peek(void)
{
	static char text[8192];
	ssize_t n = pread(file, text, sizeof(text) - 1, 0);

	text[n > 0 ? n : 0] = '\0';
	return text;
}

static const char *written(void)
{
	const char *text = peek();

	if (ftruncate(file, 0) < 0 || lseek(file, 0, SEEK_SET) < 0)
		return "";
	return text;
}

static void name_journal(unsigned long inode_more)
{
	struct stat st;
	char text[64];

	assert_int_equal(fstat(STDERR_FILENO, &st), 0);
	snprintf(text, sizeof(text), "%lu:%lu", (unsigned long)st.st_dev,
		 (unsigned long)st.st_ino + inode_more);
	setenv("JOURNAL_STREAM", text, 1);
}

static void assert_matches(const char *text, const char *pattern)
{
	regex_t regex;

	assert_int_equal(regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB), 0);
	if (regexec(&regex, text, 0, NULL, 0) != 0)
		fail_msg("'%s' is not '%s'", text, pattern);
	regfree(&regex);
}

static void for_people(void **state)
{
	log_init("prog", LOG_INFO);
	log_info("ready");
	assert_string_equal(written(), "prog: ready\n");
	log_warn("disk %u is slow", 3);
	assert_string_equal(written(), "prog: warning: disk 3 is slow\n");
	log_debug("hidden");
	assert_string_equal(written(), "");
	assert_int_equal(log_errno(-2, "a"), -2);
	assert_string_equal(written(), "prog: error: a: No such file or directory\n");
}

static void with_time(void **state)
{
	static const char when[] =
		"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}[.][0-9]{3}[+-][0-9]{4} prog: ready\n$";

	log_init("prog", LOG_INFO);
	log_show_time(LOG_TIME_AUTO);
	log_info("ready");
	assert_matches(written(), when);
}

static void for_the_journal(void **state)
{
	name_journal(0);
	log_init("prog", LOG_INFO);
	log_show_time(LOG_TIME_AUTO);
	log_err("bad");
	assert_string_equal(written(), "<3>bad\n");
	log_show_time(LOG_TIME_ALWAYS);
	log_info("ready");
	assert_matches(written(), "^<6>[0-9T:.+-]+ ready\n$");
}

/* ---- the native protocol --------------------------------------------------------------------- */

static char journal_path[64];
static int journal_fd = -1;

/* A journal that takes a few datagrams and then no more. */
static void open_fake_journal(void)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int small = 1;

	snprintf(journal_path, sizeof(journal_path), "/tmp/rblk-test-journal.%d", (int)getpid());
	unlink(journal_path);
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", journal_path);
	journal_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	assert_int_equal(setsockopt(journal_fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0);
	assert_int_equal(bind(journal_fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	setenv("RBLK_JOURNAL_SOCKET", journal_path, 1);
	name_journal(0);
	log_init("prog", LOG_INFO);
	log_show_time(LOG_TIME_AUTO);
}

static void close_fake_journal(void)
{
	unlink(journal_path);
	close(journal_fd);
	setenv("RBLK_JOURNAL_SOCKET", "/nonexistent", 1);
}

/* The next datagram; its length in *ret_n. NULL: there is none. */
static const char *receive(size_t *ret_n)
{
	static char datagram[8192];
	ssize_t n = recv(journal_fd, datagram, sizeof(datagram) - 1, 0);

	*ret_n = n > 0 ? (size_t)n : 0;
	datagram[*ret_n] = '\0';
	return n < 0 ? NULL : datagram;
}

static void records_have_fields(void **state)
{
	static const char lines[] = "PRIORITY=4\nSYSLOG_IDENTIFIER=prog\nMESSAGE\n"
				    "\5\0\0\0\0\0\0\0one\n2\n";
	struct log_about nothing = {0};
	const char *datagram;
	size_t n;

	open_fake_journal();
	log_warn_about(LOG_ABOUT(.subsystem = "nqn.s", .nsid = 3, .host = "nqn.h", .portal = "p"),
		       "disk is slow");
	assert_string_equal(receive(&n), "PRIORITY=4\nSYSLOG_IDENTIFIER=prog\n"
					 "MESSAGE=disk is slow\nRBLK_SUBSYSTEM=nqn.s\n"
					 "RBLK_NSID=3\nRBLK_HOST=nqn.h\nRBLK_PORTAL=p\n");
	log_info_about(LOG_ABOUT(.host = ""), "ready");
	assert_string_equal(receive(&n), "PRIORITY=6\nSYSLOG_IDENTIFIER=prog\nMESSAGE=ready\n");
	log_set_about(LOG_ABOUT(.volume = "v"));
	assert_int_equal(log_errno(-2, "a"), -2);
	assert_string_equal(receive(&n), "PRIORITY=3\nSYSLOG_IDENTIFIER=prog\n"
					 "MESSAGE=a: No such file or directory\nRBLK_VOLUME=v\n");
	log_set_about(&nothing);
	/* A value with a newline cannot forge a field. */
	log_warn("one\n2");
	datagram = receive(&n);
	assert_int_equal(n, sizeof(lines) - 1);
	assert_memory_equal(datagram, lines, n);
	assert_string_equal(written(), "");
	close_fake_journal();
}

/* A journal that is full or absent costs fields, and no record: each is in the socket or on stderr,
 * in order within both. */
static void what_the_journal_refuses_is_on_stderr(void **state)
{
	enum {
		RECORDS = 200,
	};
	unsigned n_taken = 0, n_written = 0, last, at;
	const char *text;
	size_t n;

	open_fake_journal();
	for (unsigned i = 0; i < RECORDS; i++)
		log_warn_about(LOG_ABOUT(.host = "nqn.h"), "record %u.", i);
	text = written();
	for (at = 0; sscanf(text, "<4>record %u.\n", &last) == 1; text = strchr(text, '\n') + 1) {
		assert_true(!n_written || last > at);
		at = last;
		n_written++;
	}
	assert_string_equal(text, "");
	while (receive(&n))
		n_taken++;
	assert_true(n_taken > 0 && n_written > 0);
	assert_int_equal(n_taken + n_written, RECORDS);
	log_info("room again");
	assert_string_equal(written(), "");
	assert_non_null(strstr(receive(&n), "MESSAGE=room again\n"));
	close_fake_journal();
	log_err("journald has ended");
	assert_string_equal(written(), "<3>journald has ended\n");
}

/* A child process of a unit has the variable, but a stderr of its own. */
static void another_stderr_is_not_the_journal(void **state)
{
	name_journal(1);
	log_init("prog", LOG_INFO);
	log_info("ready");
	assert_string_equal(written(), "prog: ready\n");
	setenv("JOURNAL_STREAM", "nonsense", 1);
	log_init("prog", LOG_INFO);
	log_info("ready");
	assert_string_equal(written(), "prog: ready\n");
}

static void a_long_record_ends_in_a_line(void **state)
{
	char *text = malloc(5000);
	const char *line;

	memset(text, 'x', 4999);
	text[4999] = '\0';
	log_init("prog", LOG_INFO);
	log_show_time(LOG_TIME_AUTO);
	log_info("%s", text);
	line = written();
	assert_int_equal(line[strlen(line) - 1], '\n');
	assert_in_range(strlen(line), 512, 1024);
	free(text);
}

/* ---- ends ------------------------------------------------------------------------------------ */

/* In a signal handler. */
static void dump(const void *context, int fd)
{
	if (write(fd, context, strlen(context)) < 0 || write(fd, "\n", 1) < 0)
		return; /* the test misses it */
}

static void fail_check(void)
{
	check(1 + 1 == 3);
}

/* Waits for the test, which kills it. */
static void be_killed(void)
{
	for (;;)
		pause();
}

/* The output of a child process that ends by SIGABRT in run. */
static const char *end_of(void (*run)(void), bool is_killed)
{
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (child == 0) {
		log_init("prog", LOG_INFO);
		fatal_init();
		fatal_set_dump(dump, "what it knows");
		log_info("runs");
		run();
	}
	while (is_killed && !strstr(peek(), "runs"))
		usleep(1000);
	if (is_killed)
		kill(child, SIGABRT);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(WTERMSIG(status), SIGABRT);
	return written();
}

static void no_abort_is_silent(void **state)
{
	static const char calls[] = "\nwhat it knows\nthe calls that led there.*\n.*test_log";
	const char *text = end_of(abort, false);

	assert_matches(text, "\nprog: error: SIGABRT in thread [^\n]+, of its own\n");
	assert_matches(text, calls);
	text = end_of(fail_check, false);
	assert_matches(text, "check failed: 1 \\+ 1 == 3\nprog: error: SIGABRT in thread ");
	assert_matches(text, calls);
	text = end_of(be_killed, true);
	assert_matches(text,
		       "\nprog: error: SIGABRT in thread [^\n]+, sent by process [0-9]+ of user ");
	assert_matches(text, calls);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(for_people, capture, release),
		cmocka_unit_test_setup_teardown(with_time, capture, release),
		cmocka_unit_test_setup_teardown(for_the_journal, capture, release),
		cmocka_unit_test_setup_teardown(records_have_fields, capture, release),
		cmocka_unit_test_setup_teardown(what_the_journal_refuses_is_on_stderr, capture,
						release),
		cmocka_unit_test_setup_teardown(another_stderr_is_not_the_journal, capture,
						release),
		cmocka_unit_test_setup_teardown(a_long_record_ends_in_a_line, capture, release),
		cmocka_unit_test_setup_teardown(no_abort_is_silent, capture, release),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
