#!/usr/bin/python3
"""rblkctl and its JSON, the durability switch, the example configuration, the manual's keys."""

import grp
import json
import os
import pwd
import re
import stat
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from harness import (NQN, PATIENCE, RBLK, RBLKCTL, RBLKD, ROOT, Target, Volume, expect, expect_equal, fio, free_port,  # noqa: E402
                     keep_registrant, run, run_cases, wait_until)

OK, USAGE, CONFIG, NOT_FOUND, PARTIAL, UNREACHABLE, DENIED = 0, 2, 3, 4, 6, 7, 8
HOST = "nqn.2026-01.org.example:db1"


def ctl(target, *arguments, status=0):
    done = run(RBLKCTL, *arguments, check=False,
               env=dict(target.scratch.env, RBLK_CONTROL_SOCKET=target.control))
    expect_equal(done.returncode, status, f"exit status of rblkctl {arguments}: {done.stderr}")
    return done


def aligned(text):
    """Rows of a table: each cell begins or ends in the column of its title."""
    lines = text.splitlines()
    titles = [(m.start(), m.end()) for m in re.finditer(r"\S+", lines[0])]
    for line in lines[1:]:
        expect(not line.endswith(" "), f"blanks at the end: {line!r}")
        for start, end in titles:
            if end <= len(line):
                expect(line[start] != " " or line[end - 1] != " ", f"not aligned: {line!r}")
    return [line.split() for line in lines]


def shows(scratch):
    scratch.make_file("disk.img", 1 << 20)
    target = Target(scratch, ["nsid: 7, ram: 16MiB, block_size: 4096, read_only: true",
                              f"nsid: 1, file: {scratch.path}/disk.img"],
                    extra=f"hosts: [{{name: db1, nqn: '{HOST}'}}]",
                    subsystem_extra="serial: S1\n    allow_hosts: [db1]")
    done = ctl(target, "status")
    (first, uses, *table), durability, fencing, smart = (part.splitlines()
                                                         for part in done.stdout.split("\n\n"))
    expect(re.fullmatch(r"rblkd \S+ running \S+  portals 1/1 up  subsystems 1  namespaces 2  "
                        r"hosts 0  state OK", first), first)
    expect_equal(uses, "connections 0 of 1024, pending 0 of 256, discovery 0 of 256", "limits")
    rows = aligned("\n".join(table))
    expect_equal(rows[1][0], "p", "portal")
    expect_equal(rows[1][3], "listening", "its state")
    expect_equal([line.split()[:2] for line in durability[1:]],
                 [[f"{NQN}/1", "file"], [f"{NQN}/7", "ram"]], "durability")
    expect_equal(fencing, ["fencing: exact (no other process of this machine can write)"], "fencing")
    expect_equal(target.status()["fencing"]["by"], "machine lock", "how that is known")
    expect_equal(smart, ["SMART counters begin with this start: there is no state_directory"], "smart")
    rows = aligned(ctl(target, "list").stdout)
    expect_equal(rows[1], [NQN, "S1", "p", "1", "allowed", "2", "0"], "subsystem")
    rows = aligned(ctl(target, "list", "namespaces").stdout)
    expect_equal(rows[1], [NQN, "1", "1MiB", "512", "file", "write", "ok", scratch.file("disk.img")],
                 "namespace 1")
    expect_equal(rows[2], [NQN, "7", "16MiB", "4096", "ram", "read", "ok"], "namespace 7")
    expect("1048576" in ctl(target, "list", "namespaces", "--bytes").stdout, "--bytes")
    rows = aligned(ctl(target, "list", "hosts").stdout)
    expect_equal(rows[1], ["db1", "0", "0", HOST], "host")
    expect_equal(len(aligned(ctl(target, "list", "connections").stdout)), 1, "no connections")
    expect_equal(len(aligned(ctl(target, "list", "portals").stdout)), 2, "one portal")
    target.stop()


