#!/usr/bin/python3
"""An administrator's mistakes, a table: the command, the exit status, the message.

A row has one line with the error, and a hint with the remedy where that is not obvious. After
each row the test checks what is attached: a mistake attaches nothing. All rows share one target
with two namespaces, and the volume "demo" of the first. In commands {nqn}, {address}, {port}
are the target's, {tmp} is the row's own folder.

To add one: a line of ROWS, and its preparation in a function (given) that takes the World and
the folder.
"""

import fcntl
import os
import re
import resource
import shlex
import socket
import sys
from dataclasses import dataclass, field
from typing import Callable, Optional

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from harness import (BUILD, NQN, RBLK, RBLKCTL, RBLKD, ROOT, SANITIZER_REPORT, Scratch, Target, Volume,  # noqa: E402
                     end_all, expect, expect_equal, free_port, run, run_cases)

OK, FAILED, USAGE, CONFIG, NOT_FOUND, BUSY, PARTIAL, UNREACHABLE, DENIED, PRIVILEGE = range(10)
PROGRAMS = {"rblk": RBLK, "rblkd": RBLKD, "rblkctl": RBLKCTL,
            **{name: os.path.join(ROOT, "tools", name) for name in ("softrdma", "packages", "deb", "quickstart")}}


@dataclass
class Row:
    """error and hint: regular expressions, each must match exactly one line of stderr."""
    what: str
    command: str
    status: int
    error: str
    hint: str = ""
    never: str = ""  # what no line may contain
    given: Optional[Callable] = None
    env: dict = field(default_factory=dict)
    limits: dict = field(default_factory=dict)  # RLIMIT_*: how much


class World:
    """The target and the volume that all rows share."""

    def __init__(self):
        self.scratch = Scratch()
        self.scratch.env.update(RBLK_CONTROL_SOCKET=self.scratch.file("rblkd.sock"))
        self.target = Target(self.scratch, ["nsid: 1, ram: 16MiB", "nsid: 5, ram: 16MiB", "nsid: 6, ram: 512KiB"])
        self.volume = Volume(self.target, 1, "demo")

    def names(self, tmp):
        return {"nqn": NQN, "address": self.target.address, "port": self.target.port, "tmp": tmp,
                "free": free_port(), "where": f"{NQN}@{self.target.address}", "root": ROOT,
                "control": self.target.control, "config": self.target.config, "build": BUILD, "rblk": RBLK, "rblkd": RBLKD}

    def attached(self):
        names = os.listdir(os.path.join(self.scratch.env["RBLK_RUN_DIR"], "volumes"))
        return sorted(name for name in names if name.endswith(".sock"))


def expect_line(pattern, text, what):
    lines = [line for line in text.splitlines() if re.search(pattern, line)]
    expect_equal(len(lines), 1, f"{text}\nlines with the {what} /{pattern}/")


def try_row(world, row, scratch):
    names = world.names(scratch.path)
    if row.given:
        row.given(world, scratch)
    before = world.attached()
    program, *arguments = [word.format(**names) for word in shlex.split(row.command)]

    def limit():
        for which, n in row.limits.items():
            resource.setrlimit(which, (n, n))

    done = run(PROGRAMS.get(program, program), *arguments, check=False, cwd=scratch.path,
               env=dict(world.scratch.env, **{k: v.format(**names) for k, v in row.env.items()}),
               preexec_fn=limit if row.limits else None)
    said = done.stderr
    expect(not SANITIZER_REPORT.search(said), said)
    expect_equal(done.returncode, row.status, f"{done.stdout}{said}\nexit status")
    expect_line(row.error, said, "error")
    if row.hint:
        expect_line(row.hint, said, "hint")
    expect(not row.never or not re.search(row.never, said), f"{said}\nsays /{row.never}/")
    expect_equal(world.attached(), before, "what is attached")


# ---- what rows need beforehand ----------------------------------------------------------------------------

def write(name, text, mode=0o600):
    def given(_, scratch):
        with open(scratch.file(name), "w", encoding="utf-8") as f:
            f.write(text)
        os.chmod(scratch.file(name), mode)
    return given


EXAMPLE = """version: 1
control_socket: CONTROL
portals:
  - {name: p, address: 127.0.0.1, port: PORT}
subsystems:
  - nqn: nqn.2026-01.org.example:second
    allow_any_host: true
    namespaces:
      - {nsid: 1, ram: 16MiB}
"""


