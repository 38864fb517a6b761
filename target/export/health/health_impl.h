/* SPDX-License-Identifier: BSD-3-Clause */
/* The health of subsystems from inside: see health.h, record.h and event_log.h. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/loop.h"
#include "transport/wire/fabrics.h"
#include "transport/wire/nvme_event.h"

struct health;
struct state_directory;

enum {
	HEALTH_BOOT_BYTES = 40, /* a UUID as text, with NUL */
};

struct health_figures {
	uint64_t n_reads, n_writes;	    /* commands */
	uint64_t read_units, written_units; /* of 512 bytes */
	uint64_t n_media_errors, n_errors;  /* n_errors: entries of error logs */
	uint64_t power_cycles;
	uint64_t unsafe_shutdowns; /* the machine went down: unflushed writes may be lost */
	uint64_t crashes;	   /* rblkd alone ended without order: no write is lost */
	uint64_t power_on_s;
};

enum {
	EVENT_LOG_UNITS = 1, /* PELS */
	EVENT_LOG_BYTES = EVENT_LOG_UNITS * NVME_EVENT_UNIT -
			  (int)sizeof(struct nvme_event_log_header),
};

struct event_image {
	/* Thread: never changes */
	_Atomic unsigned n_refs; /* any thread */
	uint16_t generation;	 /* each image has another one */
	uint32_t n_events, n_bytes;
	uint8_t bytes[]; /* newest first */
};

struct event_log {
	/* Protected by health->lock; control sets */
	struct event_image *image; /* holds a reference; NULL: there is no log */

	/* Thread: control */
	bool is_news;	      /* not saved yet */
	uint64_t snapshot_ns; /* when SMART was last recorded */
	unsigned n_tokens;    /* resets that may still be recorded now */
	uint64_t tokens_ns;   /* up to when tokens were counted */

	/* Thread: the saver while it runs; otherwise control */
	struct event_log *next_saving;
	struct event_image *saving; /* holds a reference */
	int result;
};

/*
 * From the point of view of this rblkd, whose start is one power cycle:
 *
 *     NEW ------+--> ON <---> OFF
 *     LEFT_ON --+
 */
enum health_state {
	HEALTH_NEW,	/* not exported yet */
	HEALTH_LEFT_ON, /* the same, and according to the file its last end was not in order */
	HEALTH_ON,	/* exported */
	HEALTH_OFF,	/* not exported any more */
};

struct health_record {
	/* Thread: never changes */
	char nqn[NVMF_NQN_MAX + 1];

	/* Thread: control */
	struct list node;
	struct health *health;
	uint64_t seen; /* the last call of health_follow that found it exported */
	enum health_state state;
	bool has_lost_writes;		 /* so the file has it as on, even after health_end */
	char boot_id[HEALTH_BOOT_BYTES]; /* of the boot in which it was last on; "": unknown */

	/* Thread: any */
	_Atomic uint64_t n_errors;

	/* Protected by health->lock; control writes */
	struct health_figures past; /* without n_errors and what current namespaces count */
	uint64_t on_since_ns;	    /* 0: not HEALTH_ON */
	struct list namespaces;	    /* of struct namespace (health_node) */

	struct event_log events; /* its threads: event_log.h */
};

/*
 *     NOT_BEGUN ---> RESTS <---> SAVES
 */
enum health_saving {
	HEALTH_NOT_BEGUN, /* nothing is saved before health_begin, or after health_end */
	HEALTH_RESTS,
	HEALTH_SAVES, /* the saver runs */
};

struct health {
	/* Thread: never changes */
	struct state_directory *directory; /* borrowed; NULL: nothing is saved */
	char boot_id[HEALTH_BOOT_BYTES];   /* of the running kernel; "": unknown */
	bool has_lost_file;		   /* it was damaged: the last ends are unknown */

	pthread_mutex_t lock; /* a leaf, held during a sum; see struct health_record */

	/* Thread: control */
	struct list records;
	uint64_t n_follows;
	enum health_saving saving_state;
	struct loop *loop;		/* borrowed from health_begin to health_end */
	const struct list *controllers; /* borrowed: not empty while hosts are connected */
	struct loop_timer timer;
	bool is_busy;  /* hosts are connected: saves once a minute */
	bool has_news; /* something besides counters has changed */
	uint64_t saved_ns, saved_sum;
	struct event_log *saving; /* logs whose image is being saved, too */
	pthread_t saver;	  /* while HEALTH_SAVES */
	char *text;		  /* owned, while it is being saved; the saver reads it */
	_Atomic bool is_saved;
	_Atomic int error; /* of the last save: 0 or -errno */
};
