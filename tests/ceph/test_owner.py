#!/usr/bin/python3
"""Images of a group with one owner: two rblkd of a real cluster, of which one serves. It gives the group away, ends, is
killed, stopped or cut off from the cluster; fio verifies, and no old block is ever over a newer one."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "lib"), os.path.join(HERE, "..", "loop")]
import cluster as ceph  # noqa: E402
from harness import (BUILD, LASTING, NQN, RBLKD, Volume, ask, expect, expect_data,  # noqa: E402
                     expect_equal, fio, rblk, run, run_cases, start_fio, wait_until, with_fabric)
from pair import Beside, GroupMember  # noqa: E402
from stopped import is_stopped  # noqa: E402
from successor import own_program, replace_program, upgrade  # noqa: E402

MIB = 1 << 20
LEASE_S = 2
CONFIG = 3
FAILED = 1
CLUSTER = ceph.Cluster()
CUT_OFF = 64446  # group of the sockets that a case cuts off
LOAD = ("--rw=randwrite", "--bs=4k", "--iodepth=16", "--size=8m", "--rate_iops=500", "--loops=10000",
        "--verify=crc32c", "--do_verify=1", "--verify_fatal=1", "--verify_backlog=256")


class Member(GroupMember):
    """A gateway, of images; each has ids of its own."""

    in_use = "is in use by another rblkd"

    def __init__(self, scratch, number, images, group=None, more="", program=None):
        self.number, self.group_of_sockets = number, group
        one = Beside(scratch, f"member{number}")
        super().__init__(one, [f"nsid: {i}, rbd: {image}, ceph_conf: {CLUSTER.conf}{more if i > 1 else ', ' + LASTING}"
                               for i, image in enumerate(images, 1)],
                         subsystem_extra=f"allow_any_host: true\n    ana_groups: [{{id: 1, owner: lock, lease: {LEASE_S}s}}]",
                         extra=f"log: {{level: debug}}\ncontroller_ids: {{min: {1 + 1000 * number}, max: {1000 + 1000 * number}}}",
                         **({"rblkd": program} if program else {}))

    def start(self):
        if not self.group_of_sockets:
            super().start()
            return
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                ["setpriv", "--regid", str(self.group_of_sockets), "--keep-groups", self.rblkd, "--config", self.config],
                env=with_fabric(self.scratch.env), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_until(self.is_ready, "rblkd is ready")

    @contextlib.contextmanager
    def standing_still(self):
        self.process.send_signal(signal.SIGSTOP)
        wait_until(lambda: is_stopped(self.process.pid), "it stands still")
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)


def images(name, n=1):
    return [CLUSTER.image(f"rbd/{name}{i}", "32M") for i in range(n)]


def members(scratch, names, n=2, **options):
    """The first is the owner."""
    one = Member(scratch, 0, names, **options)
    wait_until(one.is_owner, "the first is the owner")
    others = [Member(scratch, i, names) for i in range(1, n)]
    for other in others:
        wait_until(other.stands_by, "the others stand by")
    return one, *others


def attach(one, other):
    volume = Volume(one, 1, None, "--path", other.address)
    wait_until(lambda: volume.answer().get("paths_live") == 2, "both paths are live")
    return volume


def commands(volume):
    return sum(path["commands"] for path in volume.answer()["path_list"])


def goes_on(process, volume):
    before = commands(volume)
    wait_until(lambda: commands(volume) > before + 200, "I/O goes on")
    expect(process.poll() is None, "fio has ended")


def begin(scratch, volume):
    process = start_fio(scratch, volume.uri, *LOAD)
    goes_on(process, volume)
    return process


def finish(process, volume):
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=600)
    expect("error" not in output.lower() and "verify:" not in output.lower(), f"fio says\n{output[-2000:]}")
    expect_equal(volume.status()["io_errors"], 0, "I/O errors")
    volume.detach()


def check_owner(owner, other):
    wait_until(owner.is_owner, "it is the owner")
    wait_until(other.stands_by, "the other stands by")
    expect_equal((owner.ana_states(), other.ana_states()), (["optimized"], ["inaccessible"]), "ANA states")


def taken_over(other, since):
    wait_until(other.is_owner, "the other is the owner")
    print(f"# owner after {time.monotonic() - since:.2f} s, lease {LEASE_S} s", flush=True)


def check_patience(other):
    """That it has waited for the whole lease, by its own clock, before it fenced another one."""
    waited = [int(ms) for ms in re.findall(r"it is to be fenced, (\d+) ms after", other.read_log())]
    expect(waited and min(waited) >= LEASE_S * 1000, f"ms without a renewal before it was fenced: {waited}")


def blocklist():
    """Addresses with the year until which they are in it."""
    said = CLUSTER.ceph("osd", "blocklist", "ls").stdout
    return {address: int(year) for address, year in re.findall(r"^(\S+:\d+/\d+) (\d{4})", said, re.M)}


def this_year():
    return time.gmtime().tm_year


def check_stays(addresses):
    """None of them ends while a process may go on."""
    years = [year for address, year in blocklist().items() if address in addresses]
    expect(len(years) == len(addresses) and min(years) >= this_year() + 9, f"entries that end soon: {years}")


def beside(image, command, *arguments):
    """Runs the tool rados on the object of the image's records."""
    number = re.search(r"id: (\w+)", CLUSTER.rbd("info", image).stdout).group(1)
    return CLUSTER.run("rados", "-c", CLUSTER.conf, "-p", "rbd", command, f"rblk.state.{number}", *arguments).stdout


