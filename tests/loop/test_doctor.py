#!/usr/bin/python3
"""rblk doctor finds each fault that is planted here, by name and with a hint, and nothing on a healthy
machine. Faults of the machine are planted in a mount namespace of their own: files over /etc, /sys
and /dev that only the doctor sees."""

import errno
import json
import os
import re
import shutil
import signal
import socket
import stat
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from harness import (BUILD, NQN, RBLK, RBLKCTL, Target, Volume, expect, expect_equal, free_port,  # noqa: E402
                     rblk, run, run_cases, stand_still, wait_until)

UUID = "6f1b3a52-7f0e-4c4e-9d0c-0a4d5e6f7a8b"
HOST = f"nqn.2014-08.org.nvmexpress:uuid:{UUID}"
HEALTHY, FOUND = 0, 6

# A machine as an administrator wants it: an identity, one active device with an address, its nodes.
MACHINE = f"""
mount -t tmpfs none /etc; mkdir /etc/nvme
echo {HOST} > /etc/nvme/hostnqn; echo {UUID} > /etc/nvme/hostid
mount -t tmpfs none /sys/class
device=/sys/class/infiniband/mlx5_0; port=$device/ports/1
mkdir -p $port/gids $port/gid_attrs/types $port/gid_attrs/ndevs /sys/class/infiniband_verbs/uverbs0 /sys/class/net/eth1
echo '4: ACTIVE' > $port/state; echo Ethernet > $port/link_layer
echo 0000:0000:0000:0000:0000:ffff:c000:0201 > $port/gids/0
echo 'RoCE v2' > $port/gid_attrs/types/0; echo eth1 > $port/gid_attrs/ndevs/0
echo mlx5_0 > /sys/class/infiniband_verbs/uverbs0/ibdev; echo 9000 > /sys/class/net/eth1/mtu
mkdir "$SCRATCH/dev"; mount -t tmpfs none "$SCRATCH/dev"; mkdir "$SCRATCH/dev/infiniband"
for node in null zero urandom; do touch "$SCRATCH/dev/$node"; mount --bind /dev/$node "$SCRATCH/dev/$node"; done
touch "$SCRATCH/dev/infiniband/uverbs0" "$SCRATCH/dev/infiniband/rdma_cm"
mount --rbind "$SCRATCH/dev" /dev
mount -t tmpfs none /sys/fs/cgroup; group=/sys/fs/cgroup/volumes; mkdir "$group"; echo 'max 100000' > "$group/cpu.max"
printf '%s\\n' 1:name=other:/ 0::/volumes > "$SCRATCH/cgroup"; mount --bind "$SCRATCH/cgroup" /proc/$$/cgroup
ulimit -Sn 4096; ulimit -Hn 4096
export RBLK_RUN_DIR="$SCRATCH/run"
"""