def second(control="{control}", port="{port}"):
    """{tmp}/target.yaml of a second rblkd; values that the row does not set are the first one's."""
    def given(world, scratch):
        names = world.names(scratch.path)
        text = EXAMPLE.replace("CONTROL", control.format(**names)).replace("PORT", port.format(**names))
        write("target.yaml", text)(world, scratch)
    return given


def for_all(given):
    """The folder may be another user's, except for closed/ in it."""
    def both(world, scratch):
        given(world, scratch)
        os.mkdir(scratch.file("closed"), 0o755)
        os.chmod(scratch.path, 0o755)
        os.chmod(scratch.file("target.yaml"), 0o644)
    return both


# ---- the table --------------------------------------------------------------------------------------------

ATTACH_ROWS = [
    Row("a namespace that is not there", "rblk attach {where} --ns 77", NOT_FOUND,
        r"error: subsystem .* has no namespace 77 for us \(it has: 1, 5, 6\)", never="did you mean"),
    Row("an NQN with a typing error", "rblk attach nqn.2026-01.org.example:tset@{address}", NOT_FOUND,
        "error: target does not know subsystem 'nqn.2026-01.org.example:tset'", f"hint: did you mean '{NQN}'"),
    Row("a wrong port", "rblk attach {nqn}@127.0.0.1:{free}", UNREACHABLE, "error: .*nothing listens there",
        "hint: check 'rblkctl status' on the target"),
    Row("discovery at a wrong port", "rblk discover 127.0.0.1:{free}", UNREACHABLE, "error: .*nothing listens there"),
    Row("an address that no host has", "rblk attach {nqn}@192.0.2.1", UNREACHABLE, "error: cannot reach 192.0.2.1"),
    Row("no target", "rblk attach", USAGE, r"error: .*NQN@ADDRESS"),
    Row("a command with a typing error", "rblk atach {where}", USAGE, r"error: .*did you mean 'attach'\?"),
    Row("an option with a typing error", "rblk attach {where} --nss 1", USAGE, r"error: .*--nss"),
    Row("an option's value out of range", "rblk attach {where} --queues 0", USAGE, "error: .*--queues.*1"),
    Row("a link-local address without its interface", "rblk discover fe80::1", USAGE,
        "error: 'fe80::1' is a link-local address", "hint: name the interface: fe80::1%eth0"),
    Row("such a path", "rblk attach {where} --ns 5 --path fe80::1", USAGE, "error: --path: 'fe80::1' is not", "hint: .*%eth0"),
    Row("the address forgotten", "rblk attach {nqn}", USAGE, "error: .*lacks the '@'", "hint: write NQN@ADDRESS"),
    Row("what is no NQN", "rblk attach demo@{address}", USAGE, "error: 'demo' is not an NQN"),
    Row("a port that is no port", "rblk attach {nqn}@127.0.0.1:port", USAGE, "error: '127.0.0.1:port' is not an addr",
        "hint: write it like 192.0.2.1:4420"),
    Row("a name that is none", "rblk attach {where} --ns 5 --name a/b", USAGE, "error: 'a/b' cannot be the name",
        "hint: use up to 63 letters"),
    Row("a mode that is none", "rblk attach {where} --ns 5 --socket-mode 9", USAGE, "error: --socket-mode: '9' is not"),
    Row("a time that is none", "rblk attach {where} --ns 5 --ctrl-loss-tmo soon", USAGE,
        "error: --ctrl-loss-tmo: 'soon' is neither a time like 30s nor 'never'"),
    Row("a name that another volume has", "rblk attach {where} --ns 5 --name demo", BUSY,
        "error: there is a volume 'demo'", "hint: choose another --name"),
    Row("the target's secret without the host's", "rblk attach {where} --ns 5 --dhchap-ctrl-secret-file k", USAGE,
        "error: --dhchap-ctrl-secret-file needs --dhchap-secret-file"),
]


def differs(what, options, *said, given=None, status=BUSY):
    """Attach of the volume that is attached already, with an option that differs."""
    return Row(f"attached already: {what}", "rblk attach {where} " + options, status,
               "error: " + (said[0] if status != BUSY else "attached already as demo, but " + said[0]),
               "hint: detach it first" if status == BUSY else "", given=given)


