/* SPDX-License-Identifier: BSD-3-Clause */
/* The NBD protocol's constants and structs, big-endian, as in the "proto.md" of the NBD
 * project. */
#pragma once

#include <assert.h>

#include "base/bytes.h"

#define NBD_GREETING_MAGIC     0x4e42444d41474943ULL /* "NBDMAGIC" */
#define NBD_OPTION_MAGIC       0x49484156454f5054ULL /* "IHAVEOPT" */
#define NBD_OPTION_REPLY_MAGIC 0x0003e889045565a9ULL

enum {
	NBD_REQUEST_MAGIC = 0x25609513,
	NBD_SIMPLE_REPLY_MAGIC = 0x67446698,
	NBD_CHUNK_MAGIC = 0x668e33ef,
};

enum {
	NBD_DEFAULT_PORT = 10809,
	NBD_STRING_MAX = 4096,	    /* of any string on the wire */
	NBD_PAYLOAD_MAX = 32 << 20, /* accepted whatever was advertised; beyond it we hang up */
	NBD_EXPORT_NAME_PADDING = 124,
};

/* ---- handshake --------------------------------------------------------------------- */

enum nbd_handshake_flag {
	NBD_FIXED_NEWSTYLE = 1 << 0,
	NBD_NO_ZEROES = 1 << 1,
};

enum nbd_option {
	NBD_OPT_EXPORT_NAME = 1,
	NBD_OPT_ABORT = 2,
	NBD_OPT_LIST = 3,
	NBD_OPT_STARTTLS = 5,
	NBD_OPT_INFO = 6,
	NBD_OPT_GO = 7,
	NBD_OPT_STRUCTURED_REPLY = 8,
	NBD_OPT_LIST_META_CONTEXT = 9,
	NBD_OPT_SET_META_CONTEXT = 10,
	NBD_OPT_EXTENDED_HEADERS = 11,
};

#define NBD_REP_ERROR(n) (0x80000000u | (n))
enum nbd_option_reply_type {
	NBD_REP_ACK = 1,
	NBD_REP_SERVER = 2,
	NBD_REP_INFO = 3,
	NBD_REP_META_CONTEXT = 4,
	NBD_REP_ERR_UNSUP = NBD_REP_ERROR(1),
	NBD_REP_ERR_POLICY = NBD_REP_ERROR(2),
	NBD_REP_ERR_INVALID = NBD_REP_ERROR(3),
	NBD_REP_ERR_TLS_REQD = NBD_REP_ERROR(5),
	NBD_REP_ERR_UNKNOWN = NBD_REP_ERROR(6),
	NBD_REP_ERR_SHUTDOWN = NBD_REP_ERROR(7),
	NBD_REP_ERR_TOO_BIG = NBD_REP_ERROR(9),
};

enum nbd_info {
	NBD_INFO_EXPORT = 0,
	NBD_INFO_NAME = 1,
	NBD_INFO_DESCRIPTION = 2,
	NBD_INFO_BLOCK_SIZE = 3,
};

enum nbd_transmission_flag {
	NBD_FLAG_HAS_FLAGS = 1 << 0,
	NBD_FLAG_READ_ONLY = 1 << 1,
	NBD_FLAG_FLUSH = 1 << 2,
	NBD_FLAG_FUA = 1 << 3,
	NBD_FLAG_TRIM = 1 << 5,
	NBD_FLAG_WRITE_ZEROES = 1 << 6,
	NBD_FLAG_DF = 1 << 7,
	NBD_FLAG_CAN_MULTI_CONN = 1 << 8,
	NBD_FLAG_CACHE = 1 << 10,
	NBD_FLAG_FAST_ZERO = 1 << 11,
};

struct nbd_greeting {
	be64 magic;
	be64 option_magic;
	be16 flags;
};
static_assert(sizeof(struct nbd_greeting) == 18, "greeting");

struct nbd_option_header {
	be64 magic;
	be32 option;
	be32 length;
};
static_assert(sizeof(struct nbd_option_header) == 16, "option");

struct nbd_option_reply {
	be64 magic;
	be32 option;
	be32 type;
	be32 length;
};
static_assert(sizeof(struct nbd_option_reply) == 20, "option reply");

