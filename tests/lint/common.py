"""Shared by all lints: the list of sources, and a TAP line for each check."""

import os
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NOT_SOURCES = {"build", ".git", "debian"}


def walk():
    for folder, folders, names in os.walk(ROOT):
        folders[:] = sorted(f for f in folders if f not in NOT_SOURCES)
        for name in sorted(names):
            yield os.path.relpath(os.path.join(folder, name), ROOT)


def tracked():
    if not shutil.which("git"):
        return None
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True)
    return done.stdout.split("\0") if done.returncode == 0 and done.stdout else None


def files(*endings):
    """Tracked files, relative to the root; all files where there is no git (a release)."""
    return [n for n in tracked() or walk()
            if n.endswith(endings) and os.path.isfile(os.path.join(ROOT, n))]


def read(name):
    with open(os.path.join(ROOT, name), encoding="utf-8", errors="replace") as file:
        return file.read()


class Tap:
    def __init__(self):
        self.count = self.failed = 0

    def check(self, name, faults):
        """One result line; each fault is a line below it."""
        self.count += 1
        self.failed += bool(faults)
        print(f"{'not ok' if faults else 'ok'} {self.count} - {name}")
        for fault in faults:
            print(f"# {fault}")

    def skip(self, name, reason):
        self.count += 1
        print(f"ok {self.count} - {name} # SKIP {reason}")

    def finish(self):
        print(f"1..{self.count}")
        sys.exit(1 if self.failed else 0)
