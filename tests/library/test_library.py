#!/usr/bin/python3
"""librblk as programs use it: tests/library/user.c and swap.c against rblkd, which is killed and comes back."""

import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from harness import (BUILD, IS_SANITIZED, LASTING, NQN, PATIENCE, RBLK, ROOT, SANITIZER_REPORT, Target, expect,  # noqa: E402
                     SOFTRDMA, expect_equal, run, run_cases, wait_until)

USER = os.path.join(BUILD, "tests", "library", "user")
SWAP = os.path.join(BUILD, "tests", "library", "swap")
FAKE = os.path.join(BUILD, "tests", "hostile_target", "fake_target")
KILLS = 4
CLIENTS, ROUNDS = 2, 200 if IS_SANITIZED else 1000


def uri_of(target, query="ns=1"):
    return f"nvme+rdma://{target.address}/{NQN}?{query}"


def start_user(scratch, case, uri, program=USER, **env):
    return subprocess.Popen([program, case, uri], env=dict(scratch.env, **env), stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def finish(user):
    out, err = user.communicate(timeout=2 * PATIENCE)
    expect(user.returncode == 0, f"exit status {user.returncode}: {err[-4000:]}")
    expect(not SANITIZER_REPORT.search(err), "sanitizer report:\n" + err[-6000:])
    return out, err


def use(scratch, case, query="ns=1", program=USER, **env):
    target = Target(scratch, [f"nsid: 1, ram: 64MiB, {LASTING}"])
    result = finish(start_user(scratch, case, uri_of(target, query), program, **env))
    target.stop()
    return result


def test_operations(scratch):
    use(scratch, "operations")


def test_outside(scratch):
    target = Target(scratch, [f"nsid: 1, file: {scratch.make_file('disk', 16 << 20)}, {LASTING}"])
    user = start_user(scratch, "outside", uri_of(target), URI=uri_of(target))
    for words, act in (("away", target.kill), ("back", target.start)):
        if user.stdout.readline() == words + "\n":
            act()
    finish(user)
    target.stop()


def test_memory_windows(scratch):
    use(scratch, "operations", "ns=1&memory-windows")


def test_completions(scratch):
    _, err = use(scratch, "completions")
    expect(not err, f"the library wrote on standard error: {err}")


def test_sleeps(scratch):
    use(scratch, "completions", "ns=1&spin=never")


def test_never_sleeps(scratch):
    """Then, too, rblk_wait returns when its time is over."""
    use(scratch, "completions", "ns=1&spin=always")


def test_threads(scratch):
    use(scratch, "threads")


def test_registrations(scratch):
    use(scratch, "registrations", N_REGISTRATIONS="50000" if IS_SANITIZED else "1000000")


def test_fork(scratch):
    use(scratch, "forks")


def test_mistakes(scratch):
    out, _ = use(scratch, "refuses")
    expect(len(out.splitlines()) == 11, out)


def test_options(scratch):
    """Each option of a volume that rblk attach has, and the page names it; but buffers, which I/O in place has not."""
    text = run(RBLK, "attach", "--help").stdout
    others = {"output", "all", "from", "persist", "name", "read-only", "frontend", "socket", "socket-mode", "socket-owner",
              "socket-group", "listen", "metrics", "max-connections", "device-connections", "verbose", "help", "version"}
    names = sorted(set(re.findall(r"^  (?:-\w, |    )--([a-z-]+)", text, re.M)) - others)
    expect("fence" in names and len(names) == 22, f"{names}")
    out, _ = finish(start_user(scratch, "options", ",".join(names)))
    with open(os.path.join(ROOT, "docs", "man", "librblk.3.scd"), encoding="utf-8") as f:
        page = f.read()
    for name, line in zip(names, out.splitlines(), strict=True):
        is_known = f"option {name}: '' is not a value of it" in line
        expect_equal((is_known, f"*{name}*" in page), (name != "buffers",) * 2, f"{name}: {line}")


def test_unasked(scratch):
    """Where auto is a device (RBLK_FABRIC_AUTO), softrdma is used if it is asked for."""
    target = Target(scratch, [f"nsid: 1, ram: 64MiB, {LASTING}"])
    if not os.path.isdir("/sys/class/infiniband") or not os.listdir("/sys/class/infiniband"):
        user = start_user(scratch, "operations", uri_of(target), RBLK_FABRIC_AUTO="device", LD_PRELOAD="")
        _, err = user.communicate(timeout=2 * PATIENCE)
        expect(user.returncode and "there is no RDMA device" in err, f"exit status {user.returncode}: {err}")
    finish(start_user(scratch, "operations", uri_of(target, "ns=1&fabric=soft"), RBLK_FABRIC_AUTO="device"))
    target.stop()


def test_killed_target(scratch):
    """I/O goes on; neither a queue that is never polled nor one that sleeps on its descriptor keeps the
    volume from reconnecting."""
    target = Target(scratch, [f"nsid: 1, file: {scratch.make_file('disk', 16 << 20)}, {LASTING}"])
    user = start_user(scratch, "survives", uri_of(target), STOP_FILE=scratch.file("stop"))
    expect(user.stdout.readline() == "ready\n", "the program does not begin")
    for _ in range(KILLS):
        reads = count_reads(target)
        wait_until(lambda before=reads: count_reads(target) > before + 10, "I/O")
        target.kill()
        target.start()
        wait_until(lambda: count_reads(target) > 10, "I/O after the target has come back")
    with open(scratch.file("stop"), "w", encoding="utf-8"):
        pass
    finish(user)
    target.stop()


# ---- compare and write ----

def test_swaps(scratch):
    use(scratch, "operations", program=SWAP)


def test_swaps_windows(scratch):
    use(scratch, "operations", "ns=1&memory-windows", program=SWAP)


def start_counting(scratch, target, rounds, **env):
    """Returns when all are connected: a target that is killed earlier could not be reached."""
    clients = [start_user(scratch, "count", uri_of(target), SWAP, CLIENT=str(i), ROUNDS=str(rounds), **env)
               for i in range(CLIENTS)]
    for client in clients:
        if client.stdout.readline() != "connected\n":
            finish(client)
    return clients


def expect_sum(scratch, target, clients):
    """Nothing that was added is lost or there twice. Returns (added, misses, unknown outcomes)."""
    sums = [sum(n) for n in zip(*(map(int, finish(client)[0].split()) for client in clients))]
    number, _ = finish(start_user(scratch, "print", uri_of(target), SWAP))
    expect_equal(int(number), sums[0], "the number on the volume, and what was added to it")
    return sums


def test_counting(scratch):
    target = Target(scratch, [f"nsid: 1, ram: 64MiB, {LASTING}"])
    added, misses, unknown = expect_sum(scratch, target, start_counting(scratch, target, ROUNDS))
    expect(added == CLIENTS * 2 * ROUNDS and misses > 0 and unknown == 0, (added, misses, unknown))
    target.stop()


def test_counting_killed(scratch):
    """A client that was not told looks whether its own addition is there."""
    target = Target(scratch, [f"nsid: 1, file: {scratch.make_file('disk', 16 << 20)}, {LASTING}"])
    clients = start_counting(scratch, target, 1, STOP_FILE=scratch.file("stop"))
    for _ in range(KILLS):
        wait_until(lambda: count(target, "writes") > 50, "writes")
        target.kill()
        target.start()
    wait_until(lambda: count(target, "writes") > 50, "writes after the target has come back")
    with open(scratch.file("stop"), "w", encoding="utf-8"):
        pass
    expect_sum(scratch, target, clients)
    target.stop()


def test_without(scratch):
    """A target that has no compare and write."""
    fake = subprocess.Popen([FAKE, "compare=0"], env=dict(scratch.env, LD_PRELOAD=SOFTRDMA), stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True)
    port = fake.stdout.readline().split()[1]
    finish(start_user(scratch, "none", f"nvme+rdma://127.0.0.1:{port}/nqn.2026-01.test:fake", SWAP))
    fake.communicate(timeout=PATIENCE)
    expect_equal(fake.returncode, 0, "exit status of the target, which checks its host")


def count(target, key):
    return sum(n.get(key, 0) for n in target.list("namespaces").get("namespaces", []))


def count_reads(target):
    return count(target, "reads")


if __name__ == "__main__":
    run_cases([
        ("each operation works, with each kind of memory", test_operations),
        ("a buffer that is not in its memory is refused at once", test_outside),
        ("memory windows", test_memory_windows),
        ("completion by callback, by polling and by descriptor", test_completions),
        ("the same without polling before sleep", test_sleeps),
        ("the same without sleeping", test_never_sleeps),
        ("several threads, two volumes", test_threads),
        ("memory is registered and released a million times", test_registrations),
        ("a child process cannot use its parent's volumes", test_fork),
        ("mistakes have messages", test_mistakes),
        ("the options of rblk attach", test_options),
        ("softrdma where it has to be asked for", test_unasked),
        ("a target is killed while I/O runs", test_killed_target),
        ("compare and write", test_swaps),
        ("compare and write with memory windows", test_swaps_windows),
        ("two programs add to a number by compare and write", test_counting),
        ("the same while the target is killed", test_counting_killed),
        ("a target without compare and write", test_without),
    ])
