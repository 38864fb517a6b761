/* SPDX-License-Identifier: BSD-3-Clause */
/* Did you mean: the name that is closest to a wrong one; see conf.h. Pure, any thread. */
#pragma once

/* The name closest to s among names (NULL-terminated), or NULL if none is close. */
const char *conf_did_you_mean(const char *s, const char *const *names);