ATTACHED_ROWS = [
    differs("read-only", "-r", "--read-only is no, not yes"),
    differs("its name", "--name other", "--name is demo"),
    differs("its front end", "--frontend nbd", "--frontend is socket, not nbd"),
    differs("its fabric", "--fabric mlx5_9", "there is no RDMA device 'mlx5_9'", status=NOT_FOUND),
    differs("its socket", "--socket {tmp}/own.nbd", "--socket is .*/demo.nbd, not .*/own.nbd"),
    differs("a socket that cannot be", "--socket {tmp}/none/own.nbd", "--socket: there is no directory", status=USAGE),
    differs("a secret that is not there", "--dhchap-secret-file {tmp}/none", "{tmp}/none".replace("{tmp}", ".*"),
            status=CONFIG),
    differs("its keep-alive timeout", "--keep-alive 7s", "--keep-alive is 10s, not 7s"),
    differs("where it connects from", "--host-address 127.0.0.1", r"--host-address is none, not 127.0.0.1"),
    differs("its queues", "--queues 2 --queue-size 64", "--queues is auto, not 2, --queue-size is 128, not 64"),
    differs("its buffers", "--buffers 64MiB", "--buffers is 128MiB, not 64MiB"),
    differs("its host NQN", "--hostnqn nqn.2026-01.org.example:other", "--hostnqn is .*, not nqn.2026-01.org.example:ot"),
]

HOST_ROWS = [
    Row("an address that is not ours", "rblk attach {where} --ns 5 --host-address 192.0.2.9", UNREACHABLE,
        "error: cannot connect to .*: no RDMA device here has the address of --host-address", "hint: 'ip address'"),
    Row("too few open files", "rblk attach {where} --ns 5", PRIVILEGE, "error: the limit of open files is 20, and 64",
        "hint: raise it: ulimit -n", limits={resource.RLIMIT_NOFILE: 20}),
    Row("a host NQN that is none", "rblk attach {where} --ns 5 --hostnqn foo", USAGE,
        "error: --hostnqn: not a host NQN", "hint: an NQN is like nqn.2014-08"),
    Row("a host identifier that is none", "rblk attach {where} --ns 5 --hostid 123", USAGE,
        "error: --hostid: '123' is not a host identifier", "hint: uuidgen makes one"),
    Row("a hostnqn file with something else in it", "rblk attach {where} --ns 5", CONFIG,
        "error: .*/hostnqn: not a host NQN", "hint: 'nvme gen-hostnqn'", given=write("hostnqn", "junk\n"),
        env={"RBLK_STATE_DIR": "{tmp}"}),
    Row("an empty hostnqn file", "rblk attach {where} --ns 5", CONFIG, "error: .*/hostnqn: it is empty",
        "hint: 'nvme gen-hostnqn'", given=write("hostnqn", ""), env={"RBLK_STATE_DIR": "{tmp}"}),
    Row("a secret file that is not there", "rblk attach {where} --ns 5 --dhchap-secret-file {tmp}/none", CONFIG,
        "error: .*/none", "hint: it is the file of --dhchap-secret-file"),
    Row("a secret file that others may read", "rblk attach {where} --ns 5 --dhchap-secret-file {tmp}/key", CONFIG,
        "error: .*/key.*chmod 600", given=write("key", "DHHC-1:00:x:\n", 0o644)),
    Row("a socket in a folder that is not there", "rblk attach {where} --ns 5 --socket {tmp}/none/x", USAGE,
        "error: --socket: there is no directory .*/none", "hint: make it first"),
    Row("a socket where a file is", "rblk attach {where} --ns 5 --socket {tmp}/file", USAGE,
        "error: --socket: .*/file exists, and is no socket", "hint: remove it", given=write("file", "x")),
    Row("buffers that are too few", "rblk attach {where} --ns 5 --buffers 1MiB --queues 8", USAGE,
        "error: --buffers: a queue needs 256 KiB, so 8 of them 2048 KiB", "hint: take fewer --queues"),
    Row("buffers beyond the limit of locked memory", "rblk attach {where} --ns 5 --buffers 64MiB", PRIVILEGE,
        "error: cannot register .* for RDMA: locked-memory limit is 8MiB", "hint: raise it: .*--buffers",
        env={"SOFTRDMA_MEMLOCK_STRICT": "1"}, limits={resource.RLIMIT_MEMLOCK: 8 << 20}),
    Row("a block that is no multiple", "rblk bench {where} --ns 5 --bs 4097", USAGE,
        "error: --bs: 4097 bytes are no multiple of the namespace's blocks of 512"),
    Row("a block larger than the namespace", "rblk bench {where} --ns 6 --bs 1MiB", USAGE,
        "error: --bs: 1048576 bytes are more than the namespace has"),
]

