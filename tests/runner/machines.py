"""The virtual machines: tests/vm/suite, whose scripts are programs of the suite vm."""

import os
import re
import signal
import subprocess
import threading

from program import ROOT, Outcome, Program
from verdict import Counts, never_weather

SUITE = os.path.join(ROOT, "tests", "vm", "suite")
LIMIT_S = 3600
# A result line of tests/vm/suite: status, name, the reason of a skip or its time and checks.
SCRIPT = re.compile(r"^(ok|not ok) \d+ - (.*) # (?:SKIP (.*)|([\d.]+)s, (\d+)s CPU, (\d+) checks(?:, (\d+) failed.*)?)$")


def program_of(name):
    """name as in a result line: "SCRIPT on KERNEL FABRIC", or the harness's own test."""
    script, _, pair = name.partition(" on ")
    if not pair:
        return Program("dev", "vm", name, (os.path.join(os.path.dirname(SUITE), script),), limit_s=LIMIT_S)
    return Program("dev", "vm", name, (SUITE, "--on", pair.replace(" ", "/"), script + ".sh"), limit_s=LIMIT_S)


def run_all():
    """Runs all scripts, with a line each as it ends. Returns their outcomes."""
    return run((SUITE,))


def run_again(program):
    return run(program.command)[0] if program.command[0] == SUITE else program.run()


def run(command):
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)
    is_late = threading.Event()
    timer = threading.Timer(LIMIT_S, lambda: (is_late.set(), end_group(process)))
    timer.start()
    outcomes, n_planned = [], 1
    try:
        for match, lines in blocks_of(process.stdout):
            if match:
                outcomes.append(outcome_of(match, lines))
                outcomes[-1].report()
            else:
                n_planned = next((int(line[3:]) for line in lines if line.startswith("1..")), n_planned)
    finally:
        timer.cancel()
    status = process.wait()
    if len(outcomes) < n_planned:
        outcomes.append(not_run(n_planned - len(outcomes), n_planned, status, is_late.is_set()))
        outcomes[-1].report()
    return outcomes


def blocks_of(lines):
    """Yields (match of a result line, the lines that explain it); first (None, the lines before all results)."""
    match, block = None, []
    for line in lines:
        found = SCRIPT.match(line.rstrip())
        if found:
            yield match, block
            match, block = found, []
        else:
            block.append(line.rstrip().removeprefix("    "))
    yield match, block


def outcome_of(match, lines):
    verdict, name, why_skipped, seconds, cpu_s, n_checks, n_failed = match.groups()
    output = "\n".join(lines)
    notes = [line for line in lines if "does not boot" in line]
    if why_skipped is not None:
        return Outcome(program_of(name), Counts(0, 0, 1), [f"skipped: {why_skipped}"], output, 0, None)
    failed = 0 if verdict == "ok" else max(1, int(n_failed or 0))
    counts = Counts(max(0, int(n_checks) - failed), failed, 0, int(cpu_s))
    grave = never_weather(None, output) if failed else None
    return Outcome(program_of(name), counts, notes, output, float(seconds), grave)


def not_run(n, n_planned, status, is_late):
    why = f"ran out of time after {LIMIT_S} s" if is_late else f"the suite ended with {status}"
    note = f"FAILED: {n} of {n_planned} scripts were not run to their end: {why}"
    return Outcome(Program("dev", "vm", "suite", (SUITE,)), Counts(0, n), [note], "", 0, "scripts that did not run")


def end_group(process):
    """Sends SIGTERM first, so that machines are switched off; SIGKILL after 20 s."""
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)


def prepare(niced):
    """Fetches and makes what the machines boot. They report what is missing."""
    subprocess.run([*niced, SUITE, "--prepare"], check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
