/* SPDX-License-Identifier: BSD-3-Clause */
/* See successor.h. A failure ends the process at once: it has nothing that is not the
 * predecessor's. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/states.h"
#include "base/units.h"
#include "target/association/fence.h"
#include "target/operations/life.h"
#include "target/operations/succession/message.h"
#include "target/operations/succession/successor.h"

#define LOSS "reservations that need not persist, and contents of ram, are lost"

enum {
	RETRY_MS = 20,
	WAIT_S = 60,
};

#define TO(s) STATE_TO(SUCCESSOR_##s)

static const struct state_rule states[SUCCESSOR_STATES] = {
	[SUCCESSOR_PREPARES] = {"preparing", TO(LISTENS) | TO(SERVES)},
	[SUCCESSOR_LISTENS] = {"listening", TO(WAITS) | TO(SERVES)},
	[SUCCESSOR_WAITS] = {"waiting", TO(SERVES)},
	[SUCCESSOR_SERVES] = {"serving", 0},
};

static void move(struct successor *s, enum successor_state next)
{
	states_move("successor", states, &s->state, next);
}

static __attribute__((noreturn)) void end(struct successor *s, enum exit_code code, const char *why)
{
	if (code != EXIT_OK)
		log_err("upgrade: %s", why);
	if (s->socket.fd >= 0)
		(void)message_send(s->socket.fd, MESSAGE_FAILED, why);
	_exit(code);
}

/* ---- taking over ----------------------------------------------------------------------------- */

static void note_served(struct successor *s, const struct handover *handover)
{
	uint64_t now = clock_ns(),
		 moving_ns = handover ? handover_number(handover, "moving_ns") : 0;
	struct json_object *version;

	if (handover && json_get(handover->json, "version_before", json_type_string, &version))
		snprintf(s->version_before, sizeof(s->version_before), "%s",
			 json_object_get_string(version));
	s->held_ns = moving_ns && moving_ns < now ? now - moving_ns : 0;
	if (*s->undone)
		log_warn("upgrade: undone: %s", s->undone);
	else if (s->loss)
		log_warn("upgrade: %s", s->loss);
	else
		log_info("upgrade: took over from rblkd %s in %llu ms", s->version_before,
			 (unsigned long long)(s->held_ns / NSEC_PER_MSEC));
}

static enum exit_code open_with(struct successor *s, struct handover *handover, bool is_last)
{
	bool is_listening = s->state != SUCCESSOR_PREPARES;
	enum exit_code code = s->open(s, handover, is_last);

	if (code != EXIT_OK)
		return code;
	if (handover)
		restore_settings(s->target, handover);
	if (!is_listening && target_listen(s->target) < 0)
		return EXIT_FAILED;
	move(s, SUCCESSOR_SERVES);
	s->on_serving(s);
	note_served(s, handover);
	return EXIT_OK;
}

static void end_pair(struct successor *s)
{
	loop_fd_remove(&s->socket);
	close(s->socket.fd);
	s->socket.fd = -1;
}

static void take_over(struct successor *s, const char *undone)
{
	struct handover handover = {0};
	bool has_handover = parts_open(&s->parts, &handover) == 0;
	enum exit_code code;

	snprintf(s->undone, sizeof(s->undone), "%s", undone);
	s->loss = has_handover ? NULL : "nothing was handed over: " LOSS;
	code = open_with(s, has_handover ? &handover : NULL, true);
	handover_free(&handover);
	if (code != EXIT_OK)
		end(s, code, "cannot open what the rblkd before this one had");
	/* Before hosts change anything: otherwise the predecessor could start again, without it. */
	(void)message_send(s->socket.fd, MESSAGE_SERVING, NULL);
	end_pair(s);
	fence_check(s->target);
}

/* ---- the predecessor has died ---------------------------------------------------------------- */

static void on_retry(struct loop_timer *timer)
{
	struct successor *s = container_of(timer, struct successor, retry);
	bool is_last = clock_ns() - s->waits_since_ns > WAIT_S * NSEC_PER_SEC;
	enum exit_code code = open_with(s, NULL, is_last);

	if (code == EXIT_BUSY && !is_last)
		loop_timer_start(&s->target->loop, timer, RETRY_MS * NSEC_PER_MSEC);
	else if (code != EXIT_OK)
		end(s, code, "cannot open what the rblkd before this one had");
	else
		fence_check(s->target);
}

static void outlive(struct successor *s)
{
	if (s->state == SUCCESSOR_PREPARES)
		end(s, EXIT_FAILED, "the rblkd before this one has ended");
	log_warn("upgrade: the rblkd before this one has died; waiting for its stores");
	end_pair(s);
	move(s, SUCCESSOR_WAITS);
	s->loss = "the rblkd before this one died: " LOSS;
	s->waits_since_ns = clock_ns();
	on_retry(&s->retry);
}

/* ---- messages -------------------------------------------------------------------------------- */

static void listen_there(struct successor *s)
{
	int r = target_listen(s->target);

	if (r < 0)
		end(s, error_code_of(r), "cannot listen on a portal");
	move(s, SUCCESSOR_LISTENS);
	(void)message_send(s->socket.fd, MESSAGE_LISTENING, NULL);
}

static void on_message(struct loop_fd *lfd, uint32_t events)
{
	struct successor *s = container_of(lfd, struct successor, socket);
	struct message message;

	message_receive(lfd->fd, &message);
	switch (message.word) {
	case MESSAGE_NONE:
		return;
	case MESSAGE_LISTEN:
		if (s->state == SUCCESSOR_PREPARES) {
			listen_there(s);
			return;
		}
		break;
	case MESSAGE_HANDOVER:
	case MESSAGE_MEMORY:
		if (parts_add(&s->parts, &message) < 0)
			end(s, EXIT_FAILED, "out of memory");
		return;
	case MESSAGE_YOURS:
		take_over(s, message.text);
		return;
	case MESSAGE_GONE:
		outlive(s);
		return;
	default:
		break;
	}
	end(s, EXIT_OK, "the rblkd before this one goes on");
}

/* ---- life ------------------------------------------------------------------------------------ */

bool successor_is_wanted(int *ret_socket)
{
	const char *text = getenv(SUCCESSOR_VARIABLE);
	uint64_t fd = 0;
	int type = 0;
	socklen_t n = sizeof(type);

	if (!text || units_parse_uint(text, &fd) < 0 || fd > INT_MAX)
		return false;
	unsetenv(SUCCESSOR_VARIABLE);
	if (getsockopt((int)fd, SOL_SOCKET, SO_TYPE, &type, &n) < 0 || type != SOCK_SEQPACKET ||
	    fcntl((int)fd, F_SETFD, FD_CLOEXEC) < 0)
		return false;
	*ret_socket = (int)fd;
	return true;
}

int successor_start(struct successor *s, struct target *target, int socket)
{
	s->target = target;
	s->retry.on_expiry = on_retry;
	s->socket = (struct loop_fd){.fd = socket, .events = EPOLLIN, .on_event = on_message};
	/* In a process that starts again this goes nowhere. */
	(void)message_send(socket, MESSAGE_PREPARED, RBLK_VERSION);
	return loop_fd_add(&target->loop, &s->socket);
}

void successor_free(struct successor *s)
{
	loop_timer_stop(&s->retry);
	if (s->socket.loop && s->socket.fd >= 0)
		end_pair(s);
	parts_free(&s->parts);
}
