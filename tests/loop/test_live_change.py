#!/usr/bin/python3
"""rblkd is changed while hosts use it: unchanged objects are not disturbed, and hosts see the
changes."""

import json
import os
import re
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from harness import (NQN, RBLKCTL, RBLKD, VERIFY, Target, Volume, expect,  # noqa: E402
                     expect_equal, find_key, fio, free_port, rblk, run, run_cases, start_fio, wait_until)

FAILED, USAGE, CONFIG, NOT_FOUND, BUSY, PARTIAL = 1, 2, 3, 4, 5, 6
MIB = 1 << 20
OTHER = "nqn.2026-01.org.example:other"
HOST, STRANGER = "nqn.2026-01.org.example:db1", "nqn.2026-01.org.example:db2"


def ctl(target, *arguments, status=0):
    done = run(RBLKCTL, *arguments, check=False,
               env=dict(target.scratch.env, RBLK_CONTROL_SOCKET=target.control))
    expect_equal(done.returncode, status, f"exit status of rblkctl {arguments}: {done.stderr}")
    return done


def one_error(done, what):
    expect_equal(done.stderr.count("error:"), 1, f"error lines in {done.stderr!r}")
    expect(what in done.stderr, f"{what!r} is not in {done.stderr!r}")


def export_size(scratch, volume):
    info = run("nbdinfo", "--json", volume.uri, env=scratch.env)
    return find_key(json.loads(info.stdout), "export-size")


def grows(scratch):
    """File and volume, by truncate and by rblkd; a client that connects afterwards sees the whole
    size."""
    image = scratch.make_file("disk.img", 16 * MIB)
    target = Target(scratch, [f"nsid: 1, file: {image}", "nsid: 2, ram: 1MiB"])
    volume = Volume(target, 1)
    expect_equal(export_size(scratch, volume), 16 * MIB, "size before")
    os.truncate(image, 24 * MIB)
    done = ctl(target, "ns", "resize", NQN, "1")
    expect_equal(done.stdout, f"{NQN}/1: 16MiB -> 24MiB\n", "answer")
    wait_until(lambda: export_size(scratch, volume) == 24 * MIB, "the volume grows")
    fio(scratch, volume.uri, "--rw=randwrite", "--bs=4k", "--iodepth=16", "--offset=16m",
        "--size=8m", *VERIFY)
    answer = json.loads(ctl(target, "-o", "json", "ns", "resize", NQN, "1", "32MiB").stdout)
    expect_equal(answer, {"schema": 1, "subsystem": NQN, "nsid": 1, "old_size_bytes": 24 * MIB,
                          "size_bytes": 32 * MIB, "controllers_told": 1}, "answer")
    expect_equal(os.path.getsize(image), 32 * MIB, "size of the file")
    wait_until(lambda: export_size(scratch, volume) == 32 * MIB, "the volume grows again")
    expect("as before" in ctl(target, "ns", "resize", NQN, "1").stdout, "nothing to do")
    one_error(ctl(target, "ns", "resize", NQN, "1", "8MiB", status=BUSY), "is less than")
    one_error(ctl(target, "ns", "resize", NQN, "1", "8MiB", "--force", status=FAILED),
              "rblkd cuts no file")
    one_error(ctl(target, "ns", "resize", NQN, "2", "8MiB", status=FAILED), "in the configuration")
    one_error(ctl(target, "ns", "resize", NQN, "9", status=NOT_FOUND), "no namespace 9")
    one_error(ctl(target, "ns", "resize", NQN, "one", status=USAGE), "NSID")
    one_error(ctl(target, "ns", "resize", NQN, "1", "big", status=USAGE), "SIZE")
    expect_equal(export_size(scratch, volume), 32 * MIB, "what was refused changed nothing")
    volume.detach()
    target.stop()


def edit(target, *pairs):
    """Replaces each old text by the new one in the configuration."""
    with open(target.config, encoding="utf-8") as f:
        text = f.read()
    for old, new in pairs:
        expect(old in text, f"{old!r} is not in the configuration")
        text = text.replace(old, new)
    with open(target.config, "w", encoding="utf-8") as f:
        f.write(text)


