#!/usr/bin/python3
"""Builds each profile and runs the tests that meson knows, reading their TAP output.

A test program prints one "ok" or "not ok" line a case; "# SKIP reason" skips one. Exit status 77
skips a whole program. A program that prints no plan, dies, or runs out of time has failed.
"""

import argparse
import collections
import concurrent.futures
import functools
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROFILES = ("dev", "asan", "tsan")
# Marks of a test in meson, behind its suite: it runs in one profile only, for it checks the sources or
# foreign programs and no instrumented code; not under ThreadSanitizer, for it has one thread, or
# checks what people read, in programs whose threads other tests look at.
ONCE, NO_TSAN = "once", "no-tsan"
RESULT = re.compile(r"^\s*(not )?ok\b\s*(\d*)\s*-?\s*([^#]*)(#\s*(skip|todo)\b:?\s*(.*))?$", re.I)
# A result line of tests/vm/suite: status, name, the reason of a skip or its time and checks.
VM_SCRIPT = re.compile(r"^(ok|not ok) \d+ - (.*) # (?:SKIP (.*)|([\d.]+)s, (\d+)s CPU, (\d+) checks"
                       r"(?:, (\d+) failed.*)?)$")
LONG_S = 3600
# Suites with builds of their own, not one for each profile; with --quick only when named.
EXTRAS = ("fuzz", "vm")
NICE = ["nice", "-n", "10"]
# What a whole run may take of each suite: seconds of CPU time as the summary prints them. Their sum is 45 minutes of
# two processors, less a tenth for what ends unseen and for idling. A suite that needs more takes it from another.
CPU_BUDGET_S = {
    "vm": 1600, "loop": 680, "softrdma": 510, "fuzz": 290, "raw": 370, "initiator": 250, "packaging": 220, "build": 170,
    "nbd": 150, "unit": 120, "storm": 100, "library": 95, "model": 75, "failnth": 70, "ceph": 40, "recipes": 40,
    "bench": 35, "lint": 15, "transport": 5,
}
BUDGET_MINUTES, BUDGET_PROCESSORS = 45, 2
assert sum(CPU_BUDGET_S.values()) <= 0.9 * 60 * BUDGET_MINUTES * BUDGET_PROCESSORS, "the budgets exceed the whole"

Counts = collections.namedtuple("Counts", "passed failed skipped cpu_s", defaults=[0])


def build(profile, wanted_suites, is_first):
    """Builds what the tests to run need; the first profile, which is the developer's, is built as a whole.
    Returns its folder and the CPU time."""
    directory = os.path.join(ROOT, "build", profile)
    native = os.path.join(ROOT, "native", profile + ".ini")
    start, cpu_s = time.monotonic(), 0
    if not os.path.exists(os.path.join(directory, "build.ninja")):
        cpu_s += run_or_die(["meson", "setup", directory, "--native-file", native, "-Dtests=enabled"])
    cpu_s += run_or_die(["ninja", "-C", directory, *([] if is_first else needs_of(profile, directory, wanted_suites))])
    print(f"built {profile:5} {time.monotonic() - start:6.1f} s {cpu_s:6.1f} s CPU", flush=True)
    return directory, cpu_s


def run_or_die(command):
    """Returns its CPU time."""
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    output, cpu_s = end_of(process)
    if process.returncode:
        print(output[-8000:])
        sys.exit(f"{' '.join(command)} failed\n0 passed, 1 failed, 0 skipped")
    return cpu_s


def end_of(process):
    """Returns its output, and the CPU time of it and of the children that were waited for."""
    with process.stdout:
        output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return output, usage.ru_utime + usage.ru_stime


def introspect(what, directory):
    text = subprocess.run(["meson", "introspect", "--" + what, directory], cwd=ROOT, check=True,
                          stdout=subprocess.PIPE, text=True).stdout
    return json.loads(text)