def json_is_stable(scratch):
    """Scripts rely on these keys: none may be removed."""
    target = Target(scratch, ["nsid: 1, ram: 16MiB"])
    status = target.status()
    wanted = {"schema", "program", "version", "pid", "uptime_s", "state", "workers", "portals_up",
              "portals", "subsystems", "namespaces", "failed_namespaces", "hosts", "connections",
              "pending_connections", "discovery_associations", "limits", "durability", "smart",
              "unkept_namespaces", "defects"}
    expect(wanted <= status.keys(), f"status lacks {wanted - status.keys()}")
    expect_equal(status["schema"], 1, "schema")
    expect_equal(status["pid"], target.process.pid, "pid")
    for what, keys in (
            ("portals", {"name", "address", "device", "state", "queue_pairs", "detail"}),
            ("subsystems", {"nqn", "serial", "model", "portals", "allow_any_host", "allow_hosts",
                            "namespaces", "controllers", "power_cycles", "unsafe_shutdowns",
                             "crashes"}),
            ("namespaces", {"subsystem", "nsid", "uuid", "kind", "path", "size_bytes", "block_size",
                            "read_only", "state", "reads", "writes", "errors", "durability"}),
            ("hosts", set()), ("connections", set())):
        answer = target.list(what)
        expect_equal(set(answer), {"schema", what}, f"list {what}")
        for item in answer[what]:
            expect(keys <= item.keys(), f"{what} lacks {keys - item.keys()}")
    target.stop()


def fails_well(scratch):
    done = run(RBLKCTL, "status", "--socket", scratch.file("absent"), check=False)
    expect_equal(done.returncode, UNREACHABLE, "exit status")
    expect_equal(done.stderr.count("error:"), 1, "error lines")
    expect_equal(done.stderr.count("hint:"), 1, "hint lines")
    done = run(RBLKCTL, "status", "-o", "json", "--socket", scratch.file("absent"), check=False)
    expect_equal(json.loads(done.stdout)["error"]["code"], UNREACHABLE, "code")
    expect_equal(done.stderr, "", "with -o json")
    done = run(RBLKCTL, "lst", "-o", "json", check=False)
    expect_equal(json.loads(done.stdout)["error"]["code"], USAGE, "code of a word that it does not know")
    done = run(RBLKCTL, "list", "namespace", check=False)
    expect_equal(done.returncode, USAGE, "exit status")
    expect("did you mean 'namespaces'" in done.stderr, done.stderr)


def degraded(scratch):
    """A portal without address: the daemon serves the others, and logs what it waits for."""
    control, config = scratch.file("c.sock"), scratch.file("two.yaml")
    with open(config, "w", encoding="utf-8") as f:
        f.write(f"version: 1\ncontrol_socket: {control}\nportals:\n"
                f"- {{name: here, address: 127.0.0.1, port: {free_port()}}}\n"
                "- {name: nowhere, address: 192.0.2.1}\n")
    with open(scratch.file("log"), "wb") as log:
        daemon = subprocess.Popen([RBLKD, "-c", config], env=scratch.env, stdout=log, stderr=log)
    try:
        wait_until(lambda: run(RBLKCTL, "status", "-s", control, check=False).returncode !=
                   UNREACHABLE, "rblkd answers")
        done = run(RBLKCTL, "status", "-s", control, check=False)
        expect_equal(done.returncode, PARTIAL, f"exit status ({done.stderr})")
        expect("portals 1/2 up" in done.stdout and "state degraded" in done.stdout, done.stdout)
        expect(re.search(r"nowhere +192.0.2.1:4420 +- +waiting +0  address not configured, "
                         r"retry in \d s", done.stdout), done.stdout)
        expect_equal(stat.S_IMODE(os.stat(control).st_mode), 0o660, "mode of the control socket")
        second = run(RBLKD, "-c", config, check=False, env=scratch.env)
        expect(second.returncode != 0 and "another rblkd" in second.stderr, second.stderr)
    finally:
        daemon.terminate()
        daemon.wait(PATIENCE)
    expect(not os.path.exists(control), "the control socket is left behind")


