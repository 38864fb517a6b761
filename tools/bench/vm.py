# SPDX-License-Identifier: BSD-3-Clause
"""A virtual machine with SoftRoCE in which all contenders stand side by side (guest.sh), and runs of loads in it.

Its programs are this machine's, of the build that is measured; RBLK_BENCH_KERNEL says which kernel it boots."""

import contextlib
import glob
import json
import os
import re
import shlex

import machine
import programs
from machine import Failure, Server

HERE = os.path.dirname(os.path.abspath(__file__))
RUN_VM = os.path.join(machine.ROOT, "tests", "vm", "run-vm")
KERNEL = os.environ.get("RBLK_BENCH_KERNEL", "6.1")
# Translated on a busy machine, all of it takes its time.
READY_S, ANSWER_S, HOURS = 900, 180, 4
IDLE_S = 10


class Guest:
    """Calls of guest.sh. Names with a $ are its variables. Loads are functions(seconds) -> figures."""

    def __init__(self, server, scratch, seconds):
        """seconds: the least of a run."""
        self.server = server
        self.seconds = seconds
        self.out = glob.glob(os.path.join(scratch, "rblk-vm.*", "out"))[0]
        self.n = 0
        self.where = re.search("^where: (.*)", server.said(), re.MULTILINE).group(1)

    def said(self, name):
        with open(os.path.join(self.out, name), encoding="utf-8", errors="replace") as f:
            return f.read()

    def ask(self, line):
        with open(os.path.join(self.out, "requests"), "a", encoding="utf-8") as f:
            f.write(line + "\n")

    def run(self, line):
        """A command of the guest's shell; what it printed."""
        self.n += 1
        self.ask(line)
        answered = f"answered {self.n} "
        self.server.wait_ready(lambda: self.server.has_said(answered), ANSWER_S)
        status = re.search(f"^{answered}(.*)", self.server.said(), re.MULTILINE).group(1)
        if status != "0":
            complaint = self.said("complaint").strip().splitlines()
            raise Failure(f"{line.split()[0]}: status {status}: {' '.join(complaint[-1:])}")
        return self.said("answer")

    def fio(self, disk, load):
        def run(seconds):
            command = programs.fio_command(["--ioengine=libaio", "--direct=1"], load, max(seconds, self.seconds))
            return programs.fio_figures(self.run(f"{shlex.join(command)} --filename={disk}"), load)
        return run

    def bench(self, where, load):
        """It polls, as a host in user space does."""
        def run(seconds):
            options = programs.bench_options(1, load, max(seconds, self.seconds))
            figures = programs.bench_figures(
                self.run(f"rblk bench {where} {shlex.join(str(o) for o in options)} --spin 10ms"))
            return {key: value for key, value in figures.items() if key != "fairness"}
        return run

    def idle(self, pids):
        return lambda _: json.loads(self.run(f"idle {IDLE_S} {pids}"))

    def end(self):
        self.ask("end")
        with contextlib.suppress(Failure):
            self.server.wait_ended(60)


def last_words(server):
    """The check that failed, or why there is no machine."""
    lines = server.said().splitlines()
    return next((line for line in lines if line.startswith("not ok")), lines[-1] if lines else "")


@contextlib.contextmanager
def guest(seconds, tuning):
    """seconds: the least of a run. tuning: of rblkd's configuration."""
    with programs.folder() as scratch:
        server = Server([RUN_VM, "--kernel", KERNEL, "--fabric", "rxe", "--timeout", HOURS * 3600,
                         os.path.join(HERE, "guest.sh"), tuning],
                        env=dict(os.environ, BUILD=machine.BUILD, TMPDIR=scratch))
        try:
            try:
                server.wait_ready(lambda: server.has_said("\nwhere: "), READY_S)
            except Failure as e:
                raise Failure(f"virtual machine: {last_words(server) or e}") from None
            there = Guest(server, scratch, seconds)
            yield there
            there.end()
        finally:
            server.stop()
