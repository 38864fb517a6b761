# SPDX-License-Identifier: BSD-3-Clause
"""The parts of the matrix. A part is a context manager that starts what it needs and yields cases; a
case is one load and the contenders that are measured under it, ours first; their runs alternate."""

import concurrent.futures as futures
import contextlib
import os
import threading

import first
import growth
import instructions
import machine
import pairs
import programs
import vm
from case import KIB, LOADS, MIB, SIZE, Bar, Case, direction, over_depth, place, title
from machine import Missing, call
from neighbours import neighbours
from programs import Load

# ---- the fabric, and what is beneath the software provider -----------------------------

@contextlib.contextmanager
def fabric():
    def floor(*arguments):
        return lambda seconds: programs.floor(*arguments, seconds)

    def perftest(program, n_bytes, column, scale=1.0, figure="p50_us"):
        return lambda seconds: {figure: programs.perftest(program, n_bytes, column) * scale}

    cases = [Case("fabric", f"{n // KIB} KiB {what} d{depth}", "floor", {"floor": floor(what, n, depth)}, [])
             for n, depth in ((4096, 1), (4096, 32), (128 * KIB, 16)) for what in ("read", "write")]
    cases += [Case("fabric", "4 KiB copy", "process_vm_writev",
                   {"process_vm_writev": floor("vmwrite", 4096, 0), "memcpy": floor("memcpy", 4096, 0),
                    "writev, 256 MiB": floor("vmwrite", 4096, 256 * MIB),
                    "memcpy, 256 MiB": floor("memcpy", 4096, 256 * MIB)}, []),
              Case("fabric", "128 KiB copy", "ib_write_bw",
                   {"ib_write_bw": perftest("ib_write_bw", 128 * KIB, 3, MIB / 1e6, "mb_per_s"),  # its MB is a MiB
                    "process_vm_writev": floor("vmwrite", 128 * KIB, 0),
                    "writev, 256 MiB": floor("vmwrite", 128 * KIB, 256 * MIB)},
                   [Bar("process_vm_writev", "mb_per_s", ">=", 0.8)]),
              Case("fabric", "SEND 64 B", "ib_send_lat", {"ib_send_lat": perftest("ib_send_lat", 64, 4)},
                   [Bar(None, "p50_us", "<=", 1.0)]),
              Case("fabric", "READ 4 KiB", "ib_read_lat", {"ib_read_lat": perftest("ib_read_lat", 4096, 4)},
                   [Bar(None, "p50_us", "<=", 0.8)])]
    yield cases


# ---- the host library and rblkd ---------------------------------------------------------

def rblk_on(target, nsid, load, *options):
    return lambda seconds: programs.rblk_bench(target, nsid, load, seconds, *options)


def ram_bars(load):
    if load == Load("randread", 4 * KIB, 1):
        return [Bar("floor", "p50_us", "<=", 1.6)]
    if load == Load("randread", 4 * KIB, 32):
        return [Bar("process_vm_writev", "iops", ">=", 0.6)]
    if load.block == 128 * KIB and load.rw == "read":
        return [Bar("process_vm_writev", "mb_per_s", ">=", 0.85)]
    return []


@contextlib.contextmanager
def ram():
    with programs.folder() as scratch, \
            programs.rblkd(scratch, {1: "ram: 512MiB, block_size: 4096"}, "{spin: always, workers: 1}") as target:
        cases = []
        for load in LOADS:
            contenders = {"rblk": rblk_on(target, 1, load, "--spin", "always"),
                          "floor": lambda s, x=load: programs.floor(direction(x), x.block, x.depth, s)}
            if load.depth in (16, 32):
                spread = 256 * MIB if load.block > 4 * KIB else 0
                contenders["process_vm_writev"] = lambda s, x=load, n=spread: programs.floor("vmwrite", x.block, n, s)
            if load == Load("randread", 4 * KIB, 32):
                contenders["writev, 256 MiB"] = lambda s, x=load: programs.floor("vmwrite", x.block, 256 * MIB, s)
            cases.append(Case("ram", title(load), "rblk", contenders, ram_bars(load), at=over_depth(load)))
        yield cases


def file_bars(load):
    if load.block == 4 * KIB and load.depth == 32:
        return [Bar("fio libaio", "iops", ">=", 0.95)]
    if load.block == 4 * KIB and load.depth == 1:
        return [Bar("fio libaio", "p50_us", "<=", 1.0, 8)]
    return []