def needs_of(profile, directory, wanted_suites):
    """The files that the tests to run depend on. A profile is not the first."""
    files = {target["id"]: [os.path.relpath(name, directory) for name in target["filename"]]
             for target in introspect("targets", directory)}
    wanted = {need for _, test in jobs_of(profile, directory, wanted_suites, False) for need in test["depends"]}
    return sorted(name for need in wanted for name in files[need])


def suite_of(test):
    return test["suite"][0].split(":")[-1] if test["suite"] else "other"


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


def end_all_with(mark):
    """Kills the processes with this in their environment, in any session."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as f:
                if mark.encode() in f.read():
                    os.kill(int(pid), signal.SIGKILL)
        except OSError:
            continue  # it has ended


def run_program(test):
    """Runs one test program in its own process group, and ends all of its processes before the next
    one. Returns (status or None, output, CPU time of it and of the children that were waited for)."""
    mark = f"RBLK_TEST_PROGRAM={os.getpid()}.{time.monotonic_ns()}"
    env = {**os.environ, **test.get("env", {}), **dict([mark.split("=")])}
    # by default every process under ThreadSanitizer waits a second before it ends
    env["TSAN_OPTIONS"] = env.get("TSAN_OPTIONS", "") + ":atexit_sleep_ms=20"
    env["ASAN_OPTIONS"] = env.get("ASAN_OPTIONS", "") + ":handle_sigill=1"  # undefined behaviour: native/asan.ini
    process = subprocess.Popen(test["cmd"], cwd=test.get("workdir") or ROOT, env=env,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, errors="replace",
                               start_new_session=True)
    is_late = threading.Event()
    timer = threading.Timer(test.get("timeout") or 900, lambda: (is_late.set(), end_all_with(mark)))
    timer.start()
    try:
        output, cpu_s = end_of(process)
        return None if is_late.is_set() else process.returncode, output, cpu_s
    finally:
        timer.cancel()
        end_all_with(mark)


def judge(status, output):
    counts, notes = parse_tap(output)
    if status == 77:
        reason = output.strip().splitlines()[-1] if output.strip() else "no reason given"
        return Counts(0, 0, max(1, counts.skipped)), [f"skipped: {reason}"]
    if status is None:
        return counts._replace(failed=counts.failed + 1), notes + ["FAILED: ran out of time"]
    if status and not counts.failed:
        return counts._replace(failed=1), notes + [f"FAILED: exit status {status}"]
    if not sum(counts):
        return Counts(0, 1, 0), ["FAILED: printed no result"]
    return counts, notes


def run_test(profile, test):
    name = f"{profile}/{suite_of(test)}/{test['name']}"
    start = time.monotonic()
    status, output, cpu_s = run_program(test)
    counts, notes = judge(status, output)
    lines = [f"{name:48} {counts.passed:4} passed {counts.failed:3} failed {counts.skipped:3} "
             f"skipped {time.monotonic() - start:7.1f} s {cpu_s:6.1f} s CPU"]
    lines += [f"    {note}" for note in notes]
    if counts.failed:
        telling = [line for line in output.strip().splitlines() if not line.startswith("ok ")]
        if len(telling) > 160:  # a sanitizer reports at the head, a test at the end
            telling = telling[:80] + ["..."] + telling[-80:]
        lines += [f"    | {line}" for line in telling]
    print("\n".join(lines), flush=True)  # one call: other threads print, too
    return counts._replace(cpu_s=cpu_s)


def jobs_of(profile, directory, wanted_suites, is_first):
    """(profile, test) of all tests to run, in meson's order."""
    for test in introspect("tests", directory):
        if wanted_suites and suite_of(test) not in wanted_suites:
            continue
        marks = {mark.split(":")[-1] for mark in test["suite"][1:]}
        if (ONCE in marks and not is_first) or (NO_TSAN in marks and profile == "tsan"):
            continue
        yield profile, test


