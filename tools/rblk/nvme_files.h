/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The files in which nvme-cli keeps what to connect: discovery.conf (options of nvme discover, a
 * line for each target) and config.json (hosts, subsystems, ports). They are read strictly: what is
 * not understood is an error, and what rblk cannot do is noted. Thread: main.
 */
#pragma once

#include <json-c/json.h>

#include "base/addr.h"
#include "base/error.h"
#include "initiator/control/volume.h"

enum {
	NVME_WORDS_MAX = 24,
	NVME_WORD_MAX = 256,
};

/* A target, or a subsystem at it. */
struct nvme_entry {
	char source[300];	  /* "/etc/nvme/discovery.conf:3", for messages */
	char nqn[VOLUME_NQN_MAX]; /* "": ask its discovery service which there are */
	char target[ADDR_STRING_MAX];
	char hostnqn[VOLUME_NQN_MAX], hostid[40]; /* "": as usual */
	unsigned n_words;
	char *words[NVME_WORDS_MAX]; /* owned: options of rblk attach */
};

struct nvme_entries {
	unsigned n;
	struct nvme_entry *list;   /* owned */
	struct json_object *notes; /* owned: texts on what cannot be done */
};

void nvme_entries_init(struct nvme_entries *entries);
void nvme_entries_release(struct nvme_entries *entries);
/* Owned by entries; NULL: no memory. Pointers to others are invalid then. */
struct nvme_entry *nvme_entries_add(struct nvme_entries *entries, const char *source);
__attribute__((format(printf, 2, 3))) void nvme_entries_note(struct nvme_entries *entries,
							     const char *fmt, ...);

/* Append what a file has. 0; -ENOENT: there is no such file; or an exit code with *error filled. */
int nvme_files_read_discovery(const char *path, struct nvme_entries *entries, struct error *error);
int nvme_files_read_config(const char *path, struct nvme_entries *entries, struct error *error);
