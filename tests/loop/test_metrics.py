#!/usr/bin/python3
"""The endpoint for Prometheus: a strict reader of its format, the numbers of rblkctl stats, and
clients that misbehave. Without libmicrohttpd: rblkd refuses the key."""

import http.client
import json
import os
import re
import shutil
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from harness import (NQN, PATIENCE, RBLKCTL, RBLKD, Target, Volume, expect, expect_equal, free_port, run,  # noqa: E402
                     run_cases, wait_until)

CONFIG, BUSY = 3, 5
BLOCK = 65536
NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)\}})? ([0-9.e+-]+)")
MONITORING = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/monitoring")
HAS_HTTP = os.environ["HAS_HTTP"] == "1"


def parse(text):
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
            expect(name.startswith("rblkd_") and name.endswith("_total") == (types[current] == "counter"), name)
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


def scrape(address):
    status, headers, text = get(address)
    expect_equal((status, headers["Content-Type"]), (200, "text/plain; version=0.0.4; charset=utf-8"), "answer")
    return parse(text)


def value(samples, name, **labels):
    return samples[name][frozenset((k, f'"{v}"') for k, v in labels.items())]


def histograms_are_whole(samples):
    buckets = {}
    for key, n in samples["rblkd_namespace_latency_seconds_bucket"].items():
        le = dict(key)["le"].strip('"')
        rest = frozenset(pair for pair in key if pair[0] != "le")
        buckets.setdefault(rest, []).append((float(le.replace("+Inf", "inf")), n))
    for rest, pairs in buckets.items():
        counts = [n for _, n in sorted(pairs)]
        expect(counts == sorted(counts), f"buckets of {rest} fall: {counts}")
        expect_equal(counts[-1], samples["rblkd_namespace_latency_seconds_count"][rest], "count")
        expect_equal(counts[-1] > 0, samples["rblkd_namespace_latency_seconds_sum"][rest] > 0, "sum")


def start(scratch, listen=None):
    address = listen or f"127.0.0.1:{free_port()}"
    return address, Target(scratch, ["nsid: 1, ram: 16MiB", "nsid: 2, ram: 16MiB"],
                           extra=f"metrics: {{listen: '{address}'}}")


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
    expect_equal(get(address, "/")[0], 404, "another path")
    expect_equal(get(address, method="HEAD")[0], 200, "HEAD")
    expect_equal(get(address, method="POST", body="x" * 100)[0], 405, "POST")
    expect_equal(get(address, method="GET", body="x" * 100000)[0], 200, "GET with a body")
    volume.detach()
    expect_equal(target.stop(), 0, "exit status of rblkd")


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
    names = re.findall(r"\brblkd_\w+", expression)
    used = set()
    for name in names:
        expect(name in known, f"{name} is not exported: {expression}")
        used |= known[name]
    for name, matchers in re.findall(r"(rblkd_\w+)\{([^}]*)\}", expression):
        for label in re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", re.sub(r'"[^"]*"', '""', matchers)):
            expect(label in known[name], f"{name} has no label {label}: {expression}")
    for labels in re.findall(r"\b(?:by|on)\s*\(([^)]*)\)", expression):
        for label in re.findall(r"\w+", labels):
            expect(label in used, f"no metric has a label {label}: {expression}")
    return names, used


def monitoring(scratch):
    """The alerts and the dashboard name metrics and labels that rblkd exports, and Prometheus' own tool
    accepts all of it."""
    address, target = start(scratch)
    volume = Volume(target, 1)
    run("/usr/bin/python3", "-m", "nbd", "-u", volume.uri, "-c", f"h.pwrite(bytes({BLOCK}), 0)")
    text = get(address)[2]
    known = {name: {"instance", "job"} | {label for key in keys for label, _ in key}
             for name, keys in parse(text).items()}
    with open(os.path.join(MONITORING, "rblkd-dashboard.json"), encoding="utf-8") as f:
        dashboard = json.load(f)
    with open(os.path.join(MONITORING, "rblkd-alerts.yaml"), encoding="utf-8") as f:
        rules = re.split(r"\n      - alert: ", f.read())[1:]
    shown = [check_expression(e, known)[0] for e in expressions_of(dashboard)]
    expect(len(shown) > 20 and all(shown), f"expressions of the dashboard: {shown}")
    rest = set(known) - {name for names in shown for name in names} - {
        "rblkd_namespace_last_error_timestamp_seconds"}  # for rblkctl's readers
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
    for command in (("check", "rules", "rblkd-alerts.yaml"), ("test", "rules", "rblkd-alerts-test.yaml")):
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
    volume.detach()
    expect_equal(target.stop(), 0, "exit status of rblkd")


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
    expect_equal(target.stop(), 0, "exit status of rblkd")
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
    expect_equal(target.stop(), 0, "exit status of rblkd")


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
    expect_equal(target.stop(), 0, "exit status of rblkd")


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
    expect_equal(target.stop(), 0, "exit status of rblkd")


CASES = [
    ("the numbers are those of rblkctl stats", numbers),
    ("alerts and dashboard", monitoring),
    ("errors of disks", errors_of_disks),
    ("clients that do not behave", hostile),
    ("slow clients do not shut others out", slow),
    ("mistakes", mistakes),
] if HAS_HTTP else [("the key is refused", not_built)]

if __name__ == "__main__":
    run_cases(CASES)
