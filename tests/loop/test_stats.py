#!/usr/bin/python3
"""rblkctl stats and rblk stats: the counters match the I/O that was done, by namespace, host and queue; tables
and mistakes."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from harness import (NQN, PATIENCE, RBLK, RBLKCTL, RBLKD, Target, Volume, expect, expect_equal, injected, run,  # noqa: E402
                     run_cases, stand_still, start_fio, wait_until)

USAGE, CONFIG, NOT_FOUND, UNREACHABLE = 2, 3, 4, 7
MIB = 1 << 20
BLOCK = 65536  # larger than in-capsule data: a Write has to be fetched


def ctl(target, *arguments, status=0):
    done = run(RBLKCTL, *arguments, check=False,
               env=dict(target.scratch.env, RBLK_CONTROL_SOCKET=target.control))
    expect_equal(done.returncode, status, f"exit status of rblkctl {arguments}: {done.stderr}")
    return done


def counted(target, *arguments):
    return json.loads(ctl(target, "stats", "-o", "json", *arguments).stdout)


def nbdsh(volume, *lines):
    return run("/usr/bin/python3", "-m", "nbd", "-u", volume.uri, *(x for line in lines for x in ("-c", line)))


def work(volume, n_writes, n_reads):
    nbdsh(volume, f"for i in range({n_writes}): h.pwrite(bytes([i % 251]) * {BLOCK}, i % 16 * {BLOCK})",
          f"for i in range({n_reads}): h.pread({BLOCK}, i % 16 * {BLOCK})")


def consistent(what, item):
    """Checks the invariants of counters at rest."""
    for name, io in item["io"].items():
        where = f"{what}, {name}"
        expect_equal(sum(n for _, n in io["histogram"]), io["count"], f"{where}: histogram")
        ends = [end for end, _ in io["histogram"]]
        expect_equal(ends, sorted(set(ends)), f"{where}: steps")
        expect(io["p50_ns"] <= io["p99_ns"] <= io["p999_ns"], f"{where}: quantiles {io}")
        if not io["count"]:
            expect_equal((io["sum_ns"], io["p999_ns"]), (0, 0), where)
            continue
        expect(io["p50_ns"] in ends and io["p999_ns"] in ends, f"{where}: quantiles {io}")
        # A step counts with its upper end: the sum is at most that, and less by a step's width.
        most = sum(end * n for end, n in io["histogram"])
        expect(io["sum_ns"] <= most, f"{where}: sum {io['sum_ns']} above {most}")
        expect(io["stages"]["samples"] <= io["count"], f"{where}: samples {io}")
    return item


def counts(item):
    return tuple(item["io"][name]["count"] for name in ("read", "write"))


def exact(scratch):
    """By namespace, host and queue; and the counts of closed connections stay."""
    image = scratch.make_file("disk.img", 16 * MIB)
    target = Target(scratch, ["nsid: 1, ram: 16MiB", f"nsid: 2, file: {image}"])
    ram, disk = Volume(target, 1, None, "--queues", "1"), Volume(target, 2, None, "--queues", "1")
    before = {n["nsid"]: n for n in counted(target)["namespaces"]}
    work(ram, 40, 25)
    work(disk, 60, 35)
    after = {n["nsid"]: consistent(n["nsid"], n) for n in counted(target)["namespaces"]}
    for nsid, n_reads, n_writes in ((1, 25, 40), (2, 35, 60)):
        done = [b - a for a, b in zip(counts(before[nsid]), counts(after[nsid]))]
        expect_equal(done, [n_reads, n_writes], f"commands of namespace {nsid}")
        expect_equal(after[nsid]["read_bytes"] - before[nsid]["read_bytes"], n_reads * BLOCK, "bytes read")
        expect_equal(after[nsid]["written_bytes"] - before[nsid]["written_bytes"], n_writes * BLOCK,
                     "bytes written")
        expect_equal(after[nsid]["in_flight"], 0, "in flight")
    stages = after[2]["io"]["write"]["stages"]
    expect(stages["samples"] >= 60 // 16 and stages["fetch_ns"] and stages["backend_ns"] and
           stages["receive_ns"], f"stages of writes to a file: {stages}")
    expect_equal(after[1]["io"]["read"]["stages"]["fetch_ns"], 0, "RDMA READs of reads")
    queues = counted(target, "--queues")["queues"]
    all_done = [sum(x) for x in zip(*(counts(consistent("queue", q)) for q in queues))]
    expect_equal(all_done, [sum(x) for x in zip(*map(counts, after.values()))], "of the queues")
    hosts = [consistent("host", h) for h in counted(target, "--hosts")["hosts"]]
    expect_equal(len(hosts), 1, "hosts")
    expect_equal(list(counts(hosts[0])), all_done, "of the host")
    ram.detach()
    disk.detach()
    wait_until(lambda: target.status()["connections"] == 0, "the connections are gone")
    gone = consistent("host", counted(target, "--hosts")["hosts"][0])
    last = {n["nsid"]: n for n in counted(target)["namespaces"]}
    expect_equal(counts(gone), tuple(sum(x) for x in zip(*map(counts, last.values()))), "of the host then")
    expect_equal((gone["queues"], counted(target, "--queues")["queues"]), (0, []), "its queues")
    expect(gone["commands"] >= sum(all_done) and gone["read_bytes"] == sum(n["read_bytes"] for n in last.values()),
           f"its counters: {gone}")
    target.stop()


def lost(scratch):
    """Hosts that vanish in the middle of their work: answered commands stay counted, for both."""
    image = scratch.make_file("disk.img", 16 * MIB)
    target = Target(scratch, [f"nsid: 1, file: {image}"])
    for _ in range(3):
        volume = Volume(target, 1)
        before = counts(counted(target)["namespaces"][0])
        load = start_fio(scratch, volume.uri, "--rw=randrw", "--bs=4k-64k", "--iodepth=16", "--size=16m",
                         "--time_based", "--runtime=600")
        wait_until(lambda: all(b - a > 100 for a, b in zip(before, counts(counted(target)["namespaces"][0]))),
                   "it works")
        os.kill(volume.pid(), signal.SIGKILL)
        load.kill()
        load.communicate()
        wait_until(lambda: target.status()["connections"] == 0, "the connections are gone")
        run(RBLK, "detach", "--force", volume.name, check=False, env=scratch.env)
    wait_until(lambda: counted(target)["namespaces"][0]["in_flight"] == 0, "nothing is in flight")
    host = consistent("host", counted(target, "--hosts")["hosts"][0])
    namespace = consistent("namespace", counted(target)["namespaces"][0])
    for key in ("reads", "writes", "read_bytes", "written_bytes"):
        expect_equal(host[key], namespace[key], key)
    for name in ("read", "write"):
        expect_equal(host["io"][name]["histogram"], namespace["io"][name]["histogram"], f"histogram of {name}")
        expect_equal(host["io"][name]["sum_ns"], namespace["io"][name]["sum_ns"], f"sum of {name}")
    target.stop()


def tables(scratch):
    target = Target(scratch, ["nsid: 1, ram: 16MiB", "nsid: 2, ram: 16MiB"])
    volume = Volume(target, 1)
    work(volume, 20, 20)
    rows = [line.split() for line in ctl(target, "stats", "--bytes").stdout.splitlines()]
    expect_equal(rows[0], ["NAMESPACE", "OP", "COUNT", "BYTES", "ERRORS", "MEAN", "P50", "P99", "P99.9",
                           "RECEIVE", "FETCH", "BACKEND", "SEND"], "titles")
    written = next(row for row in rows if row[:2] == [f"{NQN}/1", "write"])
    expect_equal(written[2:5], ["20", str(20 * BLOCK), "0"], "writes")
    expect(re.fullmatch(r"[\d.]+(ns|us|ms|s)", written[5]), f"mean {written[5]}")
    expect_equal(rows[-1], [f"{NQN}/2", "-", "0", "0", "0"] + ["-"] * 8, "an unused namespace")
    one = ctl(target, "stats", f"{NQN}/2").stdout.splitlines()
    expect_equal(len(one), 2, "lines for one namespace")
    expect_equal(len(ctl(target, "stats", NQN).stdout.splitlines()), len(rows), "lines for a subsystem")
    expect(len(ctl(target, "stats", "--queues").stdout.splitlines()) >= 2, "queues")
    expect(" write " in ctl(target, "stats", "--hosts").stdout, "hosts")
    top = ctl(target, "stats", "--top", "--interval", "200ms", "--count", "2").stdout
    parts = top.rstrip("\n").split("\n\n")
    expect_equal(len(parts), 2, f"looks: {top}")
    for part in parts:  # nothing happens meanwhile
        lines = [line.split() for line in part.splitlines()]
        expect_equal(lines[0][2:4], ["IOPS", "BYTES/S"], "titles")
        expect_equal([line[1:3] for line in lines[1:]], [["-", "0"]] * 2, part)
    expect("\033" not in top, "control characters without a terminal")
    volume.detach()
    target.stop()


LONG = "nqn.2026-01.org.example.of-a-department-with-a-long-name:" + 40 * "x"


def fits(scratch):
    """Tables on a terminal of 80 columns: no line is longer, and names keep the end that
    distinguishes them."""
    target = Target(scratch, ["nsid: 1, ram: 16MiB"], extra=f"hosts:\n  - {{name: long, nqn: '{LONG}'}}")
    volume = Volume(target, 1, "one", "--hostnqn", LONG)
    work(volume, 5, 5)
    environment = dict(target.scratch.env, RBLK_CONTROL_SOCKET=target.control, COLUMNS="80")
    for arguments in (["status"], ["stats"], ["stats", "--queues"], ["stats", "--hosts"], ["capsules"],
                      ["qos", "list", "--interval", "100ms"], ["list", "subsystems"], ["list", "namespaces"],
                      ["list", "hosts"], ["list", "connections"], ["list", "portals"]):
        lines = run(RBLKCTL, *arguments, env=environment).stdout.splitlines()
        expect(len(lines) >= 2 and max(map(len, lines)) <= 80, f"{arguments}: {lines}")
    hosts = run(RBLKCTL, "list", "hosts", env=environment).stdout
    expect("…" in hosts and 8 * "x" in hosts, hosts)
    expect(LONG in ctl(target, "list", "hosts").stdout, "whole names without a terminal")
    volume.detach()
    target.stop()


def read_screen(fd, text, mark, n):
    """The terminal's contents, from text on, until mark has appeared n times."""
    while text.count(mark) < n:
        expect(select.select([fd], [], [], PATIENCE)[0], f"waited for {mark!r}, which did not come: {text}")
        text += os.read(fd, 65536).decode()
    return text


