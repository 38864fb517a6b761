"""The verdict on a program's output: its counts, and whether a failure can be weather.

A test program prints TAP: one "ok" or "not ok" line a case; "# SKIP reason" skips one. Exit status 77
skips a whole program. A program that prints no plan, dies, or runs out of time has failed.
"""

import collections
import re

Counts = collections.namedtuple("Counts", "passed failed skipped cpu_s", defaults=[0, 0, 0, 0])

RESULT = re.compile(r"^\s*(not )?ok\b\s*(\d*)\s*-?\s*([^#]*)(#\s*(skip|todo)\b:?\s*(.*))?$", re.I)
SKIPPED = 77
# A second try clears a program that a busy machine has failed. It does not clear these: each happens in one run of
# many when the product is wrong. tests/lib/harness.py, cmocka, fio and the sanitizers write them.
NEVER_WEATHER = (
    ("a sanitizer's report", re.compile(r"(ERROR|WARNING): (Address|Leak|Thread)Sanitizer|runtime error:"
                                        r"|AddressSanitizer:DEADLYSIGNAL|SUMMARY: \w+Sanitizer")),
    ("a crash", re.compile(r"\bSIG(SEGV|ABRT|BUS|ILL|FPE)\b|core dumped|Test failed with exception"
                           r"|ended with -(4|6|7|8|11)\b|exit status -(4|6|7|8|11)\b")),
    ("a wrong byte", re.compile(r"wrong data|difference at offset|verify: bad|verify failed|verify type mismatch"
                                r"|got \(0, b['\"].*wanted \(0, b['\"]")),
    ("a leak", re.compile(r"\bleak", re.I)),
)
CRASHES = (4, 6, 7, 8, 11)  # SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGSEGV


def add(a, b):
    return Counts(*(x + y for x, y in zip(a, b)))


def total_of(all_counts):
    total = Counts()
    for counts in all_counts:
        total = add(total, counts)
    return total


def parse_tap(output):
    """Returns the counts, and the lines that explain failures and skips."""
    passed = failed = skipped = 0
    notes = []
    for line in output.splitlines():
        match = RESULT.match(line)
        if not match:
            continue
        if match.group(5) and match.group(5).lower() == "skip":
            skipped += 1
            notes.append(f"skipped: {match.group(3).strip()}: {match.group(6).strip()}")
        elif match.group(1):
            failed += 1
            notes.append(f"FAILED: {match.group(3).strip()}")
        else:
            passed += 1
    return Counts(passed, failed, skipped), notes


def is_result(line):
    """Whether this line says how a case has ended."""
    return parse_tap(line)[0] != Counts(0, 0, 0)


def is_failure(line):
    """Whether this line says that a case has failed."""
    return parse_tap(line)[0].failed > 0


def judge(status, output):
    """Returns the counts and the notes on a program that ended with status; None: it ran out of time."""
    counts, notes = parse_tap(output)
    if status == SKIPPED:
        reason = output.strip().splitlines()[-1] if output.strip() else "no reason given"
        return Counts(0, 0, max(1, counts.skipped)), [f"skipped: {reason}"]
    if status is None:
        return counts._replace(failed=counts.failed + 1), notes + ["FAILED: ran out of time"]
    if status and not counts.failed:
        return counts._replace(failed=1), notes + [f"FAILED: exit status {status}"]
    if not sum(counts):
        return Counts(0, 1, 0), ["FAILED: printed no result"]
    return counts, notes


def telling(output):
    """The lines that are no passed case."""
    return [line for line in output.strip().splitlines() if not line.lstrip().startswith("ok ")]


def causes(output):
    """The lines on failures, without the names of cases, which name what they look for."""
    return [line for line in telling(output) if not line.lstrip().startswith("not ok ")]


def never_weather(status, output):
    """The reason why a second try cannot clear this failure, or None."""
    if status is not None and -status in CRASHES:
        return "a crash"
    text = "\n".join(causes(output))
    return next((reason for reason, pattern in NEVER_WEATHER if pattern.search(text)), None)