class Jobs:
    """Runs (profile, test) of all tests to run. There are more workers than cores, because most programs
    wait more than they compute."""

    def __init__(self):
        self.waiting = collections.deque()
        self.totals = {}
        self.lock = threading.Lock()

    def work(self):
        while self.waiting:
            try:
                job = self.waiting.popleft()
            except IndexError:
                return  # another was faster
            self.run(*job)

    def run(self, profile, test):
        self.add(suite_of(test), run_test(profile, test))

    def add(self, suite, counts):
        with self.lock:
            count(self.totals, suite, counts)


def run_programs(profiles, wanted_suites, extras, n_at_a_time):
    """Returns the counts of each suite."""
    jobs = Jobs()
    beside = threading.Thread(target=run_beside, args=(jobs, extras), daemon=True)
    beside.start()
    for profile in profiles:
        is_first = profile == profiles[0]
        directory, cpu_s = build(profile, wanted_suites, is_first)
        jobs.add("build", Counts(0, 0, 0, cpu_s))
        jobs.waiting.extend(jobs_of(profile, directory, wanted_suites, is_first))
    with concurrent.futures.ThreadPoolExecutor(n_at_a_time) as pool:
        for worker in [pool.submit(jobs.work) for _ in range(n_at_a_time)]:
            worker.result()
    beside.join()
    if "vm" in extras:  # last: they use the whole machine, and mount its files, which must not change meanwhile
        jobs.add("vm", run_vm_scripts())
    return jobs.totals


def run_beside(jobs, extras):
    """What computes for long and waits for nothing, one after the other and below everything else: the
    fuzzers, with a build of their own; what virtual machines boot, and the packages that one installs."""
    if "fuzz" in extras:
        jobs.run("fuzz", {"name": "libfuzzer", "suite": ["fuzz"], "timeout": LONG_S,
                          "cmd": NICE + [path("fuzz", "run"), "-jobs", "1"]})
    if "vm" in extras:
        subprocess.run(NICE + [path("vm", "suite"), "--prepare"], check=False, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)  # the machines report what is missing
        jobs.run("dev", {"name": "packages", "suite": ["packaging"], "timeout": LONG_S,
                         "cmd": NICE + [path("packaging", "packages")]})
        jobs.run("dev", {"name": "browser", "suite": ["packaging"], "timeout": LONG_S,
                         "cmd": NICE + [path("packaging", "browser")]})


def path(*parts):
    return os.path.join(ROOT, "tests", *parts)


def count(totals, suite, counts):
    totals[suite] = add(totals.get(suite, Counts(0, 0, 0)), counts)


def has_packages(suite, totals):
    install = subprocess.run([os.path.join(ROOT, "tools", "packages"), suite], text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    print(install.stdout, end="")
    if install.returncode:
        print(f"{suite}: FAILED: its packages are not there", flush=True)
        count(totals, suite, Counts(0, 1, 0))
    return install.returncode == 0


def run_vm_scripts():
    """Runs all scripts, with a line each as it ends; the counts are those of their checks."""
    process = subprocess.Popen([path("vm", "suite")], cwd=ROOT, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               errors="replace", start_new_session=True)
    start = time.monotonic()
    timer = threading.Timer(LONG_S, end_group, [process])
    timer.start()
    counts, n_planned, n_seen, is_telling = Counts(0, 0, 0), 1, 0, False
    for line in process.stdout:
        match = VM_SCRIPT.match(line)
        if match:
            counts = add(counts, report_vm_script(*match.groups()))
            n_seen += 1
            is_telling = match.group(1) == "not ok"
        elif line.startswith("1.."):
            n_planned = int(line[3:])
        elif is_telling or "does not boot" in line:
            print(f"    | {line.rstrip()}", flush=True)
    status = process.wait()
    timer.cancel()
    if n_seen == n_planned:
        return counts
    why = (f"ran out of time after {LONG_S} s" if time.monotonic() - start >= LONG_S
           else f"the suite ended with {status}")
    print(f"    FAILED: {n_planned - n_seen} of {n_planned} scripts were not run to their end: {why}")
    return add(counts, Counts(0, n_planned - n_seen, 0))


def report_vm_script(verdict, name, why_skipped, seconds, cpu_s, n_checks, n_failed):
    if why_skipped is not None:
        counts = Counts(0, 0, 1)
    else:
        failed = 0 if verdict == "ok" else max(1, int(n_failed or 0))
        counts = Counts(max(0, int(n_checks) - failed), failed, 0, int(cpu_s))
    print(f"{'vm/' + name:48} {counts.passed:4} passed {counts.failed:3} failed {counts.skipped:3} "
          f"skipped {float(seconds or 0):7.1f} s {counts.cpu_s:6.1f} s CPU", flush=True)
    if why_skipped is not None:
        print(f"    skipped: {why_skipped}")
    return counts


def end_group(process):
    """Sends SIGTERM first, so that machines are switched off; SIGKILL after 20 s."""
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)


