#!/usr/bin/python3
"""The endpoints for Prometheus, of rblkd and of volumes: a strict reader of their format, the numbers of
rblkctl stats and rblk stats, and clients that misbehave. Without libmicrohttpd: rblkd refuses the key, a
volume the option, and rblk metrics prints the text all the same."""

import contextlib
import ctypes
import http.client
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", folder) for folder in ("lib", "nbd")]
from harness import (NQN, PATIENCE, RBLK, RBLKCTL, RBLKD, Target, Volume, expect, expect_equal, find_key,  # noqa: E402
                     free_port, rblk, run, run_cases, start_fio, wait_until, with_fabric)
from pair import Member  # noqa: E402
from nbd_server import FLUSH, READ, WRITE, Raw  # noqa: E402

USAGE, CONFIG, NOT_FOUND, BUSY, UNREACHABLE, PRIVILEGE = 2, 3, 4, 5, 7, 9
BLOCK = 65536
NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)\}})? ([0-9.e+-]+)")
MONITORING = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/monitoring")
HAS_HTTP = os.environ["HAS_HTTP"] == "1"


def parse(text, prefix="rblkd_"):
    """{name: {frozenset(labels): value}}; any violation of the format is a failure."""
    samples, types, current = {}, {}, None
    expect(text.endswith("\n") and "\r" not in text, "line ends")
    for line in text.splitlines():
        if line.startswith("# HELP "):
            current = line.split()[2]
            expect(current not in types and len(line.split()) > 3, f"HELP: {line}")
            types[current] = None
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            expect(name == current and types[name] is None and kind in ("counter", "gauge", "histogram"), line)
            types[name] = kind
        else:
            match = SAMPLE.fullmatch(line)
            expect(match, f"not a sample: {line!r}")
            name, labels, value = match.group(1), match.group(2) or "", float(match.group(3))
            family = re.sub("_(bucket|sum|count)$", "", name) if types[current] == "histogram" else name
            expect_equal(family, current, f"the family of {line!r}")
            expect(name.startswith(prefix) and name.endswith("_total") == (types[current] == "counter"), name)
            pairs = re.findall(LABEL, labels)
            key = frozenset(tuple(pair.split("=", 1)) for pair in pairs)
            expect(len({k for k, _ in key}) == len(pairs), f"a label twice: {line}")
            expect(key not in samples.setdefault(name, {}), f"twice: {line}")
            expect(value >= 0, line)
            samples[name][key] = value
    return samples


def get(address, path="/metrics", method="GET", body=None):
    connection = http.client.HTTPConnection(address, timeout=PATIENCE)
    connection.request(method, path, body)
    answer = connection.getresponse()
    text = answer.read().decode("ascii")
    connection.close()
    return answer.status, answer.headers, text


def scrape(address, prefix="rblkd_"):
    status, headers, text = get(address)
    expect_equal((status, headers["Content-Type"]), (200, "text/plain; version=0.0.4; charset=utf-8"), "answer")
    return parse(text, prefix)


def value(samples, name, **labels):
    return samples[name][frozenset((k, f'"{v}"') for k, v in labels.items())]


def histograms_are_whole(samples, name="rblkd_namespace_latency_seconds"):
    buckets = {}
    for key, n in samples[f"{name}_bucket"].items():
        le = dict(key)["le"].strip('"')
        rest = frozenset(pair for pair in key if pair[0] != "le")
        buckets.setdefault(rest, []).append((float(le.replace("+Inf", "inf")), n))
    for rest, pairs in buckets.items():
        counts = [n for _, n in sorted(pairs)]
        expect(counts == sorted(counts), f"buckets of {rest} fall: {counts}")
        expect_equal(counts[-1], samples[f"{name}_count"][rest], "count")
        expect_equal(counts[-1] > 0, samples[f"{name}_sum"][rest] > 0, "sum")


def listen_on(address):
    return f"metrics: {{listen: '{address}'}}"


