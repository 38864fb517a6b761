/* SPDX-License-Identifier: BSD-3-Clause */
/* "  label           text" on stdout, for rblk status and the like. Thread: main. */
#pragma once

/* On a terminal a text that is too long goes on below its beginning, broken at blanks; one with a
 * word that does not fit there, such as a URI, stands whole in the lines below its label. */
void field_print(const char *label, const char *text);
