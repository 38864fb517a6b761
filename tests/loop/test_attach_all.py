#!/usr/bin/python3
"""rblk attach --all: from a target, from nvme-cli's files, and --persist with a systemctl that takes
notes. rblk detach --all."""

import json
import os
import signal
import stat
import subprocess
import sys

import nbd

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from harness import NQN, RBLK, Target, expect, expect_equal, free_port, rblk, run, run_cases, stand_still, wait_until  # noqa: E402
from pair import pair  # noqa: E402

USAGE, CONFIG, NOT_FOUND, BUSY, PARTIAL, UNREACHABLE = 2, 3, 4, 5, 6, 7
TWO = ["nsid: 1, ram: 1MiB", "nsid: 5, ram: 1MiB"]
HOST = "nqn.2014-08.org.nvmexpress:uuid:0f1d5b42-4d8f-4a43-9a7d-d1b2c3e4f506"


def attach_all(scratch, *arguments, check=False, **environment):
    return run(RBLK, "attach", "--all", "--frontend", "socket", *arguments, check=check, timeout=120,
               env=dict(scratch.env, **environment))


def said(done):
    """Standard error, without the line on the fabric."""
    return "".join(line for line in done.stderr.splitlines(True) if "software RDMA provider" not in line)


def attached(scratch):
    return {(v["subsystem"], v["nsid"]): v for v in json.loads(rblk(scratch, "list", "-o", "json").stdout)["volumes"]}


def detach_all(scratch):
    rblk(scratch, "detach", "--all")


def write(scratch, name, text):
    path = scratch.file(name)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    return path


def of_a_target(scratch):
    target = Target(scratch, TWO)
    done = attach_all(scratch, target.address, "--queues", "2")
    expect_equal(done.returncode, 0, done.stderr)
    expect_equal(len(done.stdout.splitlines()), 2, done.stdout)
    volumes = attached(scratch)
    expect_equal(set(volumes), {(NQN, 1), (NQN, 5)}, "volumes")
    status = json.loads(rblk(scratch, "status", f"{NQN}/5", "-o", "json").stdout)
    expect_equal(status["options"]["queues"], "2", "options of the command line")
    again = attach_all(scratch, target.address, "--queues", "2", "-o", "json")
    expect_equal((again.returncode, said(again)), (0, ""), "again")
    answer = json.loads(again.stdout)
    expect_equal({v["nsid"] for v in answer["volumes"]}, {1, 5}, "again")
    expect_equal((answer["schema"], answer["failures"], answer["notes"]), (1, [], []), "again")
    done = attach_all(scratch, target.address, "--queues", "1", "-o", "json")
    answer = json.loads(done.stdout)
    expect_equal((done.returncode, [f["code"] for f in answer["failures"]]), (BUSY, [BUSY] * 2), "with other options")
    detach_all(scratch)
    target.stop()
    done = attach_all(scratch, target.address)
    expect_equal(done.returncode, UNREACHABLE, done.stderr)
    expect("0 attached, 1 failed" in done.stderr and not done.stdout, done.stderr)


