#!/usr/bin/python3
"""rblkctl upgrade: another rblkd takes over, on the same portal, while hosts use it. Nothing is lost, and when either
side dies at any step, one of the two serves."""

import array
import fcntl
import json
import os
import resource
import signal
import socket
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from harness import (NQN, PATIENCE, RBLKCTL, RBLKD, VERIFY, Target, Volume, ask, expect,  # noqa: E402
                     expect_equal, fio, run, run_cases, start_fio, wait_until, with_fabric)
from successor import own_program, replace_program, upgrade  # noqa: E402

FAILED, BUSY = 1, 5
MIB = 1 << 20


def export_of(scratch, size=32):
    return [f"nsid: 1, file: {scratch.make_file('disk.img', size * MIB)}", f"nsid: 2, ram: {size}MiB"]


def hosts_notice_nothing(scratch):
    target = Target(scratch, export_of(scratch))
    volumes = [Volume(target, 1), Volume(target, 2)]
    clients = [start_fio(scratch, volume.uri, "--rw=randrw", "--bs=4k", "--iodepth=8", "--size=16m", "--time_based",
                         "--runtime=600", "--verify=crc32c", "--verify_backlog=32", "--rate_iops=2000")
               for volume in volumes]
    before = target.process.pid
    for n in range(1, 6):
        answer = upgrade(target)
        expect_equal(answer["state"], "done", "state")
        for volume in volumes:
            wait_until(lambda v=volume, k=n: v.reconnects() == k and v.is_live(), "the volume is back")
            expect("proven" in json.dumps(volume.answer()["fencing"]), "its writes are over by proof")
    expect(target.process.pid != before, "another process serves")
    for client in clients:
        expect_equal(client.poll(), None, "fio goes on")
        client.send_signal(signal.SIGINT)
        output, _ = client.communicate(timeout=PATIENCE)
        result = [line for line in output.splitlines() if line.startswith("3;fio")]
        expect_equal([line.split(";")[4] for line in result], ["0"], f"error of fio: {output[-1500:]}")
    for volume in volumes:
        volume.detach()
    target.stop()


def memory_stays(scratch):
    """Also what was written before, and what has grown; a restart would begin with an empty namespace."""
    target = Target(scratch, ["nsid: 2, ram: 8MiB"])
    volume = Volume(target, 2)
    fio(scratch, volume.uri, "--rw=write", "--bs=64k", "--size=8m", *VERIFY)
    uuid = target.list("namespaces")["namespaces"][0]["uuid"]
    upgrade(target)
    volume.wait_live()
    expect_equal(target.list("namespaces")["namespaces"][0]["uuid"], uuid, "uuid")
    fio(scratch, volume.uri, "--rw=read", "--bs=64k", "--size=8m", *VERIFY)
    volume.detach()
    target.stop()


def settings_stay(scratch):
    groups = "allow_any_host: true\n    ana_groups:\n      - {id: 1, state: optimized}"
    target = Target(scratch, ["nsid: 2, ram: 1MiB, ana_group: 1"], subsystem_extra=groups)
    env = dict(scratch.env, RBLK_CONTROL_SOCKET=target.control)
    run(RBLKCTL, "ana", "set", NQN, "1", "non_optimized", env=env)
    before = json.loads(run(RBLKCTL, "ana", "list", "-o", "json", env=env).stdout)
    run(RBLKCTL, "drain", "p", env=env)
    upgrade(target)
    after = json.loads(run(RBLKCTL, "ana", "list", "-o", "json", env=env).stdout)
    state = [[p["state"] for g in a["groups"] for p in g["portals"]] for a in (before, after)]
    expect_equal(state[1], state[0], "ANA states")
    expect_equal(target.list("portals")["portals"][0]["state"], "drained", "state of the portal")
    run(RBLKCTL, "drain", "p", "--undo", env=env)
    target.stop()


def not_changed_meanwhile(scratch):
    """The new process has read the configuration: it stays as it is, until the upgrade is over."""
    program = own_program(scratch)
    target = Target(scratch, ["nsid: 2, ram: 1MiB"], rblkd=program)
    os.unlink(program)
    with open(program, "w", encoding="ascii") as f:
        f.write("#!/bin/sh\nexec sleep 1000\n")
    os.chmod(program, 0o755)
    successor = ask(target.control, "upgrade")["successor"]
    for command in (("apply",), ("qos", "set", f"{NQN}/2", "iops=100"), ("upgrade",)):
        done = run(RBLKCTL, *command, "--socket", target.control, check=False, env=scratch.env)
        expect_equal(done.returncode, BUSY, f"exit status of {command}: {done.stdout}{done.stderr}")
        expect("upgrade is under way" in done.stderr, done.stderr)
    expect("preparing" in run(RBLKCTL, "status", "--socket", target.control, env=scratch.env).stdout, "status")
    os.kill(successor, signal.SIGKILL)
    wait_until(lambda: target.status()["upgrade"]["state"] == "failed", "it goes on")
    run(RBLKCTL, "apply", "--socket", target.control, env=scratch.env)
    target.stop()


