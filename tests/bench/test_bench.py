#!/usr/bin/python3
"""tools/bench/run and rblk bench on the build at hand: they measure, and report what they
measured. The test judges no figure."""

import functools
import html.parser
import json
import os
import pty
import re
import resource
import shutil
import signal
import subprocess
import sys
import xml.etree.ElementTree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from harness import BUILD, LASTING, NQN, PATIENCE, RBLK, Target, expect, expect_equal, rblk, run_cases, wait_until, with_fabric  # noqa: E402

RUN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "bench", "run")
sys.path.insert(1, os.path.dirname(RUN))
import first  # noqa: E402
import walk  # noqa: E402
MIB = 1 << 20
REPORT = os.path.join(os.path.dirname(RUN), "..", "report")


def bench(*arguments, **env):
    return subprocess.run([sys.executable, RUN, *arguments], capture_output=True, text=True, check=False,
                          timeout=3 * PATIENCE, env=dict(os.environ, RBLK_BUILD=BUILD, **env))


def measured(part, case):
    """The rows of a case, by contender. A busy machine may do nothing in a short run, so a longer one follows then."""
    for seconds in ("0.2", "2", "20"):
        done = bench(part, "--case", case, "--runs", "1", "--seconds", seconds, "-o", "json")
        expect(done.returncode == 0, f"exit status {done.returncode}: {done.stdout}{done.stderr}")
        rows = {row["contender"]: row for row in json.loads(done.stdout)["rows"] if row["case"] == case}
        if all(row["iops"] > 0 for row in rows.values()):
            break
    return rows


def one_case(part, case, contenders):
    def run(_scratch):
        rows = measured(part, case)
        expect(set(rows) == contenders, f"rows {sorted(rows)}")
        for name, row in rows.items():
            expect(row["case"] == case and row["iops"] > 0, f"{name}: {row}")
    return run


def table(_scratch):
    done = bench("fabric", "--case", "4 KiB copy", "--runs", "1", "--seconds", "0.01")
    expect(done.returncode == 0, done.stdout + done.stderr)
    lines = done.stdout.splitlines()
    expect("CPUs" in lines[0] and "load" in lines[0], f"no machine and load: {lines[0]}")
    expect(lines[2].split()[:4] == ["PART", "CASE", "CONTENDER", "IOPS"], f"header: {lines[2]}")
    at = lines[2].index("CONTENDER")
    expect(lines[3][at - 2:at] == "  " and lines[3][at:].startswith("process_vm_writev"), "not aligned")


def stopped(_scratch):
    """A terminal shows rows as they come; a run that is stopped early reports the rows that it
    has."""
    terminal, watched = pty.openpty()
    process = subprocess.Popen([sys.executable, RUN, "fabric", "--runs", "1", "--seconds", "1", "-o", "json"],
                               stdout=subprocess.PIPE, stderr=watched, text=True, env=dict(os.environ, RBLK_BUILD=BUILD))
    os.close(watched)
    try:
        seen = b""
        while b"fabric: 4 KiB read d1: floor: IOPS " not in seen:
            seen += os.read(terminal, 4096)  # an error when no process holds its other end
        process.terminate()
        said, _ = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
        process.wait()
        os.close(terminal)
    result = json.loads(said)
    expect(process.returncode == 143 and result["machine"]["stopped"], f"exit status {process.returncode}: {said}")
    expect(result["rows"][0]["case"] == "4 KiB read d1" and result["rows"][0]["iops"] > 0, said)


def bad_usage(_scratch):
    done = bench("nonsense")
    expect(done.returncode == 2 and "no part 'nonsense'" in done.stderr, done.stderr)


def no_virtual_machine(scratch):
    """A row reports what could not be measured."""
    for program in ("bash", "dirname", "realpath", "sed"):
        os.symlink(shutil.which(program), os.path.join(scratch.path, program))
    done = bench("vm", "-o", "json", PATH=scratch.path)
    rows = json.loads(done.stdout)["rows"]
    expect(done.returncode == 1 and len(rows) == 1, f"exit status {done.returncode}: {done.stdout}{done.stderr}")
    expect("needs qemu-system-x86" in rows[0]["error"], str(rows))


