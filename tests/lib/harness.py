"""Whole programs in a scratch folder: a target, volumes attached to it, clients, and TAP output.

    from harness import Case, Target, fio, run_cases

Each case has its own run and state folders and its own port, so concurrent tests do not meet.
"""

import json
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
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from stopped import is_stopped

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("RBLK_BUILD", os.path.join(ROOT, "build", "dev"))
RBLKD = os.path.join(BUILD, "target", "rblkd")
RBLK = os.path.join(BUILD, "tools", "rblk", "rblk")
RBLKCTL = os.path.join(BUILD, "tools", "rblkctl", "rblkctl")
SOFTRDMA = os.path.join(BUILD, "softrdma", "libsoftrdma.so")
IS_SANITIZED = os.path.basename(BUILD) in ("asan", "tsan")
# Instrumented programs on a busy machine are slow; a test that waits longer than this fails.
PATIENCE = 240 if IS_SANITIZED else 120
NQN = "nqn.2026-01.org.example:test"
# A ram namespace with this uuid is, for its hosts, the same after a restart, though empty.
LASTING = "uuid: 0b1e6c5e-5a55-4c0e-9b0c-2f6f4b5d1a10"
SANITIZER_REPORT = re.compile(r"(ERROR|WARNING): (Address|Thread|Leak)Sanitizer|runtime error:")
CRASH = re.compile(r"\bSIG(SEGV|ABRT|BUS|ILL|FPE) in thread")  # base/fatal.c


def restore_signals():
    """Resets ignored signals, which children inherit: a shell ignores SIGINT and SIGQUIT of its
    background jobs."""
    for number in (signal.SIGINT, signal.SIGQUIT):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)  # Popen itself restores SIGPIPE


restore_signals()


class Failure(Exception):
    """An expectation that was not met; the message says which."""


def expect(condition, message):
    if not condition:
        raise Failure(message)


def expect_equal(got, wanted, what):
    expect(got == wanted, f"{what}: got {got!r}, wanted {wanted!r}")


def expect_data(got, wanted, what):
    """The bytes of a volume or of a file. tests/runner/verdict.py knows the words: such a failure is red at once."""
    if got != wanted:
        at = next((i for i, (a, b) in enumerate(zip(got, wanted)) if a != b), min(len(got), len(wanted)))
        raise Failure(f"wrong data: {what}: {len(got)} bytes of {len(wanted)}, the first difference at byte {at}: "
                      f"{bytes(got[at:at + 16]).hex()}, wanted {bytes(wanted[at:at + 16]).hex()}")


def wait_until(condition, what, seconds=None, every_s=0.05):
    deadline = time.monotonic() + (seconds or PATIENCE)
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(every_s)
    raise Failure(f"timed out waiting for: {what}")


def stand_still(pid):
    """SIGSTOP, and waits until the process's last thread stands still: kill does not wait for that."""
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: is_stopped(pid), f"process {pid} stands still")


def ask(path, method, params=None):
    """The result of a method of the control socket at path; None: no answer. To wait by: it costs far
    less than to start rblk or rblkctl each time, above all with sanitizers."""
    question = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}
    try:
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(PATIENCE)
            s.connect(path)
            s.sendall(json.dumps(question).encode() + b"\n")
            with s.makefile() as answers:
                return json.loads(answers.readline()).get("result")
    except (OSError, ValueError):
        return None


PORTS = iter(random.sample(range(10000, 32000), 22000))
TAKEN = []


def free_port():
    """A free port: below the ephemeral range, and bound in UDP, which no tested program uses, so that
    concurrent tests do not pick it. RDMA ports are a name space of their own."""
    while True:
        port = next(PORTS)
        holder = socket.socket(type=socket.SOCK_DGRAM)
        try:
            holder.bind(("127.0.0.1", port))
            with socket.socket() as s:
                s.bind(("127.0.0.1", port))
            TAKEN.append(holder)
            return port
        except OSError:
            holder.close()


