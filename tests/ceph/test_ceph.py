#!/usr/bin/python3
"""Images of a real Ceph cluster behind rblkd: data, sizes, errors, and what the cluster does to them."""

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import textwrap

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "lib"), os.path.join(HERE, "..", "packaging")]
import cluster as ceph  # noqa: E402
from harness import (BUILD, NQN, PATIENCE, RBLKCTL, RBLKD, VERIFY, Target, Volume, ask, expect, expect_equal,  # noqa: E402
                     find_key, fio, free_port, run, run_cases, start_fio, wait_until, with_fabric)
from quickstart import Quickstart  # noqa: E402
from test_pages import blocks  # noqa: E402

MIB = 1 << 20
PARTIAL, CONFIG, BUSY = 6, 3, 5
CLUSTER = ceph.Cluster()


def namespace(nsid, image, conf=None, more=""):
    return f"nsid: {nsid}, rbd: {image}, ceph_conf: {conf or CLUSTER.conf}{more}"


def ctl(target, *arguments, status=0):
    done = run(RBLKCTL, *arguments, check=False,
               env=dict(target.scratch.env, RBLK_CONTROL_SOCKET=target.control))
    expect_equal(done.returncode, status, f"exit status of rblkctl {arguments}: {done.stderr}")
    return done


def export_size(volume):
    return find_key(json.loads(run("nbdinfo", "--json", volume.uri, env=volume.scratch.env).stdout), "export-size")


def other_conf(scratch, name, **changes):
    """The cluster's configuration with some keys changed, or added."""
    with open(CLUSTER.conf, encoding="utf-8") as f:
        text = f.read()
    for key, value in changes.items():
        text = re.sub(rf"^{key} = .*\n", "", text, flags=re.M) + f"{key} = {value}\n"
    with open(scratch.file(name), "w", encoding="utf-8") as f:
        f.write(text)
    return scratch.file(name)


def no_cluster(scratch, seconds):
    port = ceph.free_port()
    return other_conf(scratch, "none.conf", mon_host=f"[v2:127.0.0.1:{port}/0]", client_mount_timeout=seconds)


# ---- cases --------------------------------------------------------------------------------------

def conforms(scratch):
    """The exercise that files and devices pass, and what only images do: test_image.c."""
    image = CLUSTER.image("rbd/conform", "8M")
    env = dict(scratch.env, RBLK_TEST_RBD=image, RBLK_TEST_RBD_CONF=CLUSTER.conf, CMOCKA_MESSAGE_OUTPUT="TAP",
               RBLK_PLUGINS=os.path.join(BUILD, "target"))
    done = run(os.path.join(BUILD, "tests", "ceph", "test_image"), env=env)
    expect_equal(len(re.findall(r"^ok \d", done.stdout, re.M)), 5, f"results in {done.stdout}")


def state_objects():
    names = CLUSTER.run("rados", "-c", CLUSTER.conf, "-p", "rbd", "ls").stdout.split()
    return {name for name in names if name.startswith("rblk.state.")}


