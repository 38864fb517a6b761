/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The HTTP endpoint; see http.h. A thread of libmicrohttpd parses what clients send, so that
 * clients take no time of the control thread or of pollers. The number of clients is limited, in
 * total and for each address. A request must arrive and its answer must leave within a time limit;
 * a client that sends or takes a byte now and then is disconnected like an idle one. The library
 * limits idle time only. So while there are connections, the control thread shuts down the sockets
 * of late ones. A socket is closed after its place in the table is free, so the shutdown never hits
 * another socket.
 *
 * The control thread makes the text: the HTTP thread sends it a message and waits. An answer is
 * reused for a moment, so that frequent requests cost little. The control thread waits for a lock
 * only as long as the HTTP thread changes its table: that one allocates nothing meanwhile.
 *
 * End: the HTTP thread is woken from its wait, and then joined. The message may still be in the
 * inbox of the loop, which does not run again.
 */
#include <errno.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/http.h"
#include "base/log.h"

enum {
	CONNECTIONS_MAX = 16,
	PER_ADDRESS_MAX = 4,
	PATIENCE_S = 10,
	MEMORY = 16 * 1024, /* for a connection: larger requests are refused */
	BACKLOG = 16,
	FRESH_MS = 100,
};

/* A place in the table of connections. */
struct client {
	int fd;		   /* owned by the library; -1: the place is free */
	uint64_t since_ns; /* of the connection, or of the last answer */
};

/* The states of the text of the metrics. */
enum http_state {
	HTTP_RESTS,
	HTTP_ASKS, /* the HTTP thread waits for control to make it */
	HTTP_STOPS,
};

struct http {
	/* Thread: control */
	struct loop_timer look;

	struct http_config config; /* read-only */
	struct MHD_Daemon *daemon;
	pthread_mutex_t lock; /* protects all below; a leaf */
	pthread_cond_t is_answered;
	struct loop_msg ask; /* to control */
	enum http_state state;
	/* Changed by control while the HTTP thread waits for it; otherwise that one reads them. */
	char *text; /* owned; NULL: there was no memory for it */
	size_t n_text;
	uint64_t made_ns;
	struct loop_msg watch; /* to control */
	bool is_watched;
	struct client clients[CONNECTIONS_MAX];
};

/* ---- control -------------------------------------------------------------------------------- */

static void collect(struct loop_msg *msg)
{
	struct http *http = container_of(msg, struct http, ask);
	size_t n = 0;
	char *text = http->config.make(http->config.context, &n);

	pthread_mutex_lock(&http->lock);
	free(http->text);
	http->text = text;
	http->n_text = n;
	http->made_ns = clock_ns();
	if (http->state == HTTP_ASKS)
		http->state = HTTP_RESTS;
	pthread_cond_signal(&http->is_answered);
	pthread_mutex_unlock(&http->lock);
}

static bool is_late(const struct client *client, uint64_t now_ns)
{
	return now_ns - client->since_ns >= PATIENCE_S * NSEC_PER_SEC;
}

static void on_look(struct loop_timer *timer)
{
	struct http *http = container_of(timer, struct http, look);
	uint64_t now_ns = clock_ns();

	pthread_mutex_lock(&http->lock);
	http->is_watched = false;
	for (unsigned i = 0; i < CONNECTIONS_MAX; i++) {
		struct client *client = &http->clients[i];

		http->is_watched |= client->fd >= 0;
		if (client->fd >= 0 && is_late(client, now_ns))
			shutdown(client->fd, SHUT_RDWR);
	}
	if (http->is_watched)
		loop_timer_start(http->config.loop, timer, NSEC_PER_SEC);
	pthread_mutex_unlock(&http->lock);
}

static void on_watch(struct loop_msg *msg)
{
	struct http *http = container_of(msg, struct http, watch);

	loop_timer_start(http->config.loop, &http->look, NSEC_PER_SEC);
}

/* ---- the HTTP thread ------------------------------------------------------------------------ */