def top_on_a_terminal(scratch):
    """Idle rows are hidden, the busiest comes first, q ends it and restores the terminal."""
    target = Target(scratch, ["nsid: 1, ram: 16MiB", "nsid: 2, ram: 16MiB"])
    volume = Volume(target, 2)
    load = start_fio(scratch, volume.uri, "--rw=randread", "--bs=4k", "--size=16m", "--time_based", "--runtime=600")
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    before = termios.tcgetattr(slave)
    top = subprocess.Popen([RBLKCTL, "stats", "--top", "--interval", "100ms"], stdin=slave, stdout=slave,
                           stderr=subprocess.STDOUT,
                           env=dict(target.scratch.env, RBLK_CONTROL_SOCKET=target.control))
    screen = read_screen(master, "", "\033[H\033[J", 3).split("\033[H\033[J")[1]
    wait_until(lambda: f"{NQN}/2"[-10:] in read_screen(master, "", "\033[H\033[J", 2), "reads of namespace 2")
    lines = read_screen(master, "", "\033[H\033[J", 2).split("\033[H\033[J")[1].splitlines()
    expect(all(len(line) <= 80 for line in lines), f"{lines}")
    expect(not any("/1 " in line for line in lines) and "1 idle (--idle shows it)" in lines[-1], f"{lines}")
    expect("NAMESPACE" in screen, screen)
    os.write(master, b"q")
    expect_equal(top.wait(PATIENCE), 0, "exit status after q")
    expect_equal(termios.tcgetattr(slave), before, "the terminal")
    load.terminate()
    load.communicate()
    volume.detach()
    target.stop()