def of_files(scratch):
    """Both files, with what cannot be done in them; what is attached is the rest."""
    target = Target(scratch, TWO)
    folder = scratch.file("nvme")
    os.mkdir(folder)
    host, port = target.address.split(":")
    write(scratch, "nvme/discovery.conf", f"""# comment
\t
-t tcp -a 192.0.2.7 -s 8009
--transport=rdma --traddr={host} -s{port} --hostnqn {HOST} --keep-alive-tmo 7 -l -1 --tos=3 -G --persistent
""")
    write(scratch, "nvme/config.json", json.dumps([
        {"hostnqn": HOST, "hostsymname": "me", "subsystems": [
            {"nqn": NQN, "ports": [{"transport": "rdma", "traddr": host, "trsvcid": port, "nr_io_queues": 2}]},
            {"nqn": "nqn.2026-01.org.example:secret", "ports": [
                {"transport": "rdma", "traddr": host, "trsvcid": port, "dhchap_key": "DHHC-1:00:x:"}]},
            {"nqn": "nqn.2026-01.org.example:none", "ports": [
                {"transport": "rdma", "traddr": host, "trsvcid": port, "data_digest": False, "tls": True}]}]}]))
    done = attach_all(scratch, "--from", folder, "-o", "json")
    answer = json.loads(done.stdout)
    expect_equal((done.returncode, said(done)), (PARTIAL, ""), done.stdout)
    expect_equal({(v["subsystem"], v["nsid"]) for v in answer["volumes"]}, {(NQN, 1), (NQN, 5)}, "volumes")
    expect_equal([(f["target"], f["code"]) for f in answer["failures"]],
                 [(f"nqn.2026-01.org.example:none@{target.address}", NOT_FOUND)], "failures")
    notes = "\n".join(answer["notes"])
    for text in ("discovery.conf:3: transport tcp is left out", "discovery.conf:4: tos is not supported",
                 "discovery.conf:4: data-digest", "subsystem 2, port 1: left out: its secret must be in a file",
                 "subsystem 3, port 1: tls is not"):
        expect(text in notes, f"{text}: {notes}")
    expect("persistent" not in notes and "subsystem 3, port 1: data" not in notes, notes)
    status = json.loads(rblk(scratch, "status", f"{NQN}/1", "-o", "json").stdout)
    chosen = {key: status["options"][key] for key in ("keep-alive", "ctrl-loss-tmo", "hostnqn")}
    # config.json comes last, and names its subsystem itself: what discovery finds comes behind it.
    expect(chosen in ({"keep-alive": "7s", "ctrl-loss-tmo": "never", "hostnqn": HOST},
                      {"keep-alive": "10s", "ctrl-loss-tmo": "600s", "hostnqn": HOST}), f"{chosen}")
    detach_all(scratch)
    target.stop()


def strict(scratch):
    """A file that is not understood attaches nothing, and is named."""
    folder = scratch.file("nvme")
    os.mkdir(folder)
    done = attach_all(scratch, "--from", folder)
    expect_equal(done.returncode, CONFIG, done.stderr)
    expect("neither discovery.conf nor config.json" in done.stderr, done.stderr)
    port = {"transport": "rdma", "traddr": "192.0.2.1"}
    for name, text, wanted in (
            ("discovery.conf", "-t rdma -a 192.0.2.1 --bogus=1", ":1: '--bogus=1' is not understood"),
            ("discovery.conf", "\n\n-t rdma -a", ":3: traddr needs a value"),
            ("discovery.conf", "-a 192.0.2.1", ":1: there is no transport"),
            ("discovery.conf", "-t rdma", ":1: there is no traddr"),
            ("discovery.conf", "-t rdma -a storage.example.org", "names are not resolved"),
            ("discovery.conf", "-t rdma -a 192.0.2.1 -i many", "nr-io-queues: 'many' is not a number"),
            ("discovery.conf", "-t rdma -a 192.0.2.1 -D=yes", "duplicate-connect"),
            ("discovery.conf", "-t rdma -a 192.0.2.1 stray", "'stray' is not understood"),
            ("discovery.conf", "-t rdma -a 192.0.2.1 --persistent=1", "persistent takes no value"),
            ("discovery.conf", "x" * 5000, "the line is too long"),
            ("config.json", "[", "not JSON"), ("config.json", "", "not JSON"), ("config.json", "[] x", "not JSON"),
            ("config.json", "{}", "a list of hosts expected"), ("config.json", "[1]", "a list of hosts expected"),
            ("config.json", json.dumps([{"subsystems": {}}]), "host 1: subsystems"),
            ("config.json", json.dumps([{"subsystems": [{"nqn": NQN, "ports": 3}]}]), "subsystem 1: ports"),
            ("config.json", json.dumps([{"subsystems": [{"ports": [port]}]}]), "has no nqn"),
            ("config.json", json.dumps([{"subsystems": [{"nqn": NQN, "ports": [dict(port, ttl=3)]}]}]),
             "port 1: the key 'ttl' is not understood"),
            ("config.json", json.dumps([{"subsystems": [{"nqn": NQN, "ports": [dict(port, tos=[])]}]}]), "tos: a text"),
            ("config.json", json.dumps([{"subsystems": [{"nqn": NQN, "ports": [dict(port, tls=1)]}]}]), "true or false"),
            ("config.json", json.dumps([{"subsystems": [{"nqn": NQN, "ports": [dict(port, nr_io_queues=True)]}]}]),
             "nr_io_queues: a value expected")):
        path = write(scratch, f"nvme/{name}", text)
        done = attach_all(scratch, "--from", folder)
        expect_equal(done.returncode, CONFIG, f"{name} {text[:80]}: {done.stderr}")
        expect(wanted in done.stderr and done.stderr.count("error:") == 1, f"{text[:80]}: {done.stderr}")
        os.unlink(path)
    for arguments, wanted in ((("--name", "x"), "are for one volume"), (("-n", "3"), "are for one volume"),
                            (("--socket", "/tmp/x"), "are for one volume"), (("--from", folder, "192.0.2.1"), "exclude")):
        done = attach_all(scratch, *arguments)
        expect_equal(done.returncode, USAGE, f"{arguments}: {done.stderr}")
        expect(wanted in done.stderr, done.stderr)
    for arguments, wanted in ((("--from", folder), "--from needs --all"), ((), "missing argument")):
        done = rblk(scratch, "attach", *arguments, check=False)
        expect_equal(done.returncode, USAGE, done.stderr)
        expect(wanted in done.stderr, done.stderr)
    expect_equal(attached(scratch), {}, "volumes")