def changes(target, *arguments, status=0):
    """(sign, what, name, key or value) of each change."""
    report = json.loads(ctl(target, *arguments, "-o", "json", status=status).stdout)
    expect_equal(report["schema"], 1, "schema")
    return report, [(c["change"], c["what"], c["name"], c["key"] or c["after"] or c["before"])
                    for c in report["changes"]]


def nsids(target, nqn=NQN):
    return [n["nsid"] for n in target.list("namespaces")["namespaces"] if n["subsystem"] == nqn]


def shows_and_applies(scratch):
    image = scratch.make_file("disk.img", 4 * MIB)
    target = Target(scratch, [f"nsid: 1, file: {image}", "nsid: 2, ram: 1MiB"],
                    extra=f"hosts: [{{name: db1, nqn: '{HOST}'}}]",
                    subsystem_extra="allow_hosts: [db1]")
    expect_equal(ctl(target, "diff").stdout, "nothing to change\n", "diff of the same file")
    expect_equal(ctl(target, "apply").stdout, "nothing to change\n", "apply of the same file")
    edit(target, ("nsid: 2, ram: 1MiB", f"nsid: 3, file: {scratch.path}/new.img, size: 2MiB, create: true"),
         ("allow_hosts: [db1]", f"allow_hosts: [db1, '{STRANGER}']"), ("version: 1", "version: 1\nlog: {level: debug}"))
    os.truncate(image, 8 * MIB)
    wanted = [("change", "log", "", "level"), ("add", "allow_hosts", NQN, STRANGER),
              ("remove", "namespace", f"{NQN}/2", "ram: 1MiB"),
              ("add", "namespace", f"{NQN}/3", f"file: {scratch.path}/new.img, size: 2MiB, create: true"),
              ("change", "namespace", f"{NQN}/1", "size")]
    report, found = changes(target, "diff")
    expect_equal(found, wanted, "changes")
    expect(not report["applied"] and not os.path.exists(scratch.file("new.img")), "diff does nothing")
    expect_equal(nsids(target), [1, 2], "diff does nothing")
    lines = ctl(target, "diff").stdout.splitlines()
    expect_equal([line[0] for line in lines[1:]], ["~", "+", "-", "+", "~"], "signs")
    column = lines[0].index("CHANGE")
    expect(all(line[column - 1] == " " and line[column] != " " for line in lines[1:]),
           f"not aligned: {lines}")
    expect(lines[-1].endswith("size: 4MiB -> 8MiB"), lines[-1])
    report, found = changes(target, "apply")
    expect_equal(found, wanted, "changes")
    expect(report["applied"], "it was applied")
    sizes = {n["nsid"]: n["size_bytes"] for n in target.list("namespaces")["namespaces"]}
    expect_equal(sizes, {1: 8 * MIB, 3: 2 * MIB}, "namespaces")
    expect_equal(target.list("subsystems")["subsystems"][0]["allow_hosts"], [HOST, STRANGER], "hosts")
    expect_equal(ctl(target, "diff").stdout, "nothing to change\n", "diff afterwards")
    other = scratch.file("other.yaml")
    with open(target.config, encoding="utf-8") as f, open(other, "w", encoding="utf-8") as g:
        g.write(f.read().replace("size: 2MiB", "size: 3MiB"))
    expect_equal(changes(target, "apply", other)[1], [("change", "namespace", f"{NQN}/3", "size")], "changes")
    expect_equal(os.path.getsize(scratch.file("new.img")), 3 * MIB, "the file has grown")
    target.stop()


def other_folder(scratch):
    """A second folder, with a file that its rblkd exports."""
    other = type(scratch)()
    other.make_file("busy.img", MIB)
    return other