def gateways_share_reservations(scratch):
    """Two rblkd on one image, with hosts in raw verbs: test_state.c. Then one that keeps them to itself."""
    image = CLUSTER.image("rbd/state", "8M")
    env = dict(scratch.env, RBLK_TEST_RBD=image, RBLK_TEST_RBD_CONF=CLUSTER.conf, CMOCKA_MESSAGE_OUTPUT="TAP",
               RBLK_TEST_OSD=str(CLUSTER.daemons["osd.0"].pid), RBLKD=RBLKD, SOFTRDMA_LIKE="roce",
               TMPDIR=scratch.path, LD_PRELOAD=os.path.join(BUILD, "softrdma", "libsoftrdma.so"))
    before = state_objects()
    done = run(os.path.join(BUILD, "tests", "ceph", "test_state"), env=env)
    expect_equal(len(re.findall(r"^ok \d", done.stdout, re.M)), 11, f"results in {done.stdout}")
    kept, = state_objects() - before
    place, other = f"rbd/{kept}", CLUSTER.image("rbd/other", "8M")
    target = Target(scratch, [namespace(1, image), namespace(2, other, more=", ceph_state: directory")])
    stores = target.status()["stores"]
    expect_equal([(s["state_store"], s["state_shared"], s["state_error"]) for s in stores],
                 [(place, True, None), (None, False, None)], "where reservations are kept")
    text = ctl(target, "status").stdout
    expect("\nrbd: reservations are in rbd/rblk.state.* (1 namespace)\n" in text, text)
    expect("\nrbd: reservations end with rblkd: no state_directory (1 namespace)\n" in text, text)
    target.stop()
    folder = scratch.file("kept")
    os.mkdir(folder)
    target = Target(scratch, [namespace(1, image, more=", ceph_state: directory")], extra=f"state_directory: {folder}")
    expect(f"\nrbd: reservations are in {folder} (1 namespace)\n" in ctl(target, "status").stdout, "the directory")
    target.stop()
    CLUSTER.run("rados", "-c", CLUSTER.conf, "-p", "rbd", "setomapval", kept, "guard#", "1")
    said = start_fails(scratch, [namespace(1, image)], CONFIG)
    expect(f"{image}: {place} is damaged: it has the reservations; remove that object of the pool (rados rm)" in said,
           said)