def start(scratch, listen=None, portals="127.0.0.1", group=False):
    """group: one with an owner, too."""
    address = listen or f"127.0.0.1:{free_port()}"
    namespaces, extra, more = ["nsid: 1, ram: 16MiB", "nsid: 2, ram: 16MiB"], listen_on(address), "allow_any_host: true"
    if group:
        os.makedirs(scratch.file("group"))
        namespaces.append(f"nsid: 3, file: {scratch.make_file('disk.img', 1 << 20)}, ana_group: 2")
        extra += f"\ngroup_directory: {scratch.file('group')}\ncontroller_ids: {{min: 1, max: 999}}"
        more += "\n    ana_groups: [{id: 1}, {id: 2, owner: lock}]"
    return address, Target(scratch, namespaces, extra=extra, listen=portals, subsystem_extra=more)


def two_portals():
    """For a Target, and the option of a volume with a path through each: the latency of paths is only
    measured where there is a choice."""
    port = free_port()
    return f"127.0.0.1, port: {port}}}\n  - {{name: q, address: 127.0.0.1", ("--path", f"127.0.0.1:{port}")


def numbers(scratch):
    address, target = start(scratch)
    volume = Volume(target, 1)
    run("/usr/bin/python3", "-m", "nbd", "-u", volume.uri, "-c",
        f"for i in range(50): h.pwrite(bytes({BLOCK}), i % 16 * {BLOCK})", "-c",
        f"for i in range(30): h.pread({BLOCK}, 0)")
    asked = json.loads(run(RBLKCTL, "stats", "-o", "json", "--socket", target.control).stdout)["namespaces"][0]
    # The endpoint may return once more what it collected a moment ago.
    samples = wait_until(lambda: (lambda s: s if value(s, "rblkd_namespace_latency_seconds_count", subsystem=NQN,
                                                       nsid=1, op="write") >= 50 else None)(scrape(address)),
                         "the writes are there")
    histograms_are_whole(samples)
    for op in ("read", "write"):
        labels = {"subsystem": NQN, "nsid": 1, "op": op}
        expect_equal(value(samples, "rblkd_namespace_latency_seconds_count", **labels), asked["io"][op]["count"], op)
        expect_equal(value(samples, "rblkd_namespace_errors_total", **labels), asked["io"][op]["errors"], op)
    expect_equal(value(samples, "rblkd_namespace_bytes_total", subsystem=NQN, nsid=1, op="write"),
                 asked["written_bytes"], "bytes")
    expect_equal(value(samples, "rblkd_namespace_bytes_total", subsystem=NQN, nsid=2, op="read"), 0, "bytes")
    expect_equal(samples["rblkd_portal_listening"], {frozenset({("portal", '"p"')}): 1.0}, "portal")
    expect_equal(len(samples["rblkd_host_queues"]), 1, "hosts")
    expect(sum(samples["rblkd_host_queues"].values()) >= 2, "queues of the host")
    host = sum(n for key, n in samples["rblkd_host_commands_total"].items() if ("op", '"write"') in key)
    expect_equal(host, asked["io"]["write"]["count"], "writes of the host")
    for name in ("in_flight", "buffer_bytes", "oldest_command_seconds", "takes_no_data_seconds"):
        expect_equal(set(samples[f"rblkd_host_{name}"].values()), {0.0}, f"{name} at rest")
    expect_equal(get(address, "/")[0], 404, "another path")
    expect_equal(get(address, method="HEAD")[0], 200, "HEAD")
    expect_equal(get(address, method="POST", body="x" * 100)[0], 405, "POST")
    expect_equal(get(address, method="GET", body="x" * 100000)[0], 200, "GET with a body")
    volume.detach()
    target.stop()


def moves(scratch):
    """Which of two is the owner of a group, and why it has moved."""
    addresses = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    one, other = (Member(scratch, n, extra=listen_on(address)) for n, address in enumerate(addresses))
    wait_until(other.stands_by, "the second stands by")

    def shows(address, owner, **times):
        samples = scrape(address)
        for cause, n in times.items():
            labels = {"subsystem": NQN, "group": 1, "cause": cause}
            last = value(samples, "rblkd_group_last_move_timestamp_seconds", **labels)
            if value(samples, "rblkd_group_moves_total", **labels) != n or (last > 1.7e9) != (n > 0):
                return False
        return value(samples, "rblkd_group_owner", subsystem=NQN, group=1) == owner

    wait_until(lambda: shows(addresses[0], 1, taken=1, given=0, lost=0), "the first has taken it")
    wait_until(lambda: shows(addresses[1], 0, taken=0, given=0, lost=0), "the second never had it")
    one.ctl("group", "give", NQN, "1")
    wait_until(lambda: shows(addresses[0], 0, taken=1, given=1, lost=0), "the first has given it away")
    wait_until(lambda: shows(addresses[1], 1, taken=1, given=0, lost=0), "the second has taken it")
    expect("group 1: given away: this rblkd stands by" in one.read_log(), "the log of the first")
    expect("group 1: this rblkd is the owner" in other.read_log(), "the log of the second")
    one.stop()
    other.stop()