def rejects_as_a_whole(scratch):
    """The messages of --check, which changes nothing: no file, no portal, no namespace."""
    image = scratch.make_file("disk.img", 4 * MIB)
    target = Target(scratch, [f"nsid: 1, file: {image}", "nsid: 2, ram: 2MiB"])
    with open(target.config, encoding="utf-8") as f:
        right = f.read()
    before = [target.list(what) for what in ("portals", "subsystems", "namespaces")]
    port = f"port: {target.port}}}"
    other = other_folder(scratch)
    listener = Target(other, [f"nsid: 1, file: {other.path}/busy.img"])
    made = f"      - {{nsid: 5, file: {scratch.path}/made.img, size: 1MiB, create: true}}\n"
    wrong = (
        # edit, exit status, message
        (("nsid: 2, ram", "nsidd: 2, ram"), CONFIG, r"target.yaml:\d+:\d+: error: unknown key 'nsidd'"),
        (("ram: 2MiB}\n", "ram: 2MiB}\n" + made + "      - {nsid: 6, file: /nowhere/x}\n"), CONFIG,
         r"target.yaml:\d+:\d+: error: /nowhere/x: no such file"),
        (("ram: 2MiB}\n", "ram: 2MiB}\n" + made + f"      - {{nsid: 6, file: {other.path}/busy.img}}\n"),
         BUSY, r"target.yaml:\d+:\d+: error: \S+/busy.img: is in use"),
        (("ram: 2MiB", "ram: 1MiB"), FAILED, "namespace .*/2: ram cannot change while rblkd runs"),
        (("ram: 2MiB", "ram: 1GiB"), FAILED, "16 times"),
        (("ram: 2MiB", "ram: 2MiB, block_size: 4096"), FAILED, "block_size cannot change while rblkd runs"),
        (("version: 1", "version: 1\ntuning: {queue_depth: 64}"), FAILED,
         "tuning: queue_depth cannot change while rblkd runs: nothing was changed"),
        ((port, port + f"\n  - {{name: q, address: 127.0.0.1, port: {listener.port}}}"), BUSY,
         "portal q: cannot listen on 127.0.0.1:"),
    )
    for change, status, message in wrong:
        edit(target, change)
        done = ctl(target, "apply", status=status)
        expect(re.search(message, done.stderr), f"{message!r} is not in {done.stderr!r}")
        expect_equal(len(re.findall("rblkctl apply: error:", done.stderr)), 1, f"errors of {done.stderr!r}")
        if status == CONFIG:
            check = run(RBLKD, "--check", "-c", target.config, check=False, env=scratch.env)
            expect(done.stderr.startswith(check.stderr), f"{done.stderr!r} is not {check.stderr!r}")
        after = [target.list(what) for what in ("portals", "subsystems", "namespaces")]
        expect_equal(after, before, f"after {change}")
        expect(not os.path.exists(scratch.file("made.img")), "a file was left behind")
        with open(target.config, "w", encoding="utf-8") as f:
            f.write(right)
    os.mkfifo(scratch.file("pipe"))
    one_error(ctl(target, "apply", scratch.file("pipe"), status=USAGE), "is no regular file")
    done = ctl(target, "apply", "nowhere.yaml", status=CONFIG)
    expect("nowhere.yaml: error: cannot read it" in done.stderr, done.stderr)
    expect_equal(ctl(target, "apply").stdout, "nothing to change\n", "the right file again")
    listener.stop()
    other.remove()
    target.stop()


