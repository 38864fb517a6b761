/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages between an rblkd and its successor, over a pair of unix sockets that the older one
 * has made. A message is one packet: a word, a text, and maybe file descriptors. The words stay as
 * they are: the two are of different releases.
 *
 *     predecessor                         successor
 *                                 <---    prepared VERSION    it has devices and pollers
 *     listen                      --->                        the portals are closed here
 *                                 <---    listening           Connects wait there
 *     (hosts are told to connect again, connections end, the stores are closed)
 *     handover (fd: text)         --->
 *     memory (fds) ...            --->
 *     yours                       --->                        it opens the stores
 *                                 <---    serving
 *
 * Instead of its word the successor may say "failed REASON", and the predecessor "end". The end of
 * a process is the end of its socket.
 */
#pragma once

enum message_word {
	MESSAGE_NONE, /* nothing has come yet */
	MESSAGE_GONE, /* the other process has closed its socket, or says what is no message */
	MESSAGE_PREPARED,
	MESSAGE_LISTEN,
	MESSAGE_LISTENING,
	MESSAGE_HANDOVER,
	MESSAGE_MEMORY,
	MESSAGE_YOURS,
	MESSAGE_SERVING,
	MESSAGE_FAILED,
	MESSAGE_END,
	MESSAGE_WORDS,
};

enum {
	MESSAGE_TEXT_MAX = 256,
	MESSAGE_FDS = 32,
};

struct message {
	enum message_word word;
	char text[MESSAGE_TEXT_MAX]; /* printable; "": none */
	int fds[MESSAGE_FDS];	     /* owned by the receiver */
	unsigned n_fds;
};

/* A pair for them; each end is closed by exec. 0 or -errno. */
int message_pair(int ret_sockets[2]);
/* Sends a message; text may be NULL. Blocks for at most 10 s. 0 or -errno. */
int message_send(int socket, enum message_word word, const char *text);
/* The same with n file descriptors, at most MESSAGE_FDS, which stay the caller's. */
int message_send_fds(int socket, enum message_word word, const int *fds, unsigned n);
/* Never blocks. */
void message_receive(int socket, struct message *ret_message);