def waiting(scratch):
    """The age of a command that a rate holds."""
    address, target = start(scratch)
    volume = Volume(target, 1)
    run(RBLKCTL, "qos", "set", f"{NQN}/1", "write_bandwidth=4KiB", "--socket", target.control)
    load = start_fio(scratch, volume.uri, "--rw=write", "--bs=64k", "--iodepth=4", "--size=1m")
    samples = wait_until(lambda: (lambda s: s if sum(s["rblkd_host_oldest_command_seconds"].values()) >= 1 else None)(
        scrape(address)), "a command is old")
    expect(1 <= sum(samples["rblkd_host_in_flight"].values()) <= 4, f"{samples['rblkd_host_in_flight']}")
    run(RBLKCTL, "qos", "set", f"{NQN}/1", "write_bandwidth=none", "--socket", target.control)
    expect_equal(load.wait(PATIENCE), 0, "fio")
    volume.detach()
    target.stop()


def expressions_of(tree):
    """Each expression and query of a dashboard."""
    if isinstance(tree, dict):
        for key, item in tree.items():
            if key in ("expr", "query") and isinstance(item, str) and item != "prometheus":
                yield item
            else:
                yield from expressions_of(item)
    elif isinstance(tree, list):
        for item in tree:
            yield from expressions_of(item)


def check_expression(expression, known):
    """Its metrics are exported, with the labels that it selects and sums by. known: labels by metric."""
    names = re.findall(r"\brblkd?_\w+", expression)
    used = set()
    for name in names:
        expect(name in known, f"{name} is not exported: {expression}")
        used |= known[name]
    for name, matchers in re.findall(r"(rblkd?_\w+)\{([^}]*)\}", expression):
        for label in re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", re.sub(r'"[^"]*"', '""', matchers)):
            expect(label in known[name], f"{name} has no label {label}: {expression}")
    for labels in re.findall(r"\b(?:by|on)\s*\(([^)]*)\)", expression):
        for label in re.findall(r"\w+", labels):
            expect(label in used, f"no metric has a label {label}: {expression}")
    return names, used


def monitoring(scratch):
    """The alerts and the dashboard name metrics and labels that rblkd exports, and Prometheus' own tool
    accepts all of it."""
    portals, paths = two_portals()
    address, target = start(scratch, portals=portals, group=True)
    volume = Volume(target, 1, None, *paths)
    wait_until(lambda: find_key(volume.answer(), "paths_live") == 2, "both paths")
    run("/usr/bin/python3", "-m", "nbd", "-u", volume.uri, "-c", f"h.pwrite(bytes({BLOCK}), 0)", "-c",
        "for i in range(300): h.pread(4096, 0)")
    check_monitoring(scratch, "rblkd", get(address)[2], {
        "rblkd_namespace_last_error_timestamp_seconds"})  # for rblkctl's readers
    check_monitoring(scratch, "rblk", rblk(scratch, "metrics").stdout, {
        "rblk_last_io_error_timestamp_seconds", "rblk_paths", "rblk_io_latency_seconds_sum"})
    volume.detach()
    target.stop()


def check_monitoring(scratch, what, text, not_shown):
    known = {name: {"instance", "job"} | {label for key in keys for label, _ in key}
             for name, keys in parse(text, f"{what}_").items()}
    with open(os.path.join(MONITORING, f"{what}-dashboard.json"), encoding="utf-8") as f:
        dashboard = json.load(f)
    with open(os.path.join(MONITORING, f"{what}-alerts.yaml"), encoding="utf-8") as f:
        rules = re.split(r"\n      - alert: ", f.read())[1:]
    shown = [check_expression(e, known)[0] for e in expressions_of(dashboard)]
    expect(len(shown) > 20 and all(shown), f"expressions of the dashboard: {shown}")
    rest = set(known) - {name for names in shown for name in names} - not_shown
    expect(not rest, f"exported, and in no picture: {rest}")
    for rule in rules:
        expression = re.search(r"expr: (?:>-\n)?(.*?)\n        (?:for|labels):", rule, re.S).group(1)
        names, labels = check_expression(expression, known)
        expect(names or expression.startswith("up{"), rule)
        for label in re.findall(r"\$labels\.(\w+)", rule):
            expect(label in labels | {"instance"}, f"no label {label}: {rule}")
    ids = [panel["id"] for panel in dashboard["panels"]]
    expect_equal(len(ids), len(set(ids)), "ids of panels")
    cells = [(x, y) for p in dashboard["panels"] for at in (p["gridPos"],)
             for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])]
    expect(len(cells) == len(set(cells)) and max(x for x, _ in cells) < 24, "panels overlap")
    promtool = shutil.which("promtool")
    expect(promtool, "promtool is missing: tools/packages test")
    for command in (("check", "rules", f"{what}-alerts.yaml"), ("test", "rules", f"{what}-alerts-test.yaml")):
        done = run(promtool, *command, cwd=MONITORING, check=False)
        expect_equal(done.returncode, 0, f"promtool {command}: {done.stdout}{done.stderr}")
    done = run(promtool, "check", "metrics", input=text, check=False)
    expect_equal(done.returncode, 0, f"promtool check metrics: {done.stdout}{done.stderr}")
    records = scratch.file("dashboard.yaml")
    with open(records, "w", encoding="utf-8") as f:
        json.dump({"groups": [{"name": "dashboard", "rules": [
            {"record": f"shown_{i}", "expr": e.replace("$__rate_interval", "1m")}
            for i, e in enumerate(expressions_of(dashboard)) if "label_values" not in e]}]}, f)
    done = run(promtool, "check", "rules", records, check=False)
    expect_equal(done.returncode, 0, f"expressions of the dashboard: {done.stdout}{done.stderr}")