def disturbs_no_host(scratch):
    """Namespaces, portals, hosts and subsystems come and go beside a volume under fio verify,
    which only grows."""
    target = Target(scratch, ["nsid: 1, ram: 32MiB", "nsid: 2, ram: 1MiB"])
    with open(target.config, encoding="utf-8") as f:
        first = f.read()
    port = free_port()
    second = first.replace(
        "nsid: 2, ram: 1MiB", f"nsid: 3, file: {scratch.path}/three.img, size: 1MiB, create: true").replace(
        "subsystems:", f"  - {{name: q, address: 127.0.0.1, port: {port}}}\n"
        f"hosts: [{{name: db1, nqn: '{HOST}'}}]\nsubsystems:\n"
        f"  - nqn: {OTHER}\n    allow_hosts: [db1]\n    namespaces: [{{nsid: 1, ram: 1MiB}}]")
    volume = Volume(target, 1)
    connections = lambda: sorted(c["address"] for c in target.list("connections")["connections"])
    job = start_fio(scratch, volume.uri, "--rw=randwrite", "--bs=4k", "--iodepth=16", "--size=32m",
                    "--time_based", "--runtime=8", "--verify_backlog=64", *VERIFY)
    wait_until(lambda: target.list("namespaces")["namespaces"][0]["writes"] > 0, "fio writes")
    before = connections()
    n_applied = 0
    while job.poll() is None or n_applied < 4:
        mib = 32 + min(n_applied + 1, 400)
        with open(target.config, "w", encoding="utf-8") as f:
            f.write((first if n_applied % 2 else second).replace("ram: 32MiB", f"ram: {mib}MiB"))
        expect(changes(target, "apply")[0]["applied"], "applied")
        n_applied += 1
        sizes = [n["size_bytes"] for n in target.list("namespaces")["namespaces"] if n["subsystem"] == NQN]
        expect_equal(sizes[0], mib * MIB, "size")
        expect_equal(nsids(target), [1, 3] if n_applied % 2 else [1, 2], "namespaces")
        expect_equal(nsids(target, OTHER), [1] if n_applied % 2 else [], "of the other subsystem")
        expect_equal(target.status()["portals_up"], 1 + n_applied % 2, "portals")
        if n_applied % 2:
            found = rblk(scratch, "discover", f"127.0.0.1:{port}", "--hostnqn", HOST)
            expect(OTHER in found.stdout and NQN in found.stdout, found.stdout)
    text, _ = job.communicate()
    expect_equal(job.returncode, 0, f"exit status of fio: {text}")
    wait_until(lambda: connections() == before, "connections, never broken")  # discover's may still close
    wait_until(lambda: export_size(scratch, volume) == mib * MIB, "the volume has all of it")
    fio(scratch, volume.uri, "--rw=randwrite", "--bs=64k", "--iodepth=16", "--offset=31m", "--size=4m",
        *VERIFY)  # across the old end
    volume.detach()
    target.stop()


def ends_what_was_withdrawn(scratch):
    """A host off the list loses its association, and the other keeps it; an old portal's queues
    live on."""
    port = free_port()
    target = Target(scratch, ["nsid: 1, ram: 8MiB", "nsid: 2, ram: 8MiB"],
                    extra=f"hosts: [{{name: db1, nqn: '{HOST}'}}, {{name: db2, nqn: '{STRANGER}'}}]",
                    subsystem_extra="allow_hosts: [db1, db2]")
    kept = Volume(target, 1, "kept", "--hostnqn", HOST)
    lost = Volume(target, 2, "lost", "--hostnqn", STRANGER, "--ctrl-loss-tmo", "5s")
    count = lambda nqn: sum(c["host"] == nqn for c in target.list("connections")["connections"])
    n_kept = count(HOST)
    expect(n_kept and count(STRANGER), "both are connected")
    edit(target, ("allow_hosts: [db1, db2]", "allow_hosts: [db1]"))
    ctl(target, "apply")
    wait_until(lambda: count(STRANGER) == 0, "the withdrawn host is disconnected")
    expect_equal(count(HOST), n_kept, "connections of the other")
    expect("it is no longer allowed" in target.read_log(), target.read_log())
    edit(target, (f"name: p, address: 127.0.0.1, port: {target.port}",
                  f"name: p, address: 127.0.0.1, port: {port}"))
    expect_equal(changes(target, "apply")[1], [("change", "portal", "p", "port")], "changes")
    fio(scratch, kept.uri, "--rw=randwrite", "--bs=4k", "--size=4m", *VERIFY)
    expect_equal(count(HOST), n_kept, "connections through the old portal live on")
    found = rblk(scratch, "discover", f"127.0.0.1:{port}", "--hostnqn", HOST)
    expect(NQN in found.stdout, found.stdout)
    expect(rblk(scratch, "discover", f"127.0.0.1:{target.port}", "--hostnqn", HOST,
                check=False).returncode, "nothing listens on the old port")
    kept.detach()
    rblk(scratch, "detach", "lost", "--force", check=False)
    target.stop()


