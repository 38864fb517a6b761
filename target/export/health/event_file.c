/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uuid/uuid.h>

#include "base/error.h"
#include "base/json.h"
#include "target/export/health/event_file.h"
#include "target/export/health/health_impl.h"
#include "target/export/state_file.h"
#include "transport/wire/fabrics.h"

static void file_name(const char *nqn, char name[EVENT_NAME_BYTES])
{
	static const uuid_t name_space = {0x5b, 0x0c, 0x4a, 0x7e, 0x1d, 0x93, 0x4f, 0x26,
					  0x8e, 0x61, 0x2a, 0xc4, 0x70, 0x35, 0xb9, 0xd8};
	char text[37];
	uuid_t uuid;

	uuid_generate_sha1(uuid, name_space, nqn, strlen(nqn));
	uuid_unparse_lower(uuid, text);
	snprintf(name, EVENT_NAME_BYTES, "events-%s.json", text);
}

/* ---- to text -------------------------------------------------------------------------------- */

static struct json_object *event_to_json(const uint8_t *event, uint32_t n)
{
	static const char digits[] = "0123456789abcdef";
	char *text = malloc(2 * (size_t)n + 1);
	struct json_object *object;

	if (!text)
		return NULL;
	for (uint32_t i = 0; i < n; i++) {
		text[2 * i] = digits[event[i] >> 4];
		text[2 * i + 1] = digits[event[i] & 15];
	}
	text[2 * (size_t)n] = '\0';
	object = json_object_new_string(text);
	free(text);
	return object;
}

static struct json_object *image_to_json(const char *nqn, const struct event_image *image)
{
	struct json_object *object = json_object_new_object();
	struct json_object *list = json_object_new_array();

	for (uint32_t i = 0, at = 0; list && i < image->n_events; i++) {
		const struct nvme_event *header = (const void *)(image->bytes + at);
		uint32_t n = (uint32_t)sizeof(*header) + get_le16(header->el);

		json_append(list, event_to_json(image->bytes + at, n));
		at += n;
	}
	json_add(object, "version", json_object_new_int(EVENT_FORMAT));
	json_add(object, "nqn", json_object_new_string(nqn));
	json_add(object, "generation", json_object_new_int(image->generation));
	json_add(object, "events", list);
	return object;
}

int event_file_write(const struct state_directory *directory, const char *nqn,
		     const struct event_image *image)
{
	char name[EVENT_NAME_BYTES];
	struct json_object *object;
	const char *text;
	int r = -ENOMEM;

	json_is_whole(); /* resets its flag: earlier texts do not count */
	object = image_to_json(nqn, image);
	text = json_is_whole() && object ? json_object_to_json_string(object) : NULL;
	file_name(nqn, name);
	if (text && json_is_text_of(text, object))
		r = state_file_write(directory, name, text, strlen(text), NULL);
	json_object_put(object);
	return r;
}

/* ---- from text ------------------------------------------------------------------------------ */

static bool get(struct json_object *object, const char *key, json_type type,
		struct json_object **ret_value)
{
	return json_object_object_get_ex(object, key, ret_value) &&
	       json_object_is_type(*ret_value, type);
}

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Whether rblkd writes such a header, and the data has the length of its type. */
static bool is_sound(const struct nvme_event *header, size_t n)
{
	size_t el = get_le16(header->el);

	if (header->revision != NVME_EVENT_REVISION || header->ehl != NVME_EVENT_EHL ||
	    get_le16(header->vsil) != 0 || el != n - sizeof(*header))
		return false;
	if (header->type == NVME_EVENT_SMART)
		return el == sizeof(struct nvme_smart_log);
	return header->type == NVME_EVENT_POWER_ON &&
	       (el == sizeof(struct nvme_event_power_on) ||
		el == sizeof(struct nvme_event_power_on) + sizeof(struct nvme_event_reset));
}

static bool take_event(struct event_image *image, struct json_object *value)
{
	uint8_t *event = image->bytes + image->n_bytes;
	const char *text = json_object_get_string(value);
	size_t n;

	if (!json_object_is_type(value, json_type_string))
		return false;
	n = (size_t)json_object_get_string_len(value) / 2;
	if (json_object_get_string_len(value) % 2 || n < sizeof(struct nvme_event) ||
	    n > EVENT_LOG_BYTES - image->n_bytes)
		return false;
	for (size_t i = 0; i < n; i++) {
		int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		event[i] = (uint8_t)(high << 4 | low);
	}
	image->n_bytes += (uint32_t)n;
	image->n_events++;
	return is_sound((const void *)event, n);
}

static bool take_over(struct event_image *image, const char *expected_nqn,
		      struct json_object *object)
{
	struct json_object *version, *nqn, *generation, *list;

	if (!object || !json_object_is_type(object, json_type_object) ||
	    !get(object, "version", json_type_int, &version) ||
	    json_object_get_int64(version) != EVENT_FORMAT ||
	    !get(object, "nqn", json_type_string, &nqn) ||
	    (size_t)json_object_get_string_len(nqn) != strlen(expected_nqn) ||
	    strcmp(json_object_get_string(nqn), expected_nqn) != 0 ||
	    !get(object, "generation", json_type_int, &generation) ||
	    json_object_get_int64(generation) < 0 ||
	    json_object_get_int64(generation) > UINT16_MAX ||
	    !get(object, "events", json_type_array, &list))
		return false;
	image->generation = (uint16_t)json_object_get_int64(generation);
	for (size_t i = 0; i < json_object_array_length(list); i++)
		if (!take_event(image, json_object_array_get_idx(list, i)))
			return false;
	return true;
}

/* With room for the longest log; NULL: no memory. */
static struct event_image *new_image(void)
{
	struct event_image *image = calloc(1, sizeof(*image) + EVENT_LOG_BYTES);

	if (image)
		atomic_init(&image->n_refs, 1);
	return image;
}

/* As small as possible: there may be many subsystems. */
static struct event_image *trim(struct event_image *image)
{
	struct event_image *smaller = realloc(image, sizeof(*image) + image->n_bytes);

	return smaller ? smaller : image;
}

static struct event_image *begin_again(const struct state_directory *directory, const char *name,
				       const char *nqn, struct error *error)
{
	struct event_image *image = new_image();
	char lost[NVMF_NQN_MAX + 48];

	snprintf(lost, sizeof(lost), "the event log of %s begins again", nqn);
	state_file_set_aside(directory, name, lost);
	if (!image) {
		error_refuse(error, -ENOMEM, "out of memory");
		return NULL;
	}
	return trim(image);
}

struct event_image *event_file_read(const struct state_directory *directory, const char *nqn,
				    struct error *error)
{
	struct event_image *image = new_image();
	char name[EVENT_NAME_BYTES], *text = NULL;
	struct json_object *object;
	int r;

	file_name(nqn, name);
	r = image ? state_file_read(directory, name, &text) : -ENOMEM;
	if (r < 0) {
		error_refuse(error, r, "cannot read %s/%s: %s", state_directory_path(directory),
			     name, strerror(-r));
		free(image);
		return NULL;
	}
	if (text) {
		r = json_parse(text, &object);
		free(text);
		if (r == 0 && !take_over(image, nqn, object))
			r = -EINVAL;
		json_object_put(object);
	}
	if (r == 0)
		return trim(image);
	free(image);
	if (r == -EINVAL)
		return begin_again(directory, name, nqn, error);
	error_refuse(error, r, "cannot read %s/%s: out of memory", state_directory_path(directory),
		     name);
	return NULL;
}
