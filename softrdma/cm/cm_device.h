/* SPDX-License-Identifier: BSD-3-Clause */
/* The device behind the ids: contexts that they share, as in librdmacm. */
#pragma once

struct sr_cm_id;

int sr_cm_set_device(struct sr_cm_id *id);
void sr_cm_leave_device(struct sr_cm_id *id);
/* Application thread. Closes the contexts of removed devices that no id uses. */
void sr_cm_close_unused_devices(void);