def config_every_user_may_write(scratch):
    config = scratch.file("open.yaml")
    with open(config, "w", encoding="utf-8") as f:
        f.write("version: 1\nportals: [{name: p, address: 127.0.0.1}]\n")
    os.chmod(config, 0o666)
    done = run(RBLKD, "--check", "-c", config, check=False)
    expect_equal(done.returncode, CONFIG, "exit status")
    expect("may write this file" in done.stderr, done.stderr)
    os.chmod(config, 0o644)
    done = run(RBLKD, "--check", "-c", config)
    expect_equal(done.stdout, f"{config}: ok (1 portal, 0 subsystems, 0 namespaces, 0 hosts)\n",
                 "what --check says")


def fabric_that_is_asked_for(scratch):
    """In a service (RBLK_FABRIC_AUTO) auto is a device and never the software provider, which is used if asked for.
    --check says what a start would meet."""
    target = Target(scratch, ["nsid: 1, ram: 1MiB"])
    env = dict(scratch.env, RBLK_FABRIC_AUTO="device")
    has_device = os.path.isdir("/sys/class/infiniband") and os.listdir("/sys/class/infiniband")
    for arguments, code in (["--fabric", "soft"], OK), ([], NOT_FOUND), (["--fabric", "auto"], NOT_FOUND):
        done = run(RBLK, "discover", target.address, *arguments, check=False, env=env)
        expect_equal(done.returncode, OK if has_device else code, f"{done.stderr}\n{arguments}: exit status")
        expect(code == OK or has_device or "softrdma has to be asked for" in done.stderr, done.stderr)
    for arguments, note in ([], "the service waits for one"), (["--fabric", "soft-roce"], ""), (["--fabric", "no0"], "'no0'"):
        done = run(RBLKD, "--check", "-c", target.config, *arguments, env=dict(scratch.env, LD_PRELOAD=""))
        noted = note == "'no0'" or bool(note) and not has_device
        expect_equal("note: " in done.stderr, noted, done.stderr)
        expect(not noted or note in done.stderr, done.stderr)
    target.stop()


