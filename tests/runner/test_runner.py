#!/usr/bin/python3
"""The runner: planted failures of each kind, a program that is unsteady, the order and the number of programs."""

import io
import os
import shutil
import sys
import tempfile
import textwrap
import time
from contextlib import redirect_stdout

import jobs
import machines
import mutations
import pace
import second_look
from plan import GATE_SUITES, Plan
from program import Patience, Program
from verdict import judge, never_weather, total_of

SCRATCH = tempfile.mkdtemp(prefix="rblk-runner.")
second_look.UNSTEADY = os.path.join(SCRATCH, "kept outputs")


def new_program(name, script, **more):
    """A program that counts its tries: `tries` is the number of this one."""
    counter = os.path.join(SCRATCH, name)
    script = f"""
import os, sys, time
with open({counter!r}, "a") as f:
    f.write("x")
tries = os.path.getsize({counter!r})
{textwrap.dedent(script)}"""
    return Program("dev", "planted", name, (sys.executable, "-c", script), **more)


def n_tries(planted):
    return os.path.getsize(os.path.join(SCRATCH, planted.name))


def look_at(*programs, is_strict=False):
    """(counts of the run, names of the unsteady, what was printed)"""
    said = io.StringIO()
    with redirect_stdout(said):
        final, unsteady = second_look.look_again([p.run() for p in programs], is_strict)
        second_look.report(unsteady)
    return total_of(o.counts for o in final), [o.program.name for o in unsteady], said.getvalue()


PASSES = "print('1..1\\nok 1 - it')"
FAILS_FIRST = "print('1..1\\n' + ('not ok' if tries == 1 else 'ok'), '1 - it\\n# in a hurry')"


def a_failure_is_red():
    planted = new_program("steady", "print('1..2\\nok 1 - a\\nnot ok 2 - b')")
    counts, unsteady, _ = look_at(planted)
    assert (counts.failed, counts.passed, unsteady, n_tries(planted)) == (1, 1, [], 2), counts


def an_unsteady_program_is_named():
    planted = new_program("unsteady", FAILS_FIRST)
    counts, unsteady, said = look_at(planted, new_program("good", PASSES))
    assert (counts.passed, counts.failed, unsteady) == (2, 0, ["unsteady"]), counts
    assert "unsteady: dev/planted/unsteady failed" in said and "| # in a hurry" in said, said
    kept = os.path.join(second_look.UNSTEADY, "dev.planted.unsteady.1.log")
    with open(kept, encoding="utf-8") as file:
        assert "not ok 1 - it" in file.read()


def more_than_two_are_no_weather():
    planted = [new_program(f"many{i}", FAILS_FIRST) for i in range(3)]
    counts, unsteady, _ = look_at(*planted)
    assert (counts.failed, unsteady, [n_tries(p) for p in planted]) == (3, [], [1, 1, 1]), counts


def strict_is_strict():
    planted = new_program("strict", FAILS_FIRST)
    counts, unsteady, _ = look_at(planted, is_strict=True)
    assert (counts.failed, unsteady, n_tries(planted)) == (1, [], 1), counts


GRAVE = {
    "crash": "import signal; os.kill(os.getpid(), signal.SIGSEGV)",
    "abort": "print('not ok 1 - it', flush=True); os.abort()",
    "crash of another": "print('not ok 1 - it\\n# rblkd ended with -6:')",
    "message of a crash": "print('not ok 1 - it\\n#   rblkd: SIGSEGV in thread poller-0, at address 0x0')",
    "address": "print('not ok 1 - it\\n# ==7==ERROR: AddressSanitizer: heap-use-after-free on address')",
    "thread": "print('not ok 1 - it\\nWARNING: ThreadSanitizer: data race (pid=7)')",
    "leak": "print('ok 1 - it\\n==7==ERROR: LeakSanitizer: detected memory leaks'); sys.exit(23)",
    "descriptors": "print('not ok 1 - it\\n# timed out waiting for: no file descriptor leaks')",
    "wrong byte": "print('not ok 1 - it\\n# wrong data: read back: 4096 bytes of 4096')",
    "wrong byte of an answer": "print(\"not ok 1 - it\\n# read: got (0, b'x'), wanted (0, b'y')\")",
    "wrong byte of fio": "print('not ok 1 - it\\n# verify: bad header rand_seed 3, wanted 4')",
    "wrong byte of cmocka": "print('not ok 1 - it\\n# difference at offset 17 0x01 0x02')",
}


def grave_failures_are_red_at_once():
    for name, script in GRAVE.items():
        planted = new_program(name, f"if tries > 1:\n    {PASSES}\n    sys.exit(0)\n{script}")
        counts, unsteady, said = look_at(planted)
        assert (counts.failed, unsteady, n_tries(planted)) == (1, [], 1), (name, counts, said)
        assert "no second try: dev/planted/" in said, said


