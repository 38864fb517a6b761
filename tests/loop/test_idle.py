#!/usr/bin/python3
"""An idle target with an idle attached volume uses no CPU: /proc figures over ten seconds."""

import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from harness import BUILD, VERIFY, Target, Volume, expect, fio, run_cases  # noqa: E402

SECONDS = 10
WINDOWS = 4  # in one of which the process must be idle
# ThreadSanitizer has a thread of its own that wakes up ten times a second.
FOREIGN = 11 if os.path.basename(BUILD) == "tsan" else 0


def switches(pid):
    """How often its threads went to sleep, and CPU ticks of the process. A thread that was only
    preempted, on a busy machine, does not count."""
    total = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/status", encoding="utf-8") as f:
            total += sum(int(line.split()[1]) for line in f if line.startswith("voluntary_ctxt_switches"))
    with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return total, int(fields[11]) + int(fields[12])


def excess(pids, allowed):
    """The processes that exceed the limits in the next ten seconds, a line each."""
    start = time.monotonic()
    before = {name: switches(pid) for name, pid in pids.items()}
    time.sleep(SECONDS)
    after = {name: switches(pid) for name, pid in pids.items()}
    seconds = time.monotonic() - start
    found = []
    for name in pids:
        n, ticks = (b - a for a, b in zip(before[name], after[name]))
        print(f"# {name}: {n} wake-ups, {ticks} ticks in {seconds:.1f} s")
        if n > (allowed / SECONDS + FOREIGN) * seconds:
            found.append(f"{name}: {n} wake-ups in {seconds:.1f} s, {allowed} allowed in {SECONDS} s")
        # ticks are samples: a process that runs when one comes is charged 10 ms, once a wake-up at most
        if ticks > 1 + n:
            found.append(f"{name}: {ticks} CPU ticks in {seconds:.1f} s, {n} wake-ups")
    return found


def wait_idle(pids, allowed):
    """The last timers of a load still run for a while, longer on a busy machine; then the processes are idle."""
    for _ in range(WINDOWS):
        found = excess(pids, allowed)
        if not found:
            break
    expect(not found, "; ".join(found))


def idle(keep_alive, allowed):
    def case(scratch):
        target = Target(scratch, ["nsid: 1, ram: 16MiB"])
        volume = Volume(target, 1, None, "--keep-alive", keep_alive)
        fio(scratch, volume.uri, "--rw=randwrite", "--bs=4k", "--iodepth=8", "--size=1m", *VERIFY)
        wait_idle({"rblkd": target.process.pid, "volume process": volume.pid()}, allowed)
        volume.detach()
        target.stop()
    return case


def always(scratch):
    """Workers that have no I/O queue or no NBD client sleep, also where the others never do: before one comes, and
    after it is gone."""
    target = Target(scratch, ["nsid: 1, ram: 16MiB"], extra="tuning: {spin: always, workers: 2}")
    wait_idle({"rblkd": target.process.pid}, 4)
    volume = Volume(target, 1, None, "--keep-alive", "0", "--spin", "always")
    fio(scratch, volume.uri, "--rw=randwrite", "--bs=4k", "--iodepth=8", "--size=1m", *VERIFY)
    wait_idle({"volume process": volume.pid()}, 4)
    volume.detach()
    wait_idle({"rblkd": target.process.pid}, 4)
    target.stop()


CASES = [
    ("spin: always, and no hosts or clients", always),
    # reading /proc costs the process nothing; the allowance is for the kernel's own housekeeping
    ("no keep alive: no wake-ups at all", idle("0", 4)),
    # every 5 s: timer, SEND, completion on either side
    ("keep alive every 5 s: nothing but that", idle("10s", 40)),
]

if __name__ == "__main__":
    run_cases(CASES)
