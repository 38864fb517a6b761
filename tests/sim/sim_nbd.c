/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See sim.h: clients of rblk's NBD server. Each has blocks of its own, one command a block, and
 * flushes beside them. A client that goes, or whose rblk is killed, does not know what has become
 * of its commands; it connects again, and the checker watches what it finds.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "nbd_bridge/io/nbd_wire.h"
#include "tests/sim/sim.h"

enum {
	CLIENTS = 3,
	BLOCKS_EACH = SIM_BLOCKS / CLIENTS,
	FLUSH = BLOCKS_EACH, /* the cookie of a flush; others are numbers of blocks */
	THINK_US = 9000,
	AGAIN_US = 20000,
	FLUSH_US = 50000,
	WRITES_PERCENT = 60,
	DURABLE_PERCENT = 15,
	HELLO_BYTES = sizeof(struct nbd_greeting) + 10, /* and the size, the flags */
	INPUT_MAX = 4096,
};

struct item {
	bool is_busy, is_write, is_durable;
	uint32_t version;
};

struct client {
	int fd; /* -1: none */
	bool has_greeted;
	uint8_t input[INPUT_MAX];
	size_t n;
	struct item items[BLOCKS_EACH];
	bool is_flushing;
	uint32_t covers[SIM_BLOCKS];
};

static struct {
	struct client clients[CLIENTS];
	bool is_finishing;
} load;

static void begin_one(unsigned block);

/* ---- connections ---------------------------------------------------------------------------- */

static bool write_all(const struct client *client, const void *bytes, size_t n)
{
	sim_rblk_kick();
	return send(client->fd, bytes, n, MSG_NOSIGNAL) == (ssize_t)n;
}

static void say_hello(const struct client *client)
{
	struct {
		be32 flags;
		struct nbd_option_header option;
	} hello = {.flags = put_be32(NBD_FIXED_NEWSTYLE | NBD_NO_ZEROES),
		   .option = {.magic = put_be64(NBD_OPTION_MAGIC),
			      .option = put_be32(NBD_OPT_EXPORT_NAME)}};

	write_all(client, &hello, sizeof(hello));
}

static bool connect_client(struct client *client)
{
	if (client->fd >= 0)
		return true;
	client->fd = sim_rblk_connect();
	if (client->fd < 0)
		return false;
	client->has_greeted = false;
	client->n = 0;
	say_hello(client);
	return true;
}

/* What was sent may be done, now or later, or not. */
static void hang_up(struct client *client, const char *why)
{
	unsigned number = (unsigned)(client - load.clients);

	if (client->fd < 0)
		return;
	sim_tell("client %u: %s", number, why);
	close(client->fd);
	client->fd = -1;
	sim_rblk_kick();
	client->is_flushing = false;
	for (unsigned i = 0; i < BLOCKS_EACH; i++) {
		if (!client->items[i].is_busy)
			continue;
		client->items[i].is_busy = false;
		sim_after(sim_between_us(10, AGAIN_US), begin_one, number * BLOCKS_EACH + i);
	}
}

/* ---- commands ------------------------------------------------------------------------------- */

static bool send_command(const struct client *client, enum nbd_command type, unsigned cookie,
			 unsigned block, const struct item *item)
{
	struct {
		struct nbd_request_header header;
		uint32_t words[SIM_BLOCK_BYTES / sizeof(uint32_t)];
	} request = {.header = {.magic = put_be32(NBD_REQUEST_MAGIC),
				.type = put_be16(type),
				.cookie = put_be64(cookie)}};
	bool is_write = type == NBD_CMD_WRITE;

	if (type != NBD_CMD_FLUSH) {
		request.header.offset = put_be64((uint64_t)block * SIM_BLOCK_BYTES);
		request.header.length = put_be32(SIM_BLOCK_BYTES);
		request.header.flags = put_be16(item->is_durable ? NBD_CMD_FLAG_FUA : 0);
	}
	for (size_t i = 0; is_write && i < SIM_BLOCK_BYTES / sizeof(uint32_t); i++)
		request.words[i] = item->version;
	return write_all(client, &request, sizeof(request.header) + is_write * SIM_BLOCK_BYTES);
}

static void begin_one(unsigned block)
{
	struct client *client = &load.clients[block / BLOCKS_EACH];
	struct item *item = &client->items[block % BLOCKS_EACH];

	if (load.is_finishing || item->is_busy)
		return;
	if (!connect_client(client)) {
		sim_after(sim_between_us(500, AGAIN_US), begin_one, block);
		return;
	}
	*item = (struct item){.is_busy = true, .is_write = sim_chance(WRITES_PERCENT)};
	if (item->is_write) {
		item->is_durable = sim_chance(DURABLE_PERCENT);
		item->version = sim_check_write(block);
		sim_tell("block %u: write %u", block, item->version);
	}
	if (!send_command(client, item->is_write ? NBD_CMD_WRITE : NBD_CMD_READ,
			  block % BLOCKS_EACH, block, item))
		hang_up(client, "the server has closed");
}