def hostile(scratch):
    """More clients than allowed, which send nothing, half of something, or too much: rblkd serves
    on."""
    address, target = start(scratch)
    host, port = address.split(":")
    clients = []
    for i in range(40):
        client = socket.create_connection((host, int(port)), PATIENCE)
        clients.append(client)
        try:
            client.sendall((b"", b"GET /met", b"\0\xff" * 1000, b"GET /" + b"x" * 30000)[i % 4])
        except OSError:
            pass  # disconnected already
    volume = Volume(target, 1)
    run("/usr/bin/python3", "-m", "nbd", "-u", volume.uri, "-c", "h.pwrite(b'a' * 4096, 0)")
    volume.detach()
    for client in clients:
        client.close()

    def answers():
        try:
            return get(address)[0] == 200
        except OSError:
            return False
    wait_until(answers, "it answers again")
    # A client that waits for an answer must not delay the end.
    waiting = socket.create_connection((host, int(port)), PATIENCE)
    waiting.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 50)
    target.stop()
    waiting.close()


def from_address(number, address):
    host, port = address.split(":")
    client = socket.socket()
    client.settimeout(PATIENCE)
    client.bind((f"127.0.0.{number}", 0))
    client.connect((host, int(port)))
    return client


def ask_from(number, address):
    """The first line of the answer to a client from that address."""
    with from_address(number, address) as client:
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        return client.makefile("rb").readline()


def is_open(client):
    try:
        client.sendall(b"x")
        return True
    except OSError:
        return False