def checked_as_its_user(scratch):
    """--check by root looks as the user of the service, which systemctl names, and says what it cannot look at."""
    image, owned = scratch.make_file("secret.img", 1 << 20), scratch.file("owned")
    config, systemctl = scratch.file("t.yaml"), scratch.file("systemctl")
    ceph = scratch.file("ceph.conf")
    for path, text in ((config, f"""version: 1
portals: [{{name: p, address: 127.0.0.1}}]
subsystems:
  - {{nqn: {NQN}, allow_any_host: true, namespaces: [{{nsid: 1, file: {image}}}]}}
"""), (ceph, ""), (systemctl, f"#!/bin/sh\ncat {owned}\n")):
        with open(path, "w", encoding="ascii") as f:
            f.write(text)
    os.chmod(systemctl, 0o755)
    os.chmod(scratch.path, 0o755)
    os.chmod(image, 0o600)
    env = dict(scratch.env, PATH=f"{scratch.path}:{os.environ['PATH']}", RBLK_FABRIC_AUTO="")

    def check(*arguments, program=RBLKD, **properties):
        with open(owned, "w", encoding="ascii") as f:
            f.write(f"LoadState=loaded\nExecStart={{ path={program} ; argv[]={program} ; ignore_errors=no }}\nUser=daemon\n")
            f.writelines(f"{name}={value}\n" for name, value in properties.items())
        done = run(RBLKD, "--check", "-c", config, *arguments, check=False, env=env)
        return done.returncode, "".join(line for line in done.stderr.splitlines(True) if "RDMA" not in line), done.stdout

    ok = f"{config}: ok (1 portal, 1 subsystem, 1 namespace, 0 hosts)\n"
    as_daemon = "checked as user daemon, that of rblkd.service\n"
    expect_equal(run(RBLKD, "--user", "daemon", check=False).returncode, USAGE, "--user without --check")
    if os.geteuid() != 0:
        code, err, out = check()
        expect("and the service runs as daemon" in err and out == ok, err)
        return
    code, err, out = check()
    expect_equal((code, out), (CONFIG, ""), err)
    expect("secret.img: not allowed to read and write it as user 1" in err, err)
    expect("hint: checked as user daemon, that of rblkd.service; --user root checks as root" in err, err)
    code, err, out = check("--user", "root")
    expect_equal((code, out), (OK, ok), err)
    expect("note: checked as user root, and the service runs as daemon" in err, err)
    expect_equal(check(program="/bin/true"), (OK, "", ok), "the service of another rblkd")
    code, err, out = check("--user", "daemon", program="/bin/true")
    expect_equal((code, out), (CONFIG, ""), err)
    expect_equal(check("--user", "no-such-user")[0], NOT_FOUND, "a user that does not exist")
    disk = grp.getgrnam("disk").gr_gid
    os.chown(image, 0, disk)
    os.chmod(image, 0o660)
    expect_equal(check()[0], CONFIG, "without the group")
    expect_equal(check(SupplementaryGroups="disk"), (OK, "", ok + as_daemon), "a group that a drop-in adds")
    expect_equal(check(Group="disk"), (OK, "", ok + as_daemon), "its group")
    os.chown(image, pwd.getpwnam("daemon").pw_uid, 0)
    code, err, out = check(ProtectSystem="strict", ReadWritePaths="/run/rblk -/srv/rblk")
    expect_equal((code, out), (OK, ok + as_daemon), err)
    expect(f"note: {image}: the service may not write there: see ReadWritePaths= of rblkd.service" in err, err)
    expect_equal(check(ProtectSystem="strict", ReadWritePaths=f"/run/rblk -{scratch.path}"), (OK, "", ok + as_daemon), "")
    if os.path.exists(os.path.join(os.path.dirname(RBLKD), "rblk-rbd.so")):
        with open(config, encoding="ascii") as f:
            text = f.read().replace(f"file: {image}", f"rbd: none/nothing, ceph_conf: {ceph}")
        with open(config, "w", encoding="ascii") as f:
            f.write(text)
        code, err, out = check()
        expect_equal(code, OK, err)
        expect("rbd none/nothing was not looked at: only the cluster knows pool, image and user" in err, err)


def example_is_right(scratch):
    """The example's only errors are the disks that this machine lacks."""
    done = run(RBLKD, "--check", "-c", os.path.join(ROOT, "docs/examples/target.yaml"), check=False)
    faults = [line for line in done.stderr.splitlines() if ": error: " in line]
    expect(all("/srv/rblk/" in f or "/dev/disk/" in f for f in faults), "\n".join(faults))


def manual_has_every_key(scratch):
    with open(os.path.join(ROOT, "target/config/schema.c"), encoding="utf-8") as f:
        keys = set(re.findall(r'\{"([a-z_]+)", CONF_', f.read()))
    with open(os.path.join(ROOT, "target/store/backend_list.h"), encoding="utf-8") as f:
        kinds = set(re.findall(r"^BACKEND\((\w+)\)", f.read(), re.MULTILINE))
    expect({"file", "null"} <= kinds, f"backends: {kinds}")
    keys |= kinds
    with open(os.path.join(ROOT, "docs/man/rblk-target.yaml.5.scd"), encoding="utf-8") as f:
        described = set(re.findall(r"\*([a-z_]+)\*", f.read()))
    expect(len(keys) > 30, f"only {len(keys)} keys found in the schema")
    expect(keys <= described, f"the manual lacks {keys - described}")