def user_command(scratch):
    target = Target(scratch, ["nsid: 1, ram: 16MiB, block_size: 4096"])
    try:
        where = f"{NQN}@{target.address}"
        for runtime in ("1s", "20s"):  # a busy machine may do nothing in one
            done = rblk(scratch, "bench", where, "--rw", "randwrite", "--depth", 4, "--queues", 4, "--threads", 2,
                        "-t", runtime, "-o", "json")
            result = json.loads(done.stdout)
            if result["queue_min_iops"] > 0:
                break
        expect((result["queues"], result["threads"], result["depth"]) == (4, 2, 4), str(result))
        expect(result["iops"] > 0 and result["errors"] == 0 and result["cpu_us_per_io"] > 0, str(result))
        expect(0 < result["queue_min_iops"] <= result["queue_max_iops"], str(result))
        expect(result["p50_ns"] <= result["p99_ns"] <= result["p999_ns"], str(result))
        done = rblk(scratch, "bench", where, "-t", "10ms")
        lines = done.stdout.splitlines()
        expect(len(lines) == 2 and lines[0].startswith("TEST"), done.stdout)
        done = rblk(scratch, "bench", where, "--bs", "16MiB", "--depth", 1000, check=False)
        expect(done.returncode == 2 and "512 MiB" in done.stderr, done.stderr)
        done = rblk(scratch, "bench", where, "--ns", 7, "-t", "10ms", check=False)
        expect(done.returncode not in (0, 2) and "rblk bench: error:" in done.stderr, done.stderr)
    finally:
        target.stop()


def memory_kinds(scratch):
    """The data is in a file in memory, unless anonymous memory was asked for."""
    target = Target(scratch, ["nsid: 1, ram: 16MiB, block_size: 4096"])
    for options, is_shared in (([], True), (["--memory", "shared"], True), (["--memory", "private"], False)):
        process = start_bench(scratch, target, "--bs", "1MiB", "--depth", "12", "-t", "1h", *options)
        try:
            wait_until(lambda: data_mapping(process.pid, 12 * MIB), "the data is mapped")
            expect_equal("/memfd:" in data_mapping(process.pid, 12 * MIB), is_shared, f"a file, {options}")
        finally:
            process.kill()
            process.communicate()
    target.stop()


def interrupted(scratch):
    """A signal ends it with the figures until then, a line for each depth that was begun, also in the ramp."""
    target = Target(scratch, ["nsid: 1, ram: 16MiB, block_size: 4096"])
    picture = scratch.file("bench.svg")
    for number, options in ((signal.SIGINT, []), (signal.SIGTERM, ["--plot", picture]),
                            (signal.SIGINT, ["--ramp", "1h"])):
        before = n_written(target)
        process = start_bench(scratch, target, "--rw", "randwrite", "-t", "1h", *options)
        wait_until(functools.partial(has_written, target, before), "the benchmark writes")
        process.send_signal(number)
        said, errors = process.communicate(timeout=PATIENCE)
        expect(process.returncode == 0 and len(said.splitlines()) == 2, f"{process.returncode}: {said}{errors}")
    expect(os.path.exists(picture), "no picture")
    target.stop()


def start_bench(scratch, target, *options):
    return subprocess.Popen([RBLK, "bench", f"{NQN}@{target.address}", *options], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, env=with_fabric(scratch.env))


def data_mapping(pid, n_bytes):
    """The line of the process's mapping of this size, or None."""
    with open(f"/proc/{pid}/maps", encoding="utf-8") as f:
        for line in f:
            begin, end = (int(x, 16) for x in line.split()[0].split("-"))
            if end - begin == n_bytes:
                return line
    return None


SVG = "{http://www.w3.org/2000/svg}"


def svg_is_whole(root, n_curves):
    """Curves with as many points as they should have, all on the paper; no script, nothing from elsewhere."""
    width, height = (float(root.get(name)) for name in ("width", "height"))
    curves = [line.get("points").split() for line in root.iter(f"{SVG}polyline")]
    expect(len(curves) == n_curves and all(curves), f"curves: {curves}")
    for point in (point for curve in curves for point in curve):
        x, y = map(float, point.split(","))
        expect(0 <= x <= width and 0 <= y <= height, f"a point beside the paper: {point}")
    for element in root.iter():
        expect(not element.tag.endswith("script") and not any("href" in name for name in element.attrib), element.tag)
    return curves