def hears_sighup(scratch):
    target = Target(scratch, ["nsid: 1, ram: 1MiB"])
    edit(target, ("ram: 1MiB", "ram: 4MiB"))
    target.process.send_signal(signal.SIGHUP)
    wait_until(lambda: "applied, 1 change" in target.read_log(), "the signal is heard")
    expect(f"~ namespace {NQN}/1 ram: 1MiB -> 4MiB" in target.read_log(), target.read_log())
    expect_equal(target.list("namespaces")["namespaces"][0]["size_bytes"], 4 * MIB, "size")
    edit(target, ("ram: 4MiB", "rom: 4MiB"))
    target.process.send_signal(signal.SIGHUP)
    wait_until(lambda: "not applied, nothing was changed" in target.read_log(), "the signal is heard")
    expect("error: unknown key 'rom'" in target.read_log(), target.read_log())
    expect_equal(target.list("namespaces")["namespaces"][0]["size_bytes"], 4 * MIB, "size")
    target.stop()


def drains(scratch):
    """One portal is removed: its connections end, those through the other do not; then it is added
    again."""
    port = free_port()
    target = Target(scratch, ["nsid: 1, ram: 8MiB", "nsid: 2, ram: 8MiB"])
    edit(target, ("subsystems:", f"  - {{name: q, address: 127.0.0.1, port: {port}}}\nsubsystems:"))
    ctl(target, "apply")
    kept = Volume(target, 1, "kept")
    rblk(scratch, "attach", f"{NQN}@127.0.0.1:{port}", "--ns", "2", "--name", "moved", "--frontend", "socket",
         "--reconnect-delay", "100ms")
    portals = lambda: {p["name"]: p for p in target.list("portals")["portals"]}
    moved = os.path.join(scratch.env["RBLK_RUN_DIR"], "volumes", "moved.nbd")
    uri = f"nbd+unix:///?socket={moved}"
    expect(portals()["q"]["queue_pairs"] > 0, "connections through q")
    n_kept = portals()["p"]["queue_pairs"]
    job = start_fio(scratch, uri, "--rw=randwrite", "--bs=4k", "--iodepth=8", "--size=8m", "--time_based",
                    "--runtime=4", "--verify_backlog=64", *VERIFY)
    wait_until(lambda: find_key([n for n in target.list("namespaces")["namespaces"] if n["nsid"] == 2],
                                "writes") > 0, "fio writes")
    expect_equal(ctl(target, "drain", "q").stdout, "q: drained\n", "answer")
    expect_equal((portals()["q"]["state"], portals()["q"]["queue_pairs"]), ("drained", 0), "the drained one")
    expect_equal((portals()["p"]["state"], portals()["p"]["queue_pairs"]), ("listening", n_kept), "the other")
    expect("portal q: draining" in target.read_log(), target.read_log())
    fio(scratch, kept.uri, "--rw=randwrite", "--bs=4k", "--size=4m", *VERIFY)
    ctl(target, "apply")
    expect_equal(portals()["q"]["state"], "drained", "a change does not undo it")
    expect_equal(ctl(target, "drain", "q", "--undo").stdout, "q: listening\n", "answer")
    text, _ = job.communicate()
    expect_equal(job.returncode, 0, f"exit status of fio, whose I/O was held: {text}")
    one_error(ctl(target, "drain", "r", status=NOT_FOUND), "there is no portal 'r'")
    wait_until(lambda: find_key(json.loads(rblk(scratch, "status", "moved", "-o", "json").stdout),
                                "state") == "live", "moved is live")
    rblk(scratch, "detach", "moved")
    kept.detach()
    target.stop()