def keeps_nothing(scratch):
    """A null namespace accepts I/O, reads zeroes, grows, and is never mistaken for a store."""
    target = Target(scratch, ["nsid: 1, null: 1GiB"])
    volume = Volume(target, 1)
    fio(scratch, volume.uri, "--rw=randrw", "--bs=4k-256k", "--iodepth=16", "--size=16m", "--trim_percentage=10")
    run("/usr/bin/python3", "-m", "nbd", "-u", volume.uri, "-c",
        "h.pwrite(b'x' * 8192, 4096)\nh.flush()\nassert h.pread(16384, 0) == bytes(16384)")
    namespace, = target.list("namespaces")["namespaces"]
    expect_equal((namespace["kind"], namespace["path"], namespace["size_bytes"], namespace["state"]),
                 ("null", None, 1 << 30, "ok"), "the namespace")
    expect_equal(namespace["durability"],
                 {"volatile_write_cache": False, "write_through": False, "cache": "none",
                  "flush": "nothing: what is written is dropped", "fua": "nothing: what is written is dropped",
                  "blocks": "none is kept"}, "durability")
    text = ctl(target, "list", "namespaces").stdout
    expect(re.search(r"\bnull\b", text), text)
    expect("keeps nothing: writes are dropped, reads give zeroes" in target.read_log(), target.read_log())
    with open(target.config, encoding="utf-8") as f:
        grown = f.read().replace("null: 1GiB", "null: 2GiB")
    with open(target.config, "w", encoding="utf-8") as f:
        f.write(grown)
    ctl(target, "apply")
    expect_equal(target.list("namespaces")["namespaces"][0]["size_bytes"], 2 << 30, "size after apply")
    volume.detach()
    target.stop()


def controller_ids(scratch):
    target = Target(scratch, [f"nsid: {i}, ram: 16MiB" for i in (1, 2, 3)],
                    extra="controller_ids: {min: 700, max: 701}")
    volumes = [Volume(target, nsid) for nsid in (1, 2)]
    # A connection has no host before its Connect, and a volume's workers connect after it was
    # attached.
    ids = lambda: {c["controller"] for c in target.list("connections")["connections"]} - {None}
    wait_until(lambda: len(ids()) == 2, "both volumes are connected")
    expect_equal(ids(), {700, 701}, "controller ids")
    volumes[0].detach()
    Volume(target, 3).detach()
    volumes[1].detach()
    target.stop()
    path = scratch.file("t.yaml")
    with open(path, "w", encoding="ascii") as f:
        f.write("version: 1\nportals: [{name: p, address: 127.0.0.1}]\ncontroller_ids: {min: 9, max: 8}\n")
    done = run(RBLKD, "--check", "--config", path, check=False)
    expect_equal(done.returncode, CONFIG, done.stderr)
    expect("max 8 is below min 9" in done.stderr, done.stderr)


