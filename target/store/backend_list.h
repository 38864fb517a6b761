/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kinds of stores, in the order in which messages name them. BACKEND(name) stands for the file
 * name.c, which defines the table backend_name. meson.build also reads these lines, and compiles
 * the files in them.
 *
 * A file that includes this one defines BACKEND before and undefines it afterwards, so there is no
 * #pragma once.
 */
BACKEND(file)
BACKEND(device)
BACKEND(ram)
BACKEND(null)
BACKEND(rbd)
