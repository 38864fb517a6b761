/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The options of the handshake, one function each, from a table. A function gets the option's whole
 * data, checks every length in it against what is there, and appends its replies; a malformed or
 * unknown option costs an error reply and nothing else. GO and EXPORT_NAME begin the transmission:
 * STEP_TRANSMIT.
 *
 * The one export answers to its own name and to "". Names and queries are compared, never kept, but
 * for the name a meta context was chosen for: the choice counts only for that export.
 */
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/log.h"
#include "nbd_bridge/io/nbd_hello.h"
#include "nbd_bridge/io/nbd_options.h"

/* The rest of an option's data. */
struct reader {
	const uint8_t *at;
	size_t n;
};

static bool read_be32(struct reader *reader, uint32_t *ret_value)
{
	be32 wire;

	if (reader->n < sizeof(wire))
		return false;
	memcpy(&wire, reader->at, sizeof(wire));
	reader->at += sizeof(wire);
	reader->n -= sizeof(wire);
	*ret_value = get_be32(wire);
	return true;
}

static bool read_be16(struct reader *reader, uint16_t *ret_value)
{
	be16 wire;

	if (reader->n < sizeof(wire))
		return false;
	memcpy(&wire, reader->at, sizeof(wire));
	reader->at += sizeof(wire);
	reader->n -= sizeof(wire);
	*ret_value = get_be16(wire);
	return true;
}

/* A string behind its 32-bit length; it is not terminated. */
static bool read_string(struct reader *reader, struct reader *ret_string)
{
	uint32_t n;

	if (!read_be32(reader, &n) || n > NBD_STRING_MAX || n > reader->n)
		return false;
	*ret_string = (struct reader){reader->at, n};
	reader->at += n;
	reader->n -= n;
	return !memchr(ret_string->at, '\0', n);
}

static bool is_our_name(const struct nbd_export *export, struct reader name)
{
	return name.n == 0 ||
	       (name.n == strlen(export->name) && !memcmp(name.at, export->name, name.n));
}

static void reply_unknown(struct nbd_conn *conn, struct reader name)
{
	char quoted[128], text[NBD_NAME_MAX + 64];

	log_quote(quoted, sizeof(quoted), name.at, (unsigned)name.n);
	log_debug("nbd %u: no export '%s'", conn->id, quoted);
	snprintf(text, sizeof(text), "there is no such export; this server has '%s'",
		 conn->export->name);
	nbd_hello_error(conn, NBD_REP_ERR_UNKNOWN, text);
}

static void reply_invalid(struct nbd_conn *conn)
{
	nbd_hello_error(conn, NBD_REP_ERR_INVALID, "malformed option");
}

/* Counts the connection as established; false: there are enough. */
static bool take_place(struct nbd_conn *conn)
{
	_Atomic unsigned *n = &conn->export->n_established;

	if (atomic_fetch_add(n, 1) < conn->export->max_established)
		return true;
	atomic_fetch_sub(n, 1);
	return false;
}

static bool is_structured(const struct nbd_conn *conn)
{
	return conn->replies >= REPLIES_STRUCTURED;
}

static void drop_context(struct nbd_conn *conn)
{
	if (conn->replies == REPLIES_WITH_STATUS)
		conn->replies = REPLIES_STRUCTURED;
}

/* A meta context chosen for an export of another name does not count. */
static void keep_context_of(struct nbd_conn *conn, struct reader name)
{
	if (strlen(conn->handshake.meta_name) != name.n ||
	    memcmp(conn->handshake.meta_name, name.at, name.n) != 0)
		drop_context(conn);
}

/* ---- starting, stopping ------------------------------------------------------------ */

/* Its reply cannot carry an error, so any failure closes the connection. */
static enum conn_step run_export_name(struct nbd_conn *conn, struct reader data)
{
	struct nbd_export_name_reply reply = {
		.size = put_be64(nbd_export_size(conn->export)),
		.flags = put_be16(nbd_export_flags(conn->export, is_structured(conn))),
	};
	bool has_no_zeroes = conn->handshake.client_flags & NBD_NO_ZEROES;

