/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/conf.h"
#include "base/conf_file.h"
#include "base/conf_node.h"
#include "base/conf_read.h"
#include "base/conf_report.h"

/* Bounded: loads one byte more than is allowed at most, and the parser rejects a longer text. */
static int load_file(const char *path, char **ret_text, size_t *ret_n)
{
	bool is_stdin = !strcmp(path, "-");
	_autofclose_ FILE *opened = is_stdin ? NULL : fopen(path, "re");
	FILE *file = is_stdin ? stdin : opened;
	_autofree_ char *text = malloc(CONF_MAX_TEXT + 1);
	size_t n;

	if (!file)
		return -errno;
	if (!text)
		return -ENOMEM;
	errno = 0;
	n = fread(text, 1, CONF_MAX_TEXT + 1, file);
	if (ferror(file))
		return errno ? -errno : -EIO;
	*ret_text = take_ptr(text);
	*ret_n = n;
	return 0;
}

int conf_read(const char *path, const struct conf_schema *schema, void *into, FILE *out,
	      struct conf **ret_conf)
{
	const char *name = strcmp(path, "-") ? path : "<stdin>";
	_autofree_ char *text = NULL;
	size_t n = 0;
	int r, load_r = load_file(path, &text, &n);

	if (load_r == 0)
		return conf_read_text(name, text, n, schema, into, out, ret_conf);
	r = conf_read_owned(name, NULL, 0, schema, into, out, ret_conf);
	if (r < 0)
		return r;
	conf_error(*ret_conf, (struct conf_mark){0}, "cannot read it: %s", strerror(-load_r));
	return load_r;
}