def hosts_and_registrants(scratch):
    """A host has registered with the identifier of another one, and so has locked it out: the refusal says so,
    and an administrator drops the registration. A host that is disconnected comes back."""
    uuid, other = "0b1e6c5e-5a55-4c0e-9b0c-2f6f4b5d1a10", "nqn.2026-01.org.example:other"
    identifier = "6f1b3a52-7f0e-4c4e-9d0c-0a4d5e6f7a8b"
    target = Target(scratch, [f"nsid: 1, file: {scratch.make_file('disk.img', 1 << 20)}, uuid: {uuid}",
                              "nsid: 2, ram: 1MiB"],
                    extra=f"{keep_registrant(scratch, uuid, identifier, other)}\nhosts: [{{name: db1, nqn: '{HOST}'}}]")
    rows = aligned(ctl(target, "registrant", "list").stdout)
    expect_equal(rows[1:], [[NQN, "1", identifier, "ab", "write_exclusive", "no", other]], "registrants")
    listed = json.loads(ctl(target, "registrant", "list", f"{NQN}/1", "-o", "json").stdout)
    expect_equal(listed, {"schema": 1, "registrants": [
        {"subsystem": NQN, "nsid": 1, "hostid": identifier, "host": other, "host_name": None, "key": "ab",
         "holder": True, "reservation": "write_exclusive", "persistent": True, "connected": False}]}, "in JSON")
    expect_equal(len(aligned(ctl(target, "registrant", "list", f"{NQN}/2").stdout)), 1, "none at the other namespace")
    ctl(target, "registrant", "list", f"{NQN}/3", status=NOT_FOUND)
    identity = ("--hostnqn", HOST, "--hostid", identifier)
    done = run(RBLK, "attach", f"{NQN}@{target.address}", "--ns", "2", "--frontend", "socket", *identity, check=False,
               env=scratch.env)
    expect_equal(done.returncode, DENIED, done.stderr)
    expect(f"target refuses our host identifier {identifier}: it is another host's" in done.stderr, done.stderr)
    expect("hint: each host needs a hostnqn and a hostid of its own" in done.stderr, done.stderr)
    expect(f"is that of host {other}, which has registered it" in target.read_log(), target.read_log())
    ctl(target, "registrant", "drop", f"{NQN}/2", identifier, status=NOT_FOUND)
    ctl(target, "registrant", "drop", f"{NQN}/3", identifier, status=NOT_FOUND)
    ctl(target, "registrant", "drop", NQN, "6f1b3a52", status=USAGE)
    ctl(target, "registrant", "drop", NQN, status=USAGE)
    done = ctl(target, "registrant", "drop", NQN, identifier.upper())
    expect_equal(done.stdout, f"{NQN}/1: dropped {identifier} of host {other}\n", "drop")
    ctl(target, "registrant", "drop", NQN, identifier, "-o", "json", status=NOT_FOUND)
    disconnects(scratch, target, identity)
    target.stop()


def disconnects(scratch, target, identity):
    """rblkctl host disconnect, beside the volume of another host."""
    expect_equal(ctl(target, "host", "disconnect", "db1").stdout, f"{HOST}: not connected\n", "before")
    volume = Volume(target, 2, None, "--reconnect-delay", "100ms", *identity)
    beside = Volume(target, 1, None, "--hostnqn", "nqn.2026-01.org.example:beside")
    host = target.list("hosts")["hosts"][0]
    expect_equal((host["hostids"], host["bound_hostid"]), ([identity[-1]], None), "identifiers")
    done = ctl(target, "host", "disconnect", "db1")
    expect_equal(done.stdout, f"{HOST}: 1 association ended; it may connect again\n", "disconnect")
    wait_until(lambda: volume.reconnects() == 1 and volume.is_live(), "the volume is back")
    answer = json.loads(ctl(target, "host", "disconnect", HOST, "-o", "json").stdout)
    queues = answer.pop("queue_pairs")
    expect(queues >= 1, "queue pairs")
    expect_equal(answer, {"schema": 1, "host": HOST, "host_name": "db1", "controllers": 1}, "in JSON")
    wait_until(lambda: volume.reconnects() == 2 and volume.is_live(), "the volume is back again")
    expect("an administrator disconnected it" in target.read_log(), target.read_log())
    expect_equal(beside.reconnects(), 0, "reconnects of the other host")
    ctl(target, "host", "disconnect", "ghost", status=NOT_FOUND)
    ctl(target, "host", "disconnect", "", status=USAGE)
    volume.detach()
    beside.detach()


CASES = [
    ("status and lists", shows),
    ("a namespace that keeps nothing", keeps_nothing),
    ("JSON keys", json_is_stable),
    ("rblkctl without rblkd, and misspelt", fails_well),
    ("a portal without address", degraded),
    ("a configuration that every user may write", config_every_user_may_write),
    ("hosts and registrants", hosts_and_registrants),
    ("controller ids keep to their range", controller_ids),
    ("a fabric that is asked for", fabric_that_is_asked_for),
    ("--check as the user of the service", checked_as_its_user),
    ("the example configuration", example_is_right),
    ("the manual describes every key", manual_has_every_key),
]

if __name__ == "__main__":
    run_cases(CASES)
