# SPDX-License-Identifier: BSD-3-Clause
"""The latency of a small reader beside what others do on the same rblkd: large writes to the same store, without and
with a rate, large writes to another one, changes of the configuration, a capture, scrapes of the metrics. Reader and
writers are hosts of their own. On two CPUs they and rblkd are three that want them."""

import concurrent.futures as futures
import contextlib
import functools
import itertools
import json
import os
import threading
import urllib.request

import machine
import programs
from case import KIB, MIB, SIZE, Bar, Case, title
from machine import Server, built, call
from programs import Load

READER, WRITERS = Load("randread", 4 * KIB, 1), Load("write", 128 * KIB, 16)
STORE, RATED, OTHER, ADDED = 1, 2, 3, 4  # namespaces
RATE = 100 * MIB
PERIOD_S = 0.2  # of what is done again and again; an administrator's is longer


@contextlib.contextmanager
def background(command):
    """A program that must still run at the end."""
    server = Server(command)
    try:
        yield server
        server.wait_ready(lambda: True)
    finally:
        server.stop()


class Shared:
    """An rblkd with a store, the same kind with a rate, another one, and metrics."""

    def __init__(self, scratch, store):
        self.scratch = scratch
        self.metrics = machine.free_port()
        self.namespaces = {STORE: store(STORE), RATED: f"{store(RATED)}, qos: {{write_bandwidth: {RATE}}}",
                           OTHER: store(OTHER)}
        self.target = None

    @contextlib.contextmanager
    def running(self):
        with programs.rblkd(self.scratch, self.namespaces, more=self.more()) as self.target:
            yield self

    def more(self):
        return f"metrics: {{listen: 127.0.0.1:{self.metrics}}}\n"

    def bench(self, nsid, load, seconds):
        return programs.rblk_bench(self.target, nsid, load, seconds)

    def n_commands(self):
        queues = json.loads(call(programs.rblkctl(self.scratch, "list", "connections", "-o", "json"))[0])["connections"]
        return sum(queue["commands"] for queue in queues if queue["queue"])

    # ---- neighbours: context managers ----

    @contextlib.contextmanager
    def busy(self, nsid, load):
        """Another host that works until the end."""
        command = [built("tools", "rblk", "rblk"), "bench", self.target.where, *programs.bench_options(nsid, load, 3600)]
        with background(command) as server:
            server.wait_ready(self.n_commands)
            yield

    def captured(self):
        return background(programs.rblkctl(self.scratch, "capture", "-w", "/dev/null", "--time", "1h"))

    @contextlib.contextmanager
    def again(self, what):
        """what(i), each PERIOD_S."""
        over = threading.Event()

        def work():
            for i in itertools.count():
                what(i)
                if over.wait(PERIOD_S):
                    return

        with futures.ThreadPoolExecutor() as pool:
            done = pool.submit(work)
            try:
                yield
            finally:
                over.set()
            done.result()

    def apply(self, i):
        """A namespace comes and goes."""
        namespaces = {**self.namespaces, **({} if i % 2 else {ADDED: "ram: 1MiB, block_size: 4096"})}
        path = programs.write_config(self.scratch, self.target.port, namespaces, "{}", self.more())
        call(programs.rblkctl(self.scratch, "apply", path))

    def scrape(self, _i):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics}/metrics", timeout=machine.READY_S) as answer:
            answer.read()


def cases_of(what, shared, others):
    """others: readers that are not ours."""
    def beside(neighbour, nsid=STORE, load=READER):
        def run(seconds):
            with neighbour():
                return shared.bench(nsid, load, seconds)
        return run

    def writers(nsid):
        return lambda: shared.busy(nsid, WRITERS)

    changed, scraped = lambda: shared.again(shared.apply), lambda: shared.again(shared.scrape)
    reader = {"beside writers": beside(writers(STORE)),
              "alone": beside(contextlib.nullcontext),
              f"beside writers, {RATE // MIB} MiB/s": beside(writers(RATED), RATED),
              "beside writers of another": beside(writers(OTHER)),
              "beside apply": beside(changed), "beside a capture": beside(shared.captured),
              "beside scrapes": beside(scraped), "beside a busy program": beside(programs.busy_cpu), **others}
    return [Case("neighbours", f"{title(READER)}, {what}", "beside writers", reader,
                 [Bar("alone", "p99_us", "<=", 2.0, mine=name) for name in reader if name.startswith("beside")]),
            Case("neighbours", f"{title(WRITERS)}, {what}", "beside a reader",
                 {"beside a reader": beside(lambda: shared.busy(STORE, READER), STORE, WRITERS),
                  "alone": beside(contextlib.nullcontext, STORE, WRITERS)},
                 [Bar("alone", "mb_per_s", ">=", 0.8)])]


def in_ram(_folder, _nsid):
    return f"ram: {SIZE // MIB}MiB, block_size: 4096"


def on_disk(folder, nsid):
    return "file: " + programs.fill_file(os.path.join(folder, f"disk-{nsid}"), SIZE)


def fio_on(path):
    """The same reader and writers without us."""
    def alone(seconds):
        return programs.fio_file(path, SIZE, READER, seconds)

    def beside_writers(seconds):
        with futures.ThreadPoolExecutor() as pool:
            writers = pool.submit(programs.fio_file, path, SIZE, WRITERS, seconds + programs.RAMP_S)
            figures = alone(seconds)
            writers.result()
            return figures

    return {"fio libaio, alone": alone, "fio libaio, beside fio": beside_writers}


@contextlib.contextmanager
def neighbours():
    with contextlib.ExitStack() as stack:
        disks = stack.enter_context(programs.folder(os.environ.get("RBLK_BENCH_DISK", "/var/tmp")))
        cases = []
        for what, store, others in (("RAM", in_ram, {}), ("a file", on_disk, fio_on(os.path.join(disks, "disk-1")))):
            shared = Shared(stack.enter_context(programs.folder()), functools.partial(store, disks))
            cases += cases_of(what, stack.enter_context(shared.running()), others)
        yield cases
