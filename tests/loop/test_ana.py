#!/usr/bin/python3
"""ANA: states change while a volume is used, and no client gets an error; two rblkd are one subsystem."""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from harness import (NQN, RBLKCTL, VERIFY, Scratch, Target, Volume, end_all, expect, expect_equal,  # noqa: E402
                     expect_no_reports, fio, free_port, rblk, run, run_cases, show_logs, start_fio, wait_until)

FAILED, USAGE, CONFIG, NOT_FOUND, UNREACHABLE = 1, 2, 3, 4, 7
MIB = 1 << 20
GROUPS = "allow_any_host: true\n    ana_groups: [{id: 1}, {id: 2, state: non_optimized}]"


def ctl(target, *arguments, status=0):
    done = run(RBLKCTL, *arguments, check=False,
               env=dict(target.scratch.env, RBLK_CONTROL_SOCKET=target.control))
    expect_equal(done.returncode, status, f"exit status of rblkctl {arguments}: {done.stderr}")
    return done


def one_error(done, what):
    expect_equal(done.stderr.count("error:"), 1, f"error lines in {done.stderr!r}")
    expect(what in done.stderr, f"{what!r} is not in {done.stderr!r}")


def states(target, *arguments):
    """{(group, portal): state}"""
    groups = json.loads(ctl(target, "ana", "list", *arguments, "-o", "json").stdout)["groups"]
    return {(g["group"], p["portal"]): p["state"] for g in groups for p in g["portals"]}


def disturbs_no_client(scratch):
    """fio verifies while its path becomes inaccessible and returns, by rblkctl and by the file."""
    target = Target(scratch, ["nsid: 1, ram: 32MiB, ana_group: 2", "nsid: 2, ram: 8MiB"], subsystem_extra=GROUPS)
    volume = Volume(target, 1)
    expect_equal(volume.status()["ana_state"], "non_optimized", "state at first")
    job = start_fio(scratch, volume.uri, "--rw=randrw", "--bsrange=4k-64k", "--iodepth=16", "--size=32m",
                    "--time_based", "--runtime=8", "--verify_backlog=64", *VERIFY)
    counters = lambda: target.list("namespaces")["namespaces"][0]
    wait_until(lambda: counters()["writes"] > 0, "fio writes")
    host = target.list("hosts")["hosts"][0]["nqn"]
    n_rounds = 0
    while job.poll() is None or n_rounds < 3:
        for state in ("inaccessible", "optimized", "change", "non_optimized"):
            answer = json.loads(ctl(target, "ana", "set", NQN, "2", state, "--portal", "p", "-o", "json").stdout)
            expect_equal(answer, {"schema": 1, "subsystem": NQN, "group": 2, "portal": "p", "state": state,
                                  "controllers_told": 1,
                                  "hosts_without_path": [host] if state in ("inaccessible", "change") else []}, "answer")
            expect_equal(states(target), {(1, "p"): "optimized", (2, "p"): state}, "states")
            if state in ("optimized", "non_optimized") and job.poll() is None:
                n_writes = counters()["writes"]
                wait_until(lambda: counters()["writes"] > n_writes or job.poll() is not None, "fio goes on")
        n_rounds += 1
    text, _ = job.communicate()
    expect_equal(job.returncode, 0, f"exit status of fio: {text}")
    expect_equal(volume.status()["reconnects"], 0, "the connection was never lost")
    wait_until(lambda: volume.status()["ana_state"] == "non_optimized", "the volume knows its path")
    said = ctl(target, "ana", "set", NQN, "2", "non_optimized").stdout
    expect("it lasts until rblkd restarts" in said, said)
    volume.detach()
    target.stop()