def beside_a_poller(path, load, seconds, direct):
    """The disk's figures for one program while another CPU is busy, as the host's is beside ours."""
    with programs.busy_cpu():
        return programs.fio_file(path, SIZE, load, seconds, direct)


@contextlib.contextmanager
def on_file(part, where, direct, bars, key="file", prepare=None):
    with contextlib.ExitStack() as stack:
        scratch = stack.enter_context(programs.folder())
        path = programs.fill_file(os.path.join(stack.enter_context(programs.folder(where)), "disk"), SIZE)
        if prepare:
            path = stack.enter_context(prepare(path))
        target = stack.enter_context(programs.rblkd(scratch, {1: f"{key}: {path}"}))
        cases = []
        for load in LOADS:
            contenders = {"rblk": rblk_on(target, 1, load)}
            # Ours holds the file exclusively for other targets, not for readers and writers.
            contenders["fio libaio"] = lambda s, x=load: programs.fio_file(path, SIZE, x, s, direct)
            if direct:
                contenders["bare libaio, verbs"] = \
                    lambda s, x=load: programs.floor(direction(x), x.block, x.depth, s, path)
            contenders["fio, a CPU polls"] = lambda s, x=load: beside_a_poller(path, x, s, direct)
            cases.append(Case(part, title(load), "rblk", contenders, bars(load), at=over_depth(load)))
        yield cases


def disk():
    return on_file("disk", os.environ.get("RBLK_BENCH_DISK", "/var/tmp"), 1, file_bars)


def tmpfs():
    return on_file("tmpfs", "/dev/shm", 0, lambda load: [])


@contextlib.contextmanager
def loop_device(path):
    machine.need("losetup")
    try:
        name = call(["losetup", "--find", "--show", "--direct-io=on", path])[0].strip()
    except machine.Failure as e:
        raise Missing(f"no loop device: {e}") from None
    try:
        yield name
    finally:
        call(["losetup", "-d", name])


def device():
    return on_file("device", os.environ.get("RBLK_BENCH_DISK", "/var/tmp"), 1, file_bars, "device", loop_device)


# ---- NBD --------------------------------------------------------------------------------

def bridge_bars(load, jobs):
    if jobs > 1:
        return [Bar("nbdkit memory", "iops", ">=", 1.0)]
    if load == Load("randread", 4 * KIB, 32):
        return [Bar("nbdkit memory", "iops", ">=", 0.9), Bar("nbdkit, nbdkit TCP", "iops", ">=", 2.0),
                Bar("qemu-nbd, nbdkit TCP", "iops", ">=", 2.0)]
    if load == Load("randread", 4 * KIB, 1):
        return [Bar("nbdkit memory", "p50_us", "<=", 1.5), Bar("nbdkit, nbdkit TCP", "p50_us", "<=", 0.6),
                Bar("qemu-nbd, nbdkit TCP", "p50_us", "<=", 0.6)]
    return [Bar("nbdkit memory", "mb_per_s", ">=", 1.0)] if load.block == 128 * KIB else []


def peer(stack, server):
    """A server of another project, or None: then its rows name what is missing."""
    try:
        return stack.enter_context(server)
    except Missing as e:
        return e


def fio_on(server, load, jobs):
    def run(seconds):
        if isinstance(server, Missing):
            raise server
        return programs.fio_nbd(server, load, seconds, jobs)
    return run


BRIDGE_LOADS = [Load("randread", 4 * KIB, 1), Load("randwrite", 4 * KIB, 1), Load("randread", 4 * KIB, 32),
                Load("randwrite", 4 * KIB, 32), Load("read", 128 * KIB, 16), Load("write", 128 * KIB, 16)]
BRIDGE_JOBS = {1: (1, 4, 16), 32: (1, 4), 16: (1, 4)}  # NBD connections at each depth


def bridge_place(load, jobs):
    return lambda _contender: place(title(load), "connections", jobs)