def drains_what_was_moved(scratch):
    """A portal that moved to another address still owns its old connections: drain ends them, also
    after the portal was removed."""
    target = Target(scratch, ["nsid: 1, ram: 8MiB"])
    volume = Volume(target, 1, "old", "--reconnect-delay", "100ms")
    wait_until(lambda: [c["state"] for c in target.list("connections")["connections"]] == ["live"] * 2,
               "the admin and the I/O queue are live")
    port, other = target.port, free_port()
    edit(target, (f"port: {port}", f"port: {other}"))
    ctl(target, "apply")
    portal = target.list("portals")["portals"][0]
    expect_equal((portal["queue_pairs"], portal["state"]), (2, "listening"), "connections of the old address")
    expect_equal(ctl(target, "drain", "p").stdout, "p: drained\n", "answer")
    expect_equal(target.list("connections")["connections"], [], "connections after it")
    expect_equal(ctl(target, "drain", "p", "--undo").stdout, "p: listening\n", "answer")
    edit(target, (f"port: {other}", f"port: {port}"))
    ctl(target, "apply")
    volume.wait_live()
    edit(target, (f"name: p, address: 127.0.0.1, port: {port}", f"name: q, address: 127.0.0.1, port: {other}"))
    ctl(target, "apply")
    one_error(ctl(target, "drain", "p", "--undo", status=NOT_FOUND), "no longer in the configuration")
    expect_equal(ctl(target, "drain", "p").stdout, "p: drained\n", "a removed one")
    expect_equal(target.list("connections")["connections"], [], "connections after it")
    rblk(scratch, "detach", "old", "--force")
    target.stop()


def names_users(scratch):
    """rblkctl diff and apply name the hosts that use a removed object, and so does the log."""
    target = Target(scratch, ["nsid: 1, ram: 8MiB", "nsid: 2, ram: 8MiB"])
    volume = Volume(target, 1, "used")
    host = find_key(target.list("hosts")["hosts"], "nqn")
    edit(target, ("      - {nsid: 1, ram: 8MiB}\n", ""))
    wanted = f"warning: namespace {NQN}/1 is in use by host {host}\n"
    expect_equal(ctl(target, "diff").stderr, wanted, "diff")
    expect_equal(ctl(target, "diff", "--exit-code", status=PARTIAL).stderr, wanted, "diff --exit-code")
    report = json.loads(ctl(target, "diff", "-o", "json").stdout)
    expect_equal([c["hosts"] for c in report["changes"]], [[host]], "hosts in JSON")
    done = ctl(target, "apply", "--if-unused", status=BUSY)
    expect(f"namespace {NQN}/1 is in use by host {host}: nothing was changed" in done.stderr, done.stderr)
    expect_equal(nsids(target), [1, 2], "nothing was changed")
    done = ctl(target, "apply", "--quiet")
    expect_equal((done.stdout, done.stderr), ("", wanted.replace(" is ", " was ")), "apply --quiet")
    expect_equal(nsids(target), [2], "applied")
    expect(f"namespace {NQN}/1 was taken away from host {host}" in target.read_log(), target.read_log())
    expect_equal(ctl(target, "diff", "--exit-code").stdout, "nothing to change\n", "nothing differs")
    rblk(scratch, "detach", volume.name, "--force")
    target.stop()


def losses(target, *pairs):
    """The losses that diff reports for the edited file: (what has changed, the object, its host, why) of each."""
    with open(target.config, encoding="utf-8") as f:
        text = f.read()
    for old, new in pairs:
        expect(old in text, f"{old!r} is not in the configuration")
        text = text.replace(old, new)
    other = target.scratch.file("other.yaml")
    with open(other, "w", encoding="utf-8") as f:
        f.write(text)
    report = json.loads(ctl(target, "diff", other, "-o", "json").stdout)
    expect(report["changes"], f"no change by {pairs}")
    for change in report["changes"]:
        expect_equal(set(change["hosts"]), {loss["host"] for loss in change["losses"]}, "hosts of a change")
    return other, [(c["what"] + (" " + c["key"] if c["key"] else ""), loss["object"], loss["host"], loss["reason"])
                   for c in report["changes"] for loss in c["losses"]]