def waits_and_goes_on(scratch):
    """I/O to an inaccessible namespace waits, also that of a volume that is attached then."""
    target = Target(scratch, ["nsid: 1, ram: 8MiB"], subsystem_extra=GROUPS)
    ctl(target, "ana", "set", NQN, "1", "inaccessible")
    volume = Volume(target, 1)
    expect_equal(volume.status()["ana_state"], "inaccessible", "state")
    expect("path            inaccessible (ANA group 1)" in rblk(scratch, "status", volume.name).stdout, "for people")
    job = start_fio(scratch, volume.uri, "--rw=write", "--bs=64k", "--iodepth=4", "--size=1m", *VERIFY)
    refused = lambda: sum(c["errors"] for c in target.list("connections")["connections"])
    wait_until(lambda: refused() > 4, "its commands are refused")
    expect(job.poll() is None, "fio waits")
    ctl(target, "ana", "set", NQN, "1", "optimized")
    text, _ = job.communicate()
    expect_equal(job.returncode, 0, f"exit status of fio: {text}")
    ctl(target, "ana", "set", NQN, "1", "persistent_loss")
    wait_until(lambda: volume.status()["ana_state"] == "persistent_loss", "the volume hears of it")
    done = fio(scratch, volume.uri, "--rw=write", "--bs=4k", "--size=4k", check=False)
    expect(done.returncode != 0, "what is lost for good fails")
    ctl(target, "ana", "set", NQN, "1", "optimized")
    wait_until(lambda: volume.status()["ana_state"] == "optimized", "the volume hears of it")
    fio(scratch, volume.uri, "--rw=write", "--bs=4k", "--size=4k", *VERIFY)
    volume.detach()
    target.stop()


def follows_the_file(scratch):
    """apply changes a state; a state that rblkctl set stays if the file's own entry did not
    change."""
    target = Target(scratch, ["nsid: 1, ram: 8MiB", "nsid: 2, ram: 8MiB"], subsystem_extra=GROUPS)
    with open(target.config, encoding="utf-8") as f:
        text = f.read()

    def apply(*pairs, status=0):
        changed = text
        for old, new in pairs:
            expect(old in changed, f"{old!r} is not in the configuration")
            changed = changed.replace(old, new)
        with open(target.config, "w", encoding="utf-8") as f:
            f.write(changed)
        return ctl(target, "apply", status=status)

    ctl(target, "ana", "set", NQN, "1", "inaccessible")
    apply(("{id: 2, state: non_optimized}", "{id: 2, state: change}, {id: 3}"), ("nsid: 2,", "nsid: 2, ana_group: 3,"))
    expect_equal(states(target), {(1, "p"): "inaccessible", (2, "p"): "change", (3, "p"): "optimized"}, "states")
    configured = json.loads(ctl(target, "ana", "list", NQN, "-o", "json").stdout)["groups"][0]["portals"][0]
    expect_equal((configured["state"], configured["configured"]), ("inaccessible", "optimized"), "of group 1")
    done = apply(("ana_groups: [{id: 1}, ", "ana_groups: ["), status=CONFIG)
    expect("there is no ANA group 1 in this subsystem" in done.stderr + done.stdout, done.stderr + done.stdout)
    expect_equal(len(states(target)), 3, "a wrong file changes nothing")
    apply(("{id: 1}", "{id: 1, state: non_optimized}"))
    expect_equal(states(target), {(1, "p"): "non_optimized", (2, "p"): "non_optimized"}, "states")
    target.stop()


def refuses_nonsense(scratch):
    target = Target(scratch, ["nsid: 1, ram: 1MiB"], subsystem_extra=GROUPS)
    before = states(target)
    one_error(ctl(target, "ana", "set", NQN, "1", "inaccesible", status=USAGE), "did you mean 'inaccessible'?")
    one_error(ctl(target, "ana", "set", NQN, "3", "change", status=NOT_FOUND), "there is no ANA group 3")
    one_error(ctl(target, "ana", "set", NQN, "0", "change", status=NOT_FOUND), "there is no ANA group 0")
    one_error(ctl(target, "ana", "set", NQN, "one", "change", status=USAGE), "GROUP must be a number")
    one_error(ctl(target, "ana", "set", NQN, "99999999999999999999", "change", status=USAGE), "GROUP must be a number")
    one_error(ctl(target, "ana", "set", NQN, "1", "change", "--portal", "q", status=NOT_FOUND), "there is no portal 'q'")
    one_error(ctl(target, "ana", "set", NQN + "x", "1", "change", status=NOT_FOUND), "there is no subsystem")
    one_error(ctl(target, "ana", "list", NQN + "x", status=NOT_FOUND), "there is no subsystem")
    one_error(ctl(target, "ana", "set", NQN, "1", status=USAGE), "rblkctl ana set")
    one_error(ctl(target, "ana", "move", status=USAGE), "unknown command 'ana move'")
    one_error(ctl(target, "ana", "set", NQN, "1", "change", "--socket", "/nowhere", status=UNREACHABLE), "/nowhere")
    expect_equal(states(target), before, "nothing was changed")
    target.stop()
    target = Target(scratch, ["nsid: 1, ram: 1MiB"])
    one_error(ctl(target, "ana", "set", NQN, "1", "change", status=FAILED), "has no ANA groups")
    expect_equal(states(target), {}, "no groups")
    target.stop()


