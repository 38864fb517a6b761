#!/usr/bin/python3
"""A volume with several paths: one is cut, killed or stopped while fio verifies, and no error reaches it."""

import os
import re
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from harness import (LASTING, NQN, RBLKCTL, VERIFY, Target, Volume, expect, expect_equal, fio,  # noqa: E402
                     free_port, rblk, run, run_cases, stand_still, start_fio, wait_until)
from pair import pair  # noqa: E402

# until the case ends it: 32 MiB are written over and over, and each pass is read back
LOAD = ("--rw=randwrite", "--bs=4k", "--iodepth=16", "--size=16m", "--rate_iops=2000", "--time_based=0",
        "--loops=10000", *VERIFY)
FLUSHES = ("--fsync=1",)  # one after each write
READ_IOPS = 7  # its place in fio's terse line
KILLS = int(os.environ.get("RBLK_KILLS", "4"))  # of the two rblkd of a pair, in turn
FAILED, USAGE, BUSY, UNREACHABLE = 1, 2, 5, 7


def paths(volume):
    return volume.status()["path_list"]


def in_flight(volume, target):
    return next(path["in_flight"] for path in paths(volume) if path["address"] == target.address)


def n_live(volume):
    return volume.status().get("paths_live")


def wait_paths(volume, n):
    wait_until(lambda: n_live(volume) == n, f"{n} paths are live")


def load(scratch, volume, *more):
    process = start_fio(scratch, volume.uri, *LOAD, *more)
    before = volume.status()["path_list"]
    wait_until(lambda: all(now["commands"] > was["commands"] + 100
                           for now, was in zip(paths(volume), before)), "both paths are in use")
    return process


def still_runs(process):
    expect(process.poll() is None, "fio has ended")


def finish(process, volume):
    """fio has seen nothing; what it wrote is there, by any path."""
    still_runs(process)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=600)
    expect("error" not in output.lower() and "verify:" not in output.lower(), f"fio says\n{output[-2000:]}")
    status = volume.status()
    expect_equal(status["io_errors"], 0, "I/O errors")
    fio(volume.scratch, volume.uri, "--rw=randwrite", "--bs=8k", "--iodepth=16", "--size=4m", *VERIFY)
    volume.detach()