if os.path.exists("/etc/nvme/hostnqn"):  # then the other one is not read
    HOST_ROWS = [row for row in HOST_ROWS if "RBLK_STATE_DIR" not in row.env]

if os.geteuid() == 0:
    HOST_ROWS.append(
        Row("rblkd of a user, with a socket where root's is", "setpriv --reuid 65534 --regid 65534 --clear-groups "
            "{rblkd} --config {tmp}/target.yaml", PRIVILEGE,
            "cannot listen on control socket .*/own.sock: Permission denied; name one in a directory of your own: "
            "--control-socket PATH", given=for_all(second(control="{tmp}/closed/own.sock", port="{free}"))))
    HOST_ROWS.append(
        Row("softrdma, and the target of another user", "setpriv --reuid 65534 --regid 65534 --clear-groups "
            "{rblk} discover {address} --hostnqn nqn.2026-01.org.example:me", UNREACHABLE,
            "error: cannot reach .*: softrdma connects programs of one user", r"hint: run both as one user .*uid 65534"))

VOLUME_ROWS = [
    Row("detach of what is not attached", "rblk detach ghost", NOT_FOUND, "error: no volume 'ghost' is attached",
        "hint: `rblk list`"),
    Row("status of what is not attached", "rblk status ghost", NOT_FOUND, "error: no volume 'ghost' is attached"),
    Row("detach of a namespace that is not attached", "rblk detach {nqn} --ns 5", NOT_FOUND,
        "error: no volume '{nqn}' with namespace 5 is attached".replace("{nqn}", NQN)),
    Row("a run directory that is relative", "rblk list", USAGE, "error: the run directory must be an absolute path",
        env={"RBLK_RUN_DIR": "run"}),
]

TARGET_ROWS = [
    Row("an option of rblkd with a typing error", "rblkd --confg x", USAGE, "error: .*--config"),
    Row("a configuration that is not there", "rblkd --config {tmp}/none.yaml", CONFIG,
        "none.yaml: error: cannot read it: No such file", "hint: name a file with --config; examples, of which ram.yaml"),
    Row("a folder as the configuration", "rblkd --check --config {tmp}", CONFIG, "error: cannot read it: Is a directory",
        "hint: name a file with --config"),
    Row("a control socket in a folder that is not there", "rblkd --config {tmp}/target.yaml", FAILED,
        "cannot listen on control socket .*/none/deep/own.sock: No such file or directory; make the directory",
        given=second(control="{tmp}/none/deep/own.sock", port="{free}")),
    Row("too few open files for rblkd", "rblkd --config {config}", PRIVILEGE, "error: the limit of open files is 20",
        "hint: raise it", limits={resource.RLIMIT_NOFILE: 20}),
    Row("a portal's port that another rblkd has", "rblkd --config {tmp}/target.yaml", BUSY,
        "error: .*in use", given=second(control="{tmp}/own.sock")),
    Row("a control socket that another rblkd has", "rblkd --config {tmp}/target.yaml", BUSY,
        "error: .*another rblkd", given=second(port="{free}")),
]

OTHER = EXAMPLE.replace("CONTROL", "{tmp}/own.sock").replace("PORT", "{free}")


def other(*changes):
    """{tmp}/target.yaml of an rblkd of its own, with these changes of its text."""
    def given(world, scratch):
        names, text = world.names(scratch.path), OTHER
        for name in ("tmp", "free"):
            text = text.replace("{" + name + "}", str(names[name]))
        for old, new in changes:
            expect(old in text, f"{old} is not in {text}")
            text = text.replace(old, new.replace("{tmp}", scratch.path))
        write("target.yaml", text)(world, scratch)
    return given


def busy_state(world, scratch):
    """A state directory that another process has locked, as rblkd does."""
    folder = scratch.file("state")
    holder = open(os.path.join(folder, ".lock"), "w", encoding="utf-8")  # until the row's process group ends
    fcntl.flock(holder, fcntl.LOCK_EX)
    HELD.append(holder)
    other(("portals:", f"state_directory: {folder}\nportals:"))(world, scratch)


def busy_file(world, scratch):
    """A backing file that a running rblkd exports."""
    image = scratch.make_file("disk.img", 1 << 20)
    holder = open(image, "r+b")
    fcntl.lockf(holder, fcntl.LOCK_EX)
    fcntl.flock(holder, fcntl.LOCK_EX)
    HELD.append(holder)
    other(("ram: 16MiB", "file: {tmp}/disk.img"))(world, scratch)