@contextlib.contextmanager
def bridge():
    with contextlib.ExitStack() as stack:
        scratch = stack.enter_context(programs.folder())
        fast = stack.enter_context(programs.folder("/dev/shm"))
        target = stack.enter_context(programs.rblkd(scratch, {1: "ram: 512MiB, block_size: 4096"}))
        remote = peer(stack, programs.nbdkit_tcp(SIZE))
        image = programs.fill_file(os.path.join(fast, "image"), SIZE)

        def through(proxy):
            return remote if isinstance(remote, Missing) else peer(stack, proxy(scratch, remote))

        one_hop = {
            "rblk": stack.enter_context(programs.volume(scratch, target, 1)),
            "nbdkit memory": peer(stack, programs.nbdkit_memory(scratch, SIZE)),
            "nbdkit rblk": peer(stack, programs.nbdkit_rblk(scratch, target, 1)),
            "qemu-nbd tmpfs": peer(stack, programs.qemu_nbd(scratch, image)),
        }
        two_hops = {
            "nbdkit, nbdkit TCP": through(programs.nbdkit_proxy),
            "qemu-nbd, nbdkit TCP": through(programs.qemu_proxy),
        }
        cases = []
        for load in BRIDGE_LOADS:
            for jobs in BRIDGE_JOBS.get(load.depth, (1,)):
                bars = bridge_bars(load, jobs)
                # A second hop never helps: it is measured where a bar asks for it.
                servers = one_hop | (two_hops if any(bar.other in two_hops for bar in bars) else {})
                contenders = {name: fio_on(server, load, jobs) for name, server in servers.items()}
                cases.append(Case("bridge", title(load, jobs), "rblk", contenders, bars, at=bridge_place(load, jobs)))
        yield cases


# ---- librblk ----------------------------------------------------------------------------

def library_bars(load):
    if load.depth == 1:
        return [Bar("rblk", "p50_us", "<=", 1.15)]
    if load.depth == 32:
        return [Bar("rblk", "iops", ">=", 0.95), Bar("fio, NBD", "iops", ">=", 2.5)]
    return [Bar("rblk", "mb_per_s", ">=", 0.95)]


@contextlib.contextmanager
def library():
    """fio from its own memory, by its engine on librblk."""
    with programs.folder() as scratch, \
            programs.rblkd(scratch, {1: "ram: 512MiB, block_size: 4096"}) as target, \
            programs.volume(scratch, target, 1) as served:
        yield [Case("library", title(load), "fio, librblk",
                    {"fio, librblk": lambda s, x=load: programs.fio_rblk(target, 1, x, s),
                     "rblk": rblk_on(target, 1, load), "fio, NBD": fio_on(served, load, 1)}, library_bars(load))
               for load in (Load("randread", 4 * KIB, 1), Load("randread", 4 * KIB, 32), Load("read", 128 * KIB, 16),
                            Load("write", 128 * KIB, 16))]


# ---- iSER -------------------------------------------------------------------------------

@contextlib.contextmanager
def iser():
    with programs.folder() as scratch, programs.folder("/dev/shm") as fast:
        files = [programs.fill_file(os.path.join(fast, name), 256 * MIB) for name in ("tgtd", "rblk")]
        # On the same kind of file, for tgtd has no other memory; beside it what ours does from RAM.
        with programs.tgtd(scratch, files[0]) as peer, \
                programs.rblkd(scratch, {1: f"file: {files[1]}", 2: "ram: 256MiB"}) as target:
            yield [Case("iser", title(load), "rblk",
                        {"rblk": rblk_on(target, 1, load),
                         "rblk, RAM": rblk_on(target, 2, load),
                         "tgtd, libiscsi": lambda s, x=load: programs.iscsi_perf(peer, x, s)},
                        [Bar("tgtd, libiscsi", "iops", ">=", bound)])
                   for load, bound in ((Load("randread", 4 * KIB, 8), 3.0), (Load("read", 128 * KIB, 8), 1.5))]


# ---- many connections ---------------------------------------------------------------------


NUMBERS = (1024, 256, 64, 16, 1)  # of queues
QUEUE_DEPTH = 128  # that hosts ask for
RECEIVES, RECEIVES_FIRST = 8192, 256  # tuning.shared_receives; those that are always there
RECEIVE_BYTES = 4096 + 64 + 308  # data, capsule, and what describes them here, in the device and in its queues


def peak_bytes(pid, segment, is_over):
    """The most memory that the program has until then."""
    peak = 0
    while not is_over.wait(0.1):
        peak = max(peak, machine.own_bytes(pid, segment))
    return peak


