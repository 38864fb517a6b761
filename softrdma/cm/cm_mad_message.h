/* SPDX-License-Identifier: BSD-3-Clause */
/* The messages of cm_message.h as MADs, and back: cm_mads.h. Pure. */
#pragma once

#include <stdint.h>

struct ib_cm_ends;
struct mad;
struct sr_cm_id;
struct sr_cm_msg;

void sr_cm_to_req(const struct sr_cm_id *id, const struct sr_cm_msg *from, struct mad *ret);
void sr_cm_to_rep(const struct sr_cm_msg *from, struct mad *ret);
/* A REQ, checked: 0, or the reason for which it is rejected. */
uint32_t sr_cm_from_req(const struct mad *m, const struct ib_cm_ends *ends, struct sr_cm_msg *ret);
void sr_cm_from_rep(const struct mad *m, struct sr_cm_msg *ret);
/* The same of a service id resolution; ids and status are the caller's. */
void sr_cm_to_sidr_req(const struct sr_cm_id *id, const struct sr_cm_msg *from, struct mad *ret);
uint32_t sr_cm_from_sidr_req(const struct mad *m, const struct ib_cm_ends *ends,
			     struct sr_cm_msg *ret);
void sr_cm_to_sidr_rep(const struct sr_cm_msg *from, struct mad *ret);
void sr_cm_from_sidr_rep(const struct mad *m, struct sr_cm_msg *ret);
void sr_cm_from_rej(const struct mad *m, struct sr_cm_msg *ret);
/* The exponent of a request's time-out, within sensible bounds: 0 is for ever. */
uint8_t sr_cm_bound_ack_timeout(uint8_t exponent);
