/* SPDX-License-Identifier: BSD-3-Clause */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/bits.h"
#include "transport/wire/fabrics.h"
#include "transport/wire/rdma_cm.h"
#include "transport/wire/strings.h"

static const struct {
	enum nvme_status status;
	const char *string;
} status_strings[] = {
	{NVME_OK, "Successful Completion"},
	{NVME_INVALID_OPCODE, "Invalid Command Opcode"},
	{NVME_INVALID_FIELD, "Invalid Field in Command"},
	{NVME_CID_CONFLICT, "Command ID Conflict"},
	{NVME_DATA_TRANSFER_ERROR, "Data Transfer Error"},
	{NVME_INTERNAL_ERROR, "Internal Error"},
	{NVME_ABORTED_BY_REQUEST, "Command Abort Requested"},
	{NVME_ABORTED_SQ_DELETION, "Command Aborted due to SQ Deletion"},
	{NVME_ABORTED_FAILED_FUSED, "Command Aborted due to Failed Fused Command"},
	{NVME_ABORTED_MISSING_FUSED, "Command Aborted due to Missing Fused Command"},
	{NVME_INVALID_NSID, "Invalid Namespace or Format"},
	{NVME_COMMAND_SEQUENCE, "Command Sequence Error"},
	{NVME_INVALID_SGL_SEGMENT, "Invalid SGL Segment Descriptor"},
	{NVME_INVALID_SGL_COUNT, "Invalid Number of SGL Descriptors"},
	{NVME_SGL_LENGTH_INVALID, "Data SGL Length Invalid"},
	{NVME_SGL_TYPE_INVALID, "SGL Descriptor Type Invalid"},
	{NVME_SGL_OFFSET_INVALID, "SGL Offset Invalid"},
	{NVME_HOST_ID_INCONSISTENT, "Host Identifier Inconsistent Format"},
	{NVME_KATO_EXPIRED, "Keep Alive Timer Expired"},
	{NVME_KATO_INVALID, "Keep Alive Timeout Invalid"},
	{NVME_ABORTED_PREEMPT, "Command Aborted due to Preempt and Abort"},
	{NVME_NS_WRITE_PROTECTED, "Namespace is Write Protected"},
	{NVME_INTERRUPTED, "Command Interrupted"},
	{NVME_TRANSIENT_TRANSPORT, "Transient Transport Error"},
	{NVME_LBA_OUT_OF_RANGE, "LBA Out of Range"},
	{NVME_CAPACITY_EXCEEDED, "Capacity Exceeded"},
	{NVME_NS_NOT_READY, "Namespace Not Ready"},
	{NVME_RESERVATION_CONFLICT, "Reservation Conflict"},
	{NVME_QUEUE_ID_INVALID, "Invalid Queue Identifier"},
	{NVME_QUEUE_SIZE_INVALID, "Invalid Queue Size"},
	{NVME_ABORT_LIMIT, "Abort Command Limit Exceeded"},
	{NVME_AER_LIMIT, "Asynchronous Event Request Limit Exceeded"},
	{NVME_LOG_PAGE_INVALID, "Invalid Log Page"},
	{NVME_FEATURE_NOT_SAVEABLE, "Feature Identifier Not Saveable"},
	{NVME_FEATURE_NOT_CHANGEABLE, "Feature Not Changeable"},
	{NVME_FEATURE_NOT_NS_SPECIFIC, "Feature Not Namespace Specific"},
	{NVME_CROSS_RESET_BUSY, "Cross-Controller Reset in Progress"},
	{NVME_CROSS_RESET_LOG_FULL, "Cross-Controller Reset Log Page Full"},
	{NVME_CROSS_RESET_LIMIT, "Cross-Controller Reset Limit Exceeded"},
	{NVME_CONNECT_FORMAT, "Connect Incompatible Format"},
	{NVME_CONNECT_BUSY, "Connect Controller Busy"},
	{NVME_CONNECT_INVALID_PARAM, "Connect Invalid Parameters"},
	{NVME_CONNECT_RESTART_DISCOVERY, "Connect Restart Discovery"},
	{NVME_CONNECT_INVALID_HOST, "Connect Invalid Host"},
	{NVME_DISCOVERY_RESTART, "Discovery Restart"},
	{NVME_AUTH_REQUIRED, "Authentication Required"},
	{NVME_WRITE_FAULT, "Write Fault"},
	{NVME_UNRECOVERED_READ, "Unrecovered Read Error"},
	{NVME_COMPARE_FAILURE, "Compare Failure"},
	{NVME_PATH_INTERNAL, "Internal Path Error"},
	{NVME_ANA_PERSISTENT_LOSS, "Asymmetric Access Persistent Loss"},
	{NVME_ANA_INACCESSIBLE, "Asymmetric Access Inaccessible"},
	{NVME_ANA_TRANSITION, "Asymmetric Access Transition"},
	{NVME_HOST_PATH_ERROR, "Host Pathing Error"},
	{NVME_HOST_ABORTED, "Command Aborted By Host"},
};

