/* SPDX-License-Identifier: BSD-3-Clause */
/* Log records: their prefixes for people, for files and for the journal, and their limits. */
#include <regex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/log.h"

static int real_stderr, file;

/* From here on stderr is a file in memory. */
static int capture(void **state)
{
	real_stderr = dup(STDERR_FILENO);
	file = memfd_create("stderr", MFD_CLOEXEC);
	unsetenv("JOURNAL_STREAM");
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

/* Output since the last call. */
static const char *written(void)
{
	static char text[4096];
	ssize_t n = pread(file, text, sizeof(text) - 1, 0);

	text[n > 0 ? n : 0] = '\0';
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(for_people, capture, release),
		cmocka_unit_test_setup_teardown(with_time, capture, release),
		cmocka_unit_test_setup_teardown(for_the_journal, capture, release),
		cmocka_unit_test_setup_teardown(another_stderr_is_not_the_journal, capture,
						release),
		cmocka_unit_test_setup_teardown(a_long_record_ends_in_a_line, capture, release),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
