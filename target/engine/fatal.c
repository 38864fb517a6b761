/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See fatal.h. The handler runs on the thread that crashed, with any object in any state. So it
 * calls only async-signal-safe functions, follows no list, and frees and locks nothing. A fault
 * within it ends the program at once, because its signal is blocked. Other threads that crash
 * meanwhile wait for the end.
 *
 * Sanitizers explain faults better, so in their builds this file handles only abort().
 */
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "target/engine/capsules.h"
#include "target/engine/fatal.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#	define HAS_SANITIZER 1
#elif defined(__has_feature)
#	if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#		define HAS_SANITIZER 1
#	endif
#endif

static const int signals[] = {
	SIGABRT,
#ifndef HAS_SANITIZER
	SIGSEGV, SIGBUS, SIGILL, SIGFPE,
#endif
};

static _Atomic(const struct target *) dying;
static atomic_flag is_taken = ATOMIC_FLAG_INIT;

static void say(const char *text)
{
	if (write(STDERR_FILENO, text, strlen(text)) < 0)
		return; /* nowhere to write */
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

static void on_fatal(int signo)
{
	const struct target *target = atomic_load(&dying);

	while (atomic_flag_test_and_set(&is_taken))
		pause();
	say("rblkd: error: ");
	say(name_of(signo));
	say("; the last capsules of each queue, oldest first:\n");
	if (target)
		capsules_dump(target, STDERR_FILENO);
	signal(signo, SIG_DFL);
	raise(signo); /* takes effect when the handler returns */
}

void fatal_init(const struct target *target)
{
	struct sigaction action = {.sa_handler = on_fatal};

	atomic_store(&dying, target);
	sigfillset(&action.sa_mask); /* no other handler runs in between */
	for (unsigned i = 0; i < ARRAY_LEN(signals); i++)
		sigaction(signals[i], &action, NULL);
}

void fatal_deinit(void)
{
	atomic_store(&dying, NULL);
	for (unsigned i = 0; i < ARRAY_LEN(signals); i++)
		signal(signals[i], SIG_DFL);
}