# fault -> (what the shell does to the healthy machine, the check, its level, what the line says)
FAULTS = {
    "no host NQN is kept": ("rm /etc/nvme/hostnqn", "host_nqn", "note", "until the next boot"),
    "a host NQN that is none": ("echo nonsense > /etc/nvme/hostnqn", "host_nqn", "problem", "/etc/nvme/hostnqn: not a host NQN"),
    "an empty host NQN": (": > /etc/nvme/hostnqn", "host_nqn", "problem", "/etc/nvme/hostnqn: it is empty"),
    "a host identifier that is none": ("echo 17 > /etc/nvme/hostid", "host_nqn", "problem", "/etc/nvme/hostid: not a UUID"),
    "another host identifier": ("echo 00000000-0000-4000-8000-000000000001 > /etc/nvme/hostid", "host_id", "note",
                                "not the UUID in the host NQN"),
    "few open files": ("ulimit -n 512", "open_files", "warning", "the limit is 512"),
    "little locked memory": ("ulimit -l 512; export SOFTRDMA_MEMLOCK_STRICT=1", "locked_memory", "warning", "512KiB"),
    "a tenth of a CPU": ('echo "10000 100000" > "$group/cpu.max"', "cpus", "warning", "10 % of a CPU"),
    "a run directory that is relative": ("export RBLK_RUN_DIR=run", "run_directory", "problem", "not absolute"),
    "a run directory that is read-only": ('mount -t tmpfs -o ro none "$SCRATCH/run"', "run_directory", "problem",
                                          "Read-only file system"),
    "a port that is down": ("echo '1: DOWN' > $port/state", "rdma_port", "warning", r"not active \(1: DOWN\), interface eth1"),
    "a port without a subnet manager": ("echo '2: INIT' > $port/state; rm $port/gid_attrs/ndevs/0", "rdma_port", "warning",
                                        r"\(2: INIT\)$"),
    "no port at all": ("echo '1: DOWN' > $port/state", "rdma_devices", "problem", "no port can be used"),
    "an interface without an address": ("echo 0000:0000:0000:0000:0000:0000:0000:0000 > $port/gids/0", "rdma_address", "warning",
                                        "no address that RDMA can use.*eth1"),
    "addresses of RoCE v1 alone": ("echo 'IB/RoCE v1' > $port/gid_attrs/types/0", "rdma_address", "warning", "no address"),
    "small frames": ("echo 1500 > /sys/class/net/eth1/mtu", "mtu", "note", "eth1 has 1500"),
    "no device node": ("rm /dev/infiniband/uverbs0", "rdma_nodes", "problem", "/dev/infiniband/uverbs0: No such file"),
    "no node of the connection manager": ("rm /dev/infiniband/rdma_cm", "rdma_nodes", "problem", "/dev/infiniband/rdma_cm"),
    "a node that may not be written": ("mount --bind -o ro /dev/infiniband /dev/infiniband; "
                                       "mount -o remount,bind,ro /dev/infiniband", "rdma_nodes", "problem",
                                       "uverbs0: Read-only file system"),
    "no verbs for the device": ("rm -r /sys/class/infiniband_verbs/uverbs0", "rdma_nodes", "problem", "mlx5_0 to no program"),
    "neither device nor provider": ('rm -r /sys/class/infiniband; cp "$DOCTOR" "$SCRATCH/rblk"; DOCTOR="$SCRATCH/rblk"; '
                                    "unset SOFTRDMA_LIB", "rdma_devices", "problem", "neither a device nor"),
    "the kernel's host on the same subsystem": (f"mkdir -p /sys/class/nvme-subsystem/s0; "
                                                f"echo {NQN} > /sys/class/nvme-subsystem/s0/subsysnqn; "
                                                f"set -- {NQN}@127.0.0.1:$PORT", "nvme_host", "warning", NQN),
}


def doctor_in(scratch, plant):
    """The doctor's findings on the healthy machine with the plant, and its exit status."""
    script = f"set -e\n{MACHINE}\n{plant}\n" + 'exec "$DOCTOR" doctor -o json "$@"\n'
    for name in ("dev", "run"):
        shutil.rmtree(scratch.file(name), ignore_errors=True)
    os.mkdir(scratch.file("run"))
    environment = dict(scratch.env, SCRATCH=scratch.path, DOCTOR=RBLK, PORT=str(free_port()))
    as_root = () if os.geteuid() == 0 else ("--map-root-user",)
    done = run("unshare", *as_root, "--mount", "bash", "-c", script, "doctor", check=False, env=environment)
    expect(done.stdout.startswith("{"), f"no JSON: {done.stdout}{done.stderr}")
    return json.loads(done.stdout), done.returncode


def doctor(scratch, *arguments):
    done = run(RBLK, "doctor", *arguments, "--hostnqn", HOST, "-o", "json", check=False, env=scratch.env)
    return json.loads(done.stdout), done.returncode


