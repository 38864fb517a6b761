#!/usr/bin/python3
"""Wrong input of every kind: one line that names the fault, its place and the remedy; the
documented exit status; nothing changed."""

import json
import os
import re
import resource
import socket
import subprocess
import sys
from contextlib import suppress

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from harness import (NQN, PATIENCE, RBLKCTL, RBLKD, SANITIZER_REPORT, Target, Volume,  # noqa: E402
                     expect, expect_equal, fio, free_port, rblk, run, run_cases, VERIFY)

USAGE, CONFIG, NOT_FOUND, BUSY, UNREACHABLE, DENIED = 2, 3, 4, 5, 7, 8


def says(done, status, *words):
    """Exit status, and every word in the message; hints may follow on a line of their own."""
    text = done.stderr
    expect_equal(done.returncode, status, f"exit status of {done.args[0]} ({text.strip()})")
    for word in words:
        expect(word in text, f"the message lacks {word!r}:\n{text}")
    expect(not SANITIZER_REPORT.search(text), text)
    errors = [line for line in text.splitlines() if "error:" in line]
    expect(len(errors) == 1, f"{len(errors)} error lines instead of one:\n{text}")


def attach(scratch, where, *options):
    done = rblk(scratch, "attach", where, "--frontend", "socket", *options, check=False)
    listed = rblk(scratch, "list", "-o", "json")
    expect('"name"' not in listed.stdout, "something is attached: " + listed.stdout)
    return done


def with_target(function, **kwargs):
    def case(scratch):
        target = Target(scratch, ["nsid: 1, ram: 16MiB", "nsid: 5, ram: 16MiB"], **kwargs)
        function(scratch, target)
        target.stop()
    return case


def unknown_nqn(scratch, target):
    says(attach(scratch, f"nqn.2026-01.org.example:tset@{target.address}", "--ns", "1"), NOT_FOUND,
         "nqn.2026-01.org.example:tset", "hint")


def namespace_absent(scratch, target):
    says(attach(scratch, f"{NQN}@{target.address}", "--ns", "3"), NOT_FOUND, "3", "1", "5")


def host_not_allowed(scratch, target):
    says(attach(scratch, f"{NQN}@{target.address}", "--ns", "1", "--hostnqn",
                "nqn.2026-01.org.example:stranger"), DENIED, "nqn.2026-01.org.example:stranger",
         "allow_hosts")
    rblk(scratch, "attach", f"{NQN}@{target.address}", "--ns", "1", "--frontend", "socket",
         "--hostnqn", "nqn.2026-01.org.example:friend", "--name", "f")
    rblk(scratch, "detach", "f")


def nothing_listens(scratch):
    says(attach(scratch, f"{NQN}@127.0.0.1:{free_port()}", "--ns", "1"), UNREACHABLE,
         "nothing listens")
    done = rblk(scratch, "discover", f"127.0.0.1:{free_port()}", check=False)
    says(done, UNREACHABLE, "nothing listens")


def no_route(scratch):
    # TEST-NET-1: no host has it
    says(attach(scratch, f"{NQN}@192.0.2.1", "--ns", "1"), UNREACHABLE, "192.0.2.1")


def bad_usage(scratch):
    says(rblk(scratch, "attach", check=False), USAGE)
    says(rblk(scratch, "atach", f"{NQN}@127.0.0.1", check=False), USAGE, "attach")
    says(rblk(scratch, "attach", f"{NQN}@127.0.0.1", "--nss", "1", check=False), USAGE, "--ns")
    says(rblk(scratch, "attach", f"{NQN}@127.0.0.1", "--queue-size", "0", check=False), USAGE)
    says(rblk(scratch, "attach", "not-an-nqn@127.0.0.1", check=False), USAGE, "nqn.")
    says(run(RBLKD, "--confg", "x", check=False, env=scratch.env), USAGE, "--config")


def no_windows(scratch):
    scratch.env.update(SOFTRDMA_LIKE="siw")
    target = Target(scratch, ["nsid: 1, ram: 16MiB"])
    says(attach(scratch, f"{NQN}@{target.address}", "--memory-windows"), 1, "softrdma0", "memory windows",
         "attach without --memory-windows")
    target.stop()


def too_few_windows(scratch, target):
    says(attach(scratch, f"{NQN}@{target.address}", "--memory-windows", "--queues", "64", "--queue-size", "1024"), 1,
         "64 queues of 1024 entries need 131072", "--queues", "--queue-size")


