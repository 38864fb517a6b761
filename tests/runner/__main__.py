"""tests/run: builds, runs the tests that meson knows, and says what they say. docs/HACKING.md, "Build and test"."""

import argparse
import os
import signal
import sys
import threading
import time

import changed
import machines
import second_look
from builds import NICE, build, has_packages
from jobs import Jobs
from pace import Ticks
from plan import GATE_SUITES, PROFILES, WITH_PACKAGES, Plan
from program import ROOT, Outcome, Program, end_all
from summary import print_summary
from verdict import Counts, total_of

LONG_S = 3600
FUZZ = Program("fuzz", "fuzz", "libfuzzer", (*NICE, os.path.join(ROOT, "tests", "fuzz", "run"), "-jobs", "1"),
               limit_s=LONG_S)
PACKAGING = [Program("dev", "packaging", name, (*NICE, os.path.join(ROOT, "tests", "packaging", name)), limit_s=LONG_S)
             for name in ("packages", "browser")]


def restore_signals():
    """Resets ignored signals, which children inherit: a shell ignores SIGINT and SIGQUIT of its background jobs."""
    for number in (signal.SIGINT, signal.SIGQUIT):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)  # Popen itself restores SIGPIPE


def parse_arguments():
    parser = argparse.ArgumentParser(prog="tests/run", description="Runs the tests: by default the gate, which a change"
                                     " must pass.")
    parser.add_argument("--deep", action="store_true", help="everything: each profile, fuzzers, virtual machines")
    parser.add_argument("--changed", nargs="?", const="HEAD", metavar="COMMIT",
                        help="the suites that the changes since this commit touch (HEAD)")
    parser.add_argument("--profile", choices=PROFILES, help="only this build profile")
    parser.add_argument("--strict", action="store_true", help="no second try of a program that has failed")
    parser.add_argument("--jobs", type=int, metavar="N",
                        help="programs at a time (default: as many as keep the processors busy)")
    parser.add_argument("suites", nargs="*", help="only these suites")
    args = parser.parse_args()
    if args.changed and args.suites:
        parser.error("--changed names the suites itself")
    return args


def step(profile, suite, name, cpu_s=0, fault=None, output=""):
    """The outcome of a step that is no program; fault: why it failed."""
    return Outcome(Program(profile, suite, name, ()), Counts(0, 1 if fault else 0, 0, cpu_s),
                   [f"FAILED: {fault}"] if fault else [], output, 0, fault)


def build_all(plan, jobs):
    """Builds one profile after the other, and adds its programs. Thread of its own."""
    for profile in plan.profiles:
        try:
            directory, cpu_s = build(plan, profile)
            jobs.outcomes.append(step(profile, "build", "build", cpu_s))
            jobs.add(program for program, _ in plan.programs(profile, directory))
        except Exception as error:  # noqa: the main thread would wait for ever
            jobs.outcomes.append(step(profile, "build", "build", 0, "it does not build", str(error)))
            jobs.outcomes[-1].report()
            jobs.stop()
            return
    jobs.complete()


def run_extras(plan, outcomes):
    """Runs what computes for long and waits for nothing, one after the other and below everything else: the fuzzers,
    with a build of their own; what virtual machines boot, and the packages that one installs. Thread of its own."""
    programs = [FUZZ] if "fuzz" in plan.extras else []
    if "vm" in plan.extras:
        programs += PACKAGING
        machines.prepare(NICE)
    for program in programs:
        outcomes.append(program.run())
        outcomes[-1].report()


def run_all(plan, n_at_a_time):
    """Returns the outcomes."""
    for suite in filter(plan.may_run, WITH_PACKAGES):
        if not has_packages(suite):
            print(f"tests/run: the suite {suite} is skipped without its packages", flush=True)
    missing = [extra for extra in plan.extras if not has_packages(extra)]
    plan.extras = [extra for extra in plan.extras if extra not in missing]
    jobs, outcomes = Jobs(n_at_a_time), [step("dev", e, e, 0, "its packages are not there") for e in missing]
    beside = [threading.Thread(target=build_all, args=(plan, jobs), daemon=True),
              threading.Thread(target=run_extras, args=(plan, outcomes), daemon=True)]
    for thread in beside:
        thread.start()
    jobs.run()
    for thread in beside:
        thread.join()
    if "vm" in plan.extras:  # last: they use the whole machine, and mount its files, which must not change meanwhile
        outcomes += machines.run_all()
    return outcomes + jobs.outcomes


def main():
    restore_signals()
    args = parse_arguments()
    suites = changed.suites(args.changed, GATE_SUITES) if args.changed else args.suites
    if args.changed and not suites:
        print("nothing that a test looks at has changed\n0 passed, 0 failed, 0 skipped")
        return 0
    plan = Plan(args.deep, [args.profile] if args.profile else [], suites)
    start, ticks = time.monotonic(), Ticks()
    outcomes, unsteady = second_look.look_again(run_all(plan, args.jobs), args.strict)
    print_summary(outcomes, plan)
    second_look.report(unsteady)
    busy, nice = ticks.shares()
    total = total_of(o.counts for o in outcomes)
    if not sum(total[:3]):
        print("\nnone of the gate's programs is wanted: with --deep there are more")
    print(f"\nin {(time.monotonic() - start) / 60:.1f} minutes, processors {100 * (busy + nice):.0f} % busy"
          + (f", {len(unsteady)} unsteady" if unsteady else ""))
    print(f"{total.passed} passed, {total.failed} failed, {total.skipped} skipped")
    return 1 if total.failed or not total.passed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        end_all()
        sys.exit("tests/run: interrupted")
