"""Which programs run: the gate's, all of them, or those that a change touches."""

import functools
import json
import os
import subprocess

from program import ROOT, USUAL_LIMIT_S, Program

PROFILES = ("dev", "asan", "tsan")
# The gate: all suites of whole programs and of parts in the developer's build; with AddressSanitizer those whose
# input comes from outside.
GATE = {
    "dev": ("lint", "runner", "unit", "transport", "softrdma", "raw", "storm", "failnth", "initiator", "nbd", "loop",
            "library"),
    "asan": ("unit", "raw", "storm", "failnth", "initiator", "nbd"),
}
GATE_SUITES = {suite for suites in GATE.values() for suite in suites}
# Marks of a test in meson, behind its suite. deep: not in the gate; deep-asan: not in the gate's AddressSanitizer;
# gate: a sample, of which the deep run has the whole. once: in one profile only, for it checks the sources or foreign
# programs and no instrumented code. no-tsan: not under ThreadSanitizer, for it has one thread, or checks what people
# read, in programs whose threads other tests look at.
MARKS = {"deep", "deep-asan", "gate", "once", "no-tsan"}
# Suites of the deep run with builds of their own, not one for each profile.
EXTRAS = ("fuzz", "vm")
# Suites that skip without packages of their own (tools/packages).
WITH_PACKAGES = ("bench", "ceph")


def limit_of(test):
    """Seconds, as meson states them; on a machine that is slow on purpose (tests/busy), so many times more."""
    return (test.get("timeout") or USUAL_LIMIT_S) * int(os.environ.get("RBLK_TEST_LIMITS", "1"))


class Plan:
    """The programs of one run. suites: only these; none: all."""

    def __init__(self, is_deep, profiles, suites):
        self.is_deep = is_deep
        self.suites = set(suites)
        self.is_named_profile = bool(profiles)
        wanted = profiles or (PROFILES if is_deep else tuple(GATE))
        self.profiles = [p for p in PROFILES if p in wanted]
        self.first = self.profiles[0]
        self.is_whole = not (suites or profiles)
        self.extras = [e for e in EXTRAS if e in self.suites or is_deep and self.is_whole]

    def may_run(self, suite):
        return suite in self.suites or self.is_deep and not self.suites

    def is_deep_for(self, profile, suite):
        """A suite that is named, and that the gate has not, runs as in the deep run; so in a build that is named."""
        gate = GATE.get(profile, ()) if self.is_named_profile else GATE_SUITES
        return self.is_deep or suite in self.suites and suite not in gate

    def wants(self, profile, suite, marks):
        if self.suites and suite not in self.suites:
            return False
        if "once" in marks and profile != self.first or "no-tsan" in marks and profile == "tsan":
            return False
        if self.is_deep_for(profile, suite):
            return "gate" not in marks
        return suite in GATE.get(profile, ()) and not marks & {"deep", "deep-" + profile}

    def programs(self, profile, directory):
        """[(program, ids of the targets that it needs)], in meson's order."""
        for test in introspect("tests", directory):
            suite, *marks = [name.split(":")[-1] for name in test["suite"]]
            unknown = set(marks) - MARKS
            if unknown:
                raise ValueError(f"{test['name']} has an unknown mark: {', '.join(sorted(unknown))}")
            if self.wants(profile, suite, set(marks)):
                yield Program(profile, suite, test["name"], tuple(test["cmd"]), test.get("env", {}),
                              test.get("workdir") or ROOT, limit_of(test),
                              test.get("priority") or 0), test["depends"]

    def needs(self, profile, directory):
        """The targets of ninja. The first profile, which is the developer's, is built as a whole."""
        if profile == self.first:
            return ["all"]
        return files_of(directory, {need for _, needs in self.programs(profile, directory) for need in needs})


@functools.cache
def target_files(directory):
    return {target["id"]: [os.path.relpath(name, directory) for name in target["filename"]]
            for target in introspect("targets", directory)}


def files_of(directory, needs):
    """The files of these targets, as ninja names them."""
    return sorted(name for need in set(needs) for name in target_files(directory)[need])


def introspect(what, directory):
    text = subprocess.run(["meson", "introspect", "--" + what, directory], cwd=ROOT, check=True,
                          stdout=subprocess.PIPE, text=True).stdout
    return json.loads(text)
