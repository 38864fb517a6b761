#!/usr/bin/python3
"""The rblk command: its output, its exit codes, JSON, and its behaviour at unusual moments."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

from nbd_server import MIB, expect, expect_equal
from harness import NQN, PATIENCE, RBLK, Target, ask, expect_data, rblk, run, run_cases, stand_still, wait_until

BUSY, NOT_FOUND, USAGE, UNREACHABLE = 5, 4, 2, 7
NAMESPACES = ["nsid: 1, ram: 16MiB", "nsid: 7, ram: 16MiB, block_size: 4096"]


def with_target(function):
    def case(scratch):
        target = Target(scratch, NAMESPACES)
        function(scratch, target, f"{NQN}@{target.address}")
        target.stop()
    return case


def volumes(scratch):
    listed = json.loads(rblk(scratch, "list", "-o", "json").stdout)
    expect_equal(listed["schema"], 1, "schema")
    return listed["volumes"]


def attach(scratch, where, *options, check=True):
    return rblk(scratch, "attach", where, "--frontend", "socket", *options, check=check)


def case_nothing_attached(scratch, target, where):
    expect_equal(volumes(scratch), [], "volumes")
    expect_equal(json.loads(rblk(scratch, "status", "-o", "json").stdout),
                 {"schema": 1, "volumes": []}, "status")
    expect_equal(len(rblk(scratch, "list").stdout.splitlines()), 1, "only the head of the table")
    done = rblk(scratch, "status", "ghost", "-o", "json", check=False)
    expect_equal((done.returncode, json.loads(done.stdout)["error"]["code"]), (NOT_FOUND,) * 2, "error")


def case_names(scratch, target, where):
    line = attach(scratch, where).stdout.split()
    expect_equal((line[1], line[2], line[3]), ("test", "16MiB", f"{NQN}/1"), "the line")
    expect_equal(attach(scratch, where, "--ns", "7").stdout.split()[1], "test-7", "default name")
    taken = attach(scratch, where, "--ns", "7", "--name", "test", check=False)
    expect_equal(taken.returncode, BUSY, "already attached, under another name")
    expect(re.search("state +live for (less than 1s|[1-9])", rblk(scratch, "status", "test").stdout), "state")
    for name in ("../x", "a/b", ".hidden", "", "x" * 64, "a b", "-n"):
        done = attach(scratch, where, "--name=" + name, check=False)
        expect_equal(done.returncode, USAGE, f"name '{name}'")
    for what in ("test-7", f"{where}/7", f"{NQN}/7", line[0].replace("///test?", "///test-7?").replace("test.nbd", "test-7.nbd")):
        status = json.loads(rblk(scratch, "status", what, "-o", "json").stdout)
        expect_equal(status["nsid"], 7, f"status {what}")
    expect_equal(rblk(scratch, "status", where, check=False).returncode, USAGE, "several are meant")
    rblk(scratch, "detach", f"{where}/7")
    rblk(scratch, "detach", where)
    expect_equal([f for f in os.listdir(scratch.file("run/volumes")) if not f.startswith(".")], [],
                 "what is left in the run directory")
    expect_equal(volumes(scratch), [], "volumes")


def case_detach_asks_again_while_a_client_leaves(scratch, target, where):
    """A volume process that has not read yet that its client closed its socket: it refuses once. Played by this test,
    with the status of a real one."""
    attach(scratch, where, "--name", "x")
    path = scratch.file("run/volumes/x.sock")
    status = ask(path, "status")
    rblk(scratch, "detach", "x")
    refusals = [{"code": BUSY, "message": "x is busy: used by pid 1"}]
    asked = []
    with subprocess.Popen(["sleep", "infinity"]) as process, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()

        def serve():
            while True:
                with listener.accept()[0] as s, s.makefile("rw") as lines:
                    question = json.loads(lines.readline())
                    asked.append(question["method"])
                    answer = {"jsonrpc": "2.0", "id": question["id"], "result": dict(status, pid=process.pid)}
                    if question["method"] == "detach" and refusals:
                        answer["error"] = refusals.pop()
                        del answer["result"]
                    elif question["method"] == "detach":
                        process.kill()
                    lines.write(json.dumps(answer) + "\n")
        threading.Thread(target=serve, daemon=True).start()
        try:
            rblk(scratch, "detach", "x")
        finally:
            process.kill()
    expect_equal(asked.count("detach"), 2, "times that it was asked to end")


def case_name_taken_by_another(scratch, target, where):
    attach(scratch, where, "--name", "x")
    done = attach(scratch, where, "--ns", "7", "--name", "x", check=False)
    expect_equal(done.returncode, BUSY, "exit status")
    expect("--name" in done.stderr, done.stderr)
    rblk(scratch, "detach", "x")


def case_attach_storm(scratch, target, where):
    """Many attaches of one namespace at once: one process, all succeed, all print the same."""
    command = [RBLK, "attach", where, "--frontend", "socket"]
    started = [subprocess.Popen(command, env=scratch.env, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True) for _ in range(8)]
    outputs = [process.communicate() for process in started]
    expect_equal([p.returncode for p in started], [0] * 8, f"exit status\n{outputs}")
    expect_equal(len({out.split()[0] for out, _ in outputs}), 1, "URIs")
    expect_equal(len(volumes(scratch)), 1, "volumes")
    rblk(scratch, "detach", "test")


def case_leftovers_of_a_killed_process(scratch, target, where):
    attach(scratch, where)
    folder = os.path.join(scratch.env["RBLK_RUN_DIR"], "volumes")
    os.kill(volumes(scratch)[0]["pid"], signal.SIGKILL)
    wait_until(lambda: volumes(scratch) == [], "it is not listed any more")

    def files():
        return [f for f in os.listdir(folder) if not f.endswith((".log", ".lock"))]
    # what the next process proves to be over, before it changes anything
    expect_equal(files(), ["test.fence"], "files")
    attach(scratch, where)
    rblk(scratch, "detach", "test")
    expect_equal(files(), [], "files after an orderly end")


def case_unresponsive_process(scratch, target, where):
    attach(scratch, where)
    pid = volumes(scratch)[0]["pid"]
    stand_still(pid)
    expect_equal(volumes(scratch)[0]["state"], "unresponsive", "state")
    expect(re.search("state +unresponsive\n", rblk(scratch, "status", "test").stdout), "status")
    expect(rblk(scratch, "detach", "test", check=False).returncode != 0, "detach says no")
    os.kill(pid, signal.SIGCONT)
    rblk(scratch, "detach", "test")


def case_detach_refuses_while_used(scratch, target, where):
    uri = attach(scratch, where).stdout.split()[0]
    client = socket.socket(socket.AF_UNIX)
    client.connect(volumes(scratch)[0]["socket"])
    expect_equal(client.recv(8), b"NBDMAGIC", "greeting")
    done = rblk(scratch, "detach", "test", check=False)
    expect_equal(done.returncode, BUSY, "exit status")
    expect(f"pid {os.getpid()}" in done.stderr and "--force" in done.stderr, done.stderr)
    expect_equal(run("nbdinfo", "--size", uri).stdout.strip(), str(16 * MIB), "it still works")
    rblk(scratch, "detach", "test", "--force")
    expect_equal(volumes(scratch), [], "volumes")


def case_detach_while_target_is_away(scratch, target, where):
    uri = attach(scratch, where).stdout.split()[0]
    run("/usr/bin/python3", "-m", "nbd", "-u", uri, "-c", "h.pwrite(b'x' * 4096, 0)")
    pid = volumes(scratch)[0]["pid"]
    target.kill()
    wait_until(lambda: volumes(scratch)[0]["state"] == "reconnecting", "state")
    expect("gives up in" in rblk(scratch, "list").stdout, "list says so")
    done = rblk(scratch, "detach", "test", check=False)
    expect_equal(done.returncode, UNREACHABLE, "what cannot be flushed is not detached")
    start = time.monotonic()
    rblk(scratch, "detach", "test", "--force")
    expect(time.monotonic() - start < 20, "in time")
    expect(not os.path.exists(f"/proc/{pid}/exe"), "the process is gone")
    target.start()


def case_serve_in_foreground(scratch, target, where):
    path = scratch.file("nbd")
    with open(scratch.file("serve.log"), "wb") as log:
        process = subprocess.Popen([RBLK, "serve", where, "--name", "fg", "--socket", path],
                                   env=scratch.env, stdout=subprocess.PIPE, stderr=log, text=True)
    line = process.stdout.readline().split()
    expect_equal(line[0], f"nbd+unix:///fg?socket={path}", "URI")
    expect_equal(run("nbdinfo", "--size", line[0]).stdout.strip(), str(16 * MIB), "size")
    expect_equal(volumes(scratch)[0]["name"], "fg", "it is listed")
    process.terminate()
    expect_equal(process.wait(PATIENCE), 0, "exit status")
    expect(not os.path.exists(path), "its socket is gone")


def case_serve_notifies_the_manager(scratch, target, where):
    """READY=1, by a socket with a path and by an abstract one; a name that is neither stops nothing."""
    for number, name in enumerate((scratch.file("notify"), f"@rblk-test-{os.getpid()}", "notify")):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager, open(scratch.file("n.log"), "wb") as log:
            manager.settimeout(PATIENCE)
            if name != "notify":
                manager.bind(name.replace("@", "\0"))
            path = scratch.file(f"n{number}.sock")
            process = subprocess.Popen([RBLK, "serve", where, "--name", f"n{number}", "--socket", path],
                                       env=dict(scratch.env, NOTIFY_SOCKET=name), stdout=log, stderr=log)
            if name != "notify":
                expect_equal(manager.recv(4096), b"READY=1", "the notice")
            wait_until(lambda at=path: os.path.exists(at), "the NBD socket")
            process.terminate()
            expect_equal(process.wait(PATIENCE), 0, "exit status")


def case_serve_on_stdio(scratch, target, where):
    import nbd
    os.environ.update(scratch.env)
    for i in range(3):
        h = nbd.NBD()
        h.connect_command([RBLK, "serve", where, "--stdio"])
        h.pwrite(bytes([i]) * MIB, 100)
        expect_data(h.pread(MIB, 100), bytes([i]) * MIB, f"of client {i}")
        h.shutdown()
    expect_equal(volumes(scratch), [], "not listed")


def case_errors_in_json(scratch, target, where):
    for arguments, code in ((("attach", f"{NQN}x@{target.address}"), NOT_FOUND),
                            (("attach", f"{NQN}@127.0.0.1:1"), UNREACHABLE),
                            (("attach", "nonsense"), USAGE), (("attach", where, "--ns", "9"), NOT_FOUND),
                            (("discover", "127.0.0.1:1"), UNREACHABLE), (("detach", "ghost"), NOT_FOUND)):
        done = rblk(scratch, *arguments, "-o", "json", check=False)
        error = json.loads(done.stdout)["error"]
        expect_equal((done.returncode, error["code"]), (code, code), f"{arguments}: {error}")
        expect("\n" not in error["message"] and error["message"], "one line")


def case_did_you_mean(scratch, target, where):
    done = attach(scratch, f"{NQN[:-1]}@{target.address}", check=False)
    expect_equal(done.returncode, NOT_FOUND, "exit status")
    expect(NQN in done.stderr, f"the hint names the right one: {done.stderr}")


def case_discover(scratch, target, where):
    found = json.loads(rblk(scratch, "discover", target.address, "-o", "json").stdout)
    expect_equal(found["schema"], 1, "schema")
    expect(any(s["subsystem"] == NQN and s["port"] == target.port for s in found["subsystems"]),
           f"{found}")
    expect(NQN in rblk(scratch, "discover", target.address).stdout, "the table")


def case_bad_options(scratch, target, where):
    for options in (("--socket-mode", "999"), ("--listen", "nowhere:x"), ("--ctrl-loss-tmo", "soon"),
                    ("--ns", "0"), ("--queues", "0"), ("--frontend", "floppy"), ("--host-address", "?")):
        done = rblk(scratch, "attach", where, *options, check=False)
        expect_equal(done.returncode, USAGE, f"{options}: {done.stderr}")
    expect_equal(volumes(scratch), [], "volumes")


def case_kernel_device_or_why_not(scratch, target, where):
    if os.path.exists("/sys/module/nbd"):
        return
    done = rblk(scratch, "attach", where, "--frontend", "nbd", check=False)
    expect_equal(done.returncode, 9, "exit status")
    expect("kernel module nbd is not available" in done.stderr, done.stderr)
    done = rblk(scratch, "attach", where)
    expect_equal(done.stderr.count("kernel module nbd is not available"), 1, done.stderr)
    expect(done.stdout.startswith("nbd+unix:///test?socket="), done.stdout)
    rblk(scratch, "detach", "test")


def case_read_only(scratch, target, where):
    uri = attach(scratch, where, "--read-only").stdout.split()[0]
    expect("is_read_only: true" in run("nbdinfo", uri).stdout, "nbdinfo")
    expect(volumes(scratch)[0]["read_only"], "list")
    rblk(scratch, "detach", "test")


def case_tcp(scratch, target, where):
    """nbdkit serves it, and rblk says how."""
    done = attach(scratch, where, "--listen", "127.0.0.1", check=False)
    expect_equal(done.returncode, USAGE, done.stderr)
    expect("nbdkit --tls=require --tls-certificates=DIR rblk uri=" in done.stderr, done.stderr)
    expect_equal(volumes(scratch), [], "volumes")


def case_inherited_tcp(scratch, target, where):
    """A service manager's socket that other machines reach."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        command = f'exec 3<&{listening.fileno()}; export LISTEN_FDS=1 LISTEN_PID=$$; exec "$@"'
        done = subprocess.run(["bash", "-c", command, "bash", RBLK, "serve", where, "--name", "test"], env=scratch.env,
                              pass_fds=[listening.fileno()], check=False, text=True, capture_output=True)
    expect_equal(done.returncode, 1, done.stderr)
    expect("cannot listen on an inherited socket" in done.stderr and "nbdkit" in done.stderr, done.stderr)


run_cases([(name[5:].replace("_", " "), with_target(function))
           for name, function in list(globals().items())
           if name.startswith("case_") and (len(sys.argv) < 2 or sys.argv[1] in name)])
