#!/usr/bin/python3
"""Two rblkd and one owner, in rounds: hosts write stamped blocks on both paths while the two are killed, stopped, ended,
upgraded and cut off, the disk hangs, and the group is given away, at moments that a seed chooses. After each round one of
the two is the owner, and each block of the store is the last that was acknowledged; at no moment there are two owners.

  test_rounds.py [--rounds N] [--seed S] [--first N]    first: where that seed begins, to repeat one round
"""

import argparse
import json
import os
import random
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from harness import (BUILD, CRASH, NQN, PATIENCE, SOFTRDMA, Failure, Volume, expect, expect_equal, run_cases,  # noqa: E402
                     wait_until)
from page_machine import device  # noqa: E402
from pair import MIB, Beside, Member  # noqa: E402
from stamped import BLOCKS, Stamps, Writer  # noqa: E402
from successor import Child  # noqa: E402

HUNG = os.path.join(BUILD, "tests", "raw", "libhung_disk.so")
LOOK_S, PROGRESS_S = 0.005, 30
SHORT_S, LONG_S = 0.003, 0.03
# A host gives a path up that was silent for longer than this; some rounds last so long.
KEEP_ALIVE_S, SILENT_S = 1, 3
# How often of a hundred, and what ends it.
FAULTS = {"kill": (25, "start"), "give": (25, None), "stop": (15, "go on"), "hang": (12, "end hang"), "upgrade": (10, None),
          "end": (8, "start"), "cut": (5, "mend")}
# So many of a hundred rounds have one of these instead: a write that the owner has, and that its disk does not get
# before the host has been served elsewhere.
SCENES_SHARE = 8
SCENES = (("hang", "give", "stop", "end hang", "go on late"), ("hang", "stop", "end hang", "go on late"),
          ("hang", "upgrade", "stop", "end hang", "go on late"), ("hang", "cut", "give", "end hang"),
          ("hang", "give", "kill", "end hang", "start"))
UUIDS = [f"0b1e6c5e-5a55-4c0e-9b0c-2f6f4b5d1a2{n}" for n in range(2)]


# ---- what happens in a round ------------------------------------------------------------------


def plan_of(rng):
    """[(seconds to wait before, verb, 0: the owner at the beginning, 1: the other, which of its processes)]"""
    plan = [(verb, 0) for verb in rng.choice(SCENES)] if rng.random() * 100 < SCENES_SHARE else random_plan(rng)
    return [(SILENT_S if verb == "go on late" else rng.choice((0, SHORT_S, LONG_S)) * rng.random(), verb, side, rng.random())
            for verb, side in plan]


def random_plan(rng):
    plan = []
    for verb in rng.choices(list(FAULTS), [share for share, _ in FAULTS.values()], k=rng.choice((1, 1, 2, 2, 3, 4))):
        side = int(rng.random() < 0.3)
        at = rng.randint(0, len(plan))
        plan.insert(at, (verb, side))
        if FAULTS[verb][1] and rng.random() < 0.7:
            plan.insert(rng.randint(at + 1, len(plan)), (FAULTS[verb][1], side))
    return plan


def words_of(plan):
    return ", ".join(f"{verb} {('owner', 'other')[side]} after {pause_s * 1000:.1f} ms" for pause_s, verb, side, _ in plan)


