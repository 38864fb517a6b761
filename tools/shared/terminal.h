/* SPDX-License-Identifier: BSD-3-Clause */
/* The user's terminal: its size, and keys without Return. Thread: main. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
	TERMINAL_NO_KEY = 0,
	TERMINAL_ENDED = -1, /* SIGINT, SIGTERM or the end of the input */
};

/* Columns that a line may have; 0: any number, stdout is no terminal. $COLUMNS wins, as with
 * ps(1). */
unsigned terminal_columns(void);
/* Lines of the terminal; 0 if stdout is none. */
unsigned terminal_rows(void);

/* Keys are read one by one and not shown, until terminal_end. Does nothing where stdin is no
 * terminal. SIGINT and SIGTERM end terminal_wait from then on, so that the terminal can be put
 * back. */
void terminal_begin(void);
/* The terminal as it was. Accepts that terminal_begin was not called. */
void terminal_end(void);
/* Waits for a key, at most this long: returns the key, or one of the values above. */
int terminal_wait(uint64_t ns);
