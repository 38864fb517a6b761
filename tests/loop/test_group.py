#!/usr/bin/python3
"""Groups with one owner: two rblkd of one machine, of which the one that has the locks serves. It gives the group away,
ends, is killed or stopped, while fio verifies; there are never two owners."""

import json
import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from harness import (BUILD, LASTING, NQN, RBLKD, SOFTRDMA, Volume, ask, expect, expect_equal, run, run_cases,  # noqa: E402
                     start_fio, wait_until)
from pair import GROUPS, Beside, Member, members  # noqa: E402
from stamped import Writer  # noqa: E402
from successor import follow  # noqa: E402

FAILED, CONFIG, NOT_FOUND = 1, 3, 4
MIB = 1 << 20
MOVES = int(os.environ.get("RBLK_MOVES", "4"))
KILLS = int(os.environ.get("RBLK_KILLS", "2"))
LOAD = ("--rw=randwrite", "--bs=4k", "--iodepth=16", "--size=8m", "--rate_iops=1000", "--loops=10000",
        "--verify=crc32c", "--do_verify=1", "--verify_fatal=1", "--fsync=8")
# Steps of a move
DRAINING = "the last commands end"
CLOSING = "the old one syncs and closes a store, and the new one has none"
TAKING = "the new one has the first store, and the old one the other"
TAKEN = "the new one is the owner"
UUID = LASTING.removeprefix("uuid: ")


def attach(one, other):
    volume = Volume(one, 1, None, "--path", other.address)
    wait_until(lambda: volume.answer().get("paths_live") == 2, "both paths are live")
    return volume


def check_owner(owner, other):
    wait_until(owner.is_owner, "it is the owner")
    wait_until(other.stands_by, "the other stands by")
    expect_equal((owner.ana_states(), other.ana_states()), (["optimized"], ["inaccessible"]), "ANA states")


def begin(scratch, volume):
    process = start_fio(scratch, volume.uri, *LOAD)
    goes_on(process, volume)
    return process


def goes_on(process, volume):
    before = sum(path["commands"] for path in volume.status()["path_list"])
    wait_until(lambda: sum(path["commands"] for path in volume.status()["path_list"]) > before + 200, "I/O goes on")
    expect(process.poll() is None, "fio has ended")


def finish(process, volume):
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=600)
    expect("error" not in output.lower() and "verify:" not in output.lower(), f"fio says\n{output[-2000:]}")
    expect_equal(volume.status()["io_errors"], 0, "I/O errors")
    volume.detach()