def refused(scratch):
    """Nothing is started, and it is said why."""
    target = Target(scratch, ["nsid: 2, ram: 1MiB"])
    with open(target.config, "a", encoding="utf-8") as f:
        f.write("      - {nsid: 3, ram: 1MiB}\n")
    done = run(RBLKCTL, "upgrade", "--socket", target.control, check=False, env=scratch.env)
    expect_equal(done.returncode, BUSY, f"exit status: {done.stderr}")
    expect("apply it first" in done.stderr, done.stderr)
    with open(target.config, "a", encoding="utf-8") as f:
        f.write("nonsense\n")
    done = run(RBLKCTL, "upgrade", "--socket", target.control, check=False, env=scratch.env)
    expect("rblkctl diff" in done.stderr, done.stderr)
    expect_equal(target.status()["pid"], target.process.pid, "it serves")
    target.stop()


def with_successor(scratch, *words):
    """A target whose program is replaced, once it runs, by one that ends after those words."""
    program = own_program(scratch)
    target = Target(scratch, export_of(scratch, 8), rblkd=program)
    volume = Volume(target, 2)
    fio(scratch, volume.uri, "--rw=write", "--bs=64k", "--size=4m", *VERIFY)
    replace_program(program, *words)
    return target, volume


def unharmed(target, volume):
    volume.wait_live()
    fio(target.scratch, volume.uri, "--rw=read", "--bs=64k", "--size=4m", *VERIFY)
    volume.detach()
    target.stop()


def successor_does_not_start(scratch):
    """Hosts do not notice, whether it ends at once, says why, or talks nonsense; nor where it cannot listen."""
    for words in ((), ("failed it is damaged",), ("what is this",), ("prepared 9.9",), ("prepared 9.9", "failed no port")):
        folder = type(scratch)()
        try:
            target, volume = with_successor(folder, *words)
            answer = upgrade(target, FAILED)
            expect_equal(answer["state"], "failed", f"state after {words}")
            expect(words[-1:] != ("failed it is damaged",) or "it is damaged" in answer["reason"], answer["reason"])
            expect_equal(volume.reconnects(), 0, "reconnects")
            unharmed(target, volume)
        finally:
            folder.remove()


def successor_dies(scratch):
    """Hosts have been told by then: the old program starts again, with the memory that it had."""
    target, volume = with_successor(scratch, "prepared 9.9", "listening")
    pid = target.process.pid
    answer = upgrade(target, FAILED)
    expect_equal(answer["state"], "undone", "state")
    expect_equal(target.status()["pid"], pid, "the process")
    expect("was undone: " in run(RBLKCTL, "status", "--socket", target.control, env=scratch.env).stdout, "status")
    unharmed(target, volume)


class Successor(Target):
    """An rblkd that its predecessor has started, with a socket to it."""

    def __init__(self, giver, namespaces, extra):
        self.theirs = giver.theirs
        super().__init__(giver.scratch, namespaces, extra=extra)

    def start(self):
        env = with_fabric(dict(self.scratch.env, RBLKD_PREDECESSOR=str(self.theirs.fileno())))
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([RBLKD, "--config", self.config], env=env, stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, pass_fds=[self.theirs.fileno()])
        self.theirs.close()


class Predecessor:
    """The other side: this test is the rblkd that gives, and holds the lock of the disk."""

    def __init__(self, scratch):
        self.scratch = scratch
        self.disk = open(scratch.make_file("disk.img", MIB), "r+b")
        fcntl.fcntl(self.disk, fcntl.F_OFD_SETLK, struct.pack("hhqqi", fcntl.F_WRLCK, 0, 0, 0, 0))
        self.socket, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(PATIENCE)

    def start(self, extra=""):
        target = Successor(self, [f"nsid: 1, file: {self.disk.name}"], extra)
        expect(self.socket.recv(4096).startswith(b"prepared "), "it is prepared")
        return target

    def let_listen(self):
        self.socket.send(b"listen")
        expect_equal(self.socket.recv(4096), b"listening", "answer")

    def unlock(self):
        self.disk.close()

    def give(self, text):
        fd = os.memfd_create("handover")
        os.write(fd, text)
        os.lseek(fd, 0, os.SEEK_SET)
        self.socket.sendmsg([b"handover"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))])
        self.socket.send(b"yours")
        expect_equal(self.socket.recv(4096), b"serving", "answer")