static void flush(unsigned number)
{
	struct client *client = &load.clients[number];

	if (load.is_finishing)
		return;
	sim_after(sim_between_us(1000, FLUSH_US), flush, number);
	if (client->is_flushing || client->fd < 0)
		return;
	client->is_flushing = true;
	sim_check_flush(client->covers);
	if (!send_command(client, NBD_CMD_FLUSH, FLUSH, 0, NULL))
		hang_up(client, "the server has closed");
}

/* ---- replies -------------------------------------------------------------------------------- */

static void read_is_answered(unsigned block, const uint8_t *data)
{
	uint32_t words[SIM_BLOCK_BYTES / sizeof(uint32_t)];

	memcpy(words, data, sizeof(words));
	for (size_t i = 1; i < sizeof(words) / sizeof(*words); i++)
		if (words[i] != words[0])
			sim_wrong("block %u: a read finds a part of a write", block);
	sim_check_read(block, words[0]);
}

static void item_is_answered(struct client *client, unsigned i, const uint8_t *data)
{
	unsigned block = (unsigned)(client - load.clients) * BLOCKS_EACH + i;
	struct item *item = &client->items[i];

	item->is_busy = false;
	if (item->is_write)
		sim_check_written(block, item->version,
				  item->is_durable || sim_target_is_write_through());
	else
		read_is_answered(block, data);
	sim_after(sim_between_us(100, THINK_US), begin_one, block);
}

/* Returns how long the first reply of the input is; 0: it is not all there. */
static size_t take_reply(struct client *client)
{
	struct nbd_simple_reply reply;
	uint64_t cookie;
	uint32_t error;
	size_t n = sizeof(reply);

	if (client->n < n)
		return 0;
	memcpy(&reply, client->input, n);
	cookie = get_be64(reply.cookie);
	error = get_be32(reply.error);
	if (get_be32(reply.magic) != NBD_SIMPLE_REPLY_MAGIC || cookie > FLUSH ||
	    !(cookie == FLUSH ? client->is_flushing : client->items[cookie].is_busy)) {
		sim_wrong("a reply that no command awaits");
		return 0;
	}
	if (cookie == FLUSH) {
		client->is_flushing = false;
		sim_check_flushed(client->covers, !error);
		return n;
	}
	if (error) {
		sim_wrong("a command of client %u fails with %u",
			  (unsigned)(client - load.clients), error);
		return 0;
	}
	n += client->items[cookie].is_write ? 0 : SIM_BLOCK_BYTES;
	if (client->n < n)
		return 0;
	item_is_answered(client, (unsigned)cookie, client->input + sizeof(reply));
	return n;
}

static size_t take_hello(struct client *client)
{
	if (client->n < HELLO_BYTES)
		return 0;
	client->has_greeted = true;
	return HELLO_BYTES;
}

static void take_input(struct client *client)
{
	size_t n;

	while ((n = client->has_greeted ? take_reply(client) : take_hello(client))) {
		client->n -= n;
		memmove(client->input, client->input + n, client->n);
	}
}

static void look(struct client *client)
{
	ssize_t n;

	while (client->fd >= 0) {
		n = recv(client->fd, client->input + client->n, INPUT_MAX - client->n,
			 MSG_DONTWAIT);
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0) {
			hang_up(client, "the server has closed");
			return;
		}
		client->n += (size_t)n;
		take_input(client);
	}
}

void sim_nbd_look(void)
{
	for (unsigned i = 0; i < CLIENTS; i++)
		look(&load.clients[i]);
}

/* ---- life ----------------------------------------------------------------------------------- */

void sim_nbd_begin(void)
{
	memset(&load, 0, sizeof(load));
	for (unsigned i = 0; i < CLIENTS; i++) {
		load.clients[i].fd = -1;
		sim_after(sim_between_us(1000, FLUSH_US), flush, i);
	}
	for (unsigned i = 0; i < SIM_BLOCKS; i++)
		sim_after(sim_between_us(1000, THINK_US), begin_one, i);
}

bool sim_nbd_finish(void)
{
	load.is_finishing = true;
	for (unsigned i = 0; i < SIM_BLOCKS; i++)
		if (load.clients[i / BLOCKS_EACH].items[i % BLOCKS_EACH].is_busy)
			return false;
	return true;
}

void sim_nbd_hang_up(void)
{
	hang_up(&load.clients[sim_dice(CLIENTS)], "goes");
}

void sim_nbd_end(void)
{
	for (unsigned i = 0; i < CLIENTS; i++)
		hang_up(&load.clients[i], "loses its server");
}