	if (!is_our_name(conn->export, data) || !take_place(conn))
		return nbd_conn_refuse(conn, "EXPORT_NAME cannot be granted");
	keep_context_of(conn, data);
	nbd_hello_put(conn, &reply, sizeof(reply) - (has_no_zeroes ? NBD_EXPORT_NAME_PADDING : 0));
	return STEP_TRANSMIT;
}

static enum conn_step run_abort(struct nbd_conn *conn, struct reader data)
{
	nbd_hello_reply(conn, NBD_REP_ACK, NULL, 0);
	return STEP_DRAIN;
}

static enum conn_step run_list(struct nbd_conn *conn, struct reader data)
{
	size_t n = strlen(conn->export->name);
	be32 length = put_be32((uint32_t)n);

	if (data.n) {
		reply_invalid(conn);
		return STEP_AGAIN;
	}
	nbd_hello_reply2(conn, NBD_REP_SERVER, &length, sizeof(length), conn->export->name, n);
	nbd_hello_reply(conn, NBD_REP_ACK, NULL, 0);
	return STEP_AGAIN;
}

static enum conn_step run_structured_reply(struct nbd_conn *conn, struct reader data)
{
	if (data.n) {
		reply_invalid(conn);
		return STEP_AGAIN;
	}
	if (!is_structured(conn))
		conn->replies = REPLIES_STRUCTURED;
	nbd_hello_reply(conn, NBD_REP_ACK, NULL, 0);
	return STEP_AGAIN;
}

static enum conn_step run_unsupported(struct nbd_conn *conn, struct reader data)
{
	nbd_hello_error(conn, NBD_REP_ERR_UNSUP, "this server does not do that");
	return STEP_AGAIN;
}

/* ---- INFO and GO ------------------------------------------------------------------- */

static void reply_info_export(struct nbd_conn *conn)
{
	struct nbd_info_export info = {
		.type = put_be16(NBD_INFO_EXPORT),
		.size = put_be64(nbd_export_size(conn->export)),
		.flags = put_be16(nbd_export_flags(conn->export, is_structured(conn))),
	};

	nbd_hello_reply(conn, NBD_REP_INFO, &info, sizeof(info));
}

static void reply_info_text(struct nbd_conn *conn, uint16_t type, const char *text)
{
	be16 wire = put_be16(type);

	nbd_hello_reply2(conn, NBD_REP_INFO, &wire, sizeof(wire), text, strlen(text));
}

/* Any alignment is served, by read-modify-write; whole pages are what does not cost extra. */
static void reply_info_block_size(struct nbd_conn *conn)
{
	struct nbd_info_block_size info = {
		.type = put_be16(NBD_INFO_BLOCK_SIZE),
		.minimum = put_be32(1),
		.preferred = put_be32(MAX(conn->export->block_size, 4096u)),
		.maximum_payload = put_be32(NBD_PAYLOAD_MAX),
	};

	nbd_hello_reply(conn, NBD_REP_INFO, &info, sizeof(info));
}

/* Each kind once, however often it was requested: what a client makes us send is bounded. */
static bool read_wanted_infos(struct reader *data, uint64_t *ret_wanted)
{
	uint16_t n, type;

	if (!read_be16(data, &n) || data->n != 2u * n)
		return false;
	*ret_wanted = 0;
	while (data->n && read_be16(data, &type))
		if (type < 64)
			*ret_wanted |= 1ULL << type;
	return true;
}

static bool run_info_or_go(struct nbd_conn *conn, struct reader data)
{
	struct reader name;
	uint64_t wanted;

	if (!read_string(&data, &name) || !read_wanted_infos(&data, &wanted)) {
		reply_invalid(conn);
		return false;
	}
	if (!is_our_name(conn->export, name)) {
		reply_unknown(conn, name);
		return false;
	}
	if (conn->handshake.option == NBD_OPT_GO && !take_place(conn)) {
		nbd_hello_error(conn, NBD_REP_ERR_POLICY, "too many connections");
		return false;
	}
	reply_info_export(conn);
	if (wanted & 1ULL << NBD_INFO_NAME)
		reply_info_text(conn, NBD_INFO_NAME, conn->export->name);
	if (wanted & 1ULL << NBD_INFO_DESCRIPTION)
		reply_info_text(conn, NBD_INFO_DESCRIPTION, conn->export->description);
	if (wanted & 1ULL << NBD_INFO_BLOCK_SIZE)
		reply_info_block_size(conn);
	nbd_hello_reply(conn, NBD_REP_ACK, NULL, 0);
	if (conn->handshake.option == NBD_OPT_GO)
		keep_context_of(conn, name);
	return true;
}

