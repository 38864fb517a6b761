#!/usr/bin/python3
"""Paths of a volume by librblk: tests/library/paths.c against two rblkd that export one file."""

import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from harness import (BUILD, IS_SANITIZED, NQN, PATIENCE, RBLKCTL, ROOT, SANITIZER_REPORT, expect, expect_equal,  # noqa: E402
                     run, run_cases)
from pair import pair  # noqa: E402

PATHS = os.path.join(BUILD, "tests", "library", "paths")


def start(scratch, case, left, right):
    return subprocess.Popen([PATHS, case, f"nvme+rdma://{left.address}/{NQN}", right.address], env=scratch.env,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(program):
    out, err = program.communicate(timeout=2 * PATIENCE)
    expect(program.returncode == 0, f"exit status {program.returncode}: {out}{err[-4000:]}")
    expect(not SANITIZER_REPORT.search(err), "sanitizer report:\n" + err[-6000:])
    return out


def stop(*targets):
    for target in targets:
        target.stop()


def test_changes(scratch):
    left, right = pair(scratch)
    finish(start(scratch, "changes", left, right))
    stop(left, right)


def flushes(target):
    return target.list("namespaces")["namespaces"][0]["flushes"]


def test_flushes(scratch):
    """Before a path goes, it flushes what it has acknowledged."""
    left, right = pair(scratch)
    before = flushes(left)
    finish(start(scratch, "flushes", left, right))
    expect(flushes(left) > before, "no flush by the path that was removed")
    stop(left, right)


def test_mistakes(scratch):
    left, right = pair(scratch)
    finish(start(scratch, "mistakes", left, right))
    stop(left, right)


def test_other(scratch):
    left, right = pair(scratch, "nsid: 1, ram: 64MiB")
    out = finish(start(scratch, "other", left, right))
    expect("is not the one that was attached" in out, out)
    stop(left, right)


def read(program):
    """Reads the event that the program waits for; refusals that it prints have a number in front."""
    while (line := program.stdout.readline()).startswith("-"):
        pass
    return line.strip()


def test_stopped(scratch):
    """It has no time to lose its association: the path is flushed when it runs again."""
    left, right = pair(scratch)
    before = flushes(right)
    program = start(scratch, "stopped", left, right)
    expect_equal(read(program), "stop", "what the program waits for")
    right.process.send_signal(signal.SIGSTOP)
    try:
        program.stdin.write("\n")
        program.stdin.flush()
        expect_equal(read(program), "continue", "what the program waits for")
    finally:
        right.process.send_signal(signal.SIGCONT)
    finish(program)
    expect(flushes(right) > before, "no flush by the path that was removed")
    stop(left, right)


def test_lost(scratch):
    left, right = pair(scratch)
    program = start(scratch, "lost", left, right)
    for word, act in (("kill", right.kill), ("start", right.start), ("kill", right.kill)):
        expect_equal(program.stdout.readline(), word + "\n", "what the program waits for")
        act()
    finish(program)
    stop(left)


def test_finds(scratch):
    """By the referral of the first target, as it comes and goes; and by the second, when the first does not answer."""
    left, right = pair(scratch)
    with open(left.config, encoding="utf-8") as f:
        refers = f.read()
    alone = "".join(line for line in refers.splitlines(True) if not line.startswith("discovery:"))
    program = start(scratch, "finds", left, right)
    for word, config in (("refer no more", alone), ("refer", refers)):
        expect_equal(read(program), word, "what the program waits for")
        with open(left.config, "w", encoding="utf-8") as f:
            f.write(config)
        run(RBLKCTL, "apply", "--socket", left.control, env=scratch.env)
        program.stdin.write("\n")
        program.stdin.flush()
    finish(program)
    left.kill()
    finish(start(scratch, "finds_by_other", left, right))
    stop(right)


PYTHON = """
import errno, rblk, sys
uri, first, other = sys.argv[1:]
with rblk.Volume(uri) as volume:
    addresses = lambda: [path["address"] for path in volume.status()["path_list"]]
    volume.path_add(other)
    assert addresses() == [first, other]
    volume.write(0, bytes(volume.block_size))
    volume.path_remove(first)
    assert addresses() == [other]
    for call, number in ((lambda: volume.path_add(other), errno.EEXIST),
                         (lambda: volume.path_remove(first), errno.ENOENT),
                         (lambda: volume.path_remove(other, dead=True), errno.EISCONN),
                         (lambda: volume.path_remove(other), errno.EBUSY)):
        try:
            call()
            raise SystemExit("no error")
        except rblk.Error as error:
            assert error.errno == number and error.hint, error
"""


def test_python(scratch):
    left, right = pair(scratch)
    run("/usr/bin/python3", "-c", PYTHON, f"nvme+rdma://{left.address}/{NQN}", left.address, right.address,
        env=dict(scratch.env, PYTHONPATH=os.path.join(ROOT, "tools/python"),
                 LIBRBLK=os.path.join(BUILD, "library", "librblk.so.0")))
    stop(left, right)


CASES = [("paths come and go under load", test_changes),
         ("a path is flushed before it goes", test_flushes),
         ("what is refused changes nothing", test_mistakes),
         ("another namespace", test_other),
         ("paths are found by discovery", test_finds),
         ("a target is stopped while its path leaves", test_stopped),
         ("a target is lost, comes back, and is dead", test_lost)]
if not IS_SANITIZED:  # python3 is not instrumented, and cannot load what is
    CASES.append(("paths in the Python module", test_python))
run_cases(CASES)
