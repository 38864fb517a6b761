/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file that a volume process leaves to its successor when it is killed: which associations may
 * still write. Lines of text, written whole and renamed, when an association becomes live. Control
 * loop.
 */
#pragma once

struct volume;

/* Reads volume->config.state_file into volume->proof; adds nothing if it is another volume's. */
void proof_file_read(struct volume *volume);
/* The predecessors, and the live associations as those of the next process. */
void proof_file_write(struct volume *volume);
void proof_file_remove(struct volume *volume);