def nothing(scratch):
    """Nothing to attach is said, and is no success: files that name no target (that of Debian has comments only),
    and a target that has nothing for this host."""
    folder = scratch.file("nvme")
    os.mkdir(folder)
    for name, text in (("discovery.conf", "# Used for extracting default parameters\n"), ("config.json", "[]"),
                       ("discovery.conf", "-t tcp -a 192.0.2.7 -s 8009\n")):
        write(scratch, f"nvme/{name}", text)
        done = attach_all(scratch, "--from", folder)
        expect_equal((done.returncode, done.stdout), (NOT_FOUND, ""), done.stderr)
        expect(f"error: discovery.conf and config.json in {folder} name no target" in done.stderr, done.stderr)
        expect("hint: name a target: rblk attach --all ADDRESS" in done.stderr, done.stderr)
    done = attach_all(scratch, "--from", folder, "-o", "json")
    answer = json.loads(done.stdout)
    expect_equal((done.returncode, said(done)), (NOT_FOUND, ""), done.stdout)
    expect_equal((answer["volumes"], answer["failures"], len(answer["notes"])), ([], [], 1), done.stdout)
    expect_equal((answer["error"]["code"], answer["error"]["program"]), (NOT_FOUND, "rblk attach"), done.stdout)
    target = Target(scratch, TWO, extra=f"hosts: [{{name: db, nqn: {HOST}}}]", subsystem_extra="allow_hosts: [db]")
    done = attach_all(scratch, target.address)
    expect_equal((done.returncode, done.stdout), (NOT_FOUND, ""), done.stderr)
    expect("error: there is no namespace for this host" in done.stderr, done.stderr)
    target.stop()


def sign_of_life(scratch):
    """On a terminal an attach that gets no answer says what it waits for; then it succeeds."""
    target = Target(scratch, ["nsid: 1, ram: 1MiB"])
    master, slave = os.openpty()
    stand_still(target.process.pid)
    attach = subprocess.Popen([RBLK, "attach", f"{NQN}@{target.address}", "--frontend", "socket"], env=scratch.env,
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=slave)
    os.close(slave)
    said = b""
    while b"waiting for" not in said:
        said += os.read(master, 4096)  # fails at its end
    expect(f"rblk attach: waiting for {target.address}".encode() in said, said)
    target.process.send_signal(signal.SIGCONT)
    expect(attach.wait() in (0, UNREACHABLE), "it ends")  # a slow machine may be late
    os.close(master)
    detach_all(scratch)
    target.stop()


