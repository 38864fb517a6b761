/* SPDX-License-Identifier: BSD-3-Clause */
/* See capture_rpc.h. */
#include <stdlib.h>
#include <string.h>

#include "base/capture_rpc.h"
#include "base/check.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/rpc_request.h"

enum {
	READ_MAX = 4096, /* entries of one answer: about 1 MB */
	PATIENCE_S = 5,	 /* of a capture, with its reader */
	STREAM_SHIFT = 24,
};

static void on_deadline(struct loop_timer *timer)
{
	capture_service_stop(container_of(timer, struct capture_service, deadline));
}

void capture_service_init(struct capture_service *service, struct loop *loop,
			  uint64_t (*stamp_now)(void))
{
	*service = (struct capture_service){.loop = loop, .stamp_now = stamp_now};
	service->deadline.on_expiry = on_deadline;
}

void capture_service_add(struct capture_service *service, struct capture *part)
{
	check(service->n_parts < CAPTURE_PARTS_MAX);
	service->parts[service->n_parts++] = part;
}

void capture_service_stop(struct capture_service *service)
{
	loop_timer_stop(&service->deadline);
	service->is_running = false;
	for (unsigned i = 0; i < service->n_parts; i++)
		capture_stop(service->parts[i]);
	if (service->on_change)
		service->on_change(service);
}

static void renew(struct capture_service *service)
{
	loop_timer_stop(&service->deadline);
	loop_timer_start(service->loop, &service->deadline, PATIENCE_S * NSEC_PER_SEC);
}

static struct json_object *new_answer(void)
{
	struct json_object *o = json_object_new_object();

	json_add(o, "schema", json_object_new_int(1));
	return o;
}

static void add_dropped(struct json_object *o, const struct capture_service *service)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < service->n_parts; i++)
		n += capture_n_dropped(service->parts[i]);
	json_add(o, "dropped", json_object_new_uint64(n));
}

static struct json_object *start(struct capture_service *service, struct error *error)
{
	struct json_object *o;

	if (service->is_running)
		return rpc_refuse(error, EXIT_BUSY,
				  "end the other one, or wait: it ends 5 s after its reader",
				  "a capture is running already");
	service->n_started++;
	for (unsigned i = 0; i < service->n_parts; i++) {
		if (capture_start(service->parts[i], service->n_started, i << STREAM_SHIFT,
				  service->stamp_now()) < 0) {
			capture_service_stop(service);
			return rpc_refuse(error, EXIT_FAILED, "", "out of memory");
		}
	}
	service->is_running = true;
	if (service->on_change)
		service->on_change(service);
	renew(service);
	o = new_answer();
	json_add(o, "capture", json_object_new_uint64(service->n_started));
	return o;
}

static unsigned take(struct capture_service *service, struct capture_entry *entries)
{
	unsigned n = 0;

	for (unsigned i = 0; i < service->n_parts && n < READ_MAX; i++)
		n += capture_take(service->parts[i], &entries[n], READ_MAX - n);
	return n;
}

static char *to_hex(const struct capture_entry *entries, unsigned n)
{
	static const char digits[] = "0123456789abcdef";
	const uint8_t *bytes = (const uint8_t *)entries;
	size_t n_bytes = n * sizeof(*entries);
	char *text = malloc(2 * n_bytes + 1);

	if (!text)
		return NULL;
	for (size_t i = 0; i < n_bytes; i++) {
		text[2 * i] = digits[bytes[i] >> 4];
		text[2 * i + 1] = digits[bytes[i] & 15];
	}
	text[2 * n_bytes] = '\0';
	return text;
}

/* Allocates before it takes entries: an entry that was taken and cannot be sent is lost. */
static struct json_object *read_entries(struct capture_service *service, struct error *error)
{
	_autofree_ struct capture_entry *entries = malloc(READ_MAX * sizeof(*entries));
	unsigned n = entries ? take(service, entries) : 0;
	_autofree_ char *text = entries ? to_hex(entries, n) : NULL;
	struct json_object *o;

	if (!text)
		return rpc_refuse(error, EXIT_FAILED, "", "out of memory");
	renew(service);
	o = new_answer();
	json_add(o, "entries", json_object_new_string(text));
	json_add(o, "more", json_object_new_boolean(n == READ_MAX));
	add_dropped(o, service);
	return o;
}

static struct json_object *stop(struct capture_service *service)
{
	struct json_object *o = new_answer();

	add_dropped(o, service);
	capture_service_stop(service);
	return o;
}

struct json_object *capture_service_call(struct capture_service *service,
					 struct json_object *params, struct error *error)
{
	struct json_object *action = NULL, *number = NULL;
	const char *word;

	json_object_object_get_ex(params, "action", &action);
	json_object_object_get_ex(params, "capture", &number);
	word = action ? json_object_get_string(action) : "";
	if (!strcmp(word, "start"))
		return start(service, error);
	if (strcmp(word, "read") && strcmp(word, "stop"))
		return rpc_refuse(error, EXIT_USAGE, "start, read and stop",
				  "there is no action of that name");
	if (!service->is_running || json_object_get_uint64(number) != service->n_started)
		return rpc_refuse(error, EXIT_NOT_FOUND,
				  "a capture ends when it is not read for 5 s",
				  "there is no such capture any more");
	return *word == 'r' ? read_entries(service, error) : stop(service);
}
