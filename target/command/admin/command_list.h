/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The admin commands. COMMAND(file, name) stands for the entry name_command, which file.c of this
 * folder defines. meson.build also reads these lines, and compiles the files in them.
 *
 * A file that includes this one defines COMMAND before and undefines it afterwards, so there is no
 * #pragma once.
 */
COMMAND(log_page, log_page)
COMMAND(identify, identify)
COMMAND(lba_status, lba_status)
COMMAND(abort, abort)
COMMAND(features, features_set)
COMMAND(features, features_get)
COMMAND(async_event, async_event)
COMMAND(keep_alive, keep_alive)
COMMAND(cross_reset, cross_reset)