const char *nvme_status_string(enum nvme_status status)
{
	enum nvme_status code = nvme_status_code(status);

	for (size_t i = 0; i < ARRAY_LEN(status_strings); i++)
		if (status_strings[i].status == code)
			return status_strings[i].string;
	return "Unknown Status";
}

const char *nvmf_cm_status_string(enum nvmf_cm_status status)
{
	switch (status) {
	case NVMF_CM_OK:
		return "no reason given";
	case NVMF_CM_INVALID_LENGTH:
		return "invalid private data length";
	case NVMF_CM_INVALID_RECFMT:
		return "invalid record format";
	case NVMF_CM_INVALID_QID:
		return "invalid queue identifier";
	case NVMF_CM_INVALID_HSQSIZE:
		return "invalid host submission queue size";
	case NVMF_CM_INVALID_HRQSIZE:
		return "invalid host receive queue size";
	case NVMF_CM_NO_RESOURCES:
		return "no resources";
	case NVMF_CM_INVALID_IRD:
		return "invalid inbound RDMA READ depth";
	case NVMF_CM_INVALID_ORD:
		return "invalid outbound RDMA READ depth";
	case NVMF_CM_INVALID_CNTLID:
		return "invalid controller identifier";
	}
	return "unknown reason";
}

const char *nvme_ana_state_string(unsigned state)
{
	switch ((enum nvme_ana_state)state) {
	case NVME_ANA_STATE_OPTIMIZED:
		return "optimized";
	case NVME_ANA_STATE_NON_OPTIMIZED:
		return "non_optimized";
	case NVME_ANA_STATE_INACCESSIBLE:
		return "inaccessible";
	case NVME_ANA_STATE_PERSISTENT_LOSS:
		return "persistent_loss";
	case NVME_ANA_STATE_CHANGE:
		return "change";
	}
	return "unknown";
}

/* Returns the character at *s and advances *s; -1: it is not UTF-8 (RFC 3629). */
static int32_t take_character(const char **s)
{
	static const int32_t least[] = {0, 0x80, 0x800, 0x10000};
	const unsigned char *p = (const unsigned char *)*s;
	unsigned n = *p < 0x80 ? 0 : *p >> 5 == 6 ? 1 : *p >> 4 == 14 ? 2 : 3;
	int32_t c = n ? *p & (0x3f >> n) : *p;

	if (n == 3 && *p >> 3 != 30)
		return -1;
	for (unsigned i = 1; i <= n; i++) { /* a terminating zero fails this test, too */
		if (p[i] >> 6 != 2)
			return -1;
		c = c << 6 | (p[i] & 0x3f);
	}
	*s += n + 1;
	return c < least[n] || c > 0x10ffff || c >> 11 == 0xd800 >> 11 ? -1 : c;
}

/* NULL; or why s cannot go to log records and terminals. */
static const char *text_check(const char *s)
{
	while (*s) {
		int32_t c = take_character(&s);

		if (c < 0)
			return "is not UTF-8";
		if (c <= ' ' ||
		    (c >= 0x7f &&
		     c < 0xa0)) /* terminals execute control characters from U+0080 on, too */
			return "contains a blank or control character";
	}
	return NULL;
}

const char *nqn_check(const char *s)
{
	if (strlen(s) > NVMF_NQN_MAX)
		return "longer than 223 characters";
	if (strncmp(s, "nqn.", 4) != 0)
		return "does not begin with \"nqn.\"";
	if (strlen(s) < 12)
		return "too short: it looks like nqn.2026-01.org.example:name";
	return text_check(s);
}

/* Copies a field up to its NUL, at most NVMF_NQN_MAX characters. 0 or -EINVAL. */
static int text_of_field(const uint8_t *field, size_t n, char ret[NVMF_NQN_MAX + 1])
{
	const uint8_t *end = memchr(field, 0, n);

	if (!end || end - field > NVMF_NQN_MAX)
		return -EINVAL;
	memset(ret, 0, NVMF_NQN_MAX + 1);
	memcpy(ret, field, (size_t)(end - field));
	return 0;
}

int nqn_from_field(const uint8_t *field, size_t n, char ret_nqn[NVMF_NQN_MAX + 1])
{
	char nqn[NVMF_NQN_MAX + 1];

	if (text_of_field(field, n, nqn) || nqn_check(nqn))
		return -EINVAL;
	memcpy(ret_nqn, nqn, sizeof(nqn));
	return 0;
}

int hostnqn_from_field(const uint8_t *field, size_t n, char ret_nqn[NVMF_NQN_MAX + 1])
{
	char nqn[NVMF_NQN_MAX + 1];

	if (text_of_field(field, n, nqn) || text_check(nqn))
		return -EINVAL;
	memcpy(ret_nqn, nqn, sizeof(nqn));
	return 0;
}

const char *hostnqn_label(const char *hostnqn)
{
	return *hostnqn ? hostnqn : "without a name";
}

void nvme_range_format(char *text, size_t n, uint64_t lba, uint64_t n_blocks)
{
	if (n_blocks)
		snprintf(text, n, " of %" PRIu64 " block%s at LBA %" PRIu64, n_blocks,
			 n_blocks == 1 ? "" : "s", lba);
	else
		text[0] = '\0';
}