static bool is_fresh(const struct http *http)
{
	return http->text && clock_ns() - http->made_ns < FRESH_MS * NSEC_PER_MSEC;
}

/* Asks control, unless there is a fresh one. False: there is none. */
static bool wait_for_text(struct http *http)
{
	bool has_text;

	pthread_mutex_lock(&http->lock);
	if (!is_fresh(http) && http->state != HTTP_STOPS) {
		http->state = HTTP_ASKS;
		loop_send(http->config.loop, &http->ask);
		while (http->state == HTTP_ASKS)
			pthread_cond_wait(&http->is_answered, &http->lock);
	}
	has_text = http->text && http->state == HTTP_RESTS;
	pthread_mutex_unlock(&http->lock);
	return has_text;
}

/* An owned copy; NULL: there is none. */
static char *take_text(struct http *http, size_t *ret_n)
{
	char *copy = wait_for_text(http) ? malloc(http->n_text + 1) : NULL;

	if (!copy)
		return NULL;
	memcpy(copy, http->text, http->n_text + 1);
	*ret_n = http->n_text;
	return copy;
}

static enum MHD_Result answer(struct MHD_Connection *connection, unsigned status,
			      struct MHD_Response *response, const char *type)
{
	enum MHD_Result r;

	if (!response)
		return MHD_NO;
	MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
		MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
	r = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return r;
}

static enum MHD_Result refuse(struct MHD_Connection *connection, unsigned status,
			      const char *program, const char *text)
{
	char whole[128];
	char *copy;

	snprintf(whole, sizeof(whole), "%s%s\n", program, text);
	copy = strdup(whole);
	if (!copy)
		return MHD_NO;
	return answer(connection, status,
		      MHD_create_response_from_buffer(strlen(copy), copy, MHD_RESPMEM_MUST_FREE),
		      "text/plain; charset=utf-8");
}

/* Called once with the header, and again with the whole request. */
static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *url,
				  const char *method, const char *version, const char *upload,
				  size_t *n_upload, void **state)
{
	static char has_header;
	struct http *http = context;
	size_t n = 0;
	char *text;

	if (strcmp(method, MHD_HTTP_METHOD_GET) && strcmp(method, MHD_HTTP_METHOD_HEAD))
		return refuse(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "", "only GET");
	if (!*state) {
		*state = &has_header;
		return MHD_YES;
	}
	if (*n_upload) { /* a GET with a body, which is ignored */
		*n_upload = 0;
		return MHD_YES;
	}
	if (strcmp(url, "/metrics"))
		return refuse(connection, MHD_HTTP_NOT_FOUND, http->config.program,
			      "'s metrics are at /metrics");
	text = take_text(http, &n);
	if (!text)
		return refuse(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "", "not at the moment");
	return answer(connection, MHD_HTTP_OK,
		      MHD_create_response_from_buffer(n, text, MHD_RESPMEM_MUST_FREE),
		      "text/plain; version=0.0.4; charset=utf-8");
}

static void take_place(struct http *http, int fd, void **ret_client)
{
	for (unsigned i = 0; i < CONNECTIONS_MAX && !*ret_client; i++)
		if (http->clients[i].fd < 0) {
			http->clients[i] = (struct client){fd, clock_ns()};
			*ret_client = &http->clients[i];
		}
	if (http->is_watched)
		return;
	http->is_watched = true;
	loop_send(http->config.loop, &http->watch);
}

/* The library stores *state with the connection. */
static void on_connection(void *context, struct MHD_Connection *connection, void **state,
			  enum MHD_ConnectionNotificationCode what)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(
		connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct http *http = context;
	struct client *client = *state;

	pthread_mutex_lock(&http->lock);
	if (what == MHD_CONNECTION_NOTIFY_STARTED && info)
		take_place(http, info->connect_fd, state);
	else if (client)
		client->fd = -1;
	pthread_mutex_unlock(&http->lock);
}