def digest(*command, env):
    """SHA-256 of what the command writes to its standard output."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=env) as process:
        sha = hashlib.sha256()
        for piece in iter(lambda: process.stdout.read(MIB), b""):
            sha.update(piece)
    expect_equal(process.returncode, 0, f"exit status of {command}")
    return sha.hexdigest()


def data_is_in_the_image(scratch):
    """Also with two namespaces of one cluster, which share its connection; one in a RADOS namespace."""
    CLUSTER.rbd("namespace", "create", "rbd/space")
    images = [CLUSTER.image("rbd/data"), CLUSTER.image("rbd/space/data", "32M")]
    target = Target(scratch, [namespace(i + 1, image) for i, image in enumerate(images)])
    for nsid, image in enumerate(images, 1):
        volume = Volume(target, nsid)
        fio(scratch, volume.uri, "--rw=randwrite", "--bsrange=4k-256k", "--iodepth=16", "--size=24m", *VERIFY)
        ours = digest("nbdcopy", volume.uri, "-", env=scratch.env)
        volume.detach()
        theirs = digest("rbd", "-c", CLUSTER.conf, "export", "--no-progress", image, "-", env=scratch.env)
        expect_equal(ours, theirs, f"wrong data: digests of {image}")
    target.stop()


def resize_reaches_hosts(scratch):
    """By rbd resize alone, larger and smaller, while fio works below."""
    image = CLUSTER.image("rbd/resized", "32M")
    target = Target(scratch, [namespace(1, image)])
    volume = Volume(target, 1)
    job = start_fio(scratch, volume.uri, "--rw=randwrite", "--bs=4k", "--iodepth=16", "--size=8m",
                    "--loops=1000", "--verify_backlog=64", *VERIFY)
    wait_until(lambda: target.list("namespaces")["namespaces"][0]["writes"] > 0, "fio writes")
    for size in (48, 16, 40):
        CLUSTER.rbd("resize", "--allow-shrink", "--size", f"{size}M", image)
        wait_until(lambda: target.list("namespaces")["namespaces"][0]["size_bytes"] == size * MIB, "rblkd follows")
        if size > 16:
            wait_until(lambda: export_size(volume) == size * MIB, "the host follows")
        expect(job.poll() is None, f"fio ended at {size} MiB")
    expect("its store went from 48MiB to 16MiB" in target.read_log(), "the log names the sizes")
    job.send_signal(signal.SIGINT)
    text, _ = job.communicate()
    expect("verify" not in text and "error" not in text, text)
    refused = ctl(target, "ns", "resize", NQN, "1", "64MiB", status=1)
    expect("change it with rbd resize" in refused.stderr, refused.stderr)
    volume.detach()
    target.stop()


def mistakes(scratch):
    """Namespaces that cannot be exported, and what the line of each says."""
    CLUSTER.image("rbd/locked")
    CLUSTER.rbd("lock", "add", "rbd/locked", "by-hand")
    CLUSTER.image("rbd/journal", "8M", "--image-feature", "exclusive-lock,journaling")
    CLUSTER.image("rbd/cached", "8M")
    CLUSTER.rbd("config", "image", "set", "rbd/cached", "rbd_cache", "true")
    CLUSTER.image("rbd/odd", "5000B")
    CLUSTER.image("rbd/open", "8M", "--image-feature", "layering")
    CLUSTER.ceph("auth", "get-or-create", "client.weak", "mon", "allow r", "-o", scratch.file("weak.keyring"))
    empty = scratch.make_file("empty.keyring", 0)
    weak = other_conf(scratch, "weak.conf", keyring=scratch.file("weak.keyring"))
    keyless = other_conf(scratch, "keyless.conf", keyring="/nowhere/keyring")
    refused = other_conf(scratch, "refused.conf", keyring=empty)
    return (
        (namespace(1, "rbd/nothing"), "rbd/nothing: there is no such image (rbd ls rbd)"),
        (namespace(2, "nowhere/image"), "nowhere/image: there is no pool 'nowhere'"),
        (namespace(3, "rbd/locked"), "rbd/locked: is locked by client."),
        (namespace(4, "rbd/journal"), "rbd/journal: has the feature journaling"),
        (namespace(5, "rbd/cached"), "rbd/cached: its own configuration, or the pool's, has rbd_cache"),
        (namespace(6, "rbd/odd"), "rbd/odd: 5000 bytes is not a multiple of block_size 512"),
        (namespace(7, "rbd/weak", weak, ", ceph_user: weak"), "client.weak"),
        (namespace(8, "rbd/keyless", keyless), "there is no key of client.rblk"),
        (namespace(9, "rbd/refused", refused), "the cluster refuses client.rblk: its key"),
        (namespace(10, "rbd/open"), "rbd/open: has no exclusive-lock, so any other client could write to it: "
                                    "rbd feature enable rbd/open exclusive-lock"),
        (namespace(11, "rbd/absent", no_cluster(scratch, 3)), "there is no cluster: no monitor answers within 3 s"),
    )


def start_fails(scratch, lines, status):
    """rblkd does not start with these namespaces; returns what it says."""
    config = scratch.file("wrong.yaml")
    with open(config, "w", encoding="utf-8") as f:
        f.write(f"version: 1\nportals:\n  - {{name: p, address: 127.0.0.1, port: {ceph.free_port()}}}\n"
                f"subsystems:\n  - nqn: {NQN}\n    allow_any_host: true\n    namespaces:\n")
        f.writelines(f"      - {{{line}}}\n" for line in lines)
    done = run(RBLKD, "--config", config, check=False, env=scratch.env)
    expect_equal(done.returncode, status, f"exit status of rblkd: {done.stderr}")
    return done.stderr


def errors_are_clear(scratch):
    """One start names all of them, each with one line at its place; the opens wait side by side."""
    table = mistakes(scratch)
    said = start_fails(scratch, [line for line, _ in table], CONFIG)
    lines = [line for line in said.splitlines() if "error:" in line]
    for number, (_, words) in enumerate(table, 8):
        found = [line for line in lines if f"wrong.yaml:{number}:" in line]
        expect_equal(len(found), 1, f"errors at line {number} of {said}")
        expect(words in found[0], f"{words!r} is not in {found[0]!r}")
    expect_equal(len(lines), len(table), f"errors of {said}")
    start_fails(scratch, [namespace(1, "rbd/locked")], BUSY)
    for name, words in (("rbd/a@b", "is a snapshot"), ("image", "is no POOL/IMAGE"), ("a/b/c/d", "is no POOL/IMAGE")):
        said = start_fails(scratch, [namespace(1, name)], CONFIG)
        expect(words in said, said)
    said = start_fails(scratch, [namespace(1, "rbd/x", "/nowhere/ceph.conf")], CONFIG)
    expect("/nowhere/ceph.conf: cannot be read" in said, said)


def start_says_what_it_waits_for(scratch):
    """While no monitor answers, the log has a line; the configuration has the image, and the line names it."""
    config, log = scratch.file("waits.yaml"), scratch.file("waits.log")
    with open(config, "w", encoding="utf-8") as f:
        f.write(f"version: 1\nportals: [{{name: p, address: 127.0.0.1, port: {free_port()}}}]\nsubsystems:\n"
                f"  - nqn: {NQN}\n    namespaces: [{{{namespace(1, 'rbd/absent', no_cluster(scratch, 600))}}}]\n")
    with open(log, "w", encoding="utf-8") as f, subprocess.Popen([RBLKD, "--config", config], env=scratch.env, stderr=f,
                                                                 stdin=subprocess.DEVNULL) as rblkd:
        wait_until(lambda: rblkd.poll() is not None or "rbd/absent: waiting for its cluster" in open(log, encoding="utf-8").read(),
                   "it says so")
        expect_equal(rblkd.poll(), None, "exit status of rblkd")
        rblkd.kill()


def control_answers_while_images_open(scratch):
    """apply with an image of a cluster that is away, then with one that is there; SIGHUP the same."""
    images = [CLUSTER.image(f"rbd/later{i}", "16M") for i in range(2)]
    target = Target(scratch, ["nsid: 1, ram: 1MiB"])
    with open(target.config, encoding="utf-8") as f:
        first = f.read()

    def write(*lines):
        with open(target.config, "w", encoding="utf-8") as f:
            f.write(first + "".join(f"      - {{{line}}}\n" for line in lines))

    write(namespace(2, "rbd/absent", no_cluster(scratch, 4)))
    apply = subprocess.Popen([RBLKCTL, "apply", "--socket", target.control], env=scratch.env,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    n_answers = 0
    while apply.poll() is None:
        target.status()
        n_answers += apply.poll() is None
    text = apply.communicate()[0]
    expect_equal(apply.returncode, CONFIG, f"exit status of apply: {text}")
    expect("there is no cluster" in text and n_answers >= 2, f"{n_answers} answers meanwhile; {text}")
    write(namespace(2, images[0]))
    ctl(target, "apply")
    write(namespace(2, images[0]), namespace(3, images[1]))
    target.process.send_signal(signal.SIGHUP)
    wait_until(lambda: len(target.list("namespaces")["namespaces"]) == 3, "SIGHUP is applied")
    for nsid in (2, 3):
        volume = Volume(target, nsid)
        fio(scratch, volume.uri, "--rw=randwrite", "--bs=16k", "--iodepth=8", "--size=4m", *VERIFY)
        volume.detach()
    write()
    ctl(target, "apply")
    wait_until(lambda: not CLUSTER.watchers(images[0]), "a removed image is closed")
    target.stop()


def lost_watches():
    """How often clients that live have lost their watch of an image, by the log of librbd."""
    with open(CLUSTER.file("client.rblk.log"), encoding="utf-8", errors="replace") as f:
        return f.read().count("image watch failed")


def one_gateway_writes(scratch):
    """While one rblkd has the lock, another is refused. Where both share an image, neither says that it is alone."""
    image, shared = CLUSTER.image("rbd/alone", "8M"), CLUSTER.image("rbd/shared", "8M", "--image-feature", "layering")
    target = Target(scratch, [namespace(1, image)])
    expect_equal(target.status()["fencing"]["level"], "exact", "fencing with the lock")
    expect_equal(target.status()["fencing"]["by"], "lock", "how that is known")
    n_lost = lost_watches()
    said = start_fails(scratch, [namespace(1, image)], BUSY)
    expect(f"{image}: is locked by client." in said, said)
    expect_equal(lost_watches(), n_lost, "times that the cluster has forgotten it meanwhile")
    target.stop()
    target = Target(scratch, [namespace(1, shared, more=", shared: true"), namespace(2, image)])
    fencing = target.status()["fencing"]
    expect_equal(fencing["level"], "none", "fencing without the lock")
    expect("another rblkd may write to namespace 1" in fencing["subsystems"][0]["why"], fencing)
    target.stop()


def killed_rblkd_comes_back(scratch):
    """The next rblkd waits until the cluster has forgotten the dead one, whose lock it takes."""
    image = CLUSTER.image("rbd/exclusive", "32M")
    target = Target(scratch, [namespace(1, image)])
    volume = Volume(target, 1)
    job = start_fio(scratch, volume.uri, "--rw=randwrite", "--bs=4k", "--iodepth=16", "--size=24m",
                    "--verify_backlog=256", *VERIFY)
    wait_until(lambda: target.list("namespaces")["namespaces"][0]["writes"] > 100, "fio writes")
    target.kill()
    target.start()
    text, _ = job.communicate()
    expect_equal(job.returncode, 0, f"exit status of fio: {text}")
    volume.detach()
    target.stop()


def hung_osd_is_waited_for(scratch):
    """No error and no wrong byte; rblkd answers meanwhile."""
    image = CLUSTER.image("rbd/hung", "32M")
    target = Target(scratch, [namespace(1, image)])
    volume = Volume(target, 1)
    job = start_fio(scratch, volume.uri, "--rw=randwrite", "--bs=4k", "--iodepth=16", "--size=16m",
                    "--verify_backlog=256", *VERIFY)
    wait_until(lambda: target.list("namespaces")["namespaces"][0]["writes"] > 100, "fio writes")
    with CLUSTER.hung("osd.0"):
        def writes():
            return target.list("namespaces")["namespaces"][0]["writes"]

        def stands():
            before = writes()
            wait_until(lambda: target.status()["state"] == "ok", "rblkd answers")
            return writes() == before
        wait_until(stands, "I/O stands")
        expect(job.poll() is None, "fio ended")
    text, _ = job.communicate()
    expect_equal(job.returncode, 0, f"exit status of fio: {text}")
    expect_equal(target.list("namespaces")["namespaces"][0]["errors"], 0, "errors")
    volume.detach()
    target.stop()


def status_has_the_health(scratch):
    """A monitor that hangs is a problem that status shows; I/O goes on without it."""
    image = CLUSTER.image("rbd/health", "16M")
    target = Target(scratch, [namespace(1, image), "nsid: 2, ram: 1MiB"])
    volume = Volume(target, 1)

    def store():
        stores = target.status()["stores"]
        expect_equal([s["nsid"] for s in stores], [1], "stores with a health")
        return stores[0]

    wait_until(lambda: store()["health"] == "HEALTH_OK", "health")
    expect("\nrbd: HEALTH_OK (1 namespace)\n" in ctl(target, "status").stdout, "status in words")
    with CLUSTER.hung("mon.m0"):
        wait_until(lambda: not store()["serving"], "the monitor is missed")
        expect(store()["health"].startswith("unreachable: no monitor answers within"), store())
        expect_equal(target.status()["state"], "degraded", "state")
        ctl(target, "status", status=PARTIAL)
        fio(scratch, volume.uri, "--rw=randwrite", "--bs=4k", "--iodepth=8", "--size=2m", *VERIFY)
    wait_until(lambda: target.status()["state"] == "ok", "health is back")
    volume.detach()
    target.stop()


def killed_osd_is_a_hiccup(scratch):
    """One OSD of three, each with a copy, ends by kill -9 under fio verify."""
    with ceph.Cluster(osds=3) as three:
        image = three.image("rbd/image", "32M")
        target = Target(scratch, [namespace(1, image, three.conf)])
        volume = Volume(target, 1)
        job = start_fio(scratch, volume.uri, "--rw=randwrite", "--bs=4k", "--iodepth=16", "--size=16m",
                        "--verify_backlog=256", *VERIFY)
        wait_until(lambda: target.list("namespaces")["namespaces"][0]["writes"] > 100, "fio writes")
        three.kill("osd.1")
        text, _ = job.communicate()
        expect_equal(job.returncode, 0, f"exit status of fio: {text}")
        wait_until(lambda: target.status()["stores"][0]["health"].startswith("HEALTH_WARN: "), "health")
        expect_equal(target.status()["state"], "ok", "a warning of the cluster is no problem of rblkd")
        volume.detach()
        target.stop()


QUICKSTART_ENDS = re.compile(
    r"ceph +randread 4k qd32 .*\n\ngateway: killed with -9 under fio, and a second one took the image over\n"
    r"  I/O stood still for (\d+\.\d) s, then went on; 1536 blocks verified, no error\n.*\n"
    r"image: the same by rbd and by rblk; all of it in \d+ s\n$")


def quickstart(scratch):
    """It has a cluster of its own, kills its gateway, and a second one takes over."""
    said = Quickstart(scratch, "--ceph", image_mib=32).ends()
    end = QUICKSTART_ENDS.search(said)
    expect(end and float(end.group(1)) > 0, said)
    long = [line for line in said.splitlines() if len(line) > 80]
    expect(not long, f"lines that do not fit a terminal: {long}")


def interrupted_quickstart(scratch):
    """While its gateway is killed, and another one takes the image over."""
    script = Quickstart(scratch, "--ceph", image_mib=32)
    wait_until(lambda: script.goes_on() and "kill -9 of its gateway" in script.said(), "the gateway is about to be killed", 3 * PATIENCE)
    script.interrupt()


FRESH_MACHINE = """set -eux
mkdir -p /etc/ceph && mount -t tmpfs none /etc/ceph
for file in passwd group; do cp /etc/$file {scratch} && mount --bind {scratch}/$file /etc/$file; done
getent group rblk || echo rblk:x:64444: >>/etc/group
getent passwd rblk || echo rblk:x:64444:64444::/:/bin/sh >>/etc/passwd
ceph -c {conf} config generate-minimal-conf | tee /etc/ceph/ceph.conf >/etc/ceph/other.conf
cp {keyring} /etc/ceph/ceph.client.admin.keyring
ceph auth rm client.rblk
ceph auth get-or-create client.gateway mon 'profile rbd' osd 'profile rbd' -o /etc/ceph/other.client.gateway.keyring
"""
TEAM = "rbd namespace create rbd/team && rbd create --size 64M --image-feature layering,exclusive-lock rbd/team/db2\n"
TWO_GATEWAYS = """trap 'kill $(jobs -p) && wait' EXIT
export PATH=$PATH:{tools} RBLK_CONTROL_SOCKET={folder}/left.sock
until_it_is() {{ until rblkctl group list --socket {folder}/$1.sock -o json | grep -q "$2"; do sleep 0.1; done; }}
{rblkd} --config {folder}/left.yaml &
until_it_is left '"state": *"owner"'
{rblkd} --config {folder}/right.yaml &
until_it_is right 'in use by another rblkd'
"""


A_FENCED_CLIENT = r"""
id=$(rbd info rbd/db1 | sed -n "s/^[[:space:]]*id: //p") address=1.2.3.4:0/5
rados -p rbd setomapval rblk.state.$id fenced#$address x
ceph osd blocklist add $address
"""
IT_IS_GONE = """
[ -z "$(ceph osd blocklist ls | grep $address)$(rados -p rbd listomapkeys rblk.state.$id | grep fenced)" ]
"""


def page_blocks():
    commands, *others = (text for _, text, reason in blocks("docs/CEPH.md") if not reason)
    return re.sub(r"^ *apt install .*\n", "", commands, flags=re.M), *others


def fresh_machine(scratch):
    return FRESH_MACHINE.format(scratch=scratch.path, conf=CLUSTER.conf, keyring=CLUSTER.file("keyring"))


def two_gateways_of_the_page(scratch):
    """The second part of docs/CEPH.md that is code: the configuration of two gateways, then the commands at the first, and
    those about clients that were fenced."""
    commands, _, gateways, moves, rights, removal = page_blocks()
    for name, text in (("left", gateways), ("right", re.sub(r"^( *controller_ids: ).*at the second: (.*)$", r"\1\2",
                                                            gateways, flags=re.M))):
        with open(scratch.file(f"{name}.yaml"), "w", encoding="utf-8") as f:
            f.write(f"version: 1\ncontrol_socket: {scratch.file(name + '.sock')}\n"
                    f"portals: [{{name: p, address: 127.0.0.1, port: {free_port()}}}]\n{textwrap.dedent(text)}\n")
    script = fresh_machine(scratch) + "rbd rm --no-progress rbd/db1\n" + commands + "\n" + TWO_GATEWAYS.format(
        folder=scratch.path, rblkd=RBLKD, tools=os.path.dirname(RBLKCTL)) + moves + "\nuntil_it_is right '\"owner\"'\n" + \
        rights + A_FENCED_CLIENT + removal.replace("state.ID", "state.$id").replace("ADDRESS", "$address") + IT_IS_GONE
    done = run("unshare", "--mount", "bash", "-c", script, env=with_fabric(scratch.env), check=False, timeout=4 * PATIENCE)
    expect_equal(done.returncode, 0, f"exit status: {done.stdout}{done.stderr}")
    expect("group 1: given away, another process has its stores" in done.stdout, done.stdout)


def the_page_is_true(scratch):
    """The commands of docs/CEPH.md, word by word but for what they install, where the cluster is known by /etc/ceph;
    then its configuration. Near the end: the cluster's user has another key afterwards."""
    commands, subsystems, *_ = page_blocks()
    control, config, port = scratch.file("page.sock"), scratch.file("page.yaml"), free_port()
    with open(config, "w", encoding="utf-8") as f:
        f.write(f"version: 1\ncontrol_socket: {control}\nportals: [{{name: p, address: 127.0.0.1, port: {port}}}]\n"
                + textwrap.dedent(subsystems) + "\n")
    script = fresh_machine(scratch) + TEAM + commands + \
        f"\nsetpriv --reuid rblk --regid rblk --clear-groups cat /etc/ceph/ceph.client.rblk.keyring\n" \
        f"exec {RBLKD} --config {config}\n"
    with open(scratch.file("page.log"), "w", encoding="utf-8") as log:
        gateway = subprocess.Popen(["unshare", "--mount", "bash", "-c", script], env=with_fabric(scratch.env), stdout=log,
                                   stderr=log, stdin=subprocess.DEVNULL)
    try:
        wait_until(lambda: gateway.poll() is not None or (ask(control, "status") or {}).get("state") == "ok", "rblkd is ready")
        expect(gateway.poll() is None, open(scratch.file("page.log"), encoding="utf-8").read())
        status = ask(control, "status")
        expect_equal([o["by"] for o in status["fencing"]["subsystems"]], ["lock"], "it has the locks")
        expect_equal(status["namespaces"], 2, "namespaces")
    finally:
        gateway.terminate()
    expect_equal(gateway.wait(PATIENCE), 0, "exit status of rblkd")


def main():
    if ceph.missing():
        print(f"{ceph.missing()} is not installed: tools/packages ceph")
        sys.exit(77)
    if not os.path.exists(os.path.join(BUILD, "target", "rblk-rbd.so")):
        print("rblk-rbd.so was not built: librbd was not found")
        sys.exit(77)
    with CLUSTER:
        run_cases([(f.__name__, f) for f in (
            conforms, gateways_share_reservations, data_is_in_the_image, resize_reaches_hosts, errors_are_clear, start_says_what_it_waits_for, control_answers_while_images_open,
            one_gateway_writes, killed_rblkd_comes_back, hung_osd_is_waited_for, status_has_the_health, killed_osd_is_a_hiccup, quickstart,
            interrupted_quickstart, the_page_is_true, two_gateways_of_the_page)])


if __name__ == "__main__":
    main()