def call(path, method, params=None, seconds=PATIENCE):
    """(process, the result); None: no answer."""
    question = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}
    try:
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(seconds)
            s.connect(path)
            pid = struct.unpack("iii", s.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
            s.sendall(json.dumps(question).encode() + b"\n")
            with s.makefile() as answers:
                return pid, json.loads(answers.readline()).get("result")
    except (OSError, ValueError):
        return 0, None


class Process:
    """A Popen of the harness, or a Child. Questions and signals never go to another process with the same number."""

    def __init__(self, process):
        self.process = process
        self.pid = process.pid
        self.fd = os.pidfd_open(process.pid)

    def __del__(self):
        os.close(self.fd)

    def is_over(self):
        return bool(select.select([self.fd], [], [], 0)[0])

    def exit_status(self):
        """The exit status of one that is over; None: its parent, which lives, has it."""
        try:
            return self.process.poll()
        except ChildProcessError:
            return None

    def send_signal(self, number):
        try:
            signal.pidfd_send_signal(self.fd, number)
        except ProcessLookupError:
            pass


class Contender(Member):
    """One of the two, of which up to two processes live: in an upgrade."""

    def __init__(self, scratch, number, namespaces):
        self.chaos = scratch.file(f"chaos{number}")
        self.order("")
        self.known, self.stopped, self.ending = [], [], []
        self.exits = {0, -signal.SIGKILL}
        super().__init__(scratch, number, namespaces)

    def order(self, faults):
        with open(f"{self.chaos}.new", "w", encoding="ascii") as f:
            f.write(faults)
        os.rename(f"{self.chaos}.new", self.chaos)

    def start(self):
        self.begin()
        wait_until(self.is_ready, "rblkd is ready")

    def begin(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([self.rblkd, "--config", self.config], stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, env=dict(self.scratch.env, SOFTRDMA_CONTROL=self.chaos))
        self.known = [Process(self.process)]

    def lives(self, process):
        if not process.is_over():
            return True
        code = process.exit_status()
        expect(code is None or code in self.exits, f"rblkd ended with {code}:\n{self.read_log()[-2000:]}")
        return False

    def processes(self):
        self.known = [process for process in self.known if self.lives(process)]
        return self.known

    def send(self, number, which):
        processes = self.processes()
        if processes:
            process = processes[int(which * len(processes))]
            process.send_signal(number)
            return [process]
        return []

    # ---- faults

    def kill(self, which):
        self.send(signal.SIGKILL, which)

    def end(self, which):
        if self.ending:
            self.exits = {0, 1, -signal.SIGKILL}  # asked twice, it does not wait for commands
        self.ending += self.send(signal.SIGTERM, which)

    def stop_one(self, which):
        self.stopped += self.send(signal.SIGSTOP, which)

    def go_on(self, _=0):
        for process in self.stopped:
            if self.lives(process):
                process.send_signal(signal.SIGCONT)
        self.stopped = []

    def start_again(self, _):
        if not self.processes():
            self.begin()

    def give(self, _):
        call(self.control, "group_give", {"subsystem": NQN, "group": 1}, 0.001 if self.stopped else PATIENCE)

    def upgrade(self, _):
        if self.stopped or self.ending or len(self.processes()) != 1:
            return  # it would not say which process is the new one
        self.exits = {0, 1, -signal.SIGKILL}  # one that lost the other
        answer = call(self.control, "upgrade")[1]
        if answer:
            try:
                self.known.append(Process(Child(answer["successor"])))
            except ProcessLookupError:
                pass  # it has ended already

    def cut(self, which):
        self.order(f"fail={1 + int(which * 50)},status=12")

    def mend(self, _=0):
        self.order("")

    # ---- and after them

    def is_settled(self):
        """One process serves, or a new one has been started, which will."""
        processes = self.processes()
        if not processes:
            self.begin()
        if len(processes) != 1 or any(map(self.lives, self.ending)):
            return False
        self.process = processes[0].process
        status = call(self.control, "status")[1] or {}
        is_over = status.get("upgrade", {}).get("state", "done") in ("done", "failed", "undone")
        return status.get("pid") == self.process.pid and status.get("state") == "ok" and is_over

    def settle(self):
        self.go_on()
        wait_until(self.is_settled, "one process serves", every_s=LOOK_S)
        self.ending = []
        self.exits = {0, -signal.SIGKILL}

    def state(self):
        return self.group()["state"]


class Watch(threading.Thread):
    """Asks one, the other, and the first again: two owners, unless the first has become it anew."""

    def __init__(self, contenders):
        super().__init__(daemon=True)
        self.controls = [contender.control for contender in contenders]
        self.shall_end = threading.Event()
        self.found = None
        self.n_looks = 0
        self.start()

    @staticmethod
    def term(control):
        """The owner's process, and how often it has taken and given. None: this one is not the owner, or does not
        answer."""
        pid, answer = call(control, "group_list", None, 0.2)
        group = answer["groups"][0] if answer and answer.get("groups") else {"state": None}
        return (pid, group["times_taken"], group["times_given"]) if group["state"] == "owner" else None

    def run(self):
        while not self.shall_end.wait(LOOK_S):
            first, second, again = map(self.term, (*self.controls, self.controls[0]))
            self.n_looks += 1
            if first and second and first == again:
                self.found = f"two owners: process {first[0]} and process {second[0]}"


class Seen:
    """A target, as a host of its own sees it."""

    def __init__(self, target, number):
        self.scratch = Beside(target.scratch, f"host{number}")
        self.scratch.env["RBLK_RUN_DIR"] = self.scratch.file("run")
        os.makedirs(self.scratch.file("run"))
        self.address = target.address


class World:
    """Two contenders for stores that two hosts write; each has both paths."""

    def __init__(self, scratch, namespaces, stores):
        self.scratch = scratch
        scratch.env["LD_PRELOAD"] = f"{HUNG}:{SOFTRDMA}"
        self.stores = stores
        self.contenders = [Contender(scratch, n, namespaces) for n in range(2)]
        self.owner = 0
        expect_equal([contender.state() for contender in self.contenders], ["owner", "standing by"], "states at first")
        self.hosts, stamps = [], [Stamps() for _ in stores]
        for n, (one, other) in enumerate((self.contenders, self.contenders[::-1])):
            nsid = n % len(stores)
            volume = Volume(Seen(one, n), nsid + 1, f"host{n}", "--path", other.address, "--reconnect-delay", "20ms", "--keep-alive",
                            f"{KEEP_ALIVE_S}s")
            blocks = range(n, BLOCKS, 2) if len(stores) == 1 else range(BLOCKS)
            self.hosts.append((volume, Writer(volume, stamps[nsid], blocks, n, 25)))
        self.stamps = stamps
        self.watch = Watch(self.contenders)
        self.n_moves = 0

    def hang(self, does_hang):
        for store in self.stores:
            path = os.path.join(os.path.dirname(store), "hung")
            if does_hang:
                with open(path, "w", encoding="ascii"):
                    pass
            elif os.path.exists(path):
                os.unlink(path)

    def do(self, verb, contender, which):
        if verb in ("hang", "end hang"):
            self.hang(verb == "hang")
        else:
            {"kill": contender.kill, "start": contender.start_again, "stop": contender.stop_one, "go on": contender.go_on,
             "give": contender.give, "upgrade": contender.upgrade, "end": contender.end, "cut": contender.cut,
             "mend": contender.mend, "go on late": contender.go_on}[verb](which)

    def find_owner(self):
        states = [contender.state() for contender in self.contenders]
        return sorted(states) == ["owner", "standing by"] and [states.index("owner")]

    def play(self, plan):
        first = self.owner
        for pause_s, verb, side, which in plan:
            time.sleep(pause_s)
            self.do(verb, self.contenders[first ^ side], which)
        self.hang(False)
        for contender in self.contenders:
            contender.mend()
            contender.settle()
        self.owner = wait_until(self.find_owner, "one is the owner, and the other stands by", every_s=LOOK_S)[0]
        self.n_moves += self.owner != first

    def check(self):
        since = [writer.batches for _, writer in self.hosts]
        for (_, writer), before in zip(self.hosts, since):
            wait_until(lambda w=writer, n=before: w.has_gone_on(n), "the host goes on", every_s=LOOK_S)
            writer.rest()
        for stamps, path in zip(self.stamps, self.backing()):
            stamps.check_store(path)
        expect(not self.watch.found, self.watch.found)
        states = [contender.ana_states() for contender in self.contenders]
        expect_equal(states, [["inaccessible"] if n != self.owner else ["optimized"] for n in range(2)], "ANA states")
        for _, writer in self.hosts:
            writer.go_on()

    def backing(self):
        """The file below a store that is a device."""
        return [store.replace("disk", "backing") if os.path.exists(store.replace("disk", "backing")) else store
                for store in self.stores]

    def wait_paths(self):
        for volume, _ in self.hosts:
            wait_until(lambda v=volume: v.answer().get("paths_live") == 2, "both paths are live", every_s=LOOK_S)

    def end(self):
        for volume, writer in self.hosts:
            writer.end()
            expect_equal(volume.status()["io_errors"], 0, "I/O errors")
            volume.detach()
        self.watch.shall_end.set()
        self.watch.join()
        for contender in self.contenders:
            contender.stop()
            expect(not CRASH.search(contender.read_log()), "a crash")


# ---- cases ------------------------------------------------------------------------------------


def play_rounds(world):
    begin = told = time.monotonic()
    for n in range(FIRST, FIRST + ROUNDS):
        rng = random.Random(f"{SEED}.{n}")
        plan = plan_of(rng)
        try:
            if rng.random() < 0.8:
                world.wait_paths()
            world.play(plan)
            world.check()
        except Failure as failure:
            raise Failure(f"--seed {SEED} --first {n}: {words_of(plan)}: {failure}") from None
        if time.monotonic() - told > PROGRESS_S:
            told = time.monotonic()
            print(f"# {n + 1 - FIRST} rounds, {(n + 1 - FIRST) / (told - begin):.1f} a second", flush=True)
    batches = sum(writer.batches for _, writer in world.hosts)
    print(f"# seed {SEED}: {ROUNDS} rounds in {time.monotonic() - begin:.0f} s, {world.n_moves} with another owner, "
          f"{batches} batches, {world.watch.n_looks} looks for a second owner", flush=True)
    world.end()


def make_store(scratch, name, file):
    os.mkdir(scratch.file(name))
    return scratch.make_file(f"{name}/{file}", MIB)


def over_a_file(scratch):
    store = make_store(scratch, "file", "disk")
    play_rounds(World(scratch, [f"nsid: 1, file: {store}, uuid: {UUIDS[0]}"], [store]))


def over_a_file_and_a_device(scratch):
    store, disk = make_store(scratch, "file", "disk"), scratch.file("device/disk")
    with device(disk, make_store(scratch, "device", "backing")):
        play_rounds(World(scratch, [f"nsid: 1, file: {store}, uuid: {UUIDS[0]}",
                                    f"nsid: 2, device: {disk}, block_size: 4096, uuid: {UUIDS[1]}"], [store, disk]))


def has_devices():
    return not os.geteuid() and os.path.exists("/dev/loop-control")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=20, help="of each case")
    parser.add_argument("--seed", type=int, default=time.time_ns() // 1000000 % 1000000)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    SEED, FIRST, ROUNDS = options.seed, options.first, options.rounds
    print(f"# seed {SEED}", flush=True)
    run_cases([("rounds over a file", over_a_file),
               ("rounds over a file and a device" + ("" if has_devices() else " # SKIP needs root and loop devices"),
                over_a_file_and_a_device if has_devices() else lambda scratch: None)])