def expect_finding(answer, check, level, pattern):
    for found in answer["findings"]:
        if (found["check"], found["level"]) == (check, level) and re.search(pattern, found["message"]):
            expect(found["hint"] or level in ("ok", "note"), f"{check} has no hint")
            return
    expect(False, f"no {level} of {check} with {pattern!r}: {json.dumps(answer['findings'], indent=1)}")


def bad(answer):
    return [f for f in answer["findings"] if f["level"] in ("warning", "problem")]


def is_healthy(scratch):
    answer, status = doctor_in(scratch, "")
    expect_equal(bad(answer), [], "findings on a healthy machine")
    expect_equal((status, answer["problems"], answer["warnings"]), (HEALTHY, 0, 0), "the sum")
    expect({"host_nqn", "open_files", "rdma_port", "mtu", "run_directory"} <=
           {f["check"] for f in answer["findings"] if f["level"] == "ok"}, "the checklist says what is well")


def finds_planted_faults(scratch):
    for name, (plant, check, level, pattern) in FAULTS.items():
        answer, status = doctor_in(scratch, plant)
        try:
            expect_finding(answer, check, level, pattern)
        except Exception as e:
            raise type(e)(f"{name}: {e}") from None
        expect_equal(status, FOUND if level in ("warning", "problem") else HEALTHY, f"exit status: {name}")
        if name == "no port at all":
            continue  # the port has its own line
        expect(len(bad(answer)) <= 2, f"{name}: more than its consequence is reported: {bad(answer)}")


def finds_faults_of_targets(scratch):
    portals = f"127.0.0.1, port: {free_port()}}}\n  - {{name: q, address: 127.0.0.1"
    target = Target(scratch, ["nsid: 1, ram: 16MiB"], listen=portals)
    where = f"{NQN}@{target.address}"
    answer, status = doctor(scratch, where)
    expect_equal((bad(answer), status), ([], HEALTHY), "a healthy target")
    expect_finding(answer, "target_answers", "ok", "offers 1 subsystem to this host")  # by two portals
    expect_finding(answer, "namespace", "ok", "1: 16MiB, blocks of 512")
    for arguments, check, pattern in (
            (("300.1.2.3",), "address", "300.1.2.3"),
            ((f"127.0.0.1:{free_port()}",), "target_answers", "nothing listens"),
            ((f"{NQN}x@{target.address}",), "namespace", "does not know subsystem"),
            ((where, "--ns", "7"), "namespace", "no namespace 7")):
        answer, status = doctor(scratch, *arguments)
        expect_finding(answer, check, "problem", pattern)
        expect_equal((len(bad(answer)), status), (1, FOUND), f"what is said of {arguments}")
    target.stop()


def finds_refusals(scratch):
    key = scratch.file("key")
    run(RBLKCTL, "gen-key", "--file", key)
    other = Target(scratch, ["nsid: 1, ram: 16MiB"], subsystem_extra="allow_hosts: [other]",
                   extra="hosts: [{name: other, nqn: 'nqn.2026-01.org.example:other'}]")
    expect_finding(doctor(scratch, other.address)[0], "target_answers", "problem", "offers 0 subsystems")
    expect_finding(doctor(scratch, f"{NQN}@{other.address}")[0], "namespace", "problem", ".")
    other.stop()
    strict = Target(scratch, ["nsid: 1, ram: 16MiB"], subsystem_extra="allow_hosts: [h]",
                    extra=f"hosts: [{{name: h, nqn: '{HOST}', dhchap_key_file: {key}}}]")
    expect_finding(doctor(scratch, f"{NQN}@{strict.address}")[0], "namespace", "problem", "prove|secret|authenticat")
    answer, status = doctor(scratch, f"{NQN}@{strict.address}", "--dhchap-secret-file", key)
    expect_equal((bad(answer), status), ([], HEALTHY), "with the secret")
    strict.stop()


def refuses(path):
    """No process listens on the socket any more."""
    with socket.socket(socket.AF_UNIX) as caller:
        return caller.connect_ex(path) == errno.ECONNREFUSED


