/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Datagrams between processes of one host: the sending thread delivers them. The first one to a
 * process that is not known yet waits until that process has been met.
 */
#pragma once

#include <stdbool.h>

struct sr_datagram;
struct sr_qp;

bool sr_shm_send(struct sr_qp *qp, const struct sr_datagram *d);
