/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The I/O commands. COMMAND(file, name) stands for the entry name_command, which file.c of this
 * folder defines. meson.build also reads these lines, and compiles the files in them.
 *
 * A file that includes this one defines COMMAND before and undefines it afterwards, so there is no
 * #pragma once.
 */
COMMAND(flush, flush)
COMMAND(transfer, transfer_write)
COMMAND(transfer, transfer_read)
COMMAND(write_uncorrectable, write_uncorrectable)
COMMAND(compare, compare)
COMMAND(write_zeroes, write_zeroes)
COMMAND(dsm, dsm)
COMMAND(verify, verify)
COMMAND(resv_command, resv_register)
COMMAND(resv_command, resv_report)
COMMAND(resv_command, resv_acquire)
COMMAND(resv_command, resv_release)
COMMAND(copy, copy)