def not_attached(scratch):
    says(rblk(scratch, "detach", "ghost", check=False), NOT_FOUND, "ghost")
    says(rblk(scratch, "status", "ghost", check=False), NOT_FOUND, "ghost")
    expect_equal(rblk(scratch, "list", "-o", "json").stdout.strip()[-1:] in "]}", True, "valid JSON")


def attach_twice(scratch, target):
    first = Volume(target, 1, "twice")
    again = rblk(scratch, "attach", f"{NQN}@{target.address}", "--ns", "1", "--name", "twice",
                 "--frontend", "socket")
    expect_equal(again.stdout.split()[0], first.uri, "the second attach prints the same")
    first.detach()


def write_config(scratch, text, mode=0o644):
    path = scratch.file("target.yaml")
    with open(path, "w", encoding="utf-8") as f:
        f.write(text.format(scratch=scratch.path))
    os.chmod(path, mode)
    return path


HEAD = """version: 1
control_socket: {scratch}/rblkd.sock
portals:
  - {{name: p, address: 127.0.0.1, port: 4499}}
subsystems:
  - nqn: nqn.2026-01.org.example:test
    allow_any_host: true
    namespaces:
"""


def check_config(scratch, text, *words, n=1):
    path = write_config(scratch, text)
    for arguments in (["--check"], []):
        done = run(RBLKD, "--config", path, *arguments, check=False, env=scratch.env)
        expect_equal(done.returncode, CONFIG, f"exit status ({done.stderr})")
        errors = re.findall(r"target\.yaml:\d+:\d+: error: .*", done.stderr)
        expect_equal(len(errors), n, f"number of messages in\n{done.stderr}\n")
        for word in words:
            expect(word in done.stderr, f"the message lacks {word!r}:\n{done.stderr}")


def backing_file_missing(scratch):
    check_config(scratch, HEAD + "      - {{nsid: 1, file: {scratch}/none.img}}\n", "none.img",
                 "create: true")
    expect(not os.path.exists(scratch.file("none.img")), "a file was created")


def backing_file_odd_size(scratch):
    scratch.make_file("odd.img", 1000001)
    check_config(scratch, HEAD + "      - {{nsid: 1, file: {scratch}/odd.img, block_size: 4096}}\n",
                 "1000001", "4096")


def backing_file_twice(scratch):
    scratch.make_file("disk.img", 1 << 20)
    os.link(scratch.file("disk.img"), scratch.file("other-name.img"))
    check_config(scratch, HEAD + "      - {{nsid: 1, file: {scratch}/disk.img}}\n"
                 "      - {{nsid: 2, file: {scratch}/other-name.img}}\n", "other-name.img", "nsid 1")


def backing_file_of_another_target(scratch):
    scratch.make_file("disk.img", 1 << 20)
    target = Target(scratch, [f"nsid: 1, file: {scratch.path}/disk.img"])
    text = HEAD.replace("rblkd.sock", "second.sock").replace("4499", str(free_port()))
    path = scratch.file("second.yaml")
    with open(path, "w", encoding="utf-8") as f:
        f.write((text + "      - {{nsid: 1, file: {scratch}/disk.img}}\n").format(scratch=scratch.path))
    done = run(RBLKD, "--config", path, check=False, env=scratch.env)
    expect(done.returncode in (CONFIG, BUSY), f"exit status {done.returncode}: {done.stderr}")
    expect("in use" in done.stderr or "exported" in done.stderr, done.stderr)
    volume = Volume(target, 1)
    fio(scratch, volume.uri, "--rw=write", "--bs=4k", "--size=256k", *VERIFY)
    volume.detach()
    target.stop()


