/* SPDX-License-Identifier: BSD-3-Clause */
/* Formats the counts as the page that hosts read (02h, figure 196). Any thread. */
#pragma once

#include <stdint.h>

struct health_record;
struct nvme_smart_log;

/* The page except its warnings. record NULL: nothing has been counted. */
void health_fill_smart(struct health_record *record, struct nvme_smart_log *smart);
/* The warnings of all its namespaces. */
uint8_t health_critical_warning(struct health_record *record);
