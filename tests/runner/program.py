"""One test program: how it is started, ended with all of its processes, and reported."""

import dataclasses
import os
import re
import signal
import subprocess
import threading
import time

from verdict import Counts, is_failure, is_result, judge, never_weather, telling

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
USUAL_LIMIT_S = 900
LINES_MAX = 160
MARK = f"RBLK_TEST_PROGRAM={os.getpid()}."


@dataclasses.dataclass(frozen=True)
class Program:
    """A test as meson describes it, or one of the runner's own. limit_s: of the time from one result to the next.
    priority: about how many seconds it takes. ends_at_failure: its first failed case ends it, the others do not
    matter."""
    profile: str
    suite: str
    name: str
    command: tuple
    env: dict = dataclasses.field(default_factory=dict)
    folder: str = ROOT
    limit_s: int = USUAL_LIMIT_S
    priority: int = 0
    ends_at_failure: bool = False

    @property
    def title(self):
        return f"{self.profile}/{self.suite}/{self.name}"

    def run(self):
        start = time.monotonic()
        try:
            status, output, cpu_s = run_to_end(self)
        except OSError as error:
            status, output, cpu_s = 127, f"it does not start: {error}", 0
        counts, notes = judge(status, output)
        return Outcome(self, counts._replace(cpu_s=cpu_s), notes, output, time.monotonic() - start,
                       never_weather(status, output) if counts.failed else None)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """grave: the reason why a second try cannot clear the failure, or None."""
    program: object
    counts: Counts
    notes: list
    output: str
    wall_s: float
    grave: str

    def report(self):
        """A line, and the reasons of failures and skips with their output. One call: other threads print, too."""
        c = self.counts
        lines = [f"{self.program.title:48} {c.passed:4} passed {c.failed:3} failed {c.skipped:3} skipped "
                 f"{self.wall_s:7.1f} s {c.cpu_s:6.1f} s CPU"]
        lines += [f"    {note}" for note in self.notes]
        if c.failed:
            lines += self.explanation()
        print("\n".join(lines), flush=True)

    def explanation(self):
        lines = telling(self.output)
        if len(lines) > LINES_MAX:  # a sanitizer reports at the head, a test at the end
            lines = lines[:LINES_MAX // 2] + ["..."] + lines[-LINES_MAX // 2:]
        return [f"    | {line}" for line in lines]

    def keep(self, folder):
        """Writes the whole output to a new file in this folder. Returns its path from the root."""
        os.makedirs(folder, exist_ok=True)
        name = re.sub(r"[^\w.-]+", ".", self.program.title)
        n_before = sum(kept.startswith(name + ".") for kept in os.listdir(folder))
        path = os.path.join(folder, f"{name}.{n_before + 1}.log")
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.output)
        return os.path.relpath(path, ROOT)


def environment(program, mark):
    env = {**os.environ, **program.env, **dict([mark.split("=")])}
    # by default every process under ThreadSanitizer waits a second before it ends
    env["TSAN_OPTIONS"] = env.get("TSAN_OPTIONS", "") + ":atexit_sleep_ms=20"
    env["ASAN_OPTIONS"] = env.get("ASAN_OPTIONS", "") + ":handle_sigill=1"  # undefined behaviour: native/asan.ini
    return env


class Patience:
    """How long a program may go on. A busy machine makes all of its cases slow, so that none of them is a reason to end
    it; a program that hangs has no next result."""

    def __init__(self, limit_s, now_s):
        self.limit_s = limit_s
        self.end_s = now_s + limit_s

    def hear(self, line, now_s):
        if is_result(line):
            self.end_s = now_s + self.limit_s

    def left_s(self, now_s):
        return self.end_s - now_s


class Watch:
    """A thread that ends the processes with this mark when the patience is over."""

    def __init__(self, patience, mark):
        self.patience, self.mark = patience, mark
        self.is_late = False
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while (left_s := self.patience.left_s(time.monotonic())) > 0:
            if self.is_over.wait(left_s):
                return
        self.is_late = True
        end_all_with(self.mark)

    def end(self):
        self.is_over.set()
        self.thread.join()
        return self.is_late


def run_to_end(program):
    """Runs a program in a session of its own, and ends all of its processes before the next one. Returns (status or
    None, output, CPU time of it and of the children that were waited for)."""
    mark = f"{MARK}{time.monotonic_ns()}"
    process = subprocess.Popen(program.command, cwd=program.folder, env=environment(program, mark),
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, errors="replace", start_new_session=True)
    patience = Patience(program.limit_s, time.monotonic())
    watch = Watch(patience, mark)
    try:
        output = read_all(process, program, patience, mark)
        cpu_s = wait_for(process)
        return None if watch.end() else process.returncode, output, cpu_s
    finally:
        watch.end()
        end_all_with(mark)


def wait_for(process):
    """Sets its returncode. Returns the CPU time of it and of the children that were waited for."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime


def read_all(process, program, patience, mark):
    """Returns what the program says until it ends, or is ended."""
    lines = []
    with process.stdout:
        for line in process.stdout:
            lines.append(line)
            patience.hear(line, time.monotonic())
            if program.ends_at_failure and is_failure(line):
                end_all_with(mark)
    return "".join(lines)


def end_all_with(mark):
    """Kills the processes with this in their environment, in any session."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if mark.encode() in file.read():
                    os.kill(int(pid), signal.SIGKILL)
        except OSError:
            continue  # it has ended


def end_all():
    """Kills the processes of every program of this run."""
    end_all_with(MARK)