def run(*command, check=True, timeout=None, **kwargs):
    """Runs a command; returns the CompletedProcess with text output."""
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, errors="replace",
                          timeout=timeout or 2 * PATIENCE,
                          check=False, **kwargs)
    if check and done.returncode:
        raise Failure(f"{' '.join(map(str, command))}: exit status {done.returncode}\n"
                      f"{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done


def with_fabric(env):
    """The environment of a program that uses the fabric. It preloads softrdma itself, by starting again,
    which the developer's build shows; a start of an instrumented program takes a tenth of a second of CPU
    time, so those find it there already."""
    return dict(env, LD_PRELOAD=SOFTRDMA) if IS_SANITIZED and "LD_PRELOAD" not in env else env


class Scratch:
    """A folder of its own, with the environment that points programs to it."""

    def __init__(self):
        self.path = tempfile.mkdtemp(prefix="rblk-test.")
        self.env = dict(os.environ, RBLK_RUN_DIR=self.file("run"), RBLK_STATE_DIR=self.file("state"),
                        ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0",
                        TSAN_OPTIONS=os.environ.get("TSAN_OPTIONS", "halt_on_error=0"))
        os.makedirs(self.file("run"))
        os.makedirs(self.file("state"))

    def file(self, name):
        return os.path.join(self.path, name)

    def make_file(self, name, size):
        with open(self.file(name), "wb") as f:
            f.truncate(size)
        return self.file(name)

    def remove(self):
        shutil.rmtree(self.path, ignore_errors=True)


class Target:
    """A running rblkd. namespaces: lines of YAML, "nsid: 1, ram: 64MiB"."""

    def __init__(self, scratch, namespaces, port=None, extra="", subsystem_extra="allow_any_host: true",
                 listen="127.0.0.1", rblkd=RBLKD):
        self.scratch = scratch
        self.port = port or free_port()
        self.control = scratch.file("rblkd.sock")
        self.config = scratch.file("target.yaml")
        self.log = scratch.file("rblkd.log")
        self.process = None
        self.rblkd = rblkd
        with open(self.config, "w", encoding="utf-8") as f:
            f.write(f"version: 1\ncontrol_socket: {self.control}\n{extra}\n"
                    f"portals:\n  - {{name: p, address: {listen}, port: {self.port}}}\n"
                    f"subsystems:\n  - nqn: {NQN}\n    {subsystem_extra}\n    namespaces:\n")
            f.writelines(f"      - {{{ns}}}\n" for ns in namespaces)
        self.start()

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([self.rblkd, "--config", self.config], env=with_fabric(self.scratch.env),
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_until(self.is_ready, "rblkd is ready")

    def is_ready(self):
        if self.process.poll() is not None:
            raise Failure(f"rblkd ended with {self.process.returncode}:\n{self.read_log()[-2000:]}")
        return (ask(self.control, "status") or {}).get("state") == "ok"

    def read_log(self):
        with open(self.log, encoding="utf-8", errors="replace") as f:
            return f.read()

    def status(self):
        """The output of rblkctl status -o json: the answer of rblkd, as it is."""
        answer = ask(self.control, "status")
        if answer:
            return answer
        done = run(RBLKCTL, "status", "--socket", self.control, "-o", "json", check=False, env=self.scratch.env)
        expect(done.returncode in (0, 6), f"rblkctl status: exit status {done.returncode}: {done.stderr}")
        return json.loads(done.stdout)  # 6: degraded

    def list(self, what):
        return json.loads(run(RBLKCTL, "list", what, "--socket", self.control, "-o", "json",
                              env=self.scratch.env).stdout)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self, status=0):
        """Ends it in order; a sanitizer's report or another exit status is a failure."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.send_signal(signal.SIGABRT)
                self.process.wait()
                raise Failure("rblkd did not stop at SIGTERM:\n" + self.read_log()[-2000:]) from None
        log = self.read_log()
        expect(not SANITIZER_REPORT.search(log), "sanitizer report:\n" + log[-6000:])
        expect_equal(self.process.returncode, status, "exit status of rblkd:\n" + log[-2000:] + "\n")

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"


class Volume:
    """A namespace attached with `rblk attach`; uri is for NBD clients."""

    def __init__(self, target, nsid, name=None, *options):
        self.target = target
        self.scratch = target.scratch
        self.name = name or f"v{nsid}"
        self.socket = os.path.join(self.scratch.env["RBLK_RUN_DIR"], "volumes", self.name + ".nbd")
        done = rblk(self.scratch, "attach", f"{NQN}@{target.address}", "--ns", nsid, "--name",
                    self.name, "--frontend", "socket", *options)
        self.uri = done.stdout.split()[0]

    def status(self):
        return json.loads(rblk(self.scratch, "status", self.name, "-o", "json").stdout)

    def answer(self):
        """As status, from the process itself. Without an answer the tool says why, and the case fails."""
        return ask(self.socket.removesuffix(".nbd") + ".sock", "status") or self.status()

    def pid(self):
        return find_key(self.answer(), "pid")

    def reconnects(self):
        return find_key(self.answer(), "reconnects") or 0

    def is_live(self):
        return self.answer()["state"] == "live"

    def wait_live(self):
        wait_until(self.is_live, f"{self.name} is live")

    def detach(self):
        """Detaches in order; a volume that has just lost its target gets the time to reconnect."""
        self.wait_live()
        return rblk(self.scratch, "detach", self.name)


def keep_registrant(scratch, uuid, identifier, host):
    """A state directory as of an earlier rblkd, where the host with that identifier holds a reservation of the
    namespace with that UUID. Returns the line of the configuration."""
    folder = scratch.file("kept")
    os.makedirs(folder, 0o700)
    registrant = {"host": identifier.replace("-", ""), "key": "ab", "nqn": host}
    with open(os.path.join(folder, f"{uuid}.json"), "w", encoding="ascii") as f:
        json.dump({"version": 1, "reservation": {"type": 1, "holder": 0, "registrants": [registrant]}}, f)
    return f"state_directory: {folder}"


def find_key(tree, key):
    """The first value under this key anywhere in a JSON tree."""
    if isinstance(tree, dict):
        if key in tree:
            return tree[key]
        tree = list(tree.values())
    if isinstance(tree, list):
        for branch in tree:
            value = find_key(branch, key)
            if value is not None:
                return value
    return None


def rblk(scratch, *arguments, check=True, timeout=None):
    done = run(RBLK, *arguments, check=check, env=with_fabric(scratch.env), timeout=timeout)
    expect(not SANITIZER_REPORT.search(done.stderr), "sanitizer report:\n" + done.stderr[-6000:])
    return done


def fio(scratch, uri, *options, check=True, timeout=None):
    """fio with the nbd engine and crc32c verification unless options say otherwise."""
    return run("fio", "--name=t", "--ioengine=nbd", f"--uri={uri}", "--group_reporting",
               "--output-format=terse", f"--aux-path={scratch.path}", *options, check=check,
               timeout=timeout, cwd=scratch.path)


VERIFY = ("--verify=crc32c", "--do_verify=1", "--verify_fatal=1")


def start_fio(scratch, uri, *options):
    return subprocess.Popen(["fio", "--name=t", "--ioengine=nbd", f"--uri={uri}",
                             "--output-format=terse", f"--aux-path={scratch.path}", *options],
                            cwd=scratch.path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True)


@contextmanager
def injected(target, *what):
    """Makes system calls of the running rblkd fail, with strace, whose process it yields."""
    pid = target.process.pid
    options = [option for w in what for option in ("-e", "inject=" + w)]
    calls = ",".join(w.split(":")[0] for w in what)
    strace = subprocess.Popen(["strace", "-f", "-qq", "-o", target.scratch.file("strace"), "-e",
                               "trace=" + calls, *options, "-p", str(pid)],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def is_attached():
        expect(strace.poll() is None, "strace ended")
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/status", encoding="utf-8") as f:
                if "TracerPid:\t0\n" in f.read():
                    return False
        return True

    try:
        wait_until(is_attached, "strace has attached")
        yield strace
    finally:
        strace.terminate()
        strace.wait(PATIENCE)


def waits(function):
    """Marks a case that mostly waits for a deadline: run_cases runs it beside the others."""
    function.waits = True
    return function


def run_case(i, name, function):
    """Runs one case in a Scratch of its own. Returns whether it passed, and its TAP."""
    scratch = Scratch()
    try:
        function(scratch)
        expect_no_reports(scratch)
        return True, f"ok {i} - {name}"
    except Exception as error:  # noqa: a test's own mistakes are failures too
        text = str(error) if isinstance(error, Failure) else traceback.format_exc()
        return False, f"not ok {i} - {name}\n# " + text.replace("\n", "\n# ") + show_logs(scratch)
    finally:
        end_all(scratch)
        scratch.remove()


def run_cases(cases):
    """Runs (name, function) pairs, each with a Scratch; prints TAP; exits."""
    print(f"1..{len(cases)}", flush=True)
    n_failed = 0
    numbered = [(i, name, function) for i, (name, function) in enumerate(cases, 1)]
    with ThreadPoolExecutor(max_workers=8) as beside:
        waiting = {case[0]: beside.submit(run_case, *case)
                   for case in numbered if hasattr(case[2], "waits")}
        for case in numbered:
            passed, tap = waiting[case[0]].result() if case[0] in waiting else run_case(*case)
            n_failed += not passed
            print(tap, flush=True)
    sys.exit(1 if n_failed else 0)


def logs(scratch):
    """Names and texts of the programs' output, of volume processes too."""
    for folder, _, files in os.walk(scratch.path):
        for name in files:
            if name.endswith(".log"):
                with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as f:
                    yield name, f.read()


def expect_no_reports(scratch):
    for name, text in logs(scratch):
        expect(not SANITIZER_REPORT.search(text), f"sanitizer report in {name}:\n{text[-6000:]}")


def telling_lines(text):
    """The end of a log, and what a crash or a sanitizer said before: the runner must see that."""
    lines = text.splitlines()
    return [line for line in lines[:-40] if CRASH.search(line) or SANITIZER_REPORT.search(line)] + lines[-40:]


def show_logs(scratch):
    return "".join(f"\n# {name}:\n#   " + "\n#   ".join(telling_lines(text)) for name, text in logs(scratch))


def end_all(scratch):
    """Kills the processes that a failed case left running in its folder."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as f:
                environ = f.read()
            if scratch.path.encode() in environ and int(pid) != os.getpid():
                os.kill(int(pid), signal.SIGKILL)
        except OSError:
            continue