def names_last_paths(target):
    """drain and ana set name a host that has no other path, and no other. The two of names_each_loss."""
    for portal, host in (("q", None), ("p", STRANGER)):
        warning = f"warning: host {host} has no other path to what it uses\n" if host else ""
        expect_equal(ctl(target, "ana", "set", NQN, "1", "inaccessible", "--portal", portal).stderr, warning, "ana set")
        expect_equal(ctl(target, "ana", "set", NQN, "1", "optimized", "--portal", portal).stderr, "", "ana set")
        done = ctl(target, "drain", portal, "-o", "json")
        expect_equal(json.loads(done.stdout)["hosts_without_path"], [host] if host else [], "drain in JSON")
        ctl(target, "drain", portal, "--undo")
        wait_until(lambda: [p["queue_pairs"] for p in target.list("portals")["portals"]] == [4, 2], "all are back")
    expect_equal(ctl(target, "drain", "p").stderr, warning, "drain")
    ctl(target, "drain", "p", "--undo")
    wait_until(lambda: [p["queue_pairs"] for p in target.list("portals")["portals"]] == [4, 2], "all are back")


def names_each_loss(scratch):
    """Each host that loses access or a namespace that it uses is named, by the change that takes it, and no
    other: one host uses namespace 1 through two portals, the other namespace 2 through one."""
    second = free_port()
    p = f"name: p, address: 127.0.0.1, port: {second}"
    target = Target(scratch, ["nsid: 1, ram: 1MiB", "nsid: 2, ram: 1MiB"],
                    listen=f"127.0.0.1, port: {second}}}\n  - {{name: q, address: 127.0.0.1",
                    extra=f"hosts: [{{name: db1, nqn: '{HOST}'}}, {{name: db2, nqn: '{STRANGER}'}}]",
                    subsystem_extra="allow_hosts: [db1, db2]\n    ana_groups: [{id: 1}]")
    q = f"name: q, address: 127.0.0.1, port: {target.port}"
    one = Volume(target, 1, "one", "--hostnqn", HOST, "--path", f"127.0.0.1:{second}")
    done = rblk(scratch, "attach", f"{NQN}@127.0.0.1:{second}", "--ns", "2", "--name", "two", "--frontend", "socket",
                "--hostnqn", STRANGER)
    expect(done.stdout, "attached")
    wait_until(lambda: [p["queue_pairs"] for p in target.list("portals")["portals"]] == [4, 2], "three paths")
    run(RBLKCTL, "gen-key", "--file", scratch.file("key"))
    ns1, ns2, subsystem = f"namespace {NQN}/1", f"namespace {NQN}/2", f"subsystem {NQN}"
    denied, closed = "no longer allowed", "no path is left"
    for pairs, wanted in (
            ([("      - {nsid: 1, ram: 1MiB}\n", "")], [("namespace", ns1, HOST, None)]),
            ([("      - {nsid: 2, ram: 1MiB}\n", "")], [("namespace", ns2, STRANGER, None)]),
            ([("[db1, db2]", "[db1]")], [("allow_hosts", subsystem, STRANGER, denied)]),
            ([("[db1, db2]", f"[db1, '{STRANGER}']")], []),
            ([("allow_hosts: [db1, db2]", "allow_any_host: true")], []),
            ([(STRANGER, STRANGER + "x")], [("host nqn", subsystem, STRANGER, denied)]),
            ([("name: db2", "name: db3"), ("[db1, db2]", "[db1, db3]")], []),
            ([(f"  - {{{q}}}\n", "")], []),
            ([(f"  - {{{p}}}\n", "")], [("portal", "portal p", STRANGER, None)]),
            ([(p, p.replace("name: p", "name: r"))], []),
            ([(p, p.replace("127.0.0.1", "0.0.0.0"))], []),
            ([(p, p.replace(str(second), str(free_port())))], [("portal port", "portal p", STRANGER, None)]),
            ([("allow_hosts", "portals: [q]\n    allow_hosts")], [("portals", "portal p", STRANGER, None)]),
            ([("{id: 1}", "{id: 1, state: inaccessible}")],
             [("ANA group state", ns1, HOST, closed), ("ANA group state", ns2, STRANGER, closed)]),
            ([("{id: 1}", "{id: 1, portals: [{portal: q, state: inaccessible}]}")], []),
            ([("{id: 1}", "{id: 1, portals: [{portal: p, state: persistent_loss}]}")],
             [("portal of an ANA group", ns2, STRANGER, closed)]),
            ([("{id: 1}", "{id: 1}, {id: 2, state: inaccessible}"), ("nsid: 1, ram: 1MiB", "nsid: 1, ram: 1MiB, ana_group: 2")],
             [("namespace ana_group", ns1, HOST, closed)]),
            ([(f"nqn: '{HOST}'", f"nqn: '{HOST}', dhchap_key_file: {scratch.file('key')}")],
             [("host dhchap_key_file", subsystem, HOST, "it must prove its identity")]),
            ([(f"nqn: {NQN}", f"nqn: {OTHER}")],
             [("subsystem", subsystem, HOST, None), ("subsystem", subsystem, STRANGER, None),
              ("namespace", ns1, HOST, None), ("namespace", ns2, STRANGER, None)])):
        other, found = losses(target, *pairs)
        expect_equal(sorted(found, key=str), sorted(wanted, key=str), f"losses by {pairs}")
        if wanted:
            done = ctl(target, "apply", "--if-unused", other, status=BUSY)
            expect("is in use by host" in done.stderr and "nothing was changed" in done.stderr, done.stderr)
    expect(one.is_live(), "nothing was changed")
    names_last_paths(target)
    edit(target, ("[db1, db2]", "[db1]"))
    done = ctl(target, "apply", "--quiet")
    expect_equal(done.stderr, f"warning: {subsystem} was in use by host {STRANGER} ({denied})\n", "apply --quiet")
    expect(f"{subsystem} was taken away from host {STRANGER}, which used it: {denied}" in target.read_log(),
           target.read_log())
    rblk(scratch, "detach", "two", "--force")
    one.detach()
    target.stop()