def persistent(scratch):
    target = Target(scratch, TWO)
    commands, etc, calls = scratch.file("bin"), scratch.file("etc"), scratch.file("calls")
    os.mkdir(commands)
    systemctl = write(scratch, "bin/systemctl", f"#!/bin/sh\necho \"$@\" >>{calls}\n")
    os.chmod(systemctl, 0o755)
    environment = {"PATH": f"{commands}:{os.environ['PATH']}", "RBLK_CONFIG_DIR": etc}
    done = attach_all(scratch, target.address, "--persist", "--queues=2", "-v", **environment)
    expect_equal(done.returncode, 0, done.stderr)
    names = sorted(v["name"] for v in attached(scratch).values())
    expect_equal(names, ["test", "test-5"], "names")
    for name, nsid in zip(names, (1, 5)):
        path = os.path.join(etc, "volumes", f"{name}.conf")
        with open(path, encoding="utf-8") as f:
            lines = dict(line.split("=", 1) for line in f.read().splitlines() if not line.startswith("#"))
        expect_equal(lines, {"TARGET": f"{NQN}@{target.address}", "OPTIONS": f"--ns {nsid} --queues=2 -v"}, path)
        expect_equal(stat.S_IMODE(os.stat(path).st_mode) & 0o022, 0, "mode")
    with open(calls, encoding="utf-8") as f:
        expect_equal(sorted(f.read().split("\n")[:-1]),
                     sorted(f"--quiet enable rblk-volume@{name}.service" for name in names), "calls")
    # The unit's command line, of the file: the same volume.
    rblk(scratch, "detach", "test-5")
    run(RBLK, "attach", "--name", "test-5", "--frontend", "socket", *lines["OPTIONS"].split(), lines["TARGET"],
        env=scratch.env)
    expect_equal(attach_all(scratch, target.address, "--persist", "--queues=2", "-v", **environment).returncode, 0, "again")
    detach_all(scratch)
    one = ("attach", f"{NQN}@{target.address}", "--frontend", "socket", "--persist")
    done = run(RBLK, *one, env=dict(scratch.env, **environment), check=False)
    expect_equal(done.returncode, BUSY, done.stderr)
    expect("exists, and is not the same" in done.stderr, done.stderr)
    os.unlink(os.path.join(etc, "volumes", "test.conf"))
    write(scratch, "bin/systemctl", "#!/bin/sh\nexit 1\n")
    done = run(RBLK, *one, env=dict(scratch.env, **environment), check=False)
    expect_equal(done.returncode, PARTIAL, done.stderr)
    expect("systemctl does not enable rblk-volume@test.service" in done.stderr, done.stderr)
    done = run(RBLK, *one, "--host-address", "127.0.0.1", "--socket", scratch.file("a b"),
               env=dict(scratch.env, **environment), check=False)
    expect(done.returncode, "a blank in a word")
    detach_all(scratch)
    target.stop()


def referral(scratch):
    """No target at one of two addresses: the other's volumes are attached."""
    target = Target(scratch, ["nsid: 1, ram: 1MiB"])
    folder = scratch.file("nvme")
    os.mkdir(folder)
    host, port = target.address.split(":")
    write(scratch, "nvme/discovery.conf", f"-t rdma -a {host} -s {free_port()}\n-t rdma -a {host} -s {port}\n")
    done = attach_all(scratch, "--from", folder)
    expect_equal(done.returncode, PARTIAL, done.stderr)
    expect("1 attached, 1 failed" in done.stderr and len(done.stdout.splitlines()) == 1, done.stderr)
    detach_all(scratch)
    target.stop()


