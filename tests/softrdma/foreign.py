# SPDX-License-Identifier: BSD-3-Clause
"""Runs foreign programs over softrdma: pairs of server and client, in parallel, each with a time
limit, in a network namespace of its own if the system permits that (so that no other program
uses the ports). Prints TAP."""

import concurrent.futures
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SOFTRDMA = os.path.join(ROOT, "tools", "softrdma")
HERE = "127.0.0.1"
LANES = 3       # most programs wait more than they compute
PATIENCE = 180  # seconds; for a busy machine, under a sanitizer
# rping destroys its event channel while a thread of its own may be about to read it.
ENDS_BADLY = "rdma_get_cm_event: Bad file descriptor"
REPORT = re.compile(r"ERROR: AddressSanitizer|WARNING: ThreadSanitizer|runtime error:")


# Marks the processes that this test started, however it started them.
MARK = f"SOFTRDMA_TEST_RUN={os.getpid()}.{time.monotonic_ns()}"


class Failure(Exception):
    pass


class Skip(Exception):
    pass


def enter_own_network():
    """Starts this program again in a fresh network namespace, if that is permitted."""
    if os.environ.get("SOFTRDMA_TEST_NETNS"):
        return
    inside = dict(os.environ, SOFTRDMA_TEST_NETNS="1")
    unshare = ["unshare", "-n"] if os.geteuid() == 0 else ["unshare", "-rn"]
    script = 'ip link set lo up && exec "$@"'
    command = [*unshare, "sh", "-c", script, "sh"]
    if subprocess.run([*command, "true"], check=False, capture_output=True).returncode == 0:
        os.execvpe(command[0], [*command, sys.executable, *sys.argv], inside)


def need(*programs):
    for program in programs:
        if not shutil.which(program):
            raise Skip(f"{program} is not installed")


def sanitizer():
    """The sanitizer runtime that must precede libc when the library has one, or None."""
    linked = subprocess.run(["ldd", os.environ["SOFTRDMA_LIB"]], check=False, capture_output=True, text=True)
    runtime = re.search(r"=> (\S*/lib[at]san\.so\S*)", linked.stdout)
    return runtime.group(1) if runtime else None


SANITIZER = sanitizer()
VARIABLES = {"--trace": "SOFTRDMA_TRACE", "--snap": "SOFTRDMA_TRACE_SNAP",
             "--limit": "SOFTRDMA_TRACE_LIMIT"}


def softrdma(*options, before=()):
    """The command "softrdma OPTION...", or its effects where that shell script does not survive a
    sanitizer's runtime, which tolerates other libraries in front of it."""
    if not SANITIZER:
        return [SOFTRDMA, *options]
    options = list(options)
    has_roce = "--roce" in options
    if has_roce:
        options.remove("--roce")
    settings = [f"{VARIABLES[name]}={value}" for name, value in zip(options[::2], options[1::2])]
    settings += ["SOFTRDMA_ROCE=any"] if has_roce else []
    tsan, asan = os.environ.get("TSAN_OPTIONS", ""), os.environ.get("ASAN_OPTIONS", "")
    preload = ":".join([*before, SANITIZER, os.environ["SOFTRDMA_LIB"]])
    return ["env", f"LD_PRELOAD={preload}",
            f"ASAN_OPTIONS=detect_leaks=0:{asan}",  # the programs' own leaks at their end
            f"TSAN_OPTIONS=ignore_noninstrumented_modules=1:{tsan}", *settings]


