/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See fatal.h. The handler runs on the thread that crashed. So it calls only async-signal-safe
 * functions, follows no list, and frees and locks nothing. The list of calls comes last, because
 * the unwinder may find a broken stack: a fault within the handler ends the program at once, since
 * its signal is blocked, and SIGALRM ends one that hangs. Other threads that crash meanwhile wait
 * for the end.
 *
 * Sanitizers explain faults better, so in their builds this file handles only abort().
 */
#include <execinfo.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/fatal.h"
#include "base/log.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#	define HAS_SANITIZER 1
#elif defined(__has_feature)
#	if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#		define HAS_SANITIZER 1
#	endif
#endif

enum {
	CALLS_MAX = 32,
	CALLS_S = 5,
};

static const int signals[] = {
	SIGABRT,
#ifndef HAS_SANITIZER
	SIGSEGV, SIGBUS, SIGILL, SIGFPE,
#endif
};

#ifdef __SANITIZE_ADDRESS__
/* Undefined behaviour traps (native/asan.ini): AddressSanitizer reports it with its stack. */
__attribute__((no_sanitize("address"))) const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "handle_sigill=1";
}
#endif

static struct {
	void (*_Atomic dump)(const void *context, int fd);
	const void *context;
} extra;
static atomic_flag is_taken = ATOMIC_FLAG_INIT;

static void say(const char *text)
{
	if (write(STDERR_FILENO, text, strlen(text)) < 0)
		return; /* nowhere to write */
}

static void say_number(uint64_t value, unsigned base)
{
	char text[24], *at = text + sizeof(text) - 1;

	*at = '\0';
	do
		*--at = "0123456789abcdef"[value % base];
	while (value /= base);
	say(at);
}

static const char *name_of(int signo)
{
	switch (signo) {
	case SIGABRT:
		return "SIGABRT";
	case SIGSEGV:
		return "SIGSEGV";
	case SIGBUS:
		return "SIGBUS";
	case SIGILL:
		return "SIGILL";
	default:
		return "SIGFPE";
	}
}

static void say_origin(const siginfo_t *info)
{
	if (info->si_code > 0 && info->si_code != SI_KERNEL) {
		say(", at address 0x");
		say_number((uintptr_t)info->si_addr, 16);
	} else if (info->si_code <= 0 && info->si_pid == getpid()) {
		say(", of its own");
	} else if (info->si_code <= 0) {
		say(", sent by process ");
		say_number((uint64_t)info->si_pid, 10);
		say(" of user ");
		say_number(info->si_uid, 10);
	}
}

static void say_calls(void)
{
	void *calls[CALLS_MAX];
	sigset_t alarms;

	signal(SIGALRM, SIG_DFL);
	sigemptyset(&alarms);
	sigaddset(&alarms, SIGALRM);
	pthread_sigmask(SIG_UNBLOCK, &alarms, NULL);
	alarm(CALLS_S);
	say("the calls that led there, latest first:\n");
	backtrace_symbols_fd(calls, backtrace(calls, CALLS_MAX), STDERR_FILENO);
	alarm(0);
}

static void on_fatal(int signo, siginfo_t *info, void *context)
{
	void (*dump)(const void *context, int fd) = atomic_load(&extra.dump);
	char thread[17] = "";

	while (atomic_flag_test_and_set(&is_taken))
		pause();
	prctl(PR_GET_NAME, thread);
	say(log_error_prefix());
	say(name_of(signo));
	say(" in thread ");
	say(thread);
	say_origin(info);
	say("\n");
	if (dump)
		dump(extra.context, STDERR_FILENO);
	say_calls();
	signal(signo, SIG_DFL);
	raise(signo); /* takes effect when the handler returns */
}

void fatal_set_dump(void (*dump)(const void *context, int fd), const void *context)
{
	if (dump)
		extra.context = context;
	atomic_store(&extra.dump, dump);
}

void fatal_init(void)
{
	struct sigaction action = {.sa_sigaction = on_fatal, .sa_flags = SA_SIGINFO};
	void *call;

	backtrace(&call, 1);	     /* loads the unwinder now, not in a handler */
	sigfillset(&action.sa_mask); /* no other handler runs in between */
	for (unsigned i = 0; i < ARRAY_LEN(signals); i++)
		sigaction(signals[i], &action, NULL);
}