def busy_port(world, scratch):
    holder = socket.socket()
    holder.bind(("127.0.0.1", 0))
    holder.listen()
    HELD.append(holder)
    other(("portals:", f"metrics: {{listen: '127.0.0.1:{holder.getsockname()[1]}'}}\nportals:"))(world, scratch)


HELD = []  # files and sockets that rows keep open until the end

DAEMON_ROWS = [
    Row("a state directory that another rblkd has", "rblkd --config {tmp}/target.yaml", BUSY,
        "error: state_directory: .*another rblkd uses this directory: choose another", given=busy_state),
    Row("a state directory that is not there", "rblkd --config {tmp}/target.yaml", CONFIG,
        "error: state_directory: .*must be a directory", given=other(("portals:", "state_directory: /none\nportals:"))),
    Row("a backing file that another program has", "rblkd --config {tmp}/target.yaml", BUSY, "is in use",
        given=busy_file),
    Row("a backing file that is not there", "rblkd --config {tmp}/target.yaml", CONFIG,
        r"target.yaml:\d+:\d+: error: .*none.img", given=other(("ram: 16MiB", "file: {tmp}/none.img"))),
    Row("a metrics port that another program has", "rblkd --config {tmp}/target.yaml", BUSY,
        "metrics: cannot listen on .*Address already in use.*metrics.listen", given=busy_port),
    Row("an RDMA device that is not there", "rblkd --config {tmp}/target.yaml --fabric mlx5_9", NOT_FOUND,
        "error: there is no RDMA device 'mlx5_9'", "hint: list devices with", given=other()),
    Row("a key with a typing error", "rblkd --check --config {tmp}/target.yaml", CONFIG,
        r"target.yaml:\d+:\d+: error: unknown key 'nsidd' in namespace \(did you mean 'nsid'\?\)",
        given=other(("nsid: 1", "nsidd: 1"))),
    Row("a link-local portal without its interface", "rblkd --check --config {tmp}/target.yaml", CONFIG,
        r"target.yaml:\d+:\d+: error: address 'fe80::1' is link-local: name its interface, as in fe80::1%eth0",
        given=other(("address: 127.0.0.1", "address: 'fe80::1'"))),
    Row("a namespace twice", "rblkd --check --config {tmp}/target.yaml", CONFIG, "error: .*1.*line",
        given=other(("      - {nsid: 1", "      - {nsid: 1, ram: 1MiB}\n      - {nsid: 1"))),
    Row("a namespace with two stores", "rblkd --check --config {tmp}/target.yaml", CONFIG,
        "error: namespace needs only one of file, device, ram, null and rbd", given=other(("ram: 16MiB", "ram: 16MiB, file: /x"))),
    Row("an NQN that is none", "rblkd --check --config {tmp}/target.yaml", CONFIG, "error: .*NQN|error: .*nqn",
        given=other(("nqn.2026-01.org.example:second", "second"))),
    Row("a size without a unit that exists", "rblkd --check --config {tmp}/target.yaml", CONFIG, "error: .*16MB",
        given=other(("16MiB", "16MB"))),
    Row("a configuration that is not there", "rblkd --config {tmp}/none.yaml", CONFIG,
        "none.yaml: .*No such file"),
    Row("a log level that is none", "rblkd --log-level loud", USAGE, "error: --log-level must be one of"),
    Row("an argument that rblkd does not take", "rblkd target.yaml", USAGE, "error: unexpected argument 'target.yaml'"),
]

