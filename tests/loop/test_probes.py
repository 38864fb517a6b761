#!/usr/bin/python3
"""Static probes: the programs have those of the manual pages, and a tracer attached to them
receives each step of a command."""

import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from harness import (LASTING, PATIENCE, RBLK, RBLKD, ROOT, Failure, Target, Volume, expect, expect_equal, run,  # noqa: E402
                     run_cases, wait_until)

HAS_PROBES = os.environ["HAS_PROBES"] == "1"
MIB = 1 << 20
WRITE, READ = 1, 2
# gdb may stop a process for longer than the default keep-alive timeout.
OPTIONS = ("--queues", "1", "--keep-alive", "10min")


def documented(page):
    """{probe: number of its arguments}, as in the manual page."""
    with open(os.path.join(ROOT, "docs/man", page), encoding="utf-8") as f:
        section = f.read().split("\n# PROBES\n")[1].split("\n# ")[0]
    return {name: arguments.count(",") + 1
            for name, arguments in re.findall(r"\*(\w+)\*\((_[\w, \n]+_)\)", section)}


def probes(program):
    """[(provider, probe, address, [argument])] from the notes in the file."""
    notes = run("readelf", "--notes", "--wide", program).stdout
    found = re.findall(r"Provider: (\S+)\s+Name: (\S+)\s+Location: 0x(\w+), Base: \S+, Semaphore: 0x0+\s+"
                       r"Arguments:(.*)", notes)
    expect_equal(len(found), notes.count("Provider:"), "notes without a semaphore")
    return [(provider, name, int(address, 16), arguments.split()) for provider, name, address, arguments in found]


def code_at(program, address):
    """The byte of the file that is loaded at this address."""
    for line in run("readelf", "--program-headers", "--wide", program).stdout.splitlines():
        words = line.split()
        if words[:1] != ["LOAD"]:
            continue
        offset, start, size = int(words[1], 16), int(words[2], 16), int(words[4], 16)
        if start <= address < start + size:
            with open(program, "rb") as f:
                f.seek(offset + address - start)
                return f.read(1)[0]
    return None


def static_probes(scratch):
    """The programs have the probes of the manual pages, with as many arguments; and each is a nop.
    """
    for program, provider, page in ((RBLKD, "rblkd", "rblkd.8.scd"), (RBLK, "rblk", "rblk.8.scd")):
        wanted, found = documented(page), probes(program)
        expect(len(wanted) > 5, f"documented: {wanted}")
        if not HAS_PROBES:
            expect_equal(found, [], f"probes of {program}, built without")
            continue
        expect_equal({(p, name, len(arguments)) for p, name, _, arguments in found},
                     {(provider, name, n) for name, n in wanted.items()}, f"probes of {program}")
        if os.uname().machine == "x86_64":
            expect_equal({code_at(program, address) for _, _, address, _ in found}, {0x90}, "what stands there")


# ---- a tracer ----------------------------------------------------------------------------------------------


class Tracer:
    """gdb, which stops the process at each of these probes and prints its arguments, until the
    last one is reached."""

    def __init__(self, scratch, pid, provider, wanted, last):
        self.log = scratch.file(f"{provider}.trace")
        script = scratch.file(f"{provider}.gdb")
        counts = documented(f"{provider}.8.scd")
        with open(script, "w", encoding="utf-8") as f:
            f.write("set pagination off\nset confirm off\nset debuginfod enabled off\n"
                    f"handle all nostop noprint pass\nattach {pid}\n")
            for name in (*wanted, last):
                values = "".join(f", $_probe_arg{i}" for i in range(counts[name]))
                f.write(f"break -probe-stap {provider}:{name}\ncommands\nsilent\n"
                        f"printf \"{name}{' %ld' * counts[name]}\\n\"{values}\n"
                        + ("detach\nquit\n" if name == last else "continue\n") + "end\n")
            f.write("printf \"listening\\n\"\ncontinue\n")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(["gdb", "-nx", "-batch", "-x", script], stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log)
        wait_until(lambda: "\nlistening\n" in self.read() or self.process.poll() is not None, "gdb listens")
        expect(self.process.poll() is None, f"gdb has ended: {self.read()[-2000:]}")

    def read(self):
        with open(self.log, encoding="utf-8", errors="replace") as f:
            return f.read()

    def finish(self):
        """{probe: [its arguments, each time]}, after gdb has detached from the process."""
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.terminate()  # which detaches
            self.process.wait()
            raise Failure(f"the last probe was not met: {self.read()[-2000:]}") from None
        heard = {}
        for line in self.read().splitlines():
            name, *arguments = line.split()
            if arguments and all(re.fullmatch(r"-?\d+", argument) for argument in arguments):
                heard.setdefault(name, []).append([int(argument) for argument in arguments])
        return heard