def slow(scratch):
    """Slow clients that stay connected: those of one address leave places for others, and those of
    many addresses are disconnected."""
    address, target = start(scratch)
    clients = [from_address(2, address) for _ in range(16)]
    for client in clients:
        client.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
    expect(ask_from(3, address).startswith(b"HTTP/1.1 200"), "another address, at once")
    for client in clients:
        client.close()
    clients = [from_address(2 + i // 4, address) for i in range(16)]
    for client in clients:
        client.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
    # Never idle for long, and never finished: they are disconnected all the same.
    wait_until(lambda: not any([is_open(client) for client in clients]), "the slow ones are gone")
    expect(ask_from(7, address).startswith(b"HTTP/1.1 200"), "then every other client")
    # A client that sends one request after another may stay.
    with from_address(8, address) as client:
        lines = client.makefile("rb")
        for _ in range(3):
            client.sendall(b"HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            expect(lines.readline().startswith(b"HTTP/1.1 200"), "again and again")
            while lines.readline() != b"\r\n":
                pass
    for client in clients:
        client.close()
    target.stop()


def mistakes(scratch):
    address, target = start(scratch)
    with open(target.config, encoding="utf-8") as f:
        text = f.read()
    other = scratch.file("other.yaml")

    def check(listen, *command):
        with open(other, "w", encoding="utf-8") as f:
            f.write(text.replace(f"'{address}'", f"'{listen}'").replace(target.control, target.control + "2")
                    .replace(f"port: {target.port}", f"port: {free_port()}"))
        return run(RBLKD, *command, "-c", other, check=False, env=scratch.env)
    for listen in ("localhost:9807", "127.0.0.1:0", "127.0.0.1:99999", "1.2.3", ":9807", "/tmp/x"):
        done = check(listen, "--check")
        expect_equal(done.returncode, CONFIG, f"{listen}: {done.stderr}")
        expect("must be an address with a port" in done.stderr, done.stderr)
    for listen in ("127.0.0.1", "[::1]:9807", "0.0.0.0:1"):
        expect_equal(check(listen, "--check").returncode, 0, listen)
    done = check(address)
    expect_equal(done.returncode, BUSY, done.stderr)
    expect(f"metrics: cannot listen on {address}: Address already in use" in done.stderr, done.stderr)
    with open(target.config, "w", encoding="utf-8") as f:
        f.write(text.replace(address, f"127.0.0.1:{free_port()}"))
    done = run(RBLKCTL, "apply", "--socket", target.control, check=False)
    expect(done.returncode != 0 and "restart" in done.stderr + done.stdout, f"apply: {done.stdout}{done.stderr}")
    expect_equal(get(address)[0], 200, "it is where it was")
    target.stop()


def not_built(scratch):
    config = scratch.file("t.yaml")
    with open(config, "w", encoding="utf-8") as f:
        f.write("version: 1\nportals: [{name: p, address: 127.0.0.1}]\nmetrics: {listen: '127.0.0.1:9807'}\n")
    done = run(RBLKD, "--check", "-c", config, check=False)
    expect_equal(done.returncode, CONFIG, "exit status")
    expect("was built without libmicrohttpd" in done.stderr, done.stderr)


def errors_of_disks(scratch):
    path = scratch.make_file("disk.img", 1 << 20)
    address = f"127.0.0.1:{free_port()}"
    target = Target(scratch, [f"nsid: 1, file: {path}", "nsid: 2, ram: 1MiB"],
                    extra=f"metrics: {{listen: '{address}'}}")
    volume = Volume(target, 1)
    one, other = {"subsystem": NQN, "nsid": 1}, {"subsystem": NQN, "nsid": 2}
    samples = scrape(address)
    expect_equal(value(samples, "rblkd_namespace_degraded", **one), 0, "degraded")
    expect_equal(value(samples, "rblkd_namespace_last_error_timestamp_seconds", **one), 0, "time")
    os.truncate(path, 0)
    failed = run("/usr/bin/python3", "-m", "nbd", "-u", volume.uri, "-c", f"h.pread({BLOCK}, 0)", check=False)
    expect(failed.returncode, "a read of a file that is cut")

    def is_degraded():
        samples = scrape(address)
        return samples if value(samples, "rblkd_namespace_degraded", **one) else None

    samples = wait_until(is_degraded, "it is degraded")
    expect_equal(value(samples, "rblkd_namespace_backend_errors_total", kind="read", **one), 1, "read errors")
    expect_equal(value(samples, "rblkd_namespace_backend_errors_total", kind="write", **one), 0, "write errors")
    expect(value(samples, "rblkd_namespace_last_error_timestamp_seconds", **one) > 1.7e9, "time")
    expect_equal(value(samples, "rblkd_namespace_degraded", **other), 0, "the other")
    run(RBLKCTL, "clear", "--socket", target.control)
    wait_until(lambda: not is_degraded(), "an administrator has cleared it")
    volume.detach()
    target.stop()


# ---- volumes


def of_volumes(scratch, *names):
    """The output of rblk metrics."""
    return parse(rblk(scratch, "metrics", *names).stdout, "rblk_")


def states(samples, volume):
    """Those that the volume has."""
    return {dict(key)["state"].strip('"') for key, n in samples["rblk_state"].items()
            if n and ("volume", f'"{volume}"') in key}


def where(target):
    return f"{NQN}@{target.address}"


def numbers_of_volumes(scratch):
    """Two volumes in one text, each family once, with the numbers of rblk stats and status; an endpoint has
    those of its own volume."""
    address = f"127.0.0.1:{free_port()}"
    portals, paths = two_portals()
    target = Target(scratch, ["nsid: 1, ram: 16MiB", "nsid: 2, ram: 8MiB"], listen=portals)
    expect_equal(rblk(scratch, "metrics").stdout, "", "without a volume")
    one = Volume(target, 1, "one", *paths, *(("--metrics", address) if HAS_HTTP else ()))
    wait_until(lambda: find_key(one.answer(), "paths_live") == 2, "both paths")
    two = Volume(target, 2, "two")
    run("/usr/bin/python3", "-m", "nbd", "-u", one.uri, "-c",
        f"for i in range(50): h.pwrite(bytes({BLOCK}), i % 16 * {BLOCK})", "-c",
        "for i in range(300): h.pread(4096, 0)", "-c", "h.flush()")
    wait_until(lambda: not one.answer()["connections"], "the client has gone")
    samples = of_volumes(scratch)
    histograms_are_whole(samples, "rblk_io_latency_seconds")
    asked = json.loads(rblk(scratch, "stats", "one", "-o", "json").stdout)["volumes"][0]
    status = one.status()
    for op in ("read", "write", "other"):
        expect_equal(value(samples, "rblk_io_latency_seconds_count", volume="one", op=op), asked["io"][op]["count"], op)
        expect_equal(value(samples, "rblk_io_latency_seconds_count", volume="two", op=op) > 0, False, f"{op} of two")
    for op, key in (("read", "read_bytes"), ("write", "written_bytes")):
        expect_equal(value(samples, "rblk_io_bytes_total", volume="one", op=op), asked[key], key)
    for name, key in (("size_bytes", "size_bytes"), ("queues_live", "queues_live"), ("held", "held"), ("paths", "paths"),
                      ("paths_live", "paths_live"), ("buffer_bytes", "buffer_bytes")):
        expect_equal(value(samples, f"rblk_{name}", volume="one"), status[key], name)
    for path in status["path_list"]:
        labels = {"volume": "one", "address": path["address"]}
        for name, key in (("commands_total", "commands"), ("losses_total", "losses"), ("used", "used")):
            expect_equal(value(samples, f"rblk_path_{name}", **labels), path[key], f"{name} of {path}")
        if path["latency_ns"]:
            expect(value(samples, "rblk_path_latency_seconds", **labels) > 0, "latency of the path")
    expect(any(path["latency_ns"] for path in status["path_list"]), f"no latency: {status['path_list']}")
    expect_equal(states(samples, "one") | states(samples, "two"), {"live"}, "states")
    expect(len(samples["rblk_info"]) == 2 and frozenset(
        {("volume", '"two"'), ("subsystem", f'"{NQN}"'), ("nsid", '"2"'), ("version", f'"{status["version"]}"')})
        in samples["rblk_info"], f"{samples['rblk_info']}")
    expect_equal(samples["rblk_up"], {frozenset({("volume", f'"{v}"')}): 1.0 for v in ("one", "two")}, "up")
    alone = of_volumes(scratch, "two")
    expect_equal(alone["rblk_size_bytes"], {frozenset({("volume", '"two"')}): 8.0 * 2**20}, "two")
    if HAS_HTTP:
        samples = scrape(address, "rblk_")
        expect_equal(value(samples, "rblk_io_latency_seconds_count", volume="one", op="write"), 50, "writes")
        expect_equal(len(samples["rblk_up"]), 1, "an endpoint has one volume")
        expect("rblk's metrics are at /metrics" in get(address, "/")[2], "another path")
    expect_equal(rblk(scratch, "metrics", "ghost", check=False).returncode, NOT_FOUND, "a ghost")
    with open("/dev/full", "w", encoding="ascii") as full:  # a file that was not written whole is none
        done = subprocess.run([RBLK, "metrics"], env=scratch.env, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    expect_equal(done.returncode, 1, done.stderr)
    expect("cannot write the metrics: No space left on device" in done.stderr, done.stderr)
    one.detach()
    two.detach()
    target.stop()


def target_lost(scratch):
    target = Target(scratch, [f"nsid: 1, file: {scratch.make_file('disk.img', 1 << 20)}"])
    volume = Volume(target, 1, "db")
    path = {"volume": "db", "address": target.address}
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(PATIENCE)
    client.connect(volume.socket)
    raw = Raw(client).go()
    expect_equal(raw.call(WRITE, 0, BLOCK, payload=bytes(BLOCK))[0], 0, "write")
    target.kill()
    wait_until(lambda: states(of_volumes(scratch), "db") == {"reconnecting"}, "the volume has noticed")
    raw.request(FLUSH, 0, 0)
    samples = wait_until(lambda: (lambda s: s if value(s, "rblk_held", volume="db") else None)(of_volumes(scratch)),
                         "the flush is held")
    for name, wanted in (("rblk_path_live", 0), ("rblk_path_used", 0), ("rblk_path_losses_total", 1)):
        expect_equal(value(samples, name, **path), wanted, name)
    for name, wanted in (("paths_live", 0), ("queues_live", 0), ("clients", 1), ("client_requests", 1),
                         ("reconnects_total", 0), ("up", 1)):
        expect_equal(value(samples, f"rblk_{name}", volume="db"), wanted, name)
    expect(value(samples, "rblk_client_oldest_request_seconds", volume="db") > 0, "age of the flush")
    target.start()
    raw.recv_simple()
    volume.wait_live()
    samples = of_volumes(scratch)
    for name, wanted in (("held", 0), ("reconnects_total", 1), ("client_oldest_request_seconds", 0)):
        expect_equal(value(samples, f"rblk_{name}", volume="db"), wanted, name)
    expect_equal(states(samples, "db"), {"live"}, "state")
    raw.close()
    os.truncate(scratch.file("disk.img"), 0)
    failed = run("/usr/bin/python3", "-m", "nbd", "-u", volume.uri, "-c", f"h.pread({BLOCK}, 0)", check=False)
    expect(failed.returncode, "a read of a file that is cut")
    samples = of_volumes(scratch)
    expect_equal(value(samples, "rblk_io_errors_total", volume="db", op="read"), 1, "errors")
    expect_equal(value(samples, "rblk_io_errors_total", volume="db", op="write"), 0, "errors of writes")
    expect(value(samples, "rblk_last_io_error_timestamp_seconds", volume="db") > 1.7e9, "time")
    volume.detach()
    target.stop()


def client_stands_still(scratch):
    """A client that takes no replies; and a process that does not answer beside one that does."""
    target = Target(scratch, ["nsid: 1, ram: 16MiB", "nsid: 2, ram: 1MiB"])
    volume, other = Volume(target, 1, "db"), Volume(target, 2, "other")
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(PATIENCE)
    client.connect(volume.socket)
    raw = Raw(client).go()
    for i in range(64):
        raw.request(READ, i * BLOCK, BLOCK)

    def stands():
        samples = of_volumes(scratch)
        return samples if value(samples, "rblk_client_blocked_seconds", volume="db") > 0 else None

    samples = wait_until(stands, "its client takes no replies")
    expect_equal(value(samples, "rblk_clients_blocked", volume="db"), 1, "clients that take none")
    expect_equal(value(samples, "rblk_clients_blocked", volume="other"), 0, "of the other volume")
    for name in ("client_requests", "client_held_bytes", "client_oldest_request_seconds"):
        expect(value(samples, f"rblk_{name}", volume="db") > 0, name)
    raw.close()
    pid = volume.pid()
    os.kill(pid, signal.SIGSTOP)
    try:
        samples = of_volumes(scratch)
        named = rblk(scratch, "metrics", "db", check=False)
    finally:
        os.kill(pid, signal.SIGCONT)
    expect_equal(samples["rblk_up"], {frozenset({("volume", '"db"')}): 0.0, frozenset({("volume", '"other"')}): 1.0}, "up")
    expect_equal(states(samples, "other"), {"live"}, "the other")
    expect_equal((named.returncode, named.stdout), (UNREACHABLE, ""), named.stderr)
    volume.detach()
    other.detach()
    target.stop()


def without_ip_sockets():
    """As a unit with RestrictAddressFamilies=AF_UNIX AF_NETLINK: for the child, before it runs."""
    number = {"x86_64": 41, "aarch64": 198}[os.uname().machine]
    load, equal, answer = 0x20, 0x15, 0x06
    refuse, allow = 0x00050000 | 97, 0x7FFF0000  # EAFNOSUPPORT
    code = ((load, 0, 0, 0), (equal, 0, 3, number), (load, 0, 0, 16), (equal, 2, 0, socket.AF_INET),
            (equal, 1, 0, socket.AF_INET6), (answer, 0, 0, allow), (answer, 0, 0, refuse))
    program = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in code))
    fprog = ctypes.create_string_buffer(struct.pack("@HP", len(code), ctypes.addressof(program)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, fprog, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def mistakes_of_volumes(scratch):
    target = Target(scratch, ["nsid: 1, ram: 1MiB"])
    command = (RBLK, "attach", where(target), "--name", "db", "--frontend", "socket")
    for address in ("localhost:9808", "127.0.0.1:0", "127.0.0.1:99999", "1.2.3", ":9808", "/tmp/x", ""):
        done = run(*command, "--metrics", address, check=False, env=scratch.env)
        expect_equal(done.returncode, USAGE, f"{address}: {done.stderr}")
        expect(f"--metrics: '{address}' is not a numeric address" in done.stderr, done.stderr)
    done = run(RBLK, "attach", "--all", target.address, "--metrics", "127.0.0.1", check=False, env=scratch.env)
    expect_equal(done.returncode, USAGE, done.stderr)
    if not HAS_HTTP:
        done = run(*command, "--metrics", "127.0.0.1", check=False, env=scratch.env)
        expect("was built without libmicrohttpd" in done.stderr, done.stderr)
        expect_equal(done.returncode, 1, "exit status of rblk")
        target.stop()
        return
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as taken:
        done = run(*command, "--metrics", f"127.0.0.1:{taken.getsockname()[1]}", check=False, env=with_fabric(scratch.env))
    expect_equal(done.returncode, BUSY, done.stderr)
    expect("metrics: cannot listen on" in done.stderr and "each volume needs a port of its own" in done.stderr, done.stderr)
    done = subprocess.run([*command, "--metrics", f"127.0.0.1:{free_port()}"], env=scratch.env, check=False, text=True,
                          capture_output=True, preexec_fn=without_ip_sockets)
    expect_equal(done.returncode, PRIVILEGE, done.stderr)
    expect("may not open IP sockets, which --metrics needs" in done.stderr and "RestrictAddressFamilies" in done.stderr,
           done.stderr)
    address = f"127.0.0.1:{free_port()}"
    volume = Volume(target, 1, "db", "--metrics", address)
    expect_equal(volume.status()["options"]["metrics"], address, "the option")
    done = run(*command, "--metrics", f"127.0.0.1:{free_port()}", check=False, env=scratch.env)
    expect_equal(done.returncode, BUSY, done.stderr)
    expect(f"--metrics is {address}, not 127.0.0.1:" in done.stderr, done.stderr)
    waiting = socket.create_connection(address.split(":"), PATIENCE)  # it does not delay the end
    waiting.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 50)
    volume.detach()
    waiting.close()
    target.stop()


OF_VOLUMES = [
    ("volumes: the numbers are those of rblk stats", numbers_of_volumes),
    ("volumes: the target is lost, I/O fails", target_lost),
    ("volumes: a client takes no replies, a process does not answer", client_stands_still),
    ("volumes: mistakes", mistakes_of_volumes),
]
CASES = [
    ("the numbers are those of rblkctl stats", numbers),
    ("moves of a group", moves),
    ("what keeps others waiting", waiting),
    ("alerts and dashboard", monitoring),
    ("errors of disks", errors_of_disks),
    ("clients that do not behave", hostile),
    ("slow clients do not shut others out", slow),
    ("mistakes", mistakes),
] + OF_VOLUMES if HAS_HTTP else [("the key is refused", not_built)] + OF_VOLUMES

if __name__ == "__main__":
    run_cases(CASES)
