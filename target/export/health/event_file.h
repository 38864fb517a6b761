/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The event log of a subsystem in the state directory. The file is named after the UUID (version 5)
 * of its NQN, because an NQN may not be a legal file name:
 *
 *   {"version": 1, "nqn": "...", "generation": 7, "events": ["0401...", ...]}
 *
 * Events are the bytes that hosts read, in hexadecimal, newest first. A file that this rblkd could
 * not have written stops the start: hosts walk through these bytes by the lengths in them.
 */
#pragma once

enum {
	EVENT_FORMAT = 1,
	EVENT_NAME_BYTES = 56, /* events-UUID.json */
};

struct error;
struct event_image;
struct state_directory;

/* Control: the image in the file, an empty one without a file; or NULL and *error. */
struct event_image *event_file_read(const struct state_directory *directory, const char *nqn,
				    struct error *error);
/* Any thread: 0 or -errno. */
int event_file_write(const struct state_directory *directory, const char *nqn,
		     const struct event_image *image);