def write_and_read(volume):
    run("/usr/bin/python3", "-m", "nbd", "-u", volume.uri, "-c",
        f"h.pwrite(bytes(65536), {MIB}); h.pread(4096, {2 * MIB})")


def target_is_traced(scratch):
    """A write and a read, step by step, and the end of the association."""
    target = Target(scratch, [f"nsid: 1, file: {scratch.make_file('disk', 16 * MIB)}"])
    volume = Volume(target, 1, None, *OPTIONS)
    tracer = Tracer(scratch, target.process.pid, "rblkd",
                    ("command_received", "read_begin", "read_end", "backend_submit", "backend_complete",
                     "write_begin", "response_posted"), "association_end")
    write_and_read(volume)
    volume.detach()
    heard = tracer.finish()
    received = {opcode: (request, cid) for request, _, qid, opcode, cid, nsid in heard["command_received"]
                if qid == 1 and nsid == 1}
    expect({WRITE, READ} <= set(received), f"commands: {heard['command_received']}")
    answered = {(request, cid): status for request, _, _, qid, cid, status in heard["response_posted"] if qid == 1}
    for opcode in (WRITE, READ):
        expect_equal(answered.get(received[opcode]), 0, f"status of opcode {opcode}")
    written, read = received[WRITE][0], received[READ][0]
    expect_equal([n for request, _, n in heard["read_begin"] if request == written], [65536], "bytes of the RDMA READ")
    expect_equal([status for request, status in heard["read_end"] if request == written], [0], "its status")
    expect_equal([n for request, _, n in heard["write_begin"] if request == read], [4096], "bytes of the RDMA WRITE")
    submitted = {(operation, at, n): io for io, operation, at, n in heard["backend_submit"]}
    for operation in ((1, MIB, 65536), (0, 2 * MIB, 4096)):
        expect(operation in submitted, f"at the disk: {submitted}")
        expect([submitted[operation], 0] in heard["backend_complete"], f"completed: {heard['backend_complete']}")
    target.stop()


def volume_is_traced(scratch):
    """The same write and read in the volume process, until its target is lost."""
    target = Target(scratch, [f"nsid: 1, ram: 16MiB, {LASTING}"])
    volume = Volume(target, 1, None, *OPTIONS)
    tracer = Tracer(scratch, volume.pid(), "rblk",
                    ("nbd_request", "nbd_reply", "command_sent", "command_answered"), "path_lost")
    write_and_read(volume)
    target.kill()
    heard = tracer.finish()
    asked = {(kind, at, n): request for request, _, kind, at, n in heard["nbd_request"]}
    for request in ((1, MIB, 65536), (0, 2 * MIB, 4096)):
        expect(request in asked, f"requests: {asked}")
        expect([0] == [error for its, _, error in heard["nbd_reply"] if its == asked[request]][:1],
               f"replies: {heard['nbd_reply']}")
    sent = {opcode: (command, io, cid) for command, io, qid, opcode, cid, _ in heard["command_sent"] if qid == 1}
    expect({WRITE, READ} <= set(sent), f"commands: {heard['command_sent']}")
    answers = {(command, io, cid): status for command, io, cid, status in heard["command_answered"]}
    for opcode in (WRITE, READ):
        expect_equal(answers.get(sent[opcode]), 0, f"status of opcode {opcode}")
    target.start()
    volume.detach()
    target.stop()


CASES = [("what the programs have", static_probes)]
if HAS_PROBES:
    CASES += [("a command in rblkd, heard by gdb", target_is_traced),
              ("a request in a volume process, heard by gdb", volume_is_traced)]

if __name__ == "__main__":
    run_cases(CASES)