class Page(html.parser.HTMLParser):
    """Each element is closed, in order; what is shown, and what comes from elsewhere."""

    def __init__(self, text):
        super().__init__()
        self.open, self.seen, self.foreign, self.words = [], [], [], []
        self.feed(text)
        self.close()
        expect(not self.open, f"never closed: {self.open}")

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.seen.append(tag)
        self.foreign += [name for name, _ in attrs if name in ("src", "href") or name.startswith("on")]

    def handle_startendtag(self, tag, attrs):
        self.seen.append(tag)

    def handle_endtag(self, tag):
        expect(self.open and self.open.pop() == tag, f"</{tag}> closes nothing")

    def handle_data(self, data):
        self.words.append(data)


def report(*paths, status=0):
    done = subprocess.run([sys.executable, REPORT, *paths], capture_output=True, text=True, check=False, timeout=PATIENCE)
    expect(done.returncode == status, f"exit status {done.returncode}: {done.stderr}")
    return done


def in_pictures(scratch):
    """--plot draws what it measured, and the report shows it."""
    target = Target(scratch, ["nsid: 1, ram: 16MiB"])
    where, picture, record = f"{NQN}@{target.address}", scratch.file("p.svg"), scratch.file("a<b>.json")
    try:
        for how_long in ("300ms", "3s", "30s"):  # a busy machine may do nothing in a short time
            done = rblk(scratch, "bench", where, "-d", "6", "-t", how_long, "--plot", picture, "-o", "json")
            result = json.loads(done.stdout)
            if all(d["iops"] > 0 for d in result["depths"]):
                break
        expect([d["depth"] for d in result["depths"]] == [1, 2, 4, 6] and result["depth"] == 6, done.stdout)
        expect(all(d["iops"] > 0 and d["p50_ns"] <= d["p99_ns"] <= d["p999_ns"] for d in result["depths"]), done.stdout)
        last = result["depths"][-1]
        expect((last["mb_per_s"], last["cpu_us_per_io"]) == (result["mb_per_s"], result["cpu_us_per_io"]), done.stdout)
        expect(result["rate"] and all(point["at_ms"] >= 0 for point in result["rate"]), done.stdout)
        curves = svg_is_whole(xml.etree.ElementTree.parse(picture).getroot(), 4)
        expect([len(curve) for curve in curves] == [4, 4, 4, len(result["rate"])], f"{curves}")
        lines = rblk(scratch, "bench", where, "-d", "2", "-t", "20ms", "--plot", picture).stdout.splitlines()
        expect([line.split()[2] for line in lines] == ["DEPTH", "1", "2"], f"{lines}")
        with open(record, "w", encoding="utf-8") as f:
            f.write(done.stdout)
        for path in (scratch.file("none/p.svg"), scratch.path):
            failed = rblk(scratch, "bench", where, "--plot", path, check=False)
            expect(failed.returncode == 1 and "--plot" in failed.stderr, failed.stderr)
        failed = rblk(scratch, "bench", where, "--ns", "7", "--plot", picture, check=False)
        expect(failed.returncode == 4 and not os.path.exists(picture), failed.stderr)
    finally:
        target.stop()
    shown = Page(report(record, record).stdout)
    expect(shown.seen.count("svg") >= 2 and shown.seen.count("tr") == 5, f"{shown.seen}")
    expect(not shown.foreign and "script" not in shown.seen, f"{shown.foreign}")
    expect("a<b>" in "".join(shown.words), "the record's name")


def reports(scratch):
    """A record of tools/bench/run as a page, and what is no record."""
    done = bench("fabric", "--case", "4 KiB copy", "--runs", "1", "--seconds", "0.01", "-o", "json")
    record, broken = scratch.file("run.json"), scratch.file("broken.json")
    with open(record, "w", encoding="utf-8") as f:
        f.write(done.stdout)
    shown = Page(report(record).stdout)
    expect("process_vm_writev" in shown.words and "4 KiB copy" in shown.words, f"{shown.words}")
    for text in ("", "[]", "{}", '{"schema": 1}', '{"schema": 2, "rows": [], "machine": {}}',
                 '{"schema": 1, "rows": [{}], "machine": {}}'):
        with open(broken, "w", encoding="utf-8") as f:
            f.write(text)
        expect("report: error: " in report(broken, status=3).stderr, text)
    report(scratch.file("none.json"), status=3)


