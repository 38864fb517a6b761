/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests on the control socket, from a line to its answer; see rpc_request.h.
 *
 * A line that is not JSON gets an error answer and ends the connection. A JSON object with a
 * mistake gets an error answer, and the connection goes on.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "base/rpc_request.h"

enum {
	MAX_DEPTH = 16,
};

/* Reserved by JSON-RPC 2.0, section 5.1. */
enum {
	RPC_NOT_JSON = -32700,
	RPC_NOT_A_REQUEST = -32600,
	RPC_NO_SUCH_METHOD = -32601,
};

/* ---- answers -------------------------------------------------------------------------------- */

void *rpc_refuse(struct error *error, enum exit_code code, const char *hint, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	error_set_list(error, code, hint, fmt, args);
	va_end(args);
	return NULL;
}

static struct json_object *error_to_json(int code, const char *message, const char *hint)
{
	struct json_object *error = json_object_new_object();

	json_add(error, "code", json_object_new_int(code));
	json_add(error, "message", json_object_new_string(message));
	if (hint && *hint) {
		struct json_object *data = json_object_new_object();

		json_add(data, "hint", json_object_new_string(hint));
		json_add(error, "data", data);
	}
	return error;
}

/* One line, owned by the caller; NULL without memory. Owns value from here on; id is borrowed. */
static char *format_answer(struct json_object *id, const char *key, struct json_object *value,
			   size_t *ret_n)
{
	struct json_object *answer = json_object_new_object();
	const char *text;
	char *line;
	size_t n;

	json_add(answer, "jsonrpc", json_object_new_string("2.0"));
	if (id)
		json_add(answer, "id", json_object_get(id));
	else
		json_add_null(answer, "id");
	json_add(answer, key, value);
	text = json_is_whole()
		       ? json_object_to_json_string_length(answer, JSON_C_TO_STRING_PLAIN, &n)
		       : NULL;
	line = text ? malloc(n + 1) : NULL;
	if (line) {
		memcpy(line, text, n);
		line[n] = '\n';
		*ret_n = n + 1;
	}
	json_object_put(answer);
	return line;
}

/* Without memory for the line, the connection ends, so that the client does not wait for an
 * answer. */
static struct rpc_answer answer_with(struct json_object *id, const char *key,
				     struct json_object *value)
{
	struct rpc_answer answer = {0};

	answer.line = format_answer(id, key, value, &answer.n);
	answer.must_close = !answer.line;
	return answer;
}

static struct rpc_answer answer_id(struct json_object *id, int code, const char *message)
{
	return answer_with(id, "error", error_to_json(code, message, NULL));
}

struct rpc_answer rpc_answer_error(int code, const char *message)
{
	return answer_id(NULL, code, message);
}

/* Ends the connection: the start of the next message is unknown. */
static struct rpc_answer refuse_stream(const char *message)
{
	struct rpc_answer answer = rpc_answer_error(RPC_NOT_JSON, message);

	answer.must_close = true;
	return answer;
}

struct rpc_answer rpc_answer_too_long(void)
{
	return refuse_stream("a message is longer than 64 KiB");
}

/* ---- requests ------------------------------------------------------------------------------- */

static const struct rpc_method *find_method(const struct rpc_method *methods, const char *name)
{
	for (const struct rpc_method *method = methods; method->name; method++)
		if (!strcmp(method->name, name))
			return method;
	return NULL;
}

static struct rpc_answer call_method(const struct rpc_method *method, void *context,
				     struct json_object *params, struct json_object *id,
				     bool wants_answer)
{
	struct error error = {0};
	struct json_object *result;

	json_is_whole(); /* clears the flag: earlier failures do not concern this call */
	result = method->call(context, params, &error);
	if (!json_is_whole()) { /* the method may have done its work all the same */
		json_object_put(result);
		result = NULL;
		error = (struct error){.code = EXIT_FAILED,
				       .message = "out of memory for the answer"};
	}
	if (!wants_answer) {
		json_object_put(result);
		return (struct rpc_answer){0};
	}
	if (result)
		return answer_with(id, "result", result);
	return answer_with(id, "error",
			   error_to_json(error.code ? (int)error.code : EXIT_FAILED, error.message,
					 error.hint));
}

/* The fault in the members of a request; NULL: none. */
static const char *find_fault(struct json_object *version, struct json_object *method,
			      struct json_object *params, struct json_object *id)
{
	if (!json_object_is_type(version, json_type_string) ||
	    strcmp(json_object_get_string(version), "2.0"))
		return "\"jsonrpc\" must be \"2.0\"";
	if (!json_object_is_type(method, json_type_string))
		return "\"method\" must be a string";
	if (params && !json_object_is_type(params, json_type_object) &&
	    !json_object_is_type(params, json_type_array))
		return "\"params\" must be an object or an array";
	if (json_object_is_type(id, json_type_object) || json_object_is_type(id, json_type_array) ||
	    json_object_is_type(id, json_type_boolean))
		return "\"id\" must be a string or a number";
	return NULL;
}

static struct rpc_answer refuse_method(struct json_object *id, struct json_object *name)
{
	char quoted[64], message[128];

	log_quote(quoted, sizeof(quoted), json_object_get_string(name),
		  (unsigned)json_object_get_string_len(name));
	snprintf(message, sizeof(message), "unknown method '%s'", quoted);
	return answer_id(id, RPC_NO_SUCH_METHOD, message);
}

static struct rpc_answer run_request(const struct rpc_method *methods, void *context,
				     struct json_object *request)
{
	struct json_object *version = NULL, *name = NULL, *params = NULL, *id = NULL;
	const struct rpc_method *method;
	const char *fault;
	bool has_id;

	if (!json_object_is_type(request, json_type_object))
		return rpc_answer_error(RPC_NOT_A_REQUEST,
					"a request must be an object; batches are not supported");
	json_object_object_get_ex(request, "jsonrpc", &version);
	json_object_object_get_ex(request, "method", &name);
	json_object_object_get_ex(request, "params", &params);
	has_id = json_object_object_get_ex(request, "id", &id);
	fault = find_fault(version, name, params, id);
	if (fault)
		return rpc_answer_error(RPC_NOT_A_REQUEST, fault);
	method = find_method(methods, json_object_get_string(name));
	if (method)
		return call_method(method, context, params, id, has_id);
	return has_id ? refuse_method(id, name) : (struct rpc_answer){0};
}

/* NULL if the line is not one JSON value and nothing else. */
static struct json_object *parse_line(const char *line, size_t n)
{
	struct json_tokener *tokener = json_tokener_new_ex(MAX_DEPTH);
	struct json_object *value;

	if (!tokener)
		return NULL;
	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	value = json_tokener_parse_ex(tokener, line, (int)n);
	if (json_tokener_get_error(tokener) != json_tokener_success ||
	    json_tokener_get_parse_end(tokener) != n) {
		json_object_put(value);
		value = NULL;
	}
	json_tokener_free(tokener);
	return value;
}

struct rpc_answer rpc_run_line(const struct rpc_method *methods, void *context, const char *line,
			       size_t n)
{
	struct json_object *request;
	struct rpc_answer answer;

	while (n && strchr(" \t\r", line[n - 1]) && line[n - 1])
		n--;
	if (!n)
		return (struct rpc_answer){0};
	request = parse_line(line, n);
	if (!request)
		return refuse_stream("not a JSON object on one line, at most 16 levels deep");
	answer = run_request(methods, context, request);
	json_object_put(request);
	return answer;
}