def names_of_cases_say_nothing():
    output = "ok 1 - nothing leaks\nok 2 - wrong data: refused\nnot ok 3 - late"
    assert never_weather(1, output) is None
    assert never_weather(1, output + "\nnot ok 4 - a storm leaks nothing\n# the port is taken") is None
    assert never_weather(1, output + "\n# it leaks") == "a leak"


def what_has_no_result_has_failed():
    assert judge(0, "")[0].failed == 1
    assert judge(3, "ok 1 - it")[0].failed == 1
    assert judge(None, "ok 1 - it")[0].failed == 1
    assert judge(77, "no device")[0].skipped == 1


def time_is_up_for_all_of_its_processes():
    planted = new_program("late", """
        import subprocess
        child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        print(child.pid, flush=True)
        child.wait()""", limit_s=1)
    outcome = planted.run()
    pid = outcome.output.split()[0]
    assert outcome.counts.failed == 1 and "ran out of time" in outcome.notes[-1], outcome
    deadline = time.monotonic() + 60
    while os.path.exists(f"/proc/{pid}") and time.monotonic() < deadline:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
            if stat.read().split(") ")[1][0] == "Z":
                break  # process 1 has yet to reap it
    else:
        assert not os.path.exists(f"/proc/{pid}")


def time_is_from_one_result_to_the_next():
    patience = Patience(10, 100)
    assert patience.left_s(104) == 6
    patience.hear("rblkd: ready", 104)
    assert patience.left_s(104) == 6
    patience.hear("ok 1 - it", 104)
    assert patience.left_s(104) == 10
    patience.hear("    not ok 2 - it", 105)
    assert patience.left_s(105) == 10


def a_program_that_does_not_start_has_failed():
    outcome = Program("dev", "planted", "missing", ("/nonexistent/program",)).run()
    assert outcome.counts.failed == 1 and "does not start" in outcome.output, outcome


def the_long_ones_begin_first():
    file = os.path.join(SCRATCH, "order")
    all_jobs = jobs.Jobs(1)
    for name, priority in (("short", 1), ("long", 90), ("usual", 30)):
        all_jobs.add([Program("dev", "planted", name, ("sh", "-c", f"echo {name} >>{file}; echo ok 1"), priority=priority)])
    all_jobs.complete()
    with redirect_stdout(io.StringIO()):
        all_jobs.run()
    with open(file, encoding="ascii") as lines:
        assert lines.read().split() == ["long", "usual", "short"]
    assert total_of(o.counts for o in all_jobs.outcomes).passed == 3


class FakeTicks:
    def __init__(self, busy):
        self.busy = busy

    def shares(self):
        return self.busy, 0


def the_load_decides():
    for busy, wanted in ((0.5, True), (0.99, False)):
        measured = pace.Pace()
        measured.ticks = FakeTicks(busy)
        measured.sampled_at = time.monotonic() - pace.SAMPLE_S
        assert measured.may_begin(0) and measured.may_begin(measured.least - 1)
        assert measured.may_begin(measured.least) == wanted
        assert not measured.may_begin(measured.least), "one a sample"
        measured.sampled_at = time.monotonic() - 60
        assert not measured.may_begin(measured.least), "the load of a minute is not that of now"
        measured.sampled_at = time.monotonic() - pace.SAMPLE_S
        assert not measured.may_begin(measured.most)
    assert pace.Pace(3).may_begin(2) and not pace.Pace(3).may_begin(3)


def each_program_is_in_the_gate_or_in_the_deep_run():
    gate, deep, tsan = Plan(False, [], []), Plan(True, [], []), Plan(True, ["tsan"], [])
    assert (gate.profiles, deep.profiles, tsan.profiles) == (["dev", "asan"], ["dev", "asan", "tsan"], ["tsan"])
    assert (gate.extras, deep.extras, tsan.extras) == ([], ["fuzz", "vm"], [])
    assert gate.wants("dev", "loop", set()) and not gate.wants("asan", "loop", set())
    assert gate.wants("asan", "raw", set()) and not gate.wants("asan", "raw", {"deep-asan"})
    assert gate.wants("dev", "raw", {"deep-asan"}) and not gate.wants("dev", "raw", {"deep"})
    assert gate.wants("dev", "storm", {"gate"}) and not deep.wants("dev", "storm", {"gate"})
    assert not gate.wants("dev", "ceph", {"once"}) and Plan(False, [], ["ceph"]).wants("dev", "ceph", {"once"})
    assert Plan(False, ["tsan"], ["loop"]).wants("tsan", "loop", {"deep"})
    assert not Plan(False, ["dev"], ["loop"]).wants("dev", "loop", {"deep"})
    assert not Plan(False, [], ["loop"]).wants("asan", "loop", set())
    assert not deep.wants("asan", "lint", {"once"}) and not deep.wants("tsan", "unit", {"no-tsan"})
    for suite in GATE_SUITES | {"ceph", "packaging"}:
        for profile in deep.profiles:
            assert deep.wants(profile, suite, {"deep"})


