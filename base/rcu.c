/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The seam to liburcu. ThreadSanitizer cannot see liburcu's barriers, which are plain assembly. So
 * in its builds each quiescent state releases, and rcu_wait acquires, one annotated address.
 */
#include <urcu-qsbr.h>

#include "base/rcu.h"

#ifdef __SANITIZE_THREAD__
void __tsan_acquire(void *addr);
void __tsan_release(void *addr);
static char grace;
#	define GRACE_RELEASE() __tsan_release(&grace)
#	define GRACE_ACQUIRE() __tsan_acquire(&grace)
#else
#	define GRACE_RELEASE()                                                                    \
		do {                                                                               \
		} while (0)
#	define GRACE_ACQUIRE() GRACE_RELEASE()
#endif

void rcu_register_reader(void)
{
	urcu_qsbr_register_thread();
}

void rcu_unregister_reader(void)
{
	GRACE_RELEASE();
	urcu_qsbr_unregister_thread();
}

void rcu_quiescent(void)
{
	GRACE_RELEASE();
	urcu_qsbr_quiescent_state();
}

void rcu_offline(void)
{
	GRACE_RELEASE();
	urcu_qsbr_thread_offline();
}

void rcu_online(void)
{
	urcu_qsbr_thread_online();
}

void rcu_wait(void)
{
	urcu_qsbr_synchronize_rcu();
	GRACE_ACQUIRE();
}