def top_differs(scratch):
    """All intervals together show the work of that time."""
    target = Target(scratch, ["nsid: 1, ram: 16MiB"])
    volume = Volume(target, 1)
    work(volume, 100, 0)
    first, n_before = counted(target)["namespaces"][0], 0
    n_before = first["io"]["write"]["count"]
    work(volume, 30, 0)
    second = counted(target)["namespaces"][0]
    expect_equal(second["io"]["write"]["count"] - n_before, 30, "writes in between")
    old = dict(map(tuple, first["io"]["write"]["histogram"]))
    new = dict(map(tuple, second["io"]["write"]["histogram"]))
    expect(all(new.get(end, 0) >= n for end, n in old.items()), "a histogram only grows")
    volume.detach()
    target.stop()


def slow(scratch):
    """Slow commands are logged, and only while the limit is set."""
    image = scratch.make_file("disk.img", 16 * MIB)
    target = Target(scratch, [f"nsid: 1, file: {image}", "nsid: 2, ram: 16MiB"], extra="slow_io: 400ms")
    volume, other = Volume(target, 1), Volume(target, 2)

    def slow_lines():
        return [line for line in target.read_log().splitlines() if ": slow: " in line]

    with injected(target, "io_submit:delay_enter=600000"):
        nbdsh(volume, f"h.pwrite(b'x' * {BLOCK}, {2 * BLOCK})")
    wait_until(lambda: any("Write" in line for line in slow_lines()), "it is said")
    line = next(line for line in slow_lines() if "Write" in line)
    match = re.search(rf"host nqn\S+: slow: Write, {NQN}/1, LBA {2 * BLOCK // 512}, {BLOCK // 512} blocks: "
                      r"(\S+) \(receive \S+, fetch \S+, backend (\S+), send \S+\), controller \d+, queue \d+", line)
    expect(match, line)
    for text in match.groups():
        expect(text.endswith("ms") and float(text[:-2]) >= 500 or re.fullmatch(r"[\d.]+s", text), line)
    expect_equal(ctl(target, "qos", "set", f"{NQN}/2", "write_bandwidth=4KiB").returncode, 0, "a rate is set")
    nbdsh(other, "h.pwrite(b'a' * 8192, 0); h.pwrite(b'b' * 4096, 0)")
    wait_until(lambda: any("held by a rate" in line for line in slow_lines()), "the rate is named")
    line = next(line for line in slow_lines() if "held by a rate" in line)
    expect(re.search(rf"{NQN}/2.*held by a rate \(qos\) for (1\.\d+s|2s|[5-9]\d\d[.\d]*ms)", line), line)
    expect_equal(ctl(target, "qos", "set", f"{NQN}/2", "write_bandwidth=none").returncode, 0, "it is lifted")
    with open(target.config, encoding="utf-8") as f:
        text = f.read()
    with open(target.config, "w", encoding="utf-8") as f:
        f.write(text.replace("slow_io: 400ms\n", "slow_io: 0s\n"))
    done = ctl(target, "apply")
    expect(re.search(r"slow_io: 400ms -> 0", done.stdout), done.stdout)
    n_lines = len(slow_lines())
    with injected(target, "io_submit:delay_enter=600000"):
        nbdsh(volume, f"h.pwrite(b'y' * {BLOCK}, 0)")
    nbdsh(other, "h.pwrite(b'z' * 4096, 0)")
    expect_equal(len(slow_lines()), n_lines, "lines afterwards")
    volume.detach()
    other.detach()
    target.stop()
    for value in ("2min", "slow", "-1s"):
        with open(target.config, "w", encoding="utf-8") as f:
            f.write(text.replace("slow_io: 400ms", f"slow_io: {value}"))
        done = run(RBLKD, "--check", "-c", target.config, check=False)
        expect_equal(done.returncode, CONFIG, f"slow_io: {value}: {done.stderr}")
        expect("slow_io" in done.stderr, done.stderr)


