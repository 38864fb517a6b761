#!/usr/bin/python3
"""volume_exercise, verified random I/O without NBD, against the fake target and rblkd."""

import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "lib"))
from harness import (BUILD, NQN, PATIENCE, SANITIZER_REPORT, SOFTRDMA, Target, expect, expect_equal, run_cases,  # noqa: E402
                     wait_until)

EXERCISE = os.path.join(BUILD, "tests", "loop", "initiator", "volume_exercise")
FAKE = os.path.join(BUILD, "tests", "hostile_target", "fake_target")
FAKE_NQN = "nqn.2026-01.test:fake"


def environment(scratch):
    return dict(scratch.env, LD_PRELOAD=SOFTRDMA)


class Fake:
    """A running fake target. It ends when its stdin closes; its exit status is the verdict."""

    def __init__(self, scratch, *arguments):
        self.process = subprocess.Popen([FAKE, *arguments], env=environment(scratch), text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.address = "127.0.0.1:" + self.process.stdout.readline().split()[1]

    def stop(self):
        self.process.stdin.close()
        expect_equal(self.process.wait(PATIENCE), 0, "exit status of the fake target (3: violations)")


def start(scratch, address, nqn, *options):
    return subprocess.Popen([EXERCISE, *map(str, options), "--hostnqn", "nqn.2026-01.test:host",
                             address, nqn], env=environment(scratch), text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def finish(process, min_reconnects=0, keys=None):
    output, _ = process.communicate(timeout=600)
    expect(not SANITIZER_REPORT.search(output), output[-6000:])
    expect_equal(process.returncode, 0, output[-2000:] + "exit status")
    line = output.strip().splitlines()[-1]
    print(f"# {line}")
    reconnects = int(re.search(r"reconnects (\d+)", line).group(1))
    expect(reconnects >= min_reconnects, f"only {reconnects} reconnects")
    found = {kind: int(re.search(kind + r" (\d+)", line).group(1)) > 0 for kind in ("invalidated", "revoked")}
    expect_equal({kind for kind in found if found[kind]}, set(keys or ()), "keys taken back")


def fake(arguments, options, min_reconnects=0, keys=None):
    def case(scratch):
        target = Fake(scratch, *arguments)
        finish(start(scratch, target.address, FAKE_NQN, "--fresh", *options), min_reconnects, keys)
        target.stop()
    return case


def real(namespace, options, keys=None):
    def case(scratch):
        target = Target(scratch, [namespace.format(scratch.make_file("disk.img", 64 << 20))])
        finish(start(scratch, target.address, NQN, "--fresh", *options), keys=keys)
        target.stop()
    return case


def has_written(target):
    return target.list("namespaces")["namespaces"][0]["writes"] >= 100


def dying(end):
    def case(scratch):
        target = Target(scratch, [f"nsid: 1, file: {scratch.make_file('disk.img', 64 << 20)}"])
        process = start(scratch, target.address, NQN, "--fresh", "-q", 3, "-d", 16, "-t", "2s", "--reconnects", 3)
        for _ in range(3):
            wait_until(lambda: has_written(target), "it has found the target")
            end(target)
            target.start()
        finish(process, 3)
        target.stop()
    return case


BAD_DAY = ["read:300=disconnect", "write:900=wrong-cid", "read:2000=duplicate", "flush:100=short",
           "trim:170=disconnect", "zero:260=old-cid", "read:4000=late,200", "write:3000=status,22"]

WINDOWS = ["--memory-windows"]

CASES = [
    ("fake target, 512 bytes a block", fake([], ["-t", "2s"])),
    ("fake target, 4096, nothing in capsules, 4 queues of 64",
     fake(["block_size=4096", "blocks=32768", "icd=0"], ["-t", "2s", "-q", 4, "-d", 64])),
    ("fake target, one at a time", fake([], ["-t", "1s", "-q", 1, "-d", 1, "--max-io", 4096])),
    ("fake target, more in flight than its queue holds",
     fake(["mqes=15", "maxcmd=16", "crqsize=8"], ["-t", "2s", "-d", 128])),
    ("fake target on a bad day", fake(BAD_DAY, ["-t", "6s", "--reconnects", 4], 4)),
    ("rblkd, ram", real("nsid: 1, ram: 64MiB", ["-t", "3s"])),
    ("rblkd, file of 4096 byte blocks, 4 queues of 32",
     real("nsid: 1, file: {}, block_size: 4096", ["-t", "3s", "-q", 4, "-d", 32])),
    ("rblkd, file, one at a time, small",
     real("nsid: 1, file: {}", ["-t", "2s", "-q", 1, "-d", 1, "--max-io", 8192])),
    ("rblkd, ram, full depth", real("nsid: 1, ram: 64MiB",
                                    ["-t", "3s", "-q", 2, "-d", 200, "--max-io", 65536])),
    ("windows: rblkd takes every key back", real("nsid: 1, file: {}", ["-t", "2s", "-q", 2, "-d", 64, *WINDOWS],
                                                 {"invalidated"})),
    ("windows: a target that leaves keys to us", fake([], ["-t", "2s", "-d", 128, *WINDOWS], keys={"revoked"})),
    ("windows: a target on a bad day",
     fake(BAD_DAY + ["read:900=invalidate", "write:700=invalidate", "read:3000=invalidate-other"],
          ["-t", "6s", "--reconnects", 5, *WINDOWS], 5, {"invalidated", "revoked"})),
    ("kill -9 of rblkd, three times", dying(Target.kill)),
    ("SIGTERM of rblkd, three times", dying(Target.stop)),
]

if __name__ == "__main__":
    run_cases(CASES)
