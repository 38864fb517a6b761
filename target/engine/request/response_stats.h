/* SPDX-License-Identifier: BSD-3-Clause */
/* The time that a command took, in the statistics of its queue and namespace, in its capsule's
 * record and, if it was slow, in the log. Poller of the queue. */
#pragma once

struct request;
struct response;

/* Just before its response is posted. */
void response_stats_answered(struct request *r);
/* The data of a sampled Read was sent. */
void response_stats_sent(struct response *response);