def finds_faults_of_volumes(scratch):
    program = scratch.file("rblk")
    shutil.copy(RBLK, program)
    os.chmod(program, stat.S_IRWXU)
    path = scratch.make_file("disk.img", 16 << 20)
    target = Target(scratch, [f"nsid: 1, file: {path}"])
    provider = {"SOFTRDMA_LIB": os.path.join(BUILD, "softrdma", "libsoftrdma.so")}
    run(program, "attach", f"{NQN}@{target.address}", "--name", "old", "--frontend", "socket",
        env=dict(scratch.env, **provider))
    os.unlink(program)
    answer, status = doctor(scratch)
    expect_finding(answer, "program", "warning", "old still runs the program from before")
    expect_equal((len(bad(answer)), status), (1, FOUND), "an upgraded program")
    rblk(scratch, "detach", "old")

    volume = Volume(target, 1, "demo")
    expect_equal(bad(doctor(scratch)[0]), [], "a healthy volume")
    pid = volume.pid()
    stand_still(pid)
    expect_finding(doctor(scratch)[0], "volume", "problem", "process of demo does not answer")
    os.kill(pid, signal.SIGCONT)
    os.truncate(path, 0)
    run("/usr/bin/python3", "-m", "nbd", "-u", volume.uri, "-c", "h.pread(4096, 8192)", check=False)
    expect_finding(doctor(scratch)[0], "io_errors", "warning", "demo have failed.*read")
    target.kill()
    wait_until(lambda: "nothing listens" in str(volume.status()["last_error"]), "the volume has tried again")
    expect_finding(doctor(scratch)[0], "volume", "problem", "demo is reconnecting: .*nothing listens")
    rblk(scratch, "detach", "--force", "demo")
    expect_equal(bad(doctor(scratch)[0]), [], "after --force")
    target = Target(scratch, ["nsid: 1, ram: 1MiB"])
    volume = Volume(target, 1, "demo")
    expect_equal(open(f"/proc/{volume.pid()}/comm", encoding="ascii").read(), "rblk\n", "name of the process")
    os.kill(volume.pid(), signal.SIGKILL)
    wait_until(lambda: refuses(volume.socket.removesuffix(".nbd") + ".sock"), "it has ended")
    answer, status = doctor(scratch)
    expect_finding(answer, "volume", "problem", "the process of demo has not ended in order")
    expect_equal(status, FOUND, "exit status")
    answer, status = doctor(scratch)
    expect_finding(answer, "volume", "note", "old writes of demo may still be under way")
    expect_equal(status, HEALTHY, "exit status")
    Volume(target, 1, "demo").detach()
    expect_equal(bad(doctor(scratch)[0]), [], "after another attach")
    target.stop()


def prints_for_people(scratch):
    """Lines of 80 columns, the sum, and nothing at all where --quiet has nothing to say."""
    done = run(RBLK, "doctor", "127.0.0.1:1", "--hostnqn", HOST, check=False, env=scratch.env)
    expect_equal(done.returncode, FOUND, "exit status")
    expect(all(len(line) <= 80 for line in done.stdout.splitlines()), f"wider than 80: {done.stdout}")
    expect(re.search(r"\n  problem  target answers: 127.0.0.1:1 .*\n(.*\n)*?           hint: ", done.stdout), done.stdout)
    expect(done.stdout.endswith("\n1 problem, 0 warnings\n"), done.stdout)
    done = run(RBLK, "doctor", "--quiet", "--hostnqn", HOST, check=False, env=scratch.env)
    expect_equal((done.returncode, done.stdout), (HEALTHY, ""), "a quiet doctor on a healthy machine")


CASES = [
    ("nothing on a healthy machine", is_healthy),
    ("faults of the machine", finds_planted_faults),
    ("faults of targets", finds_faults_of_targets),
    ("targets that refuse", finds_refusals),
    ("faults of volumes", finds_faults_of_volumes),
    ("for people: 80 columns, --quiet", prints_for_people),
]

if __name__ == "__main__":
    run_cases(CASES)
