"""The table at the end of a run."""

from verdict import Counts, add

# CPU seconds that the deep run may take of each suite. Their sum is 45 minutes of two processors, less a tenth for
# what ends unseen and for idling. A suite that needs more takes it from another.
CPU_BUDGET_S = {
    "vm": 1715, "loop": 680, "softrdma": 510, "fuzz": 290, "raw": 320, "initiator": 180, "packaging": 360, "build": 170,
    "nbd": 110, "unit": 120, "storm": 100, "library": 95, "failnth": 70, "ceph": 40, "recipes": 40,
    "bench": 35, "lint": 15, "runner": 5, "transport": 5,
}
BUDGET_MINUTES, BUDGET_PROCESSORS = 45, 2
assert sum(CPU_BUDGET_S.values()) <= 0.9 * 60 * BUDGET_MINUTES * BUDGET_PROCESSORS, "the budgets exceed the whole"


def print_summary(outcomes, plan):
    totals = {}
    for outcome in outcomes:
        suite = outcome.program.suite
        totals[suite] = add(totals.get(suite, Counts()), outcome.counts)
    print(f"\n{'SUITE':12} {'PASSED':>7} {'FAILED':>7} {'SKIPPED':>8} {'CPU':>8}")
    for suite, counts in sorted(totals.items()):
        print(f"{suite:12} {counts.passed:7} {counts.failed:7} {counts.skipped:8} {counts.cpu_s:6.0f} s")
    if plan.is_deep and plan.is_whole:
        for suite, counts in sorted(totals.items()):
            if counts.cpu_s > CPU_BUDGET_S.get(suite, 0):
                print(f"over budget: {suite}: {counts.cpu_s:.0f} s CPU of {CPU_BUDGET_S.get(suite, 0)} s")
    for outcome in outcomes:
        if outcome.counts.failed:
            print(f"FAILED: {outcome.program.title}")
