/* SPDX-License-Identifier: BSD-3-Clause */
/* See request_poller.h: what pollers, stores and the log of I/O errors call of commands. */
#include "target/engine/request/aging.h"
#include "target/engine/record/controller.h"
#include "target/engine/poller/poller.h"
#include "target/engine/poller/pollers.h"
#include "target/engine/queue/queue.h"
#include "target/engine/request/request.h"
#include "target/engine/request/request_poller.h"
#include "target/engine/request/request_resume.h"
#include "target/engine/request/request_run.h"
#include "target/engine/request/stall.h"
#include "target/export/io_errors.h"
#include "target/store/thread.h"

/* The NQN of the host whose I/O failed. */
static const char *find_host(struct backend_io *io)
{
	const struct controller *controller = NULL;

	switch (io->purpose) {
	case BACKEND_FOR_COMMAND:
		controller = container_of(io, struct request, io)->queue->controller;
		break;
	case BACKEND_FOR_SHUTDOWN:
		controller = container_of(io, struct controller, flush);
		break;
	case BACKEND_FOR_END:
		break;
	}
	return controller ? controller->hostnqn : "";
}

int request_pollers_start(struct target *target)
{
	io_errors_find_hosts(find_host);
	return pollers_start(target, request_poller_prepare);
}

void request_poller_prepare(struct poller *poller)
{
	list_init(&poller->short_queues);
	request_resume_init(poller);
	stall_init(poller);
	aging_init(poller);
	poller->on_recv = request_on_recv;
	backend_thread_watch(poller->backends, stall_on_stuck, poller);
}