static void on_completed(void *context, struct MHD_Connection *connection, void **state,
			 enum MHD_RequestTerminationCode why)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(
		connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	struct client *client = info ? info->socket_context : NULL;
	struct http *http = context;

	pthread_mutex_lock(&http->lock);
	if (client)
		client->since_ns = clock_ns();
	pthread_mutex_unlock(&http->lock);
}

__attribute__((format(printf, 2, 0))) static void on_message(void *context, const char *fmt,
							     va_list ap)
{
	char text[256];

	if (!log_enabled(LOG_DEBUG))
		return;
	vsnprintf(text, sizeof(text), fmt, ap);
	text[strcspn(text, "\n")] = '\0';
	log_debug("metrics: %s", text);
}

/* ---- start and end -------------------------------------------------------------------------- */

static int open_listener(const union addr *address, int *ret_fd)
{
	_autoclose_ int fd = socket(address->sa.sa_family,
				    SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int on = 1;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, &address->sa, addr_len(address)) < 0 || listen(fd, BACKLOG) < 0)
		return -errno;
	*ret_fd = take_fd(&fd);
	return 0;
}

static struct http *http_new(const struct http_config *config)
{
	struct http *http = calloc(1, sizeof(*http));

	if (!http)
		return NULL;
	http->config = *config;
	http->ask.run = collect;
	http->watch.run = on_watch;
	http->look.on_expiry = on_look;
	for (unsigned i = 0; i < CONNECTIONS_MAX; i++)
		http->clients[i].fd = -1;
	pthread_mutex_init(&http->lock, NULL);
	pthread_cond_init(&http->is_answered, NULL);
	return http;
}

static int start_daemon(struct http *http, int fd)
{
	http->daemon = MHD_start_daemon(
		MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_EPOLL | MHD_USE_ITC, 0, NULL, NULL,
		on_request, http, MHD_OPTION_EXTERNAL_LOGGER, on_message, NULL,
		MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
		(unsigned)CONNECTIONS_MAX, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
		(unsigned)PER_ADDRESS_MAX, MHD_OPTION_NOTIFY_CONNECTION, on_connection, http,
		MHD_OPTION_NOTIFY_COMPLETED, on_completed, http, MHD_OPTION_CONNECTION_TIMEOUT,
		(unsigned)PATIENCE_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)MEMORY,
		MHD_OPTION_END);
	return http->daemon ? 0 : -ENOMEM;
}

static const char *advice(const struct http_config *config, int r)
{
	switch (-r) {
	case EADDRINUSE:
		return config->if_taken;
	case EADDRNOTAVAIL:
		return "the address is not on this host";
	case EACCES:
		return "ports below 1024 need CAP_NET_BIND_SERVICE";
	case EAFNOSUPPORT:
		return config->if_forbidden;
	default:
		return NULL;
	}
}

int http_start(const struct http_config *config, struct http **ret_http, struct error *error)
{
	int fd, r = open_listener(&config->address, &fd);

	*ret_http = NULL;
	if (r < 0) {
		error_set(error, r == -EAFNOSUPPORT ? EXIT_PRIVILEGE : error_code_of(r),
			  advice(config, r), "metrics: cannot listen on %s: %s", config->where,
			  strerror(-r));
		return r;
	}
	*ret_http = http_new(config);
	r = *ret_http ? start_daemon(*ret_http, fd) : -ENOMEM;
	if (r == 0)
		return 0;
	close(fd);
	http_stop(*ret_http);
	*ret_http = NULL;
	return error_refuse(error, r, "metrics: cannot start: %s", strerror(-r));
}

void http_stop(struct http *http)
{
	if (!http)
		return;
	pthread_mutex_lock(&http->lock);
	http->state = HTTP_STOPS;
	pthread_cond_signal(&http->is_answered);
	pthread_mutex_unlock(&http->lock);
	if (http->daemon)
		MHD_stop_daemon(http->daemon); /* also closes the listener */
	loop_timer_stop(&http->look);
	pthread_cond_destroy(&http->is_answered);
	pthread_mutex_destroy(&http->lock);
	free(http->text);
	free(http);
}