def serves(target):
    wait_until(target.is_ready, "it serves")
    Volume(target, 1).detach()
    target.stop()


def predecessor_dies(scratch):
    """The one that listens already serves when the locks are free, and not before: hosts wait so long."""
    giver = Predecessor(scratch)
    target = giver.start()
    giver.let_listen()
    giver.socket.close()
    wait_until(lambda: "has died" in target.read_log(), "it has noticed")
    expect_equal(target.process.poll(), None, "it waits")
    expect(not os.path.exists(target.control), "and does not serve")
    giver.unlock()
    serves(target)


def buffers_come_first(scratch):
    """They are registered before it is told to listen: that takes long, and until it listens no host can connect. It says
    so where the limit of locked memory leaves it less."""
    scratch.env["SOFTRDMA_MEMLOCK_STRICT"] = "1"
    before = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (8 * MIB, before[1]))
    try:
        giver = Predecessor(scratch)
        target = giver.start("tuning: {workers: 2, buffers: 256MiB, shared_receives: 256, max_transfer: 256KiB}")
    finally:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, before)
    expect("8MiB, leaves " in target.read_log(), f"what is registered once it is prepared: {target.read_log()}")
    giver.let_listen()
    expect_equal(target.read_log().count(" leaves "), 1, "how often it was registered")
    giver.socket.send(b"end")
    target.process.wait(PATIENCE)
    giver.unlock()


def predecessor_goes_on(scratch):
    for act in (lambda giver: giver.socket.send(b"end"), lambda giver: giver.socket.close()):
        folder = type(scratch)()
        try:
            giver = Predecessor(folder)
            target = giver.start()
            act(giver)
            target.process.wait(PATIENCE)
            expect(not os.path.exists(target.control), "it never served")
            giver.unlock()
        finally:
            folder.remove()


def estate_is_checked(scratch):
    """It comes from another release: what cannot be read is a loss that is said, and no crash."""
    uuid = "0b1e6c5e-5a55-4c0e-9b0c-2f6f4b5d1a10"
    one = {"subsystem": NQN, "nsid": 1, "uuid": uuid}
    for handover in ("", "[]", "{}", "nonsense", json.dumps({"version": 2, "namespaces": []}),
                   json.dumps({"version": 1, "namespaces": [7]}),
                   json.dumps({"version": 1, "namespaces": [dict(one, memory_bytes=4096)]}),
                   json.dumps({"version": 1, "namespaces": [dict(one, uuid="x")]}),
                   json.dumps({"version": 1, "namespaces": [one], "last_cntlid": 99999999,
                               "ana": [7, {}, {"subsystem": NQN, "group": 1, "portal": "p", "state": 77}],
                               "drained": [None, 7, "q"]})):
        folder = type(scratch)()
        try:
            giver = Predecessor(folder)
            target = giver.start()
            giver.let_listen()
            giver.unlock()
            giver.give(handover.encode())
            serves(target)
        finally:
            folder.remove()


def stopped_meanwhile(scratch):
    """SIGTERM ends both: nothing is left that would serve."""
    giver = Predecessor(scratch)
    target = giver.start()
    giver.let_listen()
    target.process.terminate()
    expect_equal(target.process.wait(PATIENCE), 0, "exit status")
    giver.unlock()


run_cases([
    ("hosts notice nothing but a new association", hosts_notice_nothing),
    ("memory stays, and its identity", memory_stays),
    ("what an administrator has set stays", settings_stay),
    ("the configuration stays as the successor has read it", not_changed_meanwhile),
    ("an upgrade is refused where the file differs", refused),
    ("a successor that does not start changes nothing", successor_does_not_start),
    ("a successor that dies is replaced by the old program", successor_dies),
    ("a predecessor that dies is outlived, once its locks are free", predecessor_dies),
    ("a predecessor that goes on sends the successor away", predecessor_goes_on),
    ("a successor has its buffers before it listens", buffers_come_first),
    ("what is left behind is checked", estate_is_checked),
    ("a successor can be stopped", stopped_meanwhile),
])