static enum conn_step run_info(struct nbd_conn *conn, struct reader data)
{
	run_info_or_go(conn, data);
	return STEP_AGAIN;
}

static enum conn_step run_go(struct nbd_conn *conn, struct reader data)
{
	return run_info_or_go(conn, data) ? STEP_TRANSMIT : STEP_AGAIN;
}

/* ---- meta contexts ----------------------------------------------------------------- */

static bool is_query(struct reader query, const char *text)
{
	return query.n == strlen(text) && !memcmp(query.at, text, query.n);
}

/* name, count, queries; *ret_is_wanted: does one of them name base:allocation? */
static bool read_meta_queries(struct reader *data, bool is_list, struct reader *ret_name,
			      bool *ret_is_wanted)
{
	struct reader query;
	uint32_t n;

	if (!read_string(data, ret_name) || !read_be32(data, &n))
		return false;
	*ret_is_wanted = is_list && n == 0;
	for (uint32_t i = 0; i < n; i++) {
		if (!read_string(data, &query))
			return false;
		if (is_query(query, NBD_ALLOCATION_CONTEXT) ||
		    (is_list && is_query(query, "base:")))
			*ret_is_wanted = true;
	}
	return data->n == 0;
}

static enum conn_step run_meta_context(struct nbd_conn *conn, struct reader data)
{
	bool is_list = conn->handshake.option == NBD_OPT_LIST_META_CONTEXT;
	be32 id = put_be32(NBD_ALLOCATION_CONTEXT_ID);
	struct reader name;
	bool is_wanted;

	if (!is_list) /* even one that fails undoes what was chosen before */
		drop_context(conn);
	if (!is_structured(conn)) {
		nbd_hello_error(conn, NBD_REP_ERR_INVALID, "structured replies come first");
		return STEP_AGAIN;
	}
	if (!read_meta_queries(&data, is_list, &name, &is_wanted)) {
		reply_invalid(conn);
		return STEP_AGAIN;
	}
	if (!is_our_name(conn->export, name)) {
		reply_unknown(conn, name);
		return STEP_AGAIN;
	}
	if (is_wanted)
		nbd_hello_reply2(conn, NBD_REP_META_CONTEXT, &id, sizeof(id),
				 NBD_ALLOCATION_CONTEXT, strlen(NBD_ALLOCATION_CONTEXT));
	if (!is_list) {
		conn->replies = is_wanted ? REPLIES_WITH_STATUS : REPLIES_STRUCTURED;
		memcpy(conn->handshake.meta_name, name.at, name.n);
		conn->handshake.meta_name[name.n] = '\0';
	}
	nbd_hello_reply(conn, NBD_REP_ACK, NULL, 0);
	return STEP_AGAIN;
}

/* ---- the table --------------------------------------------------------------------- */

static enum conn_step (*const options[])(struct nbd_conn *conn, struct reader data) = {
	[NBD_OPT_EXPORT_NAME] = run_export_name,
	[NBD_OPT_ABORT] = run_abort,
	[NBD_OPT_LIST] = run_list,
	[NBD_OPT_STARTTLS] = run_unsupported,
	[NBD_OPT_INFO] = run_info,
	[NBD_OPT_GO] = run_go,
	[NBD_OPT_STRUCTURED_REPLY] = run_structured_reply,
	[NBD_OPT_LIST_META_CONTEXT] = run_meta_context,
	[NBD_OPT_SET_META_CONTEXT] = run_meta_context,
	[NBD_OPT_EXTENDED_HEADERS] = run_unsupported,
};

enum conn_step nbd_options_run(struct nbd_conn *conn, const uint8_t *data, uint32_t length)
{
	struct reader reader = {data, length};
	uint32_t option = conn->handshake.option;

	if (option < ARRAY_LEN(options) && options[option])
		return options[option](conn, reader);
	return run_unsupported(conn, reader);
}
