/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <string.h>

#include "initiator/control/auth_keys.h"
#include "initiator/control/controller_auth.h"
#include "initiator/control/controller_command.h"
#include "initiator/control/controller_impl.h"
#include "initiator/control/errors.h"

static void do_step(struct controller *c, enum auth_host_step step);

static void fail(struct controller *c, enum auth_host_failure failure,
		 enum nvmf_auth_failure explanation)
{
	error_from_auth(&c->error, c->config, failure, explanation);
	controller_fail(c);
}

static bool is_ok(struct controller *c, const char *what, const struct admin_answer *answer)
{
	if (answer->status == NVME_OK)
		return true;
	if (!controller_has_refused(c))
		error_from_status(&c->error, what, answer->status);
	controller_fail(c);
	return false;
}

static void on_sent(void *context, const struct admin_answer *answer)
{
	struct controller *c = context;

	if (is_ok(c, "Authentication Send", answer))
		do_step(c, auth_host_sent(c->auth));
}

static void on_received(void *context, const struct admin_answer *answer)
{
	struct controller *c = context;

	if (is_ok(c, "Authentication Receive", answer))
		do_step(c, auth_host_take(c->auth, answer->data));
}

static void send_command(struct controller *c, enum auth_host_step step)
{
	bool is_send = step == AUTH_HOST_SEND;
	struct admin_command command = {.done = is_send ? on_sent : on_received};
	uint32_t n = auth_host_fill_command(c->auth, step, &command.sqe);

	if (is_send) {
		command.write_data = c->auth->message;
		command.n_write = n;
	} else {
		command.n_read = n;
	}
	controller_submit(c, &command);
}

static void do_step(struct controller *c, enum auth_host_step step)
{
	switch (step) {
	case AUTH_HOST_SEND:
	case AUTH_HOST_RECEIVE:
		send_command(c, step);
		break;
	case AUTH_HOST_DONE:
		auth_host_reset(c->auth);
		c->on_authenticated(c);
		break;
	case AUTH_HOST_FAILED:
		fail(c, c->auth->failure, c->auth->explanation);
		break;
	}
}

void controller_authenticate(struct controller *c, uint64_t connect_result,
			     void (*done)(struct controller *c))
{
	enum auth_host_failure failure;

	c->on_authenticated = done;
	if (!auth_host_is_asked(c->keys, connect_result, &failure)) {
		/* A discovery service need not authenticate: the Connect to what it lists does. */
		if (failure == AUTH_HOST_OK ||
		    (failure == AUTH_HOST_NOT_ASKED && controller_is_discovery(c)))
			done(c);
		else
			fail(c, failure, NVMF_AUTH_OK);
		return;
	}
	controller_move(c, CTRL_AUTHENTICATING);
	do_step(c, auth_host_begin(c->auth, c->keys, c->config->hostnqn, c->subnqn));
}

int controller_load_keys(struct controller *c)
{
	controller_release_keys(c);
	if (!*c->config->secret_file && !*c->config->ctrl_secret_file)
		return 0;
	c->keys = auth_alloc(sizeof(*c->keys));
	c->auth = auth_alloc(sizeof(*c->auth));
	if (!c->keys || !c->auth) {
		error_set(&c->error, EXIT_FAILED, NULL, "out of memory");
		return -ENOMEM;
	}
	return auth_keys_load(c->config, c->keys, &c->error);
}

void controller_release_keys(struct controller *c)
{
	if (c->auth)
		auth_host_reset(c->auth);
	auth_free(c->keys, sizeof(*c->keys));
	auth_free(c->auth, sizeof(*c->auth));
	c->keys = NULL;
	c->auth = NULL;
}