def add(a, b):
    return Counts(*(x + y for x, y in zip(a, b)))


def restore_signals():
    """Resets ignored signals, which children inherit: a shell ignores SIGINT and SIGQUIT of its
    background jobs."""
    for number in (signal.SIGINT, signal.SIGQUIT):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)  # Popen itself restores SIGPIPE


def over_budget(totals):
    """A line for each suite of a whole run that took more than its budget, or has none."""
    for suite, counts in sorted(totals.items()):
        if counts.cpu_s > CPU_BUDGET_S.get(suite, 0):
            yield f"over budget: {suite}: {counts.cpu_s:.0f} s CPU of {CPU_BUDGET_S.get(suite, 0)} s"


def processor_ticks():
    """(busy, all) of this machine since it booted; what a hypervisor took away counts as busy."""
    with open("/proc/stat", encoding="ascii") as file:
        ticks = [int(word) for word in file.readline().split()[1:9]]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


def main():
    restore_signals()
    parser = argparse.ArgumentParser(prog="tests/run", description="Runs the tests.")
    parser.add_argument("--quick", action="store_true", help="one build profile")
    parser.add_argument("--profile", choices=PROFILES, help="only this build profile")
    parser.add_argument("--jobs", type=int, metavar="N", default=(os.cpu_count() or 1) + 1,
                        help="programs at a time (default: one more than there are cores)")
    parser.add_argument("suites", nargs="*", help="only these suites")
    args = parser.parse_args()
    profiles = [args.profile] if args.profile else PROFILES[:1] if args.quick else PROFILES
    is_all = not (args.suites or args.quick or args.profile)
    totals = {}
    extras = [extra for extra in EXTRAS
              if (is_all or extra in args.suites) and has_packages(extra, totals)]
    start, ticks = time.monotonic(), processor_ticks()

    for suite, counts in run_programs(profiles, args.suites, extras, args.jobs).items():
        count(totals, suite, counts)

    print(f"\n{'SUITE':12} {'PASSED':>7} {'FAILED':>7} {'SKIPPED':>8} {'CPU':>8}")
    for suite, counts in sorted(totals.items()):
        print(f"{suite:12} {counts.passed:7} {counts.failed:7} {counts.skipped:8} {counts.cpu_s:6.0f} s")
    if is_all:
        print("\n".join(over_budget(totals)))
    total = functools.reduce(add, totals.values(), Counts(0, 0, 0))
    busy, every = (now - then for now, then in zip(processor_ticks(), ticks))
    print(f"\nin {(time.monotonic() - start) / 60:.1f} minutes, processors {100 * busy // max(1, every)} % busy")
    print(f"{total.passed} passed, {total.failed} failed, {total.skipped} skipped")
    sys.exit(1 if total.failed or not total.passed else 0)


if __name__ == "__main__":
    main()