def waiting(scratch):
    """Commands that keep others waiting are shown, with their age and their memory."""
    target = Target(scratch, ["nsid: 1, ram: 16MiB"])
    volume = Volume(target, 1)
    expect_equal(ctl(target, "status").stdout.count("under way"), 0, "nothing waits")
    ctl(target, "qos", "set", f"{NQN}/1", "write_bandwidth=4KiB")
    load = start_fio(scratch, volume.uri, "--rw=write", "--bs=64k", "--iodepth=4", "--size=1m")
    wait_until(lambda: target.status()["holders"] and target.status()["holders"][0]["oldest_command_s"] >= 1,
               "a command is old")
    shown = ctl(target, "status").stdout
    found = re.search(r"^under way \(address, controller/queue\):\n"
                      r"  127\.0\.0\.1:\d+, (\d+)/1: ([1-4]) commands, the oldest for \d+s; \S+$", shown, re.M)
    expect(found, shown)
    queue = next(c for c in target.list("connections")["connections"] if c["queue"] == 1)
    expect_equal(str(queue["controller"]), found.group(1), "the same connection")
    expect(queue["in_flight"] >= 1 and queue["oldest_command_s"] >= 1, f"{queue}")
    wait_until(lambda: any((c["oldest_request_s"] or 0) >= 1 for c in volume.status()["connections"]),
               "the volume shows its client's request")
    expect(re.search(r"connection +pid \d+ \(fio\), worker 0, \d+ in flight, the oldest for \S+, \S+",
                     run(RBLK, "status", volume.name, env=scratch.env).stdout), "and names it")
    ctl(target, "qos", "set", f"{NQN}/1", "write_bandwidth=none")
    expect_equal(load.wait(PATIENCE), 0, "fio")
    volume.detach()
    target.stop()


