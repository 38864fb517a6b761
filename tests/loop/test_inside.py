#!/usr/bin/python3
"""Things that an administrator can inspect and set in running programs, besides counters: the last capsules, limits of
rates."""

import json
import os
import re
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from harness import NQN, RBLKCTL, Target, Volume, expect, expect_equal, run, run_cases  # noqa: E402

USAGE, NOT_FOUND = 2, 4
MIB = 1 << 20


def ctl(target, *arguments, status=0):
    done = run(RBLKCTL, *arguments, check=False,
               env=dict(target.scratch.env, RBLK_CONTROL_SOCKET=target.control))
    expect_equal(done.returncode, status, f"exit status of rblkctl {arguments}: {done.stderr}")
    return done


def nbdsh(volume, line):
    run("/usr/bin/python3", "-m", "nbd", "-u", volume.uri, "-c", line)


def capsules(scratch):
    """A queue's list has what its client did; for people, for scripts, all queues or some."""
    target = Target(scratch, ["nsid: 1, ram: 16MiB"])
    volume = Volume(target, 1, None, "--queues", "1")
    nbdsh(volume, f"h.pwrite(bytes(65536), {MIB}); h.pread(4096, {2 * MIB}); h.flush()")
    queues = json.loads(ctl(target, "capsules", "-o", "json").stdout)["queues"]
    data = [queue for queue in queues if queue["queue"]]
    expect_equal((len(data), data[0]["queue"], data[0]["state"]), (1, 1, "live"), "queues for data")
    mine = [c for c in data[0]["capsules"] if c["command"] in ("Write", "Read")]
    written = next(c for c in mine if c["command"] == "Write")
    expect_equal((written["slba"], written["blocks"], written["nsid"], written["sgl"], written["length"]),
                 (MIB // 512, 128, 1, "keyed", 65536), "the write")
    expect(any(c["command"] == "Read" and c["slba"] == 2 * MIB // 512 for c in mine), f"the read: {mine}")
    expect(all(c["status"] == 0 and c["took_ns"] <= c["age_ns"] for c in mine), f"answers: {mine}")
    name = f"{data[0]['controller']}/1"
    lines = ctl(target, "capsules", name, "--count", "2").stdout.splitlines()
    expect_equal(lines[0].split(), ["QUEUE", "HOST", "AGE", "COMMAND", "CID", "NSID", "LBA", "BLOCKS", "SGL",
                                    "LENGTH", "STATUS", "TOOK"], "titles")
    expect_equal(len(lines), 3, f"lines: {lines}")
    expect(all(line.startswith(name + " ") for line in lines[1:]), f"queue: {lines}")
    expect("Successful Completion" in lines[1], f"answer: {lines}")
    both = ctl(target, "capsules", str(data[0]["controller"])).stdout
    expect(re.search(r"^\d+/0 .* Identify ", both, re.M) and re.search(r"^\d+/1 .* Connect ", both, re.M),
           f"a controller: {both}")
    for wrong, status, text in ((["9999"], NOT_FOUND, "there is no queue or controller '9999'"),
                                ([name, "x"], NOT_FOUND, "there is no queue or controller 'x'"),
                                (["--count", "33"], USAGE, "--count"), (["--count", "0"], USAGE, "--count")):
        done = ctl(target, "capsules", *wrong, status=status)
        expect(text in done.stderr and len(done.stderr.splitlines()) <= 2, f"{wrong}: {done.stderr}")
    volume.detach()
    target.stop()


# ---- limits of rates ---------------------------------------------------------------------------------------


def listed(target, *arguments):
    return json.loads(ctl(target, "qos", "list", "--interval", "100ms", "-o", "json", *arguments).stdout)


def limits(scratch):
    """qos set takes effect at once, list and diff report it, and the next apply resets it;
    malformed limits change nothing."""
    hostnqn = "nqn.2014-08.org.nvmexpress:uuid:4d0f6a3c-3c44-4d4e-9d0c-0a4d5e6f7a8b"
    target = Target(scratch, ["nsid: 1, ram: 16MiB, qos: {iops: 500000}", "nsid: 2, ram: 16MiB"],
                    extra=f"hosts: [{{name: db, nqn: '{hostnqn}'}}]")
    volume = Volume(target, 1, None, "--queues", "1", "--hostnqn", hostnqn)
    first, second = listed(target)["namespaces"]
    expect_equal((first["qos"]["iops"], second["qos"]["iops"]), (500000, None), "limits of the file")
    done = ctl(target, "qos", "set", f"{NQN}/1", "iops=50", "burst=10ms", "write_bandwidth=1GiB")
    expect("iops 50," in done.stdout and "the file is not changed" in done.stdout, done.stdout)
    begin = time.monotonic()
    nbdsh(volume, "for i in range(40): h.pread(4096, i * 4096)")
    expect(time.monotonic() - begin >= 0.5, "50 a second, set for a namespace")  # 40 less 3, at 50 a second
    row = ctl(target, "qos", "list", f"{NQN}/1", "--interval", "100ms").stdout.splitlines()[1].split()
    expect_equal((row[0], row[2], row[4], row[6], row[7]), (f"{NQN}/1", "50", "-", "1GiB", "10ms"), "the row")
    waits = [one["full_queue_wait_ns"] for one in listed(target)["namespaces"]]
    expect_equal((waits, row[8]), ([2560000000, None], "2.6s"), "128 commands at 50 a second wait as long")
    diff = ctl(target, "diff").stdout
    expect(re.search(r"~\s+qos\s+\S+/1\s+iops: 50 -> 500000", diff), f"diff: {diff}")
    for arguments, status, text in (
            ([f"{NQN}/1", "iops=0"], USAGE, "iops must be"), ([f"{NQN}/1", "iops"], USAGE, "is not KEY=VALUE"),
            ([f"{NQN}/1", "iop=5"], USAGE, "did you mean 'iops'"), ([f"{NQN}/1", "burst=none"], USAGE, "burst must be"),
            ([f"{NQN}/1", "iops=77", "read_bandwidth=1"], USAGE, "read_bandwidth must be"),
            ([f"{NQN}/3", "iops=5"], NOT_FOUND, "there is no namespace or host"), ([f"{NQN}/1"], USAGE, "")):
        done = ctl(target, "qos", "set", *arguments, status=status)
        expect(text in done.stderr and not done.stdout, f"{arguments}: {done.stderr}")
    expect_equal(listed(target, f"{NQN}/1")["namespaces"][0]["qos"],
                 {"iops": 50, "read_bandwidth": None, "write_bandwidth": 1 << 30, "burst_ns": 10000000}, "unchanged")
    ctl(target, "apply")
    expect_equal(listed(target)["namespaces"][0]["qos"],
                 {"iops": 500000, "read_bandwidth": None, "write_bandwidth": None, "burst_ns": 100000000}, "the file's")
    # The limits also hold for a host that reconnects.
    ctl(target, "qos", "set", "db", "iops=50")
    volume.detach()
    volume = Volume(target, 2, None, "--queues", "1", "--hostnqn", hostnqn)
    before = listed(target, hostnqn)["hosts"][0]
    begin = time.monotonic()
    nbdsh(volume, "for i in range(40): h.pread(4096, i * 4096)")
    expect(time.monotonic() - begin >= 0.4, "50 a second, set for a host")  # a burst of 5 and one ahead
    after = listed(target, "db")
    expect(after["hosts"][0]["operations"] - before["operations"] >= 40 and not after["namespaces"], f"counted: {after}")
    ctl(target, "qos", "set", "db", "iops=none")
    expect_equal(listed(target, "db")["hosts"][0]["qos"]["iops"], None, "lifted")
    expect("iops" not in ctl(target, "diff").stdout, "nothing is different any more")
    volume.detach()
    target.stop()


CASES = [
    ("the last capsules of each queue", capsules),
    ("limits of rates, set while it runs", limits),
]

if __name__ == "__main__":
    run_cases(CASES)