def two_portals(scratch):
    """One rblkd, two portals: one is drained, or is inaccessible by ANA, and comes back."""
    second = free_port()
    portals = f"127.0.0.1, port: {second}}}\n  - {{name: q, address: 127.0.0.1"
    target = Target(scratch, [f"nsid: 1, ram: 64MiB, {LASTING}"], listen=portals,
                    subsystem_extra="allow_any_host: true\n    ana_groups: [{id: 1}]")
    volume = Volume(target, 1, None, "--find-paths")
    wait_paths(volume, 2)
    process = load(scratch, volume, *FLUSHES)

    def ctl(*arguments):
        run(RBLKCTL, *arguments, "--socket", target.control, env=scratch.env)

    def have_states(*states):
        wait_until(lambda: sorted(path["ana_state"] for path in paths(volume)) == sorted(states), f"paths are {states}")
        still_runs(process)

    for portal in ("q", "p") * (KILLS // 2):
        for undo, n in ((), 1), (("--undo",), 2):
            ctl("drain", portal, *undo)
            wait_paths(volume, n)
            still_runs(process)
        for state in "inaccessible", "optimized":
            ctl("ana", "set", NQN, "1", state, "--portal", portal)
            have_states(state, "optimized")
    finish(process, volume)
    target.stop()


def follows_discovery(scratch):
    """Portals come and go by apply and by drain while fio verifies: the paths of the volume do, too."""
    port = free_port()
    target = Target(scratch, [f"nsid: 1, ram: 64MiB, {LASTING}"])
    volume = Volume(target, 1, None, "--find-paths", "--policy", "round-robin")
    process = start_fio(scratch, volume.uri, *LOAD, *FLUSHES)
    with open(target.config, encoding="utf-8") as f:
        before = f.read()
    after = before.replace("portals:\n", f"portals:\n  - {{name: q, address: 127.0.0.1, port: {port}}}\n")
    found = f"127.0.0.1:{port}"

    def have(*addresses):
        wait_until(lambda: [path["address"] for path in paths(volume)] == [target.address, *addresses]
                   and n_live(volume) == 1 + len(addresses), f"paths are {addresses} and the first one")
        expect_equal([path["found"] for path in paths(volume)], [False] + [True] * len(addresses), "found")
        still_runs(process)

    def ctl(*arguments):
        run(RBLKCTL, *arguments, "--socket", target.control, env=scratch.env)

    def apply(config):
        with open(target.config, "w", encoding="utf-8") as f:
            f.write(config)
        ctl("apply")

    apply(after)
    have(found)
    text = rblk(scratch, "status", volume.name).stdout
    expect(re.search(rf"paths +\\\n +\+- {target.address}: live.*\n +\+- {found}: live, found, ", text),
           f"no tree of paths in\n{text}")
    expect(re.search(rf"discovery +{target.address}: live for .*, 2 portals, changed .* ago\n", text),
           f"no line of discovery in\n{text}")
    ctl("drain", "q")
    have()
    with open(scratch.file(f"run/volumes/{volume.name}.log"), encoding="utf-8") as log:
        expect(f"lost the connection to {found}" not in log.read(), "rblkd cut it before it had left")
    ctl("drain", "q", "--undo")
    have(found)
    apply(before)
    have()
    expect_equal(volume.status()["discovery"][0]["portals"], 1, "portals in the log")
    finish(process, volume)
    target.stop()


def killed(scratch):
    """kill -9 of each rblkd of a pair in turn."""
    pair_of = pair(scratch)
    volume = Volume(pair_of[0], 1, None, "--path", pair_of[1].address, "--policy", "round-robin")
    wait_paths(volume, 2)
    process = load(scratch, volume, *FLUSHES)
    for number in range(KILLS):
        target = pair_of[number % 2]
        target.kill()
        wait_paths(volume, 1)
        expect_equal(volume.status()["state"], "live", "state with one path")
        still_runs(process)
        target.start()
        wait_paths(volume, 2)
    finish(process, volume)
    for target in pair_of:
        target.stop()


def stopped(scratch):
    """An rblkd of a pair is stopped for longer than its keep alive. Nothing proves that its writes are over, so they
    wait for it, and nothing else does. (Few I/Os a second: docs/SOFTRDMA.md, peers that are stopped.)"""
    pair_of = pair(scratch)
    volume = Volume(pair_of[0], 1, None, "--path", pair_of[1].address, "--keep-alive", "2s", "--policy", "round-robin")
    wait_paths(volume, 2)
    for target in pair_of:
        process = start_fio(scratch, volume.uri, "--rw=randwrite", "--bs=4k", "--iodepth=16", "--size=512k",
                            "--rate_iops=50", *VERIFY)
        before = paths(volume)
        wait_until(lambda was=before: all(now["commands"] > path["commands"] for now, path in zip(paths(volume), was)),
                   "both paths are in use")
        target.process.send_signal(signal.SIGSTOP)
        try:
            wait_paths(volume, 1)
            wait_until(lambda: volume.status()["fencing"]["held"] > 0, "writes wait for the proof")
            fio(scratch, volume.uri, "--rw=randread", "--bs=4k", "--iodepth=4", "--size=1m")
            still_runs(process)
        finally:
            target.process.send_signal(signal.SIGCONT)
        output, _ = process.communicate(timeout=600)
        expect_equal(process.returncode, 0, f"exit status of fio: {output[-2000:]}")
        wait_paths(volume, 2)
    expect_equal(volume.status()["io_errors"], 0, "I/O errors")
    volume.detach()
    for target in pair_of:
        target.stop()


def policies(scratch):
    """One path is slower by up to 60 ms: what each policy sends there, with one read in flight."""
    left, right = pair(scratch, SOFTRDMA_CHAOS="defer=100,delay=60000")
    shares = {}
    for policy in ("round-robin", "queue-depth", "latency"):
        volume = Volume(left, 1, policy, "--path", right.address, "--policy", policy)
        wait_paths(volume, 2)
        before = [path["commands"] for path in paths(volume)]
        fio(scratch, volume.uri, "--rw=randread", "--bs=4k", "--iodepth=1", "--size=4m", "--number_ios=100")
        fast, slow = (path["commands"] - was for path, was in zip(paths(volume), before))
        shares[policy] = slow / (fast + slow)
        volume.detach()
    expect(0.4 < shares["round-robin"] < 0.6 and 0.4 < shares["queue-depth"] < 0.6 and shares["latency"] < 0.2,
           f"share of the slow path: {shares}")
    for target in (left, right):
        target.stop()


def limited(scratch):
    """Two equal paths give twice the rate of one, where each is limited to few I/Os a second."""
    left, right = pair(scratch, more=", qos: {iops: 200}")
    rates = []
    for options in ((), ("--path", right.address)):
        volume = Volume(left, 1, None, *options)
        wait_paths(volume, 1 + bool(options))
        done = fio(scratch, volume.uri, "--rw=randread", "--bs=4k", "--iodepth=32", "--size=32m", "--time_based=1",
                   "--runtime=4")
        rates.append(float(done.stdout.split(";")[READ_IOPS]))
        volume.detach()
    expect(rates[1] >= 1.6 * rates[0], f"I/Os a second by one path, by two: {rates}")
    for target in (left, right):
        target.stop()


def one_at_attach(scratch):
    """The first address does not answer: the second is taken, and the first when it comes."""
    left, right = pair(scratch)
    left.kill()
    volume = Volume(left, 1, None, "--path", right.address)
    expect_equal([p["state"] for p in paths(volume)][1], "live", "state of the second path")
    text = rblk(scratch, "status", volume.name).stdout
    expect(f"{left.address}: connecting" in text or f"{left.address}: idle" in text
           or f"{left.address}: lost" in text, f"no line of the first path in\n{text}")
    left.start()
    wait_paths(volume, 2)
    volume.detach()
    for target in (left, right):
        target.stop()


def other_namespace(scratch):
    """A path to another namespace gets no I/O."""
    left, right = pair(scratch, "nsid: 1, ram: 64MiB")
    volume = Volume(left, 1, None, "--path", right.address)
    wait_until(lambda: paths(volume)[1]["state"] == "other", "the path is refused")
    fio(scratch, volume.uri, "--rw=randwrite", "--bs=4k", "--size=1m", *VERIFY)
    expect_equal(right.list("namespaces")["namespaces"][0]["writes"], 0, "writes to the other namespace")
    volume.detach()
    for target in (left, right):
        target.stop()


def words(scratch):
    """A wrong --path is refused before anything is attached."""
    left, right = pair(scratch)
    volume = Volume(left, 1, None, "--find-paths")  # by the referral
    wait_paths(volume, 2)
    where = f"{NQN}@{left.address}"

    def attach(code, says, *options):
        done = rblk(scratch, "attach", *options, "--frontend", "socket", check=False)
        expect_equal(done.returncode, code, f"{options}: {done.stderr}exit status")
        expect(says in done.stdout + done.stderr, f"{options}: {done.stdout}{done.stderr}")

    attach(0, "paths 2/2", where, "--path", right.address)
    attach(0, "paths 2/2", where, "--find-paths")
    attach(BUSY, "--path is", where)
    attach(BUSY, "--path is", f"{NQN}@{right.address}")
    attach(BUSY, "--policy is latency, not round-robin", where, "--path", right.address, "--policy", "round-robin")
    attach(USAGE, "is given twice", where, "--path", left.address)
    attach(USAGE, "is not an address", where, "--path", "?")
    attach(USAGE, "at most 7", where, *(f"--path=127.0.0.1:{port}" for port in range(1, 9)))
    volume.detach()
    for target in (left, right):
        target.stop()


def change(volume, verb, address, *options, check=True):
    return rblk(volume.scratch, "path", verb, volume.name, address, *options, check=check)


def added_and_removed(scratch):
    """Paths come and go while fio verifies, the one by which the volume was attached among them."""
    pair_of = pair(scratch)
    volume = Volume(pair_of[0], 1, None, "--policy", "round-robin")
    process = start_fio(scratch, volume.uri, *LOAD, *FLUSHES)
    for new, old in (pair_of[::-1], pair_of) * 2:
        output = change(volume, "add", new.address).stdout
        expect(re.search(rf"{new.address} +live", output), f"rblk path add says\n{output}")
        before = paths(volume)
        wait_until(lambda was=before: all(now["commands"] > path["commands"] + 50
                                          for now, path in zip(paths(volume), was)), "both paths are in use")
        change(volume, "remove", old.address)
        expect_equal([path["address"] for path in paths(volume)], [new.address], "addresses of the paths")
        expect_equal(volume.status()["address"], new.address, "address of the volume")
        wait_until(lambda target=old: not target.list("hosts")["hosts"], "its controller is gone")
        still_runs(process)
    expect_equal(volume.status()["fencing"]["held"], 0, "writes that wait for proof")
    finish(process, volume)
    for target in pair_of:
        target.stop()


def flushes(target):
    return target.list("namespaces")["namespaces"][0]["flushes"]


def flushed_first(scratch):
    """A path flushes what it has acknowledged before it goes: no Flush by another covers it."""
    left, right = pair(scratch)
    volume = Volume(left, 1)
    fio(scratch, volume.uri, "--rw=write", "--bs=64k", "--size=1m")
    change(volume, "add", right.address)
    before = flushes(left)
    change(volume, "remove", left.address)
    expect(flushes(left) > before, "no flush by the path that was removed")
    volume.detach()
    for target in (left, right):
        target.stop()


def lost_path_removed(scratch):
    """A path whose target is dead goes at once; one that cannot be connected is not taken, unless it is to be."""
    left, right = pair(scratch)
    volume = Volume(left, 1, None, "--path", right.address)
    wait_paths(volume, 2)
    left.kill()
    wait_paths(volume, 1)
    change(volume, "remove", left.address)
    expect_equal([path["address"] for path in paths(volume)], [right.address], "addresses of the paths")
    failed = change(volume, "add", left.address, "--wait", "1s", check=False)
    expect_equal(failed.returncode, UNREACHABLE, f"exit status: {failed.stderr}")
    expect_equal(len(paths(volume)), 1, "paths")
    change(volume, "add", left.address, "--wait", "0s", "--keep", check=False)
    left.start()
    wait_paths(volume, 2)
    volume.detach()
    for target in (left, right):
        target.stop()


def lost_path_with_writes(scratch):
    """A target that is lost had acknowledged a write: to remove its path says that it may be gone."""
    pair_of = pair(scratch)
    volume = Volume(pair_of[0], 1, None, "--path", pair_of[1].address)
    wait_paths(volume, 2)
    run("/usr/bin/python3", "-m", "nbd", "-u", volume.uri, "-c", "h.pwrite(b'x' * 4096, 0)")
    unflushed = [path["address"] for path in paths(volume) if path["unflushed"]]
    expect_equal(len(unflushed), 1, "paths with the write")
    lost, other = pair_of if pair_of[0].address == unflushed[0] else pair_of[::-1]
    lost.kill()
    wait_paths(volume, 1)
    done = change(volume, "remove", lost.address)
    expect(f"note: {lost.address} has acknowledged writes that were not flushed" in done.stderr, done.stderr)
    lost.start()
    expect_equal(change(volume, "add", lost.address).stderr, "", "add")
    other.kill()
    wait_paths(volume, 1)
    expect_equal(change(volume, "remove", other.address).stderr, "", "without such writes")
    volume.detach()
    lost.stop()


def dead(scratch):
    """A target dies with a write in flight, and does not come back: an administrator's word lets the write go on."""
    left, right = pair(scratch)
    volume = Volume(left, 1, None, "--path", right.address, "--policy", "round-robin", "--keep-alive", "10min")
    wait_paths(volume, 2)
    process = load(scratch, volume, "--do_verify=0")  # it never reads
    live = change(volume, "remove", left.address, "--dead", check=False)
    expect_equal(live.returncode, USAGE, f"exit status for a path that is live: {live.stderr}")
    stand_still(left.process.pid)  # writes that go there stay in flight
    wait_until(lambda: all(in_flight(volume, left) for _ in range(2)), "a write is in flight")
    left.kill()
    wait_until(lambda: volume.status()["fencing"]["held"] > 0, "writes wait for the proof")
    change(volume, "remove", left.address, "--dead")
    wait_until(lambda: volume.status()["fencing"]["held"] == 0, "they go on")
    expect_equal(volume.status()["fencing"]["last_proof"], "word", "last proof")
    finish(process, volume)
    right.stop()


def mistakes(scratch):
    """A path that cannot be added, or must not go, is refused, and nothing changes."""
    left, right = pair(scratch, "nsid: 1, ram: 64MiB")
    volume = Volume(left, 1)

    def refused(code, says, verb, address):
        done = change(volume, verb, address, check=False)
        expect_equal(done.returncode, code, f"{verb} {address}: {done.stderr}exit status")
        expect(says in done.stderr, f"{verb} {address}: {done.stderr}")
        expect_equal([path["state"] for path in paths(volume)], ["live"], f"paths after {verb} {address}")

    refused(FAILED, "is not the one that was attached", "add", right.address)
    refused(USAGE, "is a path of it already", "add", left.address)
    refused(UNREACHABLE, "cannot find the address", "add", "no.such.host.invalid")
    refused(USAGE, "is no path of it", "remove", right.address)
    refused(BUSY, "is the only path that can serve I/O", "remove", left.address)
    volume.detach()
    for target in (left, right):
        target.stop()


run_cases([
    ("two portals of one rblkd", two_portals),
    ("paths that follow discovery", follows_discovery),
    ("kill -9 of either of two", killed),
    ("either of two stopped", stopped),
    ("policies", policies),
    ("two limited paths", limited),
    ("one path at attach", one_at_attach),
    ("another namespace", other_namespace),
    ("words", words),
    ("added and removed under load", added_and_removed),
    ("a path is flushed before it goes", flushed_first),
    ("a lost path is removed", lost_path_removed),
    ("a lost path with writes that were not flushed", lost_path_with_writes),
    ("a dead target", dead),
    ("mistakes of adding and removing", mistakes),
])