def all_queues_at_once(scratch):
    """As many queues as a controller has by default: no default limit of a target refuses them."""
    target = Target(scratch, ["nsid: 1, ram: 16MiB, block_size: 4096"])
    try:
        done = rblk(scratch, "bench", f"{NQN}@{target.address}", "--queues", 64, "-t", "10ms", "-o", "json")
        expect(json.loads(done.stdout)["queues"] == 64 and "rejected" not in done.stderr, done.stdout + done.stderr)
    finally:
        target.stop()


def n_written(target):
    return target.list("namespaces")["namespaces"][0]["writes"]


def has_written(target, before=0):
    return n_written(target) >= before + 100


def queues_of_one_thread(like):
    """The queues share one completion queue, which is destroyed and created with them, also on a
    device where it cannot grow."""
    def case(scratch):
        scratch.env.update(like)
        target = Target(scratch, [f"nsid: 1, ram: 16MiB, block_size: 4096, {LASTING}"])
        try:
            process = subprocess.Popen(
                [RBLK, "bench", f"{NQN}@{target.address}", "--rw", "randwrite", "--depth", "8", "--queues", "9",
                 "--threads", "2", "-t", "1h", "-o", "json"],
                env=scratch.env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            for _ in range(2):
                wait_until(lambda: has_written(target), "the benchmark writes")
                target.kill()
                target.start()
            wait_until(lambda: has_written(target), "the benchmark writes")
            process.terminate()
            said, errors = process.communicate(timeout=PATIENCE)
            result = json.loads(said)
            expect(process.returncode == 0 and result["errors"] == 0, said + errors)
            expect(result["queues"] == 9 and result["queue_min_iops"] > 0, said)
            expect(errors.count("lost the connection") == 2, errors)
        finally:
            target.stop()
    return case


def growth_drawn(scratch):
    """Rows that differ in one number are drawn as one picture, which any reader of XML takes."""
    folder = os.path.join(scratch.path, "plots")
    done = bench("growth", "--case", "namespaces", "--runs", "1", "-o", "json", "--plot", folder)
    expect(done.returncode == 0, f"exit status {done.returncode}: {done.stdout}{done.stderr}")
    rows = json.loads(done.stdout)["rows"]
    expect([row["at"]["value"] for row in rows] == [1, 100, 1000], str(rows))
    expect(all(row["start_ms"] > 0 and row["change_ms"] > 0 and row["memory_mb"] > 0 for row in rows), str(rows))
    picture = os.path.join(folder, "growth-namespaces-namespaces.svg")
    expect(os.listdir(folder) == [os.path.basename(picture)] and picture in done.stderr, done.stderr)
    root = xml.etree.ElementTree.parse(picture).getroot()
    lines = root.findall("{http://www.w3.org/2000/svg}polyline")
    expect(len(lines) == 3 and all(len(line.get("points").split()) == 3 for line in lines), f"{len(lines)} lines")


def first_read(_scratch):
    """An attach is measured; what it costs in page faults, which depend on no load, is within its bar. A limit of
    locked memory is tried out with a page more than itself; a low one, so that the machine needs no huge pages."""
    soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (MIB if hard == resource.RLIM_INFINITY else min(MIB, hard), hard))
    try:
        done = bench("first", "--case", "one volume", "--runs", "1", "-o", "json")
    finally:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (soft, hard))
    expect(done.returncode == 0, f"exit status {done.returncode}: {done.stdout}{done.stderr}")
    row, = json.loads(done.stdout)["rows"]
    expect(row["first_ms"] > 0 and row["attach_cpu_ms"] > 0, str(row))
    bars = {bar["figure"]: bar["met"] for bar in row["bars"]}
    expect(set(bars) == {"first_ms", "attach_cpu_ms", "attach_pages"} and bars["attach_pages"], str(row))