def given_away(scratch):
    pair = members(scratch)
    volume = attach(*pair)
    process = begin(scratch, volume)
    for n in range(MOVES):
        owner, other = pair[n % 2], pair[1 - n % 2]
        said = owner.ctl("group", "give", NQN, "1").stdout
        expect("given away" in said, said)
        check_owner(other, owner)
        goes_on(process, volume)
    finish(process, volume)
    for member in pair:
        expect_equal(member.group()["times_given"], MOVES // 2, "times given")
        member.stop()


def killed(scratch):
    """The kernel gives the lock away when the last I/O of the dead process is over."""
    pair = members(scratch)
    volume = attach(*pair)
    process = begin(scratch, volume)
    for n in range(KILLS):
        owner, other = pair[n % 2], pair[1 - n % 2]
        owner.kill()
        wait_until(other.is_owner, "the other is the owner")
        goes_on(process, volume)
        owner.start()
        check_owner(other, owner)
    wait_until(lambda: volume.answer().get("paths_live") == 2, "both paths are live")
    finish(process, volume)
    for member in pair:
        member.stop()


def ended(scratch):
    one, other = members(scratch)
    volume = attach(one, other)
    process = begin(scratch, volume)
    one.stop()
    wait_until(other.is_owner, "the other is the owner")
    goes_on(process, volume)
    one.start()
    check_owner(other, one)
    finish(process, volume)
    one.stop()
    other.stop()


def upgraded_with_writes(scratch):
    """The host asks the one that stands by whether writes of the old process are over, and that one cannot know. The next
    owner can: the new process, or the other one if it is faster when the old process lets go."""
    scratch.env["LD_PRELOAD"] = f"{os.path.join(BUILD, 'tests', 'raw', 'libhung_disk.so')}:{SOFTRDMA}"
    lines = [f"nsid: 1, file: {scratch.make_file('disk', MIB)}, {LASTING}"]
    one, other = Member(scratch, 0, lines), Member(scratch, 1, lines)
    wait_until(other.stands_by, "the second stands by")
    volume = attach(one, other)
    writer = Writer(volume)
    writer.wait_more()
    scratch.make_file("hung", 0)
    wait_until(lambda: os.path.exists(scratch.file("held")), "the disk has writes")
    ask(one.control, "upgrade")
    wait_until(lambda: other.status()["fencing"]["cross_controller_resets"], "the host asks the other")
    os.unlink(scratch.file("hung"))
    writer.wait_more()
    follow(one)
    wait_until(lambda: one.is_owner() or other.is_owner(), "one of them is the owner")
    check_owner(*(one, other) if one.is_owner() else (other, one))
    writer.end()
    volume.detach()
    one.stop()
    other.stop()


class Move:
    """Two namespaces with a host each that writes stamped blocks; the disk of one of them hangs on demand, and so the move
    of the group stands still at a step. OLD gives the group away, NEW shall have it. (Memory has no lock, and no group.)"""

    def __init__(self, scratch, hangs):
        """hangs: the nsid of that one. A new owner locks the first store first."""
        self.scratch = scratch
        scratch.env["LD_PRELOAD"] = f"{os.path.join(BUILD, 'tests', 'raw', 'libhung_disk.so')}:{SOFTRDMA}"
        lines = [f"nsid: {n}, file: {scratch.make_file('disk' if n == hangs else 'other', MIB)}, uuid: {UUID[:-1]}{n}"
                 for n in (1, 2)]
        self.old, self.new = Member(scratch, 0, lines), Member(scratch, 1, lines)
        wait_until(self.new.stands_by, "the second stands by")
        self.volumes = [Volume(self.old, n, None, "--path", self.new.address) for n in (1, 2)]
        for volume in self.volumes:
            wait_until(lambda v=volume: v.answer().get("paths_live") == 2, "both paths are live")
        self.writers = [Writer(volume) for volume in self.volumes]

    def give(self):
        done = ask(self.old.control, "group_give", {"subsystem": NQN, "group": 1})
        expect(done, "rblkd begins to give the group away")

    def is_draining(self):
        """It may have given up: commands have 5 s."""
        if self.old.is_owner():
            self.give()
        return self.old.group()["state"] == "draining"

    def go_to(self, step):
        if step == TAKEN:
            self.give()
            wait_until(self.new.is_owner, "the new one is the owner")
            return
        if step != DRAINING:  # otherwise it has commands that do not end
            for writer in self.writers:
                writer.rest()
        self.scratch.make_file("hung", 0)
        if step == DRAINING:
            wait_until(lambda: os.path.exists(self.scratch.file("held")), "the disk has writes")
            wait_until(self.is_draining, "it drains", every_s=0.01)
            return
        self.give()
        wait_until(lambda: self.old.group()["state"] == "closing", "it syncs and closes the stores")
        wait_until(lambda: self.new.group()["state"] == ("taking" if step == TAKING else "standing by"), step)

    def mend(self):
        if os.path.exists(self.scratch.file("hung")):
            os.unlink(self.scratch.file("hung"))
        for writer in self.writers:
            writer.go_on()

    def kill_one(self, step, victim):
        """The other one becomes the owner, or is it again, and has what was acknowledged."""
        self.go_to(step)
        dead, left = (self.old, self.new) if victim == "old" else (self.new, self.old)
        dead.kill()
        self.mend()
        wait_until(left.is_owner, f"the {victim} one is killed at {step}: the other is the owner")
        for writer in self.writers:
            writer.wait_more()
        dead.start()
        check_owner(left, dead)
        for volume in self.volumes:
            wait_until(lambda v=volume: v.answer().get("paths_live") == 2, "both paths are live")
        self.old, self.new = left, dead

    def end(self):
        for writer in self.writers:
            writer.end()
        for volume in self.volumes:
            volume.detach()
        self.old.stop()
        self.new.stop()


def one_of_two_dies(scratch):
    for hangs, steps in ((1, (DRAINING, CLOSING, TAKEN)), (2, (TAKING,))):
        move = Move(Beside(scratch, f"move{hangs}"), hangs)
        for step in steps:
            for victim in ("old", "new"):
                move.kill_one(step, victim)
        move.end()


def stopped_is_owner(scratch):
    """A process that stands still has its locks: no time makes another one the owner."""
    one, other = members(scratch)
    one.process.send_signal(signal.SIGSTOP)
    taken = other.group()["times_taken"]
    # It has tried since: each try opens the file.
    wait_until(lambda: other.group()["state"] == "standing by", "it stands by")
    expect_equal(other.group()["times_taken"], taken, "times taken")
    one.process.send_signal(signal.SIGCONT)
    wait_until(one.is_owner, "it is the owner as before")
    one.stop()
    wait_until(other.is_owner, "the other is the owner")
    other.stop()


def without_another(scratch):
    """Without another one that takes it, the group comes back."""
    one = Member(scratch, 0)
    done = one.ctl("group", "give", NQN, "1", status=FAILED)
    expect("the owner: no other rblkd has taken it" in done.stderr, done.stderr)
    expect(one.is_owner(), "it is the owner again")
    expect_equal(one.ana_states(), ["optimized"], "ANA states")
    done = one.ctl("group", "give", NQN, "7", status=NOT_FOUND)
    expect("no group 7" in done.stderr, done.stderr)
    done = one.ctl("ana", "set", NQN, "1", "inaccessible", status=FAILED)
    expect("follows the locks" in done.stderr, done.stderr)
    one.stop()


def registrants(member):
    return [(r["hostid"], r["key"], r["holder"]) for r in ask(member.control, "registrant_list")["registrants"]]


def reservations_move(scratch):
    """Also one that need not persist: the end of an owner is no loss of power."""
    host = {"host": "6f1b3a527f0e4c4e9d0c0a4d5e6f7a8b", "key": "ab", "nqn": "nqn.2026-01.org.example:db"}
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as f:
        boot = f.read().strip()
    os.makedirs(scratch.file("group"))
    record = scratch.file(f"group/{UUID}.json")

    def write(boot_id):
        with open(record, "w", encoding="ascii") as f:
            json.dump({"version": 1, "boot": boot_id, "write_protected_until_power_cycle": True,
                       "reservation": {"type": 1, "holder": 0, "registrants": [host], "generation": 7,
                                       "persistent": False}}, f)

    write(boot)
    one, other = members(scratch)
    held = registrants(one)
    expect_equal([r[1:] for r in held], [("ab", True)], "registrants of the owner")
    expect_equal(registrants(other), [], "one that stands by knows of none")
    one.ctl("group", "give", NQN, "1")
    expect_equal((registrants(one), registrants(other)), ([], held), "registrants after the move")
    other.kill()
    wait_until(one.is_owner, "the first is the owner again")
    expect_equal(registrants(one), held, "registrants after a crash")
    one.stop()
    write("of an earlier boot")
    one.start()
    expect_equal(registrants(one), [], "registrants after a loss of power")
    one.stop()


def namespaces_come_and_go(scratch):
    """A namespace that is added belongs to the owner of its group; the other stands by for it, too."""
    pair = members(scratch)
    more = scratch.make_file("more.img", MIB)
    for member in pair:
        with open(member.config, "a", encoding="ascii") as f:
            f.write(f"      - {{nsid: 2, file: {more}}}\n")
        member.ctl("apply")
    one, other = pair
    expect_equal(one.group()["namespaces"], [1, 2], "namespaces")
    wait_until(one.is_owner, "the owner has both stores")
    one.ctl("group", "give", NQN, "1")
    check_owner(other, one)
    states = [ns["state"] for ns in other.list("namespaces")["namespaces"]]
    expect_equal(states, ["ok", "ok"], "states of the owner's namespaces")
    states = [ns["state"] for ns in one.list("namespaces")["namespaces"]]
    expect_equal(states, ["standing by", "standing by"], "states of the other's")
    with open(other.config, encoding="ascii") as f:
        text = f.read()
    with open(other.config, "w", encoding="ascii") as f:
        f.write(text.replace("owner: lock", "owner: this"))
    done = other.ctl("apply", status=FAILED)
    expect("cannot change while it is exported" in done.stderr, done.stderr)
    for member in pair:
        member.stop()


def descriptors(pid):
    """{path: flags}, of all but the first three. One that stands by opens and closes its store all the time."""
    found = {}
    for fd in filter(lambda fd: int(fd) > 2, os.listdir(f"/proc/{pid}/fd")):
        try:
            path = os.readlink(f"/proc/{pid}/fd/{fd}")
            with open(f"/proc/{pid}/fdinfo/{fd}", encoding="ascii") as f:
                found[path] = int(next(line for line in f if line.startswith("flags:")).split()[1], 8)
        except FileNotFoundError:
            continue
    return found


def nothing_is_inherited(scratch):
    """A lock proves something only as long as no other process has the descriptor. posix_spawn starts a successor, which
    executes at once, and systemctl for --check, before any store is open."""
    imports = {line.split()[-1].split("@")[0] for line in run("nm", "-D", "--undefined-only", RBLKD).stdout.splitlines()}
    expect("posix_spawn" in imports, "nm shows what rblkd imports")
    expect_equal(imports & {"fork", "_Fork", "vfork", "clone", "clone3", "system", "popen", "daemon"}, set(), "imports")
    one, other = members(scratch)
    for member in one, other:
        opened = descriptors(member.process.pid)
        expect(member is other or scratch.file("disk.img") in opened, "the owner has the store")
        inherited = [path for path, flags in opened.items() if not flags & os.O_CLOEXEC]
        expect_equal(inherited, [], "descriptors without O_CLOEXEC")
    one.stop()
    other.stop()


def mistakes(scratch):
    """rblkd --check and a start refuse what could not have one owner."""
    file = f"nsid: 1, file: {scratch.make_file('disk.img', MIB)}"
    ids, folder = "controller_ids: {min: 1, max: 9}", f"group_directory: {scratch.path}"
    for extra, namespace, wanted in (
            (ids, file, "needs a group_directory"), (folder, file, "needs controller_ids"),
            (f"{ids}\n{folder}", "nsid: 1, ram: 1MiB", "has no lock"),
            (f"{ids}\n{folder}", f"{file}, shared: true", "several owners at once"),
            (f"{ids}\n{folder}", f"{file}, read_only: true", "needs no owner"),
            (f"{ids}\ngroup_directory: {scratch.file('nowhere')}", file, None)):
        config = scratch.file("mistake.yaml")
        with open(config, "w", encoding="ascii") as f:
            f.write(f"version: 1\ncontrol_socket: {scratch.file('rblkd.sock')}\n{extra}\n"
                    f"portals: [{{name: p, address: 127.0.0.1}}]\nsubsystems:\n  - nqn: {NQN}\n    {GROUPS}\n"
                    f"    namespaces: [{{{namespace}}}]\n")
        if wanted:
            done = run(RBLKD, "--check", "--config", config, check=False, env=scratch.env)
            expect_equal(done.returncode, CONFIG, f"exit status of --check: {done.stderr}")
            expect(wanted in done.stderr, f"'{wanted}' is not in: {done.stderr}")
            continue
        done = run(RBLKD, "--config", config, check=False, env=scratch.env, timeout=60)
        expect_equal(done.returncode, CONFIG, f"exit status: {done.stderr}")
        expect("group_directory: " in done.stderr and "nowhere" in done.stderr, done.stderr)


if __name__ == "__main__":
    run_cases([
        ("a group is given away", given_away),
        ("its owner is killed", killed),
        ("one of the two is killed at each step of a move", one_of_two_dies),
        ("its owner ends", ended),
        ("its owner is upgraded while a disk hangs", upgraded_with_writes),
        ("an owner that stands still is the owner", stopped_is_owner),
        ("a group that is not taken comes back", without_another),
        ("reservations move with it", reservations_move),
        ("namespaces come and go", namespaces_come_and_go),
        ("no child inherits what an owner has", nothing_is_inherited),
        ("mistakes", mistakes),
    ])
