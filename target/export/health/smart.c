/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "target/export/health/smart.h"
#include "target/export/health/health_impl.h"
#include "target/export/health/record.h"
#include "target/export/subsystem.h"

enum {
	ROOM_TEMPERATURE_K = 298,
	UNITS_512B = 1000, /* a SMART data unit */
};

static void put_128(uint8_t field[16], uint64_t value)
{
	le64 low = put_le64(value);

	memcpy(field, &low, sizeof(low));
}

void health_fill_smart(struct health_record *record, struct nvme_smart_log *smart)
{
	struct health_figures f = {0};

	memset(smart, 0, sizeof(*smart));
	if (record)
		health_read(record, &f);
	smart->temperature = put_le16(ROOM_TEMPERATURE_K);
	smart->avail_spare = 100;
	put_128(smart->data_units_read, (f.read_units + UNITS_512B - 1) / UNITS_512B);
	put_128(smart->data_units_written, (f.written_units + UNITS_512B - 1) / UNITS_512B);
	put_128(smart->host_reads, f.n_reads);
	put_128(smart->host_writes, f.n_writes);
	put_128(smart->power_cycles, f.power_cycles);
	put_128(smart->power_on_hours, f.power_on_s / 3600);
	put_128(smart->unsafe_shutdowns, f.unsafe_shutdowns);
	put_128(smart->media_errors, f.n_media_errors);
	put_128(smart->n_error_entries, f.n_errors);
}

uint8_t health_critical_warning(struct health_record *record)
{
	uint8_t warning = 0;

	pthread_mutex_lock(&record->health->lock);
	list_for_each (node, &record->namespaces) {
		const struct namespace *ns = list_entry(node, struct namespace, health_node);

		if (atomic_load(&ns->backend->has_failed))
			warning = NVME_CRITICAL_READ_ONLY;
	}
	pthread_mutex_unlock(&record->health->lock);
	return warning;
}