class Program:
    """A program under softrdma (or not), in a session of its own, its output in a file."""

    def __init__(self, command, wrapper=None, env=None, cwd=None):
        self.command = command
        self.output = tempfile.TemporaryFile("w+", errors="replace")
        wrapper = softrdma() if wrapper is None else wrapper
        self.process = subprocess.Popen([*wrapper, *command], stdin=subprocess.DEVNULL,
                                        stdout=self.output, stderr=subprocess.STDOUT,
                                        env=dict(os.environ, **dict([MARK.split("=")]), **(env or {})), cwd=cwd,
                                        start_new_session=True)

    def said(self):
        self.output.seek(0)
        return self.output.read()

    def end(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()

    def wait(self, seconds=PATIENCE):
        """Waits for its exit status. A hang or a sanitizer report is a failure."""
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.end()
            raise Failure(f"hangs: {self}") from None
        if REPORT.search(self.said()):
            raise Failure(f"sanitizer report: {self}")
        return status

    def expect_success(self):
        status = self.wait()
        if status and not (status == 255 and ENDS_BADLY in self.said()):
            raise Failure(f"exit status {status}: {self}")

    def expect_refusal(self, seconds=PATIENCE):
        """The program failed in order: no crash, no hang."""
        status = self.wait(seconds)
        if status <= 0:
            raise Failure(f"exit status {status} is no refusal: {self}")

    def __str__(self):
        return " ".join(self.command) + "\n" + self.said()[-1500:]


PORTS = iter(random.sample(range(20000, 30000), 10000))
TAKEN = []


def free_port():
    """A port that is given out once, and bound in UDP, which no tested program uses: the network
    may be shared."""
    while True:
        holder = socket.socket(type=socket.SOCK_DGRAM)
        port = next(PORTS)
        try:
            holder.bind((HERE, port))
            TAKEN.append(holder)
            return port
        except OSError:
            holder.close()


def listens(port):
    """Whether a program listens on this port, of TCP or of the connection manager."""
    for name in ("tcp", "tcp6"):
        try:
            with open(f"/proc/net/{name}", encoding="ascii") as f:
                if any(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A"
                       for line in f):
                    return True
        except OSError:
            pass
    # the name exists as soon as it is bound: flag 0x10000 means that it listens, too
    with open("/proc/net/unix", encoding="utf-8", errors="replace") as f:
        return re.search(rf" 00010000 \S+ \S+ +\d+ @softrdma\.cm\.\w+\.{port}\.", f.read()) is not None


def wait_until(condition, what, program=None):
    end = time.monotonic() + PATIENCE
    while not condition():
        if program and program.process.poll() is not None:
            raise Failure(f"{what}: ended early: {program}")
        if time.monotonic() > end:
            raise Failure(f"did not happen: {what}")
        time.sleep(0.02)


def alone(command, expected):
    need(command[0])
    program = Program(command)
    program.expect_success()
    if expected not in program.said():
        raise Failure(f"does not say {expected}: {program}")


def fill(template, port):
    return [word.replace("PORT", str(port)).replace("HERE", HERE) for word in template.split()]


def both(port, server, client, *args, **kwargs):
    """Runs a server that listens on the port, and its client; both must succeed. Returns their output."""
    first = Program(server, *args, **kwargs)
    try:
        wait_until(lambda: listens(port), "the server listens", first)
        second = Program(client, *args, **kwargs)
        try:
            second.expect_success()
            first.expect_success()
        except Failure as e:
            raise Failure(f"{e}\nserver: {first}\nclient: {second}") from None
        finally:
            second.end()
    finally:
        first.end()
    return first.said(), second.said()


def pair(server, client, **kwargs):
    """Both must succeed. PORT and HERE are replaced by the port and the address."""
    port = free_port()
    need(server.split()[0], client.split()[0])
    return both(port, fill(server, port), fill(client, port), **kwargs)


def refusal(server, client, env=None):
    """Both fail, soon, with a message and without a crash."""
    port = free_port()
    need(server.split()[0], client.split()[0])
    first = Program(fill(server, port), env=env)
    try:
        wait_until(lambda: listens(port) or first.process.poll() is not None, "the server listens, or is refused")
        second = Program(fill(client, port), env=env)
        try:
            second.expect_refusal()
        finally:
            second.end()
        if first.process.poll() is not None:
            first.expect_refusal()
    finally:
        first.end()


# ---- what is left ---------------------------------------------------------------

def our_processes():
    """The processes of this test that have not ended, with the descriptors they hold."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as f:
                if MARK.encode() in f.read() and int(pid) != os.getpid():
                    yield pid
        except OSError:
            continue


def segments():
    """Shared memory with softrdma's name, and descriptors of its nameless segments."""
    yield from (f"/dev/shm/{name}" for name in os.listdir("/dev/shm") if "softrdma" in name)
    for pid in our_processes():
        try:
            for fd in os.listdir(f"/proc/{pid}/fd"):
                if "memfd:softrdma" in os.readlink(f"/proc/{pid}/fd/{fd}"):
                    yield f"/proc/{pid}/fd/{fd}"
        except OSError:
            continue


def names():
    """Sockets of nodes and of the connection manager; in an own network namespace all are this
    test's."""
    if not os.environ.get("SOFTRDMA_TEST_NETNS"):
        return []
    with open("/proc/net/unix", encoding="utf-8", errors="replace") as f:
        return re.findall(r"@softrdma\S*", f.read())


def nothing_is_left():
    """Checks that nothing is left after all programs have ended, by themselves or by SIGKILL."""
    for what, find in ("processes", our_processes), ("segments", segments), ("sockets", names):
        end = time.monotonic() + PATIENCE
        while left := list(find()):
            if time.monotonic() > end:
                raise Failure(f"{what} are left behind: {left}")
            time.sleep(0.05)


def mapped_segments(program):
    with open(f"/proc/{program.process.pid}/maps", encoding="utf-8", errors="replace") as f:
        return f.read().count("memfd:softrdma")


def killed_while_busy():
    """A server and a client in the middle of their work, both killed."""
    need("ib_write_bw")
    port = free_port()
    server = Program(["ib_write_bw", "-F", "-p", str(port), "-D", "60"])
    client = None
    try:
        wait_until(lambda: listens(port), "the server listens", server)
        client = Program(["ib_write_bw", "-F", "-p", str(port), "-D", "60", HERE])
        for program in server, client:
            wait_until(lambda: mapped_segments(program) >= 2, "each has the other's segment", client)
    finally:
        for program in filter(None, (client, server)):
            program.end()


def run_one(function):
    try:
        function()
        return None, None
    except Skip as e:
        return "skip", str(e)
    except Failure as e:
        return "fail", str(e)


def run(cases, lanes=LANES):
    """cases: (name, function). Returns the exit status."""
    failed = False
    cases = [*cases, ("killed while they are busy", killed_while_busy)]
    print(f"1..{len(cases) + 1}", flush=True)
    with concurrent.futures.ThreadPoolExecutor(lanes) as pool:
        futures = [pool.submit(run_one, function) for _, function in cases]
        for i, ((name, _), future) in enumerate(zip(cases, futures), 1):
            verdict, why = future.result()
            if verdict == "fail":
                failed = True
                print(f"not ok {i} - {name}")
                print("\n".join("# " + line for line in why.splitlines()), flush=True)
            else:
                print(f"ok {i} - {name}" + (f" # SKIP {why}" if verdict else ""), flush=True)
    verdict, why = run_one(nothing_is_left)
    print(f"{'not ok' if verdict else 'ok'} {len(cases) + 1} - no process, segment or socket is left behind")
    if verdict:
        print(f"# {why}", flush=True)
    return 1 if failed or verdict else 0
