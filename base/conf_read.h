/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the text of a configuration file; see conf.h. */
#pragma once

#include <stddef.h>
#include <stdio.h>

struct conf;
struct conf_schema;

/* As conf_read (conf_file.h), for a text in memory; messages call it name. */
int conf_read_text(const char *name, const char *text, size_t n, const struct conf_schema *schema,
		   void *into, FILE *out, struct conf **ret_conf);
void conf_free(struct conf *conf);

/* As conf_read_text, but owns text from here on. NULL: there is no text; *into is zeroed. */
int conf_read_owned(const char *name, char *text, size_t n, const struct conf_schema *schema,
		    void *into, FILE *out, struct conf **ret_conf);