def pool_bytes(n_queues):
    """The memory of the receives that all connections share."""
    n = min(n_queues * QUEUE_DEPTH, RECEIVES)
    return max(0, n - RECEIVES_FIRST) * RECEIVE_BYTES


def load_queues(target, load, seconds, n_queues):
    """n_queues connections, on one thread for each 64 of them (a volume has no more)."""
    each = min(n_queues, 64)
    with futures.ThreadPoolExecutor() as pool:
        return list(pool.map(lambda _: programs.rblk_bench(target, 1, load, seconds, "--queues", each,
                                                           "--threads", 1, "--ramp", "500ms"),
                             range(n_queues // each)))


def with_queues(seconds, load, n_queues):
    """A target of its own, for memory that was freed stays with a program."""
    with programs.folder() as scratch, \
            programs.rblkd(scratch, {1: f"ram: {SIZE >> 20}MiB, block_size: 4096"}, "{workers: 1}") as target, \
            futures.ThreadPoolExecutor() as pool:
        segment, is_over = machine.own_segment(target.pid), threading.Event()
        programs.rblk_bench(target, 1, Load("read", 128 * KIB, 16), 1)  # the namespace's pages are there
        before = machine.own_bytes(target.pid, segment)
        peak = pool.submit(peak_bytes, target.pid, segment, is_over)
        try:
            results = load_queues(target, load, seconds, n_queues)
        finally:
            is_over.set()
        grown = peak.result() - before - pool_bytes(n_queues)
    total = {key: sum(r[key] for r in results) for key in ("iops", "mb_per_s")}
    total.update({key: max(r[key] for r in results) for key in ("p50_us", "p99_us", "p999_us")})
    return dict(total, fairness=min(r["fairness"] for r in results), kib_per_queue=max(0, grown) / n_queues / KIB)


@contextlib.contextmanager
def connections():
    cases = []
    for depth in (1, 32):
        load = Load("randread", 4 * KIB, depth)
        contenders = {f"{n} queues": lambda s, n=n, x=load: with_queues(s, x, n) for n in NUMBERS}
        most = f"{NUMBERS[0]} queues"
        cases.append(Case("connections", title(load), most, contenders,
                          [Bar("1 queues", "iops", ">=", 0.8), Bar(None, "kib_per_queue", "<=", 64)],
                          at=lambda name, x=load: place(title(x), "connections", int(name.split()[0]), "rblk")))
    yield cases


# ---- growth ---------------------------------------------------------------------------------

@contextlib.contextmanager
def grown():
    """Ours alone: how time and memory grow. The bars are absolute."""
    idle = [Bar(None, "memory_mb", "<=", 600), Bar(None, "cpu_percent", "<=", 0.5)]
    yield [Case("growth", f"{n} {what}", "rblk", {"rblk": lambda s, n=n, m=measure: m(n)},
                idle if what == "volumes" else [], at=lambda _, n=n, x=what: place(x, x, n))
           for what, measure, numbers in (("namespaces", growth.with_namespaces, (1, 100, 1000)),
                                          ("volumes", growth.with_volumes, (1, 16, 64))) for n in numbers]


@contextlib.contextmanager
def first_read():
    """Ours alone: a user waits for it. The bars are absolute, and those of time are of a machine without other load."""
    bars = {1: [Bar(None, "first_ms", "<=", 20), Bar(None, "attach_cpu_ms", "<=", 15),
                Bar(None, "attach_pages", "<=", 4000)],
            100: [Bar(None, "first_ms", "<=", 2500)]}
    yield [Case("first", f"{n} volumes at once" if n > 1 else "one volume", "rblk",
                {"rblk": lambda s, n=n: first.at_once(n)}, bars.get(n, []),
                at=lambda _, n=n: place("attach to first read", "volumes", n)) for n in (1, 27, 100)]


# ---- instructions ---------------------------------------------------------------------------

@contextlib.contextmanager
def count():
    """User-space instructions an I/O, where the program is busy (valgrind)."""
    machine.need("valgrind")
    yield [Case("count", "4 KiB randread d32", "rblkd",
                {"rblkd": lambda s: {"instructions": instructions.of_target()}},
                [Bar(None, "instructions", "<=", 900)]),
           Case("count", "4 KiB randread d32, NBD", "rblk serve",
                {"rblk serve": lambda s: {"instructions": instructions.of_volume()}},
                [Bar(None, "instructions", "<=", 1310)])]


# ---- a virtual machine with SoftRoCE --------------------------------------------------------

READ_1, READ_32, READ_BIG = (Load("randread", 4 * KIB, 1), Load("randread", 4 * KIB, 32), Load("read", 128 * KIB, 16))
VM_SECONDS = 1.5  # at least, of a run: translated, fewer would be too few I/Os
VM_TUNING = "{spin: 1ms}"  # two I/Os of depth 1, as 20 us are where programs are not translated


def kernel_host(guest):
    """The same host on two targets."""
    bounds = {READ_1: 1.4, READ_32: 1.05, READ_BIG: 1.0}
    for load in (READ_1, Load("randwrite", 4 * KIB, 1), READ_32, Load("randwrite", 4 * KIB, 32), READ_BIG,
                 Load("write", 128 * KIB, 16)):
        bars = [Bar("nvmet", "iops", ">=", bounds[load])] if load in bounds else []
        yield (f"kernel host, {title(load)}", {"rblkd": guest.fio("$kernel_rblkd", load),
                                               "nvmet": guest.fio("$kernel_nvmet", load),
                                               "nvmet, memory": guest.fio("$kernel_memory", load)}, bars)


def hosts(guest):
    """Hosts beside the kernel's, which is measured through its block device."""
    for load, bound in ((READ_1, 2.2), (READ_32, 1.1)):
        yield (f"to nvmet, {title(load)}", {"rblk bench": guest.bench("$nvmet_at", load),
                                            "kernel host": guest.fio("$kernel_nvmet", load)},
               [Bar("kernel host", "iops", ">=", bound)])
    yield (f"both ours, {title(READ_1)}", {"rblk bench, rblkd": guest.bench("$rblkd_at", READ_1),
                                           "kernel host, nvmet": guest.fio("$kernel_nvmet", READ_1)},
           [Bar("kernel host, nvmet", "iops", ">=", 4.0)])


def block_devices(guest):
    for load in (READ_1, READ_32, READ_BIG):
        bars = [Bar("nvme, rblkd", "iops", ">=", 0.6)] if load is READ_32 else []
        yield (f"/dev, {title(load)}", {"nbd, rblk, rblkd": guest.fio("$nbd", load),
                                        "nvme, rblkd": guest.fio("$kernel_rblkd", load),
                                        "nbd-client, nbdkit": guest.fio("$nbdkit", load)}, bars)


@contextlib.contextmanager
def in_vm():
    with vm.guest(VM_SECONDS, VM_TUNING) as guest:
        cases = [*kernel_host(guest), *hosts(guest), *block_devices(guest),
                 ("idle, attached", {"rblkd, rblk": guest.idle("$rblkd $volume")},
                  [Bar(None, "cpu_percent", "<=", 0.5)])]
        yield [Case("vm", what, next(iter(contenders)), contenders, bars, guest.where)
               for what, contenders, bars in cases]


PARTS = {
    "fabric": (fabric, "bare verbs, and the copies beneath the software provider"),
    "ram": (ram, "host library -> rblkd, namespace in RAM, both spinning"),
    "disk": (disk, "the same, a file on disk (RBLK_BENCH_DISK, /var/tmp), beside fio on that file"),
    "tmpfs": (tmpfs, "the same, a file in memory"),
    "device": (device, "the same, a loop device"),
    "bridge": (bridge, "fio -> NBD bridge -> rblkd, beside nbdkit and qemu-nbd"),
    "library": (library, "fio on librblk, beside rblk bench and the NBD socket"),
    "iser": (iser, "beside tgtd's iSER with libiscsi, on the same fabric"),
    "polling": (pairs.polling, "as shipped, beside the same that never sleeps"),
    "connections": (connections, "1 to 1024 queue pairs"),
    "growth": (grown, "1 to 1000 namespaces, 1 to 64 volumes: time to start, memory, idle CPU"),
    "first": (first_read, "from rblk attach to the first answered read: time and CPU, 1 to 100 at once"),
    "count": (count, "instructions an I/O, by callgrind"),
    "spdk": (pairs.beside_spdk, "each host on each target, ours and SPDK's (--spdk DIR)"),
    "neighbours": (neighbours, "a small reader beside large writes, changes, a capture, scrapes"),
    "vm": (in_vm, "in a virtual machine on SoftRoCE, beside the kernel's host and target, and nbd-client"),
}