TWENTY = """version: 2
verson: 1
log: {{level: loud}}
control_socket: 5x
tuning:
  queue_depth: 7
  inline_data: 1MiB
  max_transfer: lots
  workers: many
  pol: adaptive
portals:
  - {{name: a, address: 300.0.0.1}}
  - {{name: b, address: 127.0.0.1, port: 70000}}
  - {{name: b, address: 127.0.0.2}}
  - {{address: 127.0.0.3}}
hosts:
  - {{name: h, nqn: iqn.2026-01.org.example:h}}
subsystems:
  - nqn: nqn.2026-01.org.example:one
    serial: this-serial-is-far-too-long
    portals: [c]
    allow_hosts: [g]
    namespaces:
      - {{nsid: 0, ram: 16MiB}}
      - {{nsid: 2, ram: 16MiB, block_size: 1000}}
      - {{nsid: 3, ram: 16MiB, uuid: nonsense}}
      - {{nsid: 4, ram: 16MiB, read_only: yes}}
      - {{nsid: 5}}
      - {{nsid: 6, ram: 1000001}}
      - {{nsid: 7, file: relative.img}}
      - {{nsid: 7, ram: 16MiB}}
  - nqn: nqn.2026-01.org.example:one
    allow_any_host: true
"""


def twenty_mistakes(scratch):
    """Each error has its message, with file, line and column, in one run."""
    path = write_config(scratch, TWENTY)
    done = run(RBLKD, "--config", path, "--check", check=False, env=scratch.env)
    expect_equal(done.returncode, CONFIG, "exit status")
    lines = {int(n) for n in re.findall(r"target\.yaml:(\d+):\d+: error:", done.stderr)}
    wrong = {i for i, line in enumerate(TWENTY.splitlines(), 1)
             if i not in (5, 11, 16, 18, 19, 23, 31, 33) and line}
    # of duplicates (port name, NSID, NQN) the message names one of the two lines
    wrong -= {13, 30}
    missing = sorted(wrong - lines - {32})
    expect(len(lines) >= 20, f"{len(lines)} lines with messages:\n{done.stderr}")
    expect(not missing, f"no message for lines {missing}:\n{done.stderr}")
    expect("did you mean" in done.stderr and "^" in done.stderr, done.stderr)


def port_in_use(scratch, target):
    scratch.make_file("x", 1)
    text = HEAD.replace("rblkd.sock", "second.sock").replace("4499", str(target.port))
    path = scratch.file("second.yaml")
    with open(path, "w", encoding="utf-8") as f:
        f.write((text + "      - {{nsid: 1, ram: 16MiB}}\n").format(scratch=scratch.path))
    done = run(RBLKD, "--config", path, check=False, env=scratch.env)
    says(done, BUSY, str(target.port), "in use")


def control_socket_in_use(scratch, target):
    with open(target.config, encoding="utf-8") as f:
        text = f.read().replace(str(target.port), str(free_port()))
    path = scratch.file("second.yaml")
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    done = run(RBLKD, "--config", path, check=False, env=scratch.env)
    says(done, BUSY, target.control, "another rblkd", "in use")
    expect_equal(done.stderr.count("in use"), 1, f"{done.stderr}\ntimes that it says why")


def config_from_stdin(scratch):
    """A pipe can be read once, and rblkd may start again under the software provider: both starts
    get the same text."""
    text = (HEAD.replace("4499", str(free_port())) + "      - {{nsid: 1, ram: 16MiB}}\n").format(scratch=scratch.path)
    with subprocess.Popen([RBLKD, "--config", "-"], env=scratch.env, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        process.stdin.write(text)
        process.stdin.close()
        said = []
        for line in process.stdout:
            said.append(line)
            if "ready" in line:
                break
        process.terminate()
        said.append(process.stdout.read())
    expect_equal(process.returncode, 0, f"{''.join(said)}\nexit status")
    expect("ready, portals 1/1" in "".join(said), "".join(said))


def memlock(scratch):
    """The limit binds for root too, by the software provider's strict mode."""
    text = HEAD.replace("4499", str(free_port())) + "      - {{nsid: 1, ram: 64MiB}}\n"
    path = write_config(scratch, text)
    env = dict(scratch.env, SOFTRDMA_MEMLOCK_STRICT="1")

    def limit():
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (1 << 20, 1 << 20))

    done = subprocess.run([RBLKD, "--config", path], env=env, preexec_fn=limit, timeout=PATIENCE,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    expect(done.returncode not in (0, None), "rblkd started under a memlock limit of 1 MiB")
    expect("locked-memory limit is 1MiB" in done.stderr, done.stderr)
    expect("ulimit -l" in done.stderr, "no hint:\n" + done.stderr)


def memlock_leaves_less(scratch):
    """Under a limit that has room for less than tuning.buffers, rblkd takes less and says so once."""
    image = scratch.make_file("disk.img", 32 << 20)
    scratch.env["SOFTRDMA_MEMLOCK_STRICT"] = "1"
    before = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (8 << 20, before[1]))
    try:
        target = Target(scratch, [f"nsid: 1, file: {image}"],
                        extra="tuning: {workers: 2, buffers: 256MiB, shared_receives: 256, max_transfer: 256KiB}")
    finally:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, before)
    said = [line for line in target.read_log().splitlines() if "locked memory" in line]
    expect(len(said) == 1 and "warning: " in said[0] and "8MiB, leaves " in said[0] and
           "not 256MiB" in said[0] and "ulimit -l" in said[0], target.read_log())
    expect("error" not in target.read_log(), target.read_log())
    del scratch.env["SOFTRDMA_MEMLOCK_STRICT"]
    volume = Volume(target, 1)
    fio(scratch, volume.uri, "--rw=randwrite", "--bs=256k", "--iodepth=16", "--size=16m", *VERIFY)
    volume.detach()
    target.stop()