def two_are_one(scratch):
    """Two rblkd share a file: the same subsystem and namespace, different controllers; I/O moves
    between them."""
    image = scratch.make_file("disk.img", 16 * MIB)
    others = Scratch()  # its own configuration, socket and log; removed with the case
    try:
        targets, ports = [], [free_port(), free_port()]
        for i, where in enumerate((scratch, others)):
            referral = f"discovery: {{referrals: [{{address: 127.0.0.1, port: {ports[1 - i]}}}]}}"
            targets.append(Target(
                where, [f"nsid: 1, file: {image}, shared: true, eui64: '02000000000000aa'"], port=ports[i],
                extra=f"controller_ids: {{min: {1 + 1000 * i}, max: {999 + 1000 * i}}}\n{referral}",
                subsystem_extra="allow_any_host: true\n    serial: SHARED\n    ana_groups: [{id: 1}]"))
        volumes = [Volume(t, 1) for t in targets]
        left, right = (v.status() for v in volumes)
        for key in ("subsystem", "serial", "model", "uuid", "size_bytes", "ana_group"):
            expect_equal(left[key], right[key], key)
        expect(left["cntlid"] < 1000 < right["cntlid"], "the ids of the controllers are apart")
        for i, target in enumerate(targets):
            found = rblk(scratch, "discover", target.address).stdout
            expect(str(ports[1 - i]) in found and NQN in found, f"the other is in the log: {found}")
        ctl(targets[1], "ana", "set", NQN, "1", "inaccessible")
        fio(scratch, volumes[0].uri, "--rw=randwrite", "--bs=4k", "--iodepth=8", "--size=4m", "--end_fsync=1", *VERIFY)
        run("nbdcopy", volumes[0].uri, scratch.file("left.img"), "--flush", env=scratch.env)
        ctl(targets[0], "ana", "set", NQN, "1", "inaccessible")
        ctl(targets[1], "ana", "set", NQN, "1", "optimized")
        run("nbdcopy", volumes[1].uri, scratch.file("right.img"), env=others.env)
        run("cmp", scratch.file("left.img"), scratch.file("right.img"))
        run("cmp", scratch.file("left.img"), image)
        targets[0].kill()
        fio(others, volumes[1].uri, "--rw=randwrite", "--bs=4k", "--iodepth=8", "--size=4m", *VERIFY)
        targets[0].start()
        ctl(targets[0], "ana", "set", NQN, "1", "optimized")
        for volume in volumes:
            volume.detach()
        for target in targets:
            target.stop()
    finally:
        end_beside(others)


def end_beside(scratch):
    """Prepares the first Scratch as run_case does."""
    try:
        if sys.exc_info()[0]:
            print("# the other:" + show_logs(scratch))
        expect_no_reports(scratch)
    finally:
        end_all(scratch)
        scratch.remove()


CASES = [
    ("a path that goes away and comes back disturbs no client", disturbs_no_client),
    ("what is inaccessible waits", waits_and_goes_on),
    ("states of the file and states set by hand", follows_the_file),
    ("bad input", refuses_nonsense),
    ("two targets are one subsystem", two_are_one),
]

if __name__ == "__main__":
    run_cases(CASES)