def fenced_clients(image):
    """The fenced clients in the records beside it."""
    return set(re.findall(r"^fenced#(\S+)$", beside(image, "listomapkeys"), re.M))


def plant_record(image, address):
    """The record of a process of this machine that has ended."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as f:
        boot = f.read().strip()
    life = f"{boot} {os.stat('/proc/self/ns/pid').st_ino} 1 1"
    beside(image, "setomapval", f"fenced#{address}", f"{life} {LEASE_S * 1000} 1")


def let_remove_entries():
    CLUSTER.ceph("auth", "caps", "client.rblk", "osd", "profile rbd", "mon",
                 'profile rbd, allow command "osd blocklist" with blocklistop=rm')


# ---- cases --------------------------------------------------------------------------------------

def stands_by_without_a_watch(scratch):
    """One that stands by has nothing open, and asks for nothing in its configuration that files need."""
    names = images("watch")
    one, other = members(scratch, names)
    expect_equal(CLUSTER.rbd("status", names[0]).stdout.count("watcher="), 1, "clients that have it open")
    fencing = one.status()["fencing"]
    expect_equal((fencing["level"], fencing["by"]), ("exact", "lock"), "fencing of the owner")
    fencing = other.status()["fencing"]
    expect("this one stands by" in fencing["subsystems"][0]["why"], fencing)
    expect_equal(blocklist(), {}, "the blocklist")
    other.stop()
    one.stop()


def given_away(scratch):
    """Without the blocklist; there and back."""
    pair = members(scratch, images("given", 2))
    volume = attach(*pair)
    process = begin(scratch, volume)
    before = blocklist()
    for owner, other in (pair, pair[::-1]):
        expect("given away" in owner.ctl("group", "give", NQN, "1").stdout, "what it says")
        check_owner(other, owner)
        goes_on(process, volume)
    finish(process, volume)
    expect_equal(blocklist(), before, "the blocklist")
    for member in pair:
        expect_equal(member.group()["times_given"], 1, "times given")
        member.stop()


def ended(scratch):
    one, other = members(scratch, images("ended"))
    volume = attach(one, other)
    process = begin(scratch, volume)
    before, since = blocklist(), time.monotonic()
    one.stop()
    taken_over(other, since)
    goes_on(process, volume)
    expect_equal(blocklist(), before, "the blocklist")
    one.start()
    check_owner(other, one)
    finish(process, volume)
    one.stop()
    other.stop()


def go_over(one, process, volume):
    """rblkctl upgrade, under I/O."""
    since = time.monotonic()
    done = upgrade(one)
    expect_equal((done["state"], done["reason"]), ("done", None), "what became of it")
    print(f"# upgraded after {time.monotonic() - since:.2f} s, served {done['held_ms']} ms after hosts were told", flush=True)
    goes_on(process, volume)


def upgraded(scratch):
    """The new process is the owner next; if another gateway stands by, that one may be faster. Nothing is fenced."""
    names = images("upgraded", 2)
    before = blocklist()
    one = Member(scratch, 0, names)
    wait_until(one.is_owner, "it is the owner")
    volume = Volume(one, 1)
    process = begin(scratch, volume)
    go_over(one, process, volume)
    wait_until(one.is_owner, "the new process is the owner")
    finish(process, volume)
    other = Member(scratch, 1, names)
    wait_until(other.stands_by, "the other stands by")
    volume = attach(one, other)
    process = begin(scratch, volume)
    go_over(one, process, volume)
    wait_until(lambda: one.is_owner() or other.is_owner(), "one of them is the owner")
    check_owner(*sorted((one, other), key=lambda member: not member.is_owner()))
    finish(process, volume)
    expect_equal(blocklist(), before, "the blocklist")
    for member in (one, other):
        expect_equal(member.group()["times_lost"], 0, "times lost")
        member.stop()


def not_upgraded(scratch):
    """The new program dies: before hosts were told nothing has changed; later the old one has the images again."""
    names, before = images("undone", 2), blocklist()
    scratch.env["RBLK_PLUGINS"] = os.path.join(BUILD, "target")
    program = own_program(scratch)
    one = Member(scratch, 0, names, program=program)
    wait_until(one.is_owner, "it is the owner")
    pid, volume = one.process.pid, Volume(one, 1)
    process = begin(scratch, volume)
    for words, state in (((), "failed"), (("prepared 9.9", "listening"), "undone")):
        replace_program(program, *words)
        expect_equal(upgrade(one, status=FAILED)["state"], state, "what became of it")
        expect_equal(one.status()["pid"], pid, "the process")
        wait_until(one.is_owner, "it is the owner")
        goes_on(process, volume)
    finish(process, volume)
    expect_equal(blocklist(), before, "the blocklist")
    one.stop()


def killed(scratch):
    """Its process is gone: the other one does not wait for the lease. Two images, one client."""
    names = images("killed", 2)
    one, other = members(scratch, names)
    volume = attach(one, other)
    process = begin(scratch, volume)
    before, since = blocklist(), time.monotonic()
    one.kill()
    taken_over(other, since)
    goes_on(process, volume)
    added = {address: year for address, year in blocklist().items() if address not in before}
    expect_equal(len(added), 1, f"clients that were fenced: {added}")
    expect(min(added.values()) >= time.gmtime().tm_year + 9, f"an entry that ends soon: {added}")
    expect("its process has ended" in other.read_log(), "why it was fenced")
    one.start()
    check_owner(other, one)
    wait_until(lambda: "cannot be removed from the blocklist: Permission denied" in one.read_log(), "the log says what to do")
    check_stays(added)
    expect_equal(fenced_clients(names[0]), set(added), "records of clients that were fenced")
    finish(process, volume)
    one.stop()
    other.stop()


def stopped(scratch):
    """Another one has its lock and newer data; when it goes on, none of its writes lands. It stands by with a new client,
    and becomes the owner again."""
    let_remove_entries()
    names = images("stopped")
    one, other = members(scratch, names)
    before = blocklist()
    volume = attach(one, other)
    process = begin(scratch, volume)
    since = time.monotonic()
    with one.standing_still():
        taken_over(other, since)
        expect("it has not renewed its lease" in other.read_log(), "why it was fenced")
        check_patience(other)
        goes_on(process, volume)
        added = set(blocklist()) - set(before)
        expect_equal(len(added), 1, "clients that were fenced")
        plant_record(names[0], '1.2.3.4:0/5"')
        plant_record(names[0], "1.2.3.4:0/5")
    wait_until(one.stands_by, "it stands by")
    wait_until(lambda: not added & set(blocklist()), "its old client is removed from the blocklist")
    wait_until(lambda: fenced_clients(names[0]) == {'1.2.3.4:0/5"'}, "so are the records, but for one that is not ours")
    expect('5"' not in one.read_log(), "it was used")
    expect_equal(one.group()["times_lost"], 1, "times lost")
    goes_on(process, volume)
    wait_until(lambda: volume.answer().get("paths_live") == 2, "both paths are live")
    expect_equal(other.group()["times_lost"], 0, "times lost by the other")
    other.ctl("group", "give", NQN, "1")
    check_owner(one, other)
    goes_on(process, volume)
    finish(process, volume)
    expect_equal([ns["errors"] for ns in one.list("namespaces")["namespaces"]], [0], "errors")
    one.stop()
    other.stop()


def old_writes_are_over(scratch):
    """The owner stands still with 64 writes of the same blocks in it. They have other data when it goes on, and keep them.
    Without the blocklist old blocks are found in most runs (tests/mutations/owner-not-fenced)."""
    names = images("old")
    one, other = members(scratch, names)
    other.scratch.env["RBLK_RUN_DIR"] = other.scratch.file("run")  # a host of its own
    old, new = Volume(one, 1, "old"), Volume(other, 1, "new")
    area = ("--bs=4k", "--size=256k", "--verify=pattern", "--do_verify=0", "--scramble_buffers=0")
    job = start_fio(scratch, old.uri, "--rw=randwrite", "--iodepth=64", "--loops=1000000", "--verify_pattern=0x11", *area)
    wait_until(lambda: one.list("namespaces")["namespaces"][0]["writes"] > 500, "fio writes")
    with one.standing_still():
        wait_until(other.is_owner, "the other is the owner")
        fio(scratch, new.uri, "--rw=write", "--iodepth=16", "--verify_pattern=0x22", *area)
    wait_until(one.stands_by, "it stands by")
    wait_until(lambda: not ask(one.control, "status")["fencing"]["quiescing"], "its last commands are over")
    image = scratch.file("image")
    CLUSTER.rbd("export", "--no-progress", names[0], image)
    with open(image, "rb") as f:
        expect_data(f.read(256 << 10), b"\x22" * (256 << 10), "blocks of before")
    job.kill()
    job.wait()
    for volume in (new, old):
        rblk(volume.scratch, "detach", "--force", volume.name)
    one.stop()
    other.stop()


def idle_owner_notices(scratch):
    """No host, no I/O: the renewal of its lease tells it."""
    one, other = members(scratch, images("idle"))
    with one.standing_still():
        wait_until(other.is_owner, "the other is the owner")
    check_owner(other, one)
    expect("this rblkd is not the owner any more" in one.read_log(), one.read_log())
    expect(one.group()["lost_why"], "why it was lost")
    other.stop()
    wait_until(one.is_owner, "it is the owner again")
    one.stop()


def lock_is_taken_away(scratch):
    """By a person, with rbd lock rm: the owner asks for its lock, and stands by."""
    names = images("away")
    one = Member(scratch, 0, names)
    wait_until(one.is_owner, "it is the owner")
    lock = re.search(r"^(client\.\d+) +(auto \d+)", CLUSTER.rbd("lock", "ls", names[0]).stdout, re.M)
    CLUSTER.rbd("lock", "rm", names[0], lock.group(2), lock.group(1))
    wait_until(lambda: one.group()["times_lost"] == 1, "it notices")
    wait_until(one.is_owner, "it is the owner again, as another client")
    one.stop()


def race(scratch):
    """Two stand by, and one of them is the owner next; the other one stands by for that one."""
    let_remove_entries()
    one, *others = members(scratch, images("race"), n=3)
    before = blocklist()
    with one.standing_still():
        wait_until(lambda: any(other.is_owner() for other in others), "one of them is the owner")
        owner, other = sorted(others, key=lambda member: not member.is_owner())
        wait_until(other.stands_by, "the other one stands by")
        expect_equal((owner.is_owner(), other.group()["times_taken"]), (True, 0), "one owner")
        added = set(blocklist()) - set(before)
        other.stop()
        other.start()
        wait_until(other.stands_by, "it has looked at the record of one that stands still")
        check_stays(added)
    wait_until(one.stands_by, "so does the one from before")
    for member in (other, one, owner):
        member.stop()


def hosts_hear_the_truth(scratch):
    """Reservations, what the cluster refuses, and resets, with hosts in raw verbs: test_owned.c."""
    env = dict(scratch.env, RBLK_TEST_RBD=images("raw")[0], RBLK_TEST_RBD_CONF=CLUSTER.conf, CMOCKA_MESSAGE_OUTPUT="TAP",
               RBLKD=RBLKD, SOFTRDMA_LIKE="roce", TMPDIR=scratch.path,
               LD_PRELOAD=os.path.join(BUILD, "softrdma", "libsoftrdma.so"))
    done = run(os.path.join(BUILD, "tests", "ceph", "test_owned"), env=env, check=False)
    expect_equal(len(re.findall(r"^ok \d", done.stdout, re.M)), 3, f"results in {done.stdout}{done.stderr}")


def cut(ports):
    rules = ("add table inet cut\nadd chain inet cut out { type filter hook output priority 0; }\n"
             f"add rule inet cut out meta skgid {CUT_OFF} tcp dport {{ {', '.join(ports)} }} drop\n")
    return subprocess.run(["nft", "-f", "-"], input=rules, text=True, check=False, capture_output=True)


def daemon_ports():
    said = CLUSTER.ceph("osd", "dump").stdout + CLUSTER.ceph("mon", "dump").stdout
    return sorted(set(re.findall(r"v2:127\.0\.0\.1:(\d+)/", said)))


def cut_off(scratch):
    """From the cluster, not from its hosts. Its own clock ends its associations; when the network is back, its client is
    refused, and it stands by as another."""
    one, other = members(scratch, images("cut"), group=CUT_OFF)
    volume = attach(one, other)
    process = begin(scratch, volume)
    ports = daemon_ports()  # a second, on a busy machine
    since = time.monotonic()
    done = cut(ports)
    expect_equal(done.returncode, 0, f"exit status of nft: {done.stderr}")
    try:
        taken_over(other, since)
        check_patience(other)
        wait_until(lambda: one.group()["times_lost"] == 1, "it gives up by itself")
        goes_on(process, volume)
    finally:
        subprocess.run(["nft", "delete", "table", "inet", "cut"], check=True)
    wait_until(one.stands_by, "it stands by")
    wait_until(lambda: volume.answer().get("paths_live") == 2, "both paths are live")
    goes_on(process, volume)
    finish(process, volume)
    one.stop()
    other.stop()


def mistakes(scratch):
    """rblkd --check refuses what could not move."""
    for more, wanted in ((", ceph_state: directory", "keeps reservations from the next owner"),
                         (", shared: true", "several owners at once"), ("", None)):
        config = scratch.file("mistake.yaml")
        with open(config, "w", encoding="utf-8") as f:
            f.write(f"version: 1\ncontroller_ids: {{min: 1, max: 9}}\nportals: [{{name: p, address: 127.0.0.1}}]\n"
                    f"subsystems:\n  - nqn: {NQN}\n    ana_groups: [{{id: 1, owner: lock}}]\n"
                    f"    namespaces: [{{nsid: 1, rbd: rbd/x, ceph_conf: {CLUSTER.conf}{more}}}]\n")
        done = run(RBLKD, "--check", "--config", config, check=False, env=scratch.env)
        expect_equal(done.returncode, CONFIG if wanted else 0, f"exit status of --check: {done.stderr}")
        expect(not wanted or wanted in done.stderr, f"'{wanted}' is not in: {done.stderr}")


def enter():
    """A network namespace of its own, whose packets it may drop; without rights as it is."""
    if os.environ.get("RBLK_OWNER_INSIDE") or subprocess.run(["unshare", "-n", "true"], check=False).returncode:
        return
    os.execvpe("unshare", ["unshare", "-n", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", sys.executable, *sys.argv],
               dict(os.environ, RBLK_OWNER_INSIDE="1"))


def can_cut():
    """Whether packets can be dropped by the group of their socket; never where others have packets, too."""
    if not os.environ.get("RBLK_OWNER_INSIDE"):
        return False
    with contextlib.suppress(FileNotFoundError):
        can = cut(["1"]).returncode == 0
        subprocess.run(["nft", "delete", "table", "inet", "cut"], check=False, capture_output=True)
        return can
    return False


def main():
    if ceph.missing():
        print(f"{ceph.missing()} is not installed: tools/packages ceph")
        sys.exit(77)
    if not os.path.exists(os.path.join(BUILD, "target", "rblk-rbd.so")):
        print("rblk-rbd.so was not built: librbd was not found")
        sys.exit(77)
    enter()
    cases = [stands_by_without_a_watch, given_away, ended, upgraded, not_upgraded, killed, stopped, old_writes_are_over, idle_owner_notices, lock_is_taken_away, race,
             hosts_hear_the_truth, mistakes]
    if can_cut():
        cases.append(cut_off)
    else:
        print("# not run: cut_off, as nft cannot drop packets here")
    wanted = os.environ.get("RBLK_CASES", "").split()
    with CLUSTER:
        with open(CLUSTER.conf, "a", encoding="ascii") as f:
            f.write("[client.rblk]\nmon_osd_blocklist_default_expire = 0\n")  # no hour after a client is over
        run_cases([(f.__name__, f) for f in cases if not wanted or f.__name__ in wanted])


if __name__ == "__main__":
    main()