def control_socket_garbage(scratch, target):
    """The control socket says what is wrong with a malformed request, and serves the next client."""
    for garbage, message in ((b"\0" * 1000, "not a JSON object on one line, at most 16 levels deep"),
                             (b'{"a":' * 17 + b"1" + b"}" * 17,
                              "not a JSON object on one line, at most 16 levels deep"),
                             (b"{" * 100000, "a message is longer than 64 KiB"),
                             (b'{"jsonrpc": "2.0", "method": 5}\n', '"method" must be a string'),
                             (b"x" * 200000, "a message is longer than 64 KiB")):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(PATIENCE)
            s.connect(target.control)
            with suppress(BrokenPipeError):  # it is refused before it is whole
                s.sendall(garbage + b"\n")
            expect_equal(json.loads(s.recv(65536))["error"]["message"], message, f"answer to {garbage[:10]}")
    expect_equal(target.status()["schema"], 1, "schema")
    says(run(RBLKCTL, "status", "--socket", scratch.file("absent.sock"), check=False,
             env=scratch.env), UNREACHABLE, "absent.sock")


def nbd_garbage(scratch, target):
    """Malformed bytes on the NBD socket: the server drops that client and serves the others."""
    volume = Volume(target, 1)
    for garbage in (b"GET / HTTP/1.0\r\n\r\n", b"\xff" * 4096, b"\0" * 100,
                    b"\0\0\0\1IHAVEOPT\0\0\0\1\xff\xff\xff\xff"):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(PATIENCE)
            s.connect(volume.socket)
            expect(s.recv(18).startswith(b"NBDMAGICIHAVEOPT"), "greeting")
            s.sendall(garbage)
            s.shutdown(socket.SHUT_WR)
            while s.recv(4096):
                pass
    fio(scratch, volume.uri, "--rw=randwrite", "--bs=4k", "--iodepth=8", "--size=1m", *VERIFY)
    volume.detach()


FRIEND = """hosts:
  - {name: friend, nqn: 'nqn.2026-01.org.example:friend'}"""

CASES = [
    ("usage", bad_usage),
    ("unknown NQN", with_target(unknown_nqn)),
    ("namespace id absent", with_target(namespace_absent)),
    ("host not allowed", with_target(host_not_allowed, extra=FRIEND,
                                     subsystem_extra="allow_hosts: [friend]")),
    ("nothing listening", nothing_listens),
    ("no route to the address", no_route),
    ("memory windows on a device without", no_windows),
    ("more memory windows than there are", with_target(too_few_windows)),
    ("detach and status of what is not attached", not_attached),
    ("attaching twice is no mistake", with_target(attach_twice)),
    ("backing file missing", backing_file_missing),
    ("backing file not a multiple of the block size", backing_file_odd_size),
    ("backing file exported twice under two names", backing_file_twice),
    ("backing file exported by another rblkd", backing_file_of_another_target),
    ("twenty mistakes in one file", twenty_mistakes),
    ("port in use", with_target(port_in_use)),
    ("control socket in use", with_target(control_socket_in_use)),
    ("configuration from a pipe", config_from_stdin),
    ("memlock too low", memlock),
    ("memlock leaves less", memlock_leaves_less),
    ("garbage on the control socket", with_target(control_socket_garbage)),
    ("garbage on the NBD socket", with_target(nbd_garbage)),
]

if __name__ == "__main__":
    run_cases(CASES)