def mistakes(scratch):
    target = Target(scratch, ["nsid: 1, ram: 16MiB"])
    for arguments, status, text in (
            ((f"{NQN}/9",), NOT_FOUND, f"there is no namespace '{NQN}/9'"),
            (("nqn.2026-01.org.example:none",), NOT_FOUND, "there is no namespace"),
            (("--hosts", "--queues"), USAGE, "exclude each other"),
            (("--hosts", NQN), USAGE, "a namespace cannot be chosen with --hosts"),
            (("--interval", "1s"), USAGE, "need --top"),
            (("--count", "3"), USAGE, "need --top"),
            (("--top", "--interval", "1ms"), USAGE, "--interval"),
            (("--top", "--count", "0"), USAGE, "--count"),
            (("--nodes",), USAGE, "--nodes"),
            ((NQN, NQN), USAGE, "")):
        done = ctl(target, "stats", *arguments, status=status)
        expect(text in done.stderr and not done.stdout, f"{arguments}: {done.stderr}{done.stdout}")
        expect_equal(done.stderr.count("error:"), 1, f"error lines of {arguments}: {done.stderr}")
    done = ctl(target, "stats", "--top", "-o", "json", status=USAGE)
    expect("--top shows tables" in json.loads(done.stdout)["error"]["message"] and not done.stderr, done.stdout)
    done = ctl(target, "stats", f"{NQN}/9", "-o", "json", status=NOT_FOUND)
    expect_equal(json.loads(done.stdout)["error"]["code"], NOT_FOUND, "code")
    target.stop()
    done = ctl(target, "stats", "--top", status=UNREACHABLE)
    expect("rblkd is not running" in done.stderr, done.stderr)


def host(scratch, *arguments, status=0, **environment):
    done = run(RBLK, "stats", *arguments, check=False, env=dict(scratch.env, **environment))
    expect_equal(done.returncode, status, f"exit status of rblk stats {arguments}: {done.stderr}{done.stdout}")
    return done


def of_host(scratch, *arguments):
    return {v["name"]: v for v in json.loads(host(scratch, "-o", "json", *arguments).stdout)["volumes"]}


def volumes(scratch):
    """The host counts what its volumes did, also of connections and associations that are gone."""
    images = [scratch.make_file(f"disk{i}.img", 16 * MIB) for i in (1, 2)]  # what lasts while rblkd is killed
    target = Target(scratch, [f"nsid: {i}, file: {image}" for i, image in enumerate(images, 1)])
    one, two = Volume(target, 1, "one"), Volume(target, 2, "a-" + 12 * "long")
    before = of_host(scratch)
    work(one, 40, 25)
    nbdsh(one, "h.flush(); h.zero(65536, 0); h.flush()")
    target.kill()
    target.start()
    one.wait_live()
    work(one, 2, 3)
    after = of_host(scratch)
    for name, item in after.items():
        for kind, io in item["io"].items():
            expect_equal(sum(n for _, n in io["histogram"]), io["count"], f"{name}: histogram of {kind}")
            expect(io["p50_ns"] <= io["p99_ns"] <= io["p999_ns"], f"{name}, {kind}: {io}")
            expect(io["sum_ns"] <= sum(end * n for end, n in io["histogram"]), f"{name}, {kind}: {io}")
    done = {kind: after["one"]["io"][kind]["count"] - before["one"]["io"][kind]["count"] for kind in after["one"]["io"]}
    expect_equal((done["read"], done["write"]), (28, 42), "reads and writes")
    expect(done["other"] >= 3, f"others: {done}")
    expect_equal(after["one"]["read_bytes"] - before["one"]["read_bytes"], 28 * BLOCK, "bytes read")
    expect_equal(after["one"]["written_bytes"] - before["one"]["written_bytes"], 42 * BLOCK, "bytes written")
    expect_equal([after["one"][key] for key in ("held", "in_flight")], [0, 0], "under way")
    expect_equal(counts(after[two.name]), counts(before[two.name]), "of the other volume")
    expect_equal(set(of_host(scratch, "one")), {"one"}, "by name")
    expect_equal(set(of_host(scratch, f"{NQN}/2")), {two.name}, "by namespace")
    rows = [line.split() for line in host(scratch, "--bytes", "one").stdout.splitlines()]
    expect_equal(rows[0], ["VOLUME", "OP", "COUNT", "BYTES", "ERRORS", "MEAN", "P50", "P99", "P99.9"], "titles")
    expect_equal(rows[1][:5], ["one", "read", str(after["one"]["reads"]), str(after["one"]["read_bytes"]), "0"], "reads")
    for arguments in ((), ("--top", "--count", "2", "--interval", "100ms")):
        shown = host(scratch, *arguments, COLUMNS="80").stdout
        expect(max(map(len, shown.splitlines())) <= 80 and "longlong" in shown, shown)
    one.detach()
    two.detach()
    expect_equal(host(scratch).stdout.split(), rows[0], "no volumes")
    target.stop()