CONTROL_ROWS = [
    Row("rblkd does not run", "rblkctl status --socket {tmp}/none", UNREACHABLE, "error: .*rblkd is not running",
        "hint: .*--socket"),
    Row("a socket that is a file", "rblkctl status --socket {config}", UNREACHABLE,
        "error: .*rblkd is not running"),
    Row("a subcommand with a typing error", "rblkctl staus", USAGE, r"error: .*did you mean 'status'\?"),
    Row("half a subcommand", "rblkctl ns", USAGE, "error: 'ns' needs a command, see 'rblkctl help ns'"),
    Row("a list that is none", "rblkctl list host", USAGE, r"error: .*did you mean 'hosts'\?"),
    Row("an output format that is none", "rblkctl status -o yaml", USAGE, "error: --output must be one of table, json"),
    Row("drain of a portal that is not there", "rblkctl drain q", NOT_FOUND, "error: there is no portal 'q'",
        "hint: rblkctl list portals"),
    Row("resize of a namespace that is not there", "rblkctl ns resize {nqn} 9", NOT_FOUND,
        "error: there is no namespace 9 in"),
    Row("resize of what the file sizes", "rblkctl ns resize {nqn} 1 32MiB", FAILED, "error: .*in the configuration",
        "hint: change it there, then rblkctl apply"),
    Row("resize without a namespace", "rblkctl ns resize {nqn}", USAGE, "error: missing argument"),
    Row("diff with a file that is not there", "rblkctl diff {tmp}/none.yaml", CONFIG, "error: .*nothing was changed"),
    Row("apply of a folder", "rblkctl apply {tmp}", USAGE, "error: .*is no regular file"),
    Row("apply of a wrong file", "rblkctl apply {tmp}/target.yaml", CONFIG, "is wrong: nothing was changed",
        given=other(("nsid: 1", "nsidd: 1"))),
    Row("apply of what needs a restart", "rblkctl apply {tmp}/target.yaml", FAILED,
        "error: .*cannot change while rblkd runs: nothing was changed; to change it, restart rblkd", given=other()),
    Row("ANA state without ANA groups", "rblkctl ana set {nqn} 7 optimized", FAILED, "error: .*has no ANA groups",
        "hint: add ana_groups"),
    Row("an ANA state that is none", "rblkctl ana set {nqn} 1 perfect", USAGE, "error: .*perfect"),
    Row("a rate of what is not there", "rblkctl qos set {nqn}/9 iops=5", NOT_FOUND, "error: there is no .*/9"),
    Row("a rate with a key that is none", "rblkctl qos set {nqn}/1 iop=5", USAGE, "error: .*iop"),
    Row("stats of a namespace that is not there", "rblkctl stats {nqn}/9", NOT_FOUND, "error: there is no namespace"),
    Row("capsules of a queue that is not there", "rblkctl capsules 99/9", NOT_FOUND, "error: there is no .*99/9"),
    Row("a secret over another", "rblkctl gen-key --file {tmp}/key", BUSY, "error: .*key", given=write("key", "x")),
    Row("a secret's length that is none", "rblkctl gen-key --length 31", USAGE, "error: --length"),
]

TOOL_ROWS = [
    Row("softrdma without a program", "softrdma", USAGE, "softrdma: no command given"),
    Row("softrdma with a trace in a folder that is not there", "softrdma --trace {tmp}/none/x true", USAGE,
        "softrdma: no such directory"),
    Row("softrdma with a program that is not there", "softrdma nosuchprogram", 127, "softrdma: command not found: nosuchprogram"),
    Row("softrdma like a device that it cannot be", "softrdma --like mlx5 true", USAGE, "--like wants roce or siw"),
    Row("quickstart with an option that it has not", "quickstart --fast", USAGE,
        "quickstart: unknown argument '--fast'; see tools/quickstart --help"),
    Row("packages where there is no apt-get", "sh -c 'mkdir bin && ln -s $(command -v bash) $(command -v sort) "
        "$(command -v fmt) $(command -v sed) bin && PATH=bin bash {root}/tools/packages run'", PRIVILEGE,
        "this is debian, but there is no dpkg-query", "hint: install what Debian 12 calls so"),
    Row("packages of an Ubuntu that it does not know", "sh -c 'printf \"ID=ubuntu\\nVERSION_ID=22.04\\n\" >os; "
        "RBLK_OS_RELEASE=os bash {root}/tools/packages build'", PRIVILEGE, "this is Ubuntu 22.04"),
    Row("packages that Fedora has not", "sh -c 'echo ID=fedora >os; RBLK_OS_RELEASE=os bash {root}/tools/packages vm'",
        PRIVILEGE, "fedora has no packages for all of this"),
    Row("packages for what is unknown", "packages everything", USAGE, r"usage: tools/packages \[--list\] build\|run"),
]

ROWS = (ATTACH_ROWS + ATTACHED_ROWS + HOST_ROWS + VOLUME_ROWS + TARGET_ROWS + DAEMON_ROWS + CONTROL_ROWS +
        TOOL_ROWS)


def main():
    world = World()
    try:
        def case(row):
            return lambda scratch: try_row(world, row, scratch)
        run_cases([(row.what, case(row)) for row in ROWS])
    finally:
        world.volume.detach()
        world.target.stop()
        end_all(world.scratch)
        world.scratch.remove()


if __name__ == "__main__":
    main()