SUITE = """#!/bin/sh
case "$*" in
"--on 6.12/rxe late.sh") printf '1..1\\nok 1 - late on 6.12 rxe # 9.0s, 5s CPU, 12 checks\\n# 1 passed\\n' ;;
"--on 6.1/siw wrong.sh") exit 9 ;;
*) cat <<'EOF'
1..4
ok 1 - selftest # 3.5s, 2s CPU, 7 checks
not ok 2 - late on 6.12 rxe # 600.0s, 50s CPU, 12 checks, 1 failed, exit 1
    ok 1 - it starts
    not ok 2 - it ends in time
ok 3 - good on 6.1 rxe # 30.0s, 20s CPU, 5 checks
    6.1 does not boot at once
ok 4 - other on 6.1 siw # SKIP no program
EOF
esac
"""


def machines_get_a_second_try():
    machines.SUITE = os.path.join(SCRATCH, "suite")
    with open(machines.SUITE, "w", encoding="ascii") as file:
        file.write(SUITE)
    os.chmod(machines.SUITE, 0o755)
    said = io.StringIO()
    with redirect_stdout(said):
        outcomes = machines.run_all()
        final, unsteady = second_look.look_again(outcomes, False)
        second_look.report(unsteady)
    assert [tuple(o.counts) for o in outcomes] == [(7, 0, 0, 2), (11, 1, 0, 50), (5, 0, 0, 20), (0, 0, 1, 0)], outcomes
    assert tuple(total_of(o.counts for o in final)) == (24, 0, 1, 27), final
    assert "unsteady: dev/vm/late on 6.12 rxe" in said.getvalue() and "it ends in time" in said.getvalue()
    with redirect_stdout(io.StringIO()):
        lost = machines.run((machines.SUITE, "--on", "6.1/siw", "wrong.sh"))
    assert lost[0].counts.failed == 1 and lost[0].grave, lost


MUTATION = """what: It adds.
file: a.c
notice: unit/a raw/b
old:
	return a - b;
new:
	return a + b;
"""


def unfit(call, *arguments):
    try:
        call(*arguments)
    except mutations.Unfit as fault:
        return str(fault)
    return None


def a_mutation_fits_exactly_once():
    mutation = mutations.parse("adds", MUTATION)
    assert mutation.notice == ("unit/a", "raw/b")
    assert mutation.applied("{\n\treturn a - b;\n}\n") == "{\n\treturn a + b;\n}\n"
    assert "0 times" in unfit(mutation.applied, "{\n\treturn a - b; \n}\n")
    assert "0 times" in unfit(mutation.applied, "{\n\t\treturn a - b;\n}\n")
    assert "2 times" in unfit(mutation.applied, 2 * "\treturn a - b;\n")


def a_mutation_may_only_remove():
    mutation = mutations.parse("removes", MUTATION[:MUTATION.index("new:\n")] + "new:\n")
    assert mutation.applied("{\n\treturn a - b;\n}\n") == "{\n}\n"


def a_malformed_mutation_is_unfit():
    for text in ("", MUTATION.replace("file: a.c\n", ""), MUTATION.replace("new:\n", ""), MUTATION.replace("+", "-"),
                 MUTATION.replace("\treturn a - b;\n", "")):
        assert unfit(mutations.parse, "bad", text), text


CASES = [a_failure_is_red, an_unsteady_program_is_named, more_than_two_are_no_weather, strict_is_strict,
         grave_failures_are_red_at_once, names_of_cases_say_nothing, what_has_no_result_has_failed,
         time_is_up_for_all_of_its_processes, time_is_from_one_result_to_the_next, a_program_that_does_not_start_has_failed, the_long_ones_begin_first,
         the_load_decides, machines_get_a_second_try, each_program_is_in_the_gate_or_in_the_deep_run,
         a_mutation_fits_exactly_once, a_mutation_may_only_remove, a_malformed_mutation_is_unfit]


def main():
    n_failed = 0
    print(f"1..{len(CASES)}")
    for i, case in enumerate(CASES, 1):
        try:
            case()
            print(f"ok {i} - {case.__name__}", flush=True)
        except Exception as error:  # noqa: a test's own mistakes are failures too
            n_failed += 1
            print(f"not ok {i} - {case.__name__}\n# {error!r}", flush=True)
    shutil.rmtree(SCRATCH)
    return 1 if n_failed else 0


if __name__ == "__main__":
    sys.exit(main())