def keep_wake_up(scratch):
    """As an earlier process of this boot has left it in the run directory."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as f:
        boot = f.read().strip()
    with open(os.path.join(scratch.env["RBLK_RUN_DIR"], "wake-up"), "w", encoding="ascii") as f:
        f.write(f"{boot} {len(os.sched_getaffinity(0))} 20000\n")


def first_read_is_counted(scratch):
    """rblk attach executes two programs, itself and the volume process, which has three threads: control, one of the
    provider, and one worker. No modprobe is tried for a socket, and no wake-up is measured again."""
    keep_wake_up(scratch)
    target = Target(scratch, ["nsid: 1, ram: 16MiB, block_size: 4096"])
    trace, path = scratch.file("trace"), os.path.join(scratch.env["RBLK_RUN_DIR"], "volumes", "v.nbd")
    process = subprocess.Popen(
        ["strace", "-f", "-qq", "-o", trace, "-e", "trace=execve,clone,clone3,fork,vfork", RBLK, "attach",
         f"{NQN}@{target.address}", "--name", "v", "--frontend", "socket"], env=scratch.env, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        said = iter(process.stdout.readline, "")
        expect(any(path in line for line in said), "rblk attach printed no URI")
        first.read_first_block(path, "v")
        rblk(scratch, "detach", "v")
        process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
        process.communicate()
    target.stop()
    with open(trace, encoding="utf-8", errors="replace") as f:
        lines = f.read().splitlines()
    programs = [line for line in lines if " execve(" in line]
    threads = [line for line in lines if re.search(r" (clone3?|v?fork)\(", line)]
    expect_equal(len(programs), 2, f"programs: {programs}")
    expect_equal(len(threads), 3, f"processes and threads that were made: {threads}")


def paused_targets(_scratch):
    """A target that never sleeps takes no CPU from the one that is measured."""
    rows = measured("polling", "4 KiB randread d1")
    expect(set(rows) == {"as shipped", "never sleeps"} and all(row["iops"] > 0 for row in rows.values()), str(rows))
    expect({bar["figure"] for bar in rows["never sleeps"]["bars"]} == {"iops", "p99_us", "p999_us"}, str(rows))


def no_spdk(scratch):
    for folder, text in ((None, "--spdk DIR"), (scratch.path, f"no {scratch.path}/build/bin/nvmf_tgt")):
        done = bench("spdk", "-o", "json", *(["--spdk", folder] if folder else []))
        rows = json.loads(done.stdout)["rows"]
        expect(done.returncode == 1 and len(rows) == 1 and text in rows[0]["error"], done.stdout + done.stderr)


def one_write(_scratch):
    """docs/ARCHITECTURE.md names the files that a WRITE enters, and no others."""
    if not shutil.which("valgrind"):
        print("# not run: valgrind is not installed: tools/packages bench", flush=True)
        return
    with open(os.path.join(os.path.dirname(RUN), "..", "..", "docs", "ARCHITECTURE.md"), encoding="utf-8") as f:
        page = f.read().split("## The life of one WRITE")[1].split("\n## ")[0]
    entered = {name for half in walk.of_one_write() for name in half if not name.startswith(("base/", "transport/"))}
    named = set(re.findall(r"`((?:target|initiator|nbd_bridge)/[\w/]+\.c)`", page))
    expect(entered == named, f"it enters {sorted(entered - named)}, and never {sorted(named - entered)}")


CASES = [
    ("queues of one thread outlive a target that dies", queues_of_one_thread({})),
    ("so they do on a device like siw", queues_of_one_thread({"SOFTRDMA_LIKE": "siw"})),
    ("rblk bench measures, or says what is wrong", user_command),
    ("rblk bench takes the memory that it is told to", memory_kinds),
    ("rblk bench is ended by a signal", interrupted),
    ("rblk bench draws what it measured", in_pictures),
    ("records become a page", reports),
    ("all queues of a host connect at once", all_queues_at_once),
    ("the table is aligned and says what was measured on", table),
    ("rows are seen as they come, and kept when it is ended", stopped),
    ("a part that does not exist is refused", bad_usage),
    ("a machine without virtual machines says so", no_virtual_machine),
    ("growth is measured and drawn", growth_drawn),
    ("attach to the first read is measured, and touches few pages", first_read),
    ("attach executes two programs, and makes no thread that ends", first_read_is_counted),
    ("the page on a WRITE names the files that one enters", one_write),
    ("as shipped beside one that never sleeps", paused_targets),
    ("without SPDK its part says so", no_spdk),
    ("the fabric's floor", one_case("fabric", "4 KiB read d32", {"floor"})),
    ("rblkd beside its floor and bare copies", one_case("ram", "4 KiB randread d32",
                                                        {"rblk", "floor", "process_vm_writev",
                                                         "writev, 256 MiB"})),
    ("a reader beside its neighbours", one_case("neighbours", "4 KiB randread d1, RAM",
                                                {"alone", "beside writers", "beside writers, 100 MiB/s",
                                                 "beside writers of another", "beside apply", "beside a capture",
                                                 "beside scrapes", "beside a busy program"})),
]

if __name__ == "__main__":
    run_cases(CASES)