def volumes_on_a_terminal(scratch):
    """The busiest volume, the idle one hidden; one that is detached meanwhile disappears; q ends."""
    target = Target(scratch, ["nsid: 1, ram: 16MiB", "nsid: 2, ram: 16MiB"])
    idle, busy = Volume(target, 1, "idle"), Volume(target, 2, "busy")
    load = start_fio(scratch, busy.uri, "--rw=randread", "--bs=4k", "--size=16m", "--time_based", "--runtime=600")
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    before = termios.tcgetattr(slave)
    top = subprocess.Popen([RBLK, "stats", "--top", "--interval", "100ms"], stdin=slave, stdout=slave,
                           stderr=subprocess.STDOUT, env=scratch.env)
    clear = "\033[H\033[J"
    wait_until(lambda: "busy    read" in re.sub(" +read", "    read", read_screen(master, "", clear, 2)), "the reads")
    lines = read_screen(master, "", clear, 2).split(clear)[1].splitlines()
    expect(all(len(line) <= 80 for line in lines) and "1 idle (--idle shows it)" in lines[-1], f"{lines}")
    idle.detach()
    wait_until(lambda: "1 idle" not in read_screen(master, "", clear, 2).split(clear)[1], "the detached one is gone")
    os.write(master, b"q")
    expect_equal(top.wait(PATIENCE), 0, "exit status after q")
    expect_equal(termios.tcgetattr(slave), before, "the terminal")
    load.terminate()
    load.communicate()
    busy.detach()
    target.stop()


def mistakes_of_hosts(scratch):
    target = Target(scratch, ["nsid: 1, ram: 16MiB"])
    volume = Volume(target, 1, "one")
    for arguments, status, text in (
            (("ghost",), NOT_FOUND, "no volume 'ghost' is attached"), (("--interval", "1s"), USAGE, "need --top"),
            (("--sort", "p99"), USAGE, "need --top"), (("--sort", "size", "--top"), USAGE, "--sort"),
            (("--top", "--interval", "1ms"), USAGE, "--interval"), (("--hosts",), USAGE, "--hosts"),
            (("one", "two"), USAGE, "")):
        done = host(scratch, *arguments, status=status)
        expect(text in done.stderr and not done.stdout and done.stderr.count("error:") == 1, f"{arguments}: {done.stderr}")
    done = host(scratch, "--top", "-o", "json", status=USAGE)
    expect("--top shows tables" in json.loads(done.stdout)["error"]["message"] and not done.stderr, done.stdout)
    pid = volume.pid()
    stand_still(pid)
    done = host(scratch, "one", status=UNREACHABLE)
    expect("the volume process of one does not answer" in done.stderr, done.stderr)
    os.kill(pid, signal.SIGCONT)
    volume.detach()
    target.stop()


CASES = [
    ("what was done is what is counted", exact),
    ("hosts that vanish", lost),
    ("tables", tables),
    ("80 columns", fits),
    ("--top on a terminal", top_on_a_terminal),
    ("the difference of two answers", top_differs),
    ("slow commands are logged", slow),
    ("what keeps others waiting", waiting),
    ("mistakes", mistakes),
    ("rblk: what volumes did", volumes),
    ("rblk: --top on a terminal", volumes_on_a_terminal),
    ("rblk: mistakes", mistakes_of_hosts),
]

if __name__ == "__main__":
    run_cases(CASES)