def paths_of(scratch):
    """The paths of the one volume: address -> state."""
    volume, = json.loads(rblk(scratch, "status", "-o", "json").stdout)["volumes"]
    return {path["address"]: path["state"] for path in volume["path_list"]}


def several_portals(scratch):
    """One volume with a path by each portal that discovery lists, or a file; also when one is away."""
    left, right = pair(scratch)
    both = {left.address: "live", right.address: "live"}
    done = attach_all(scratch, left.address, "-o", "json")
    answer = json.loads(done.stdout)
    expect_equal((done.returncode, len(answer["volumes"]), answer["failures"], answer["notes"]), (0, 1, [], []), done.stdout)
    wait_until(lambda: paths_of(scratch) == both, "both paths are live")
    expect_equal(attach_all(scratch, left.address).returncode, 0, "exit status, again")
    expect_equal(paths_of(scratch), both, "paths, afterwards")
    detach_all(scratch)
    folder = scratch.file("nvme")
    os.mkdir(folder)
    ports = [dict(zip(("traddr", "trsvcid"), target.address.split(":")), transport="rdma") for target in (right, left)]
    write(scratch, "nvme/config.json", json.dumps([{"subsystems": [{"nqn": NQN, "ports": ports}]}]))
    right.kill()
    done = attach_all(scratch, "--from", folder)
    expect_equal(done.returncode, PARTIAL, done.stderr)
    expect("1 attached, 1 failed" in done.stderr and len(done.stdout.splitlines()) == 1, done.stderr)
    expect_equal(set(paths_of(scratch)), set(both), "addresses of the paths, one of which is away")
    right.start()
    wait_until(lambda: paths_of(scratch) == both, "both paths are live")
    detach_all(scratch)
    for target in (left, right):
        target.stop()


def detach_every(scratch):
    """One that is used stays, is named, and makes the whole partly done."""
    done = rblk(scratch, "detach", "--all")
    expect_equal((done.stdout, done.stderr), ("no volume is attached\n", ""), "nothing attached")
    target = Target(scratch, TWO)
    attach_all(scratch, target.address, check=True)
    used = attached(scratch)[NQN, 5]
    client = nbd.NBD()
    client.connect_uri(used["uri"])
    done = rblk(scratch, "detach", "--all", check=False)
    expect_equal((done.returncode, done.stdout), (PARTIAL, "detached test\n"), done.stderr)
    failure, whole = done.stderr.splitlines()
    expect(failure.startswith(f"rblk detach: {used['name']}: ") and "is busy: used by pid" in failure, done.stderr)
    expect_equal(whole, "rblk detach: error: 1 detached, 1 failed", done.stderr)
    done = rblk(scratch, "detach", "--all", "-o", "json", check=False)
    answer = json.loads(done.stdout)
    expect_equal((done.returncode, done.stderr, answer["volumes"]), (BUSY, "", []), done.stdout)
    expect_equal([(f["volume"], f["code"]) for f in answer["failures"]], [(used["name"], BUSY)], done.stdout)
    expect_equal(set(attached(scratch)), {(NQN, 5)}, "volumes")
    client.shutdown()
    done = rblk(scratch, "detach", "--all", "-o", "json")
    expect_equal(json.loads(done.stdout), {"schema": 1, "volumes": [{"name": used["name"]}], "failures": []}, "last")
    expect_equal(attached(scratch), {}, "volumes")
    for arguments in (("--all", "test"), ("--all", "--ns", "5"), ()):
        expect_equal(rblk(scratch, "detach", *arguments, check=False).returncode, USAGE, f"{arguments}")
    target.stop()


CASES = [
    ("all of a target", of_a_target),
    ("all of nvme-cli's files", of_files),
    ("what is not understood", strict),
    ("nothing to attach", nothing),
    ("a sign of life", sign_of_life),
    ("at boot, too", persistent),
    ("one of two targets", referral),
    ("one volume by several portals", several_portals),
    ("detach all", detach_every),
]

if __name__ == "__main__":
    run_cases(CASES)
