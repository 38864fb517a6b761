/* SPDX-License-Identifier: BSD-3-Clause */
/* Where an I/O of a volume is from submit until done; io_place.c has the table of its moves. */
#pragma once

enum io_place {
	IO_TAKEN,    /* in no list: a step that runs now puts it somewhere */
	IO_HELD,     /* to be sent, in order */
	IO_WAITING,  /* to be sent again when retry_timer fires */
	IO_FENCING,  /* io_fencing.c: a change that waits for proof */
	IO_SENT,     /* its command, or its pair of commands, is in flight on one lane */
	IO_FINISHED, /* done follows from finish_call */
	IO_DONE,     /* its owner's again */
};
