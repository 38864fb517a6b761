/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One association that answers one question, blocking, for command-line tools: a temporary loop,
 * the connection, what the owner asks, and the normal shutdown. A Connect command that is not
 * answered is sent once more (controller.c says why). Any thread, which has no other loop.
 */
#pragma once

#include "initiator/control/controller_impl.h"

struct inquiry {
	struct loop loop;
	struct cm *cm;
	struct controller controller; /* its context is the inquiry */
	/* The owner's: the controller is live, so send the first command. */
	void (*ask)(struct inquiry *inquiry);
	bool is_done, is_good;
};

/* inquiry is zeroed but for ask; config is borrowed until the end. 0 after inquiry_succeed, or -1
 * with *error filled: what the controller's error said, or a lack of resources. */
int inquiry_run(struct inquiry *inquiry, const struct volume_config *config,
		enum controller_kind kind, struct error *error);
/* From the done of a command: the owner has its answer, and the association ends. An owner that
 * cannot use an answer calls controller_fail or controller_fail_connection instead. */
void inquiry_succeed(struct inquiry *inquiry);
/* Fills *error for an owner that lacks memory or the like; r is -errno. Returns -1. */
int inquiry_out_of_resources(struct error *error, int r);