def names_who_was_any_host(scratch):
    """A subsystem was open to any host, and is so no longer."""
    target = Target(scratch, ["nsid: 1, ram: 1MiB"])
    volume = Volume(target, 1, "used", "--hostnqn", HOST)
    edit(target, ("allow_any_host: true", f"allow_hosts: ['{STRANGER}']"))
    wanted = f"subsystem {NQN} is in use by host {HOST} (no longer allowed)"
    expect_equal(ctl(target, "diff").stderr, f"warning: {wanted}\n", "diff")
    one_error(ctl(target, "apply", "--if-unused", status=BUSY), f"{wanted}: nothing was changed")
    expect(volume.is_live(), "nothing was changed")
    volume.detach()
    ctl(target, "apply", "--if-unused")
    target.stop()


CASES = [
    ("a namespace grows", grows),
    ("a changed file is shown and applied", shows_and_applies),
    ("a wrong file is rejected as a whole", rejects_as_a_whole),
    ("changes disturb no host", disturbs_no_host),
    ("what is withdrawn ends", ends_what_was_withdrawn),
    ("SIGHUP", hears_sighup),
    ("a portal is drained", drains),
    ("a portal that was moved is drained", drains_what_was_moved),
    ("hosts that lose something are named", names_users),
    ("each loss is named, and no other", names_each_loss),
    ("any host, and then a list", names_who_was_any_host),
]

if __name__ == "__main__":
    run_cases(CASES)
