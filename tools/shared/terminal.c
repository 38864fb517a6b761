/* SPDX-License-Identifier: BSD-3-Clause */
/* See terminal.h. State: the saved settings of the terminal, and whether a signal has arrived. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/units.h"
#include "tools/shared/terminal.h"

static struct termios saved;
static bool is_changed;
static volatile sig_atomic_t is_ended;

/* $COLUMNS wins: scripts and tests set it where there is no terminal. */
unsigned terminal_columns(void)
{
	const char *text = getenv("COLUMNS");
	struct winsize size;
	uint64_t n;

	if (text && units_parse_uint(text, &n) == 0 && n && n <= UINT16_MAX)
		return (unsigned)n;
	return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

unsigned terminal_rows(void)
{
	struct winsize size;

	return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_row : 0;
}

/* Only notes it: the caller's loop restores the terminal, which is not safe in a handler. */
static void on_signal(int signo)
{
	is_ended = 1;
}

/* Keys arrive one by one and unseen. A standard input that is no terminal has no keys. */
void terminal_begin(void)
{
	const struct sigaction action = {.sa_handler = on_signal}; /* poll is interrupted */
	struct termios quiet;

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	if (tcgetattr(STDIN_FILENO, &saved) < 0)
		return;
	quiet = saved;
	quiet.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	is_changed = tcsetattr(STDIN_FILENO, TCSANOW, &quiet) == 0;
}

void terminal_end(void)
{
	if (is_changed)
		tcsetattr(STDIN_FILENO, TCSANOW, &saved);
	is_changed = false;
}

/* The end of the input is the end of the program: a terminal that was closed. */
static int read_key(void)
{
	unsigned char key;

	return read(STDIN_FILENO, &key, 1) == 1 ? key : TERMINAL_ENDED;
}

/* A signal between the test and ppoll waits out one interval at most. */
int terminal_wait(uint64_t ns)
{
	const struct timespec time = {.tv_sec = (time_t)(ns / NSEC_PER_SEC),
				      .tv_nsec = (long)(ns % NSEC_PER_SEC)};
	struct pollfd input = {.fd = is_changed ? STDIN_FILENO : -1, .events = POLLIN};
	int n = is_ended ? -1 : ppoll(&input, 1, &time, NULL);

	if (n < 0)
		return TERMINAL_ENDED;
	return n ? read_key() : TERMINAL_NO_KEY;
}