struct nbd_export_name_reply {
	be64 size;
	be16 flags;
	uint8_t padding[NBD_EXPORT_NAME_PADDING]; /* left out with NBD_NO_ZEROES */
};
static_assert(sizeof(struct nbd_export_name_reply) == 134, "reply to EXPORT_NAME");

struct nbd_info_export {
	be16 type;
	be64 size;
	be16 flags;
};
static_assert(sizeof(struct nbd_info_export) == 12, "INFO_EXPORT");

struct nbd_info_block_size {
	be16 type;
	be32 minimum;
	be32 preferred;
	be32 maximum_payload;
};
static_assert(sizeof(struct nbd_info_block_size) == 14, "INFO_BLOCK_SIZE");

/* ---- transmission ------------------------------------------------------------------ */

enum nbd_command {
	NBD_CMD_READ = 0,
	NBD_CMD_WRITE = 1,
	NBD_CMD_DISC = 2,
	NBD_CMD_FLUSH = 3,
	NBD_CMD_TRIM = 4,
	NBD_CMD_CACHE = 5,
	NBD_CMD_WRITE_ZEROES = 6,
	NBD_CMD_BLOCK_STATUS = 7,
};

enum nbd_command_flag {
	NBD_CMD_FLAG_FUA = 1 << 0,
	NBD_CMD_FLAG_NO_HOLE = 1 << 1,
	NBD_CMD_FLAG_DF = 1 << 2,
	NBD_CMD_FLAG_REQ_ONE = 1 << 3,
	NBD_CMD_FLAG_FAST_ZERO = 1 << 4,
};

/* The only errors that may appear on the wire. */
enum nbd_error {
	NBD_SUCCESS = 0,
	NBD_EPERM = 1,
	NBD_EIO = 5,
	NBD_ENOMEM = 12,
	NBD_EINVAL = 22,
	NBD_ENOSPC = 28,
	NBD_EOVERFLOW = 75,
	NBD_ENOTSUP = 95,
	NBD_ESHUTDOWN = 108,
};

struct nbd_request_header {
	be32 magic;
	be16 flags;
	be16 type;
	be64 cookie;
	be64 offset;
	be32 length;
};
static_assert(sizeof(struct nbd_request_header) == 28, "request");

struct nbd_simple_reply {
	be32 magic;
	be32 error;
	be64 cookie;
};
static_assert(sizeof(struct nbd_simple_reply) == 16, "simple reply");

enum nbd_chunk_type {
	NBD_CHUNK_NONE = 0,
	NBD_CHUNK_OFFSET_DATA = 1,
	NBD_CHUNK_OFFSET_HOLE = 2,
	NBD_CHUNK_BLOCK_STATUS = 5,
	NBD_CHUNK_ERROR = 0x8001,
	NBD_CHUNK_ERROR_OFFSET = 0x8002,
};

enum {
	NBD_CHUNK_FLAG_DONE = 1 << 0,
};

struct nbd_chunk {
	be32 magic;
	be16 flags;
	be16 type;
	be64 cookie;
	be32 length; /* of what follows */
};
static_assert(sizeof(struct nbd_chunk) == 20, "chunk");

struct nbd_chunk_data {
	struct nbd_chunk chunk;
	be64 offset;
};
static_assert(sizeof(struct nbd_chunk_data) == 28, "OFFSET_DATA");

struct nbd_chunk_error {
	struct nbd_chunk chunk;
	be32 error;
	be16 message_length; /* we send none */
};
static_assert(sizeof(struct nbd_chunk_error) == 26, "ERROR");

struct nbd_chunk_error_offset {
	struct nbd_chunk_error error;
	be64 offset;
};
static_assert(sizeof(struct nbd_chunk_error_offset) == 34, "ERROR_OFFSET");

enum {
	NBD_STATE_HOLE = 1 << 0,
	NBD_STATE_ZERO = 1 << 1,
};

struct nbd_extent {
	be32 length;
	be32 flags;
};
static_assert(sizeof(struct nbd_extent) == 8, "extent");

enum {
	NBD_EXTENTS_MAX = 2, /* what one status reply of ours holds */
};

#define NBD_ALLOCATION_CONTEXT	  "base:allocation"
#define NBD_ALLOCATION_CONTEXT_ID 1u

struct nbd_chunk_status {
	struct nbd_chunk chunk;
	be32 context_id;
	struct nbd_extent extents[NBD_EXTENTS_MAX];
};
