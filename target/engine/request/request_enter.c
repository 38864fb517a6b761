/* SPDX-License-Identifier: BSD-3-Clause */
/* See request_enter.h. */
#include "base/bits.h"
#include "target/engine/request/aging.h"
#include "target/engine/request/request.h"
#include "target/engine/request/request_enter.h"
#include "target/engine/request/request_settle.h"
#include "target/export/guard/guard.h"

NOINLINE enum request_state request_enter(struct request *r)
{
	enum nvme_status status = r->abort_status;

	if (status == NVME_OK && aging_must_wait(r))
		return aging_park(r);
	if (status == NVME_OK) {
		switch (guard_enter(&r->pass, &status)) {
		case GUARD_ENTERED:
			return REQUEST_GONE;
		case GUARD_PARKED:
			r->parked_at = r->state;
			return REQUEST_PARKED;
		case GUARD_REFUSED:
			break;
		}
	}
	return request_settle(r, status);
}

NOINLINE enum request_state request_use_buffer(struct request *r)
{
	pass_leave(&r->pass);
	r->is_direct = false;
	return REQUEST_TAKE_BUFFER;
}
