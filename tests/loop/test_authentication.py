#!/usr/bin/python3
"""DH-HMAC-CHAP, by hosts and by targets: right, wrong and missing secrets, each hash and group, a
changed secret, and no secret in any log."""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from harness import (LASTING, NQN, RBLKCTL, RBLKD, Target, Volume, expect, expect_equal, find_key, fio, logs,  # noqa: E402
                     rblk, run, run_cases, start_fio, VERIFY, wait_until)

DENIED, CONFIG, USAGE, BUSY = 8, 3, 2, 5
HOST = "nqn.2014-08.org.nvmexpress:uuid:6f1b3a52-7f0e-4c4e-9d0c-0a4d5e6f7a8b"
HOSTID = "6f1b3a52-7f0e-4c4e-9d0c-0a4d5e6f7a8b"
IDENTITY = ("--hostnqn", HOST, "--hostid", HOSTID)


def make_key(scratch, name, *options):
    path = scratch.file(name)
    run(RBLKCTL, "gen-key", "--file", path, *options)
    return path


def text_of(path):
    with open(path, encoding="ascii") as f:
        return f.read()


def write_keys(path, *texts):
    """Replaces the file in one step, as an administrator should."""
    with open(os.open(path + ".new", os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as f:
        f.writelines(texts)
    os.rename(path + ".new", path)


def hosts(key, extra=""):
    return f"hosts: [{{name: h, nqn: '{HOST}', dhchap_key_file: {key}{extra}}}]"


def start(scratch, key, extra=""):
    return Target(scratch, [f"nsid: 1, ram: 16MiB, {LASTING}"], extra="log: {level: debug}\n" + hosts(key, extra),
                  subsystem_extra="allow_hosts: [h]")


def secret(path):
    return ("--dhchap-secret-file", path)


def ctrl_secret(path):
    return ("--dhchap-ctrl-secret-file", path)


def must_refuse(scratch, target, options, *words, status=DENIED):
    done = rblk(scratch, "attach", f"{NQN}@{target.address}", "--frontend", "socket", *IDENTITY,
                *options, check=False)
    expect_equal(done.returncode, status, "exit status: " + done.stderr)
    for word in words:
        expect(word in done.stderr, f"the message lacks {word!r}:\n{done.stderr}")


def must_end(scratch, target, *keys):
    """Ends in order. Only the files of secrets may contain a secret."""
    target.stop()
    for name, text in logs(scratch):
        for key in keys:
            for line in text_of(key).split():
                expect(line.split(":")[2] not in text, f"a secret is in {name}")


def proven(scratch):
    key, ctrl = make_key(scratch, "host"), make_key(scratch, "ctrl", "--hash", "sha512")
    target = start(scratch, key, f", dhchap_ctrl_key_file: {ctrl}")
    for options in (secret(key), secret(key) + ctrl_secret(ctrl)):
        volume = Volume(target, 1, "v", *IDENTITY, *options, "--queues", "3")
        fio(scratch, volume.uri, "--rw=randwrite", "--bs=4k", "--size=4m", "--iodepth=16",
            "--numjobs=3", "--offset_increment=4m", *VERIFY)
        volume.detach()
    must_end(scratch, target, key, ctrl)


def refused(scratch):
    key, other = make_key(scratch, "host"), make_key(scratch, "other")
    ctrl, bound = make_key(scratch, "ctrl"), make_key(scratch, "bound", "--hash", "sha256")
    target = start(scratch, key, f", dhchap_ctrl_key_file: {ctrl}")
    must_refuse(scratch, target, (), "requires authentication", "--dhchap-secret-file")
    must_refuse(scratch, target, secret(other), "the target refuses us", other)
    must_refuse(scratch, target, secret(bound), "the target refuses us")
    must_refuse(scratch, target, secret(key) + ctrl_secret(other), "the target's response is wrong", other)
    must_refuse(scratch, target, secret(scratch.file("none")), "No such file", status=CONFIG)
    os.chmod(other, 0o644)
    must_refuse(scratch, target, secret(other), "chmod 600", status=CONFIG)
    log = target.read_log()
    for words in (f"host {HOST}: refused at {NQN}", "its response is wrong", "it refuses us"):
        expect(words in log, f"rblkd's log lacks {words!r}:\n{log}")
    expect("connected to" not in log, "a refused host is said to be connected:\n" + log)
    wait_until(lambda: target.status()["connections"] == 0, "refused connections are gone")
    Volume(target, 1, "v", *IDENTITY, *secret(key)).detach()
    must_end(scratch, target, key, other, ctrl, bound)


def target_without_secret(scratch):
    key, ctrl = make_key(scratch, "host"), make_key(scratch, "ctrl")
    target = start(scratch, key)
    must_refuse(scratch, target, secret(key) + ctrl_secret(ctrl), "the target refuses us")
    expect("it wants us to prove ourselves" in target.read_log(), target.read_log())
    must_end(scratch, target, key, ctrl)
    os.unlink(target.log)
    target = Target(scratch, ["nsid: 1, ram: 16MiB"])
    must_refuse(scratch, target, secret(key) + ctrl_secret(ctrl), "does not authenticate")
    Volume(target, 1, "v", *IDENTITY, *secret(key)).detach()
    must_end(scratch, target, key, ctrl)


def each_choice(scratch):
    key, ctrl = make_key(scratch, "host", "--hash", "sha384"), make_key(scratch, "ctrl")
    groups = ("none", "ffdhe2048", "ffdhe3072", "ffdhe4096", "ffdhe6144", "ffdhe8192")
    for hash_name in ("sha256", "sha384", "sha512"):
        for group in groups:
            target = start(scratch, key, f", dhchap_ctrl_key_file: {ctrl}, "
                           f"dhchap_hashes: [{hash_name}], dhchap_dhgroups: [{group}]")
            volume = Volume(target, 1, "v", *IDENTITY, *secret(key), *ctrl_secret(ctrl), "--queues", "1")
            fio(scratch, volume.uri, "--rw=read", "--bs=64k", "--size=256k")
            volume.detach()
            target.stop()


def changed_secret(scratch):
    """While the file has two secrets, hosts with either connect; a volume reads the new one when
    it reconnects, without an error."""
    old, new = make_key(scratch, "old"), make_key(scratch, "new")
    both, mine = scratch.file("both"), scratch.file("mine")
    write_keys(both, "# the new one, and until next week the old one\n", text_of(new), text_of(old))
    write_keys(mine, text_of(old))
    target = start(scratch, both)
    volume = Volume(target, 1, "v", *IDENTITY, *secret(mine))
    expect("second key" in target.read_log(), "the log says which key it was")
    fio(scratch, volume.uri, "--rw=write", "--bs=64k", "--size=1m", *VERIFY)
    write_keys(mine, text_of(new))
    write_keys(both, text_of(new))
    target.kill()
    target.start()
    wait_until(lambda: volume.status()["state"] == "live", "the volume is back")
    fio(scratch, volume.uri, "--rw=write", "--bs=64k", "--size=1m", *VERIFY)
    must_refuse(scratch, target, (*secret(old), "--name", "w", "--ns", "2"), "the target refuses us")
    volume.detach()
    must_end(scratch, target, old, new)


def apply(target):
    run(RBLKCTL, "apply", "--socket", target.control)


def secrets_lost(target):
    """The losses that diff reports for other contents of the files: (key, host, why) of each."""
    report = json.loads(run(RBLKCTL, "diff", "--socket", target.control, "-o", "json").stdout)
    expect_equal([(c["what"], c["name"], c["key"]) for c in report["changes"]], [("host", "h", "secrets")], "changes")
    return [(c["key"], loss["host"], loss["reason"]) for c in report["changes"] for loss in c["losses"]]


def changed_while_it_runs(scratch):
    """rblkctl apply reads the secrets again; a connected host stays connected, under load."""
    old, new = make_key(scratch, "old"), make_key(scratch, "new")
    theirs = scratch.file("theirs")
    write_keys(theirs, text_of(old))
    target = start(scratch, theirs)
    volume = Volume(target, 1, "v", *IDENTITY, *secret(old))
    load = start_fio(scratch, volume.uri, "--rw=randwrite", "--bs=4k", "--size=8m", "--rate_iops=700",
                     *VERIFY)
    wait_until(lambda: find_key(volume.status(), "queues_live") == 1, "fio's queue is live")
    write_keys(theirs, text_of(new), text_of(old))
    expect_equal(secrets_lost(target), [], "both secrets are accepted")
    apply(target)
    write_keys(theirs, text_of(new))
    expect_equal(secrets_lost(target), [("secrets", HOST, "it has proven another secret")], "the old one is gone")
    done = run(RBLKCTL, "apply", "--if-unused", "--socket", target.control, check=False)
    expect_equal(done.returncode, BUSY, "exit status of apply --if-unused: " + done.stderr)
    apply(target)
    out = load.communicate(timeout=600)[0]
    expect_equal(load.returncode, 0, "exit status of fio: " + out[-500:])
    expect_equal(volume.status()["reconnects"], 0, "reconnects")
    volume.detach()
    must_refuse(scratch, target, secret(old), "the target refuses us")
    Volume(target, 1, "v", *IDENTITY, *secret(new)).detach()
    os.chmod(theirs, 0o644)
    done = run(RBLKCTL, "apply", "--socket", target.control, check=False)
    expect_equal(done.returncode, CONFIG, "exit status of apply: " + done.stderr)
    expect("chmod 600" in done.stdout + done.stderr, done.stdout + done.stderr)
    Volume(target, 1, "v", *IDENTITY, *secret(new)).detach()
    must_end(scratch, target, old, new)


def key_given_later(scratch):
    """A host that connected without authentication must authenticate as soon as it has a key."""
    key = make_key(scratch, "host")
    target = Target(scratch, ["nsid: 1, ram: 16MiB", "nsid: 2, ram: 16MiB"],
                    extra=f"hosts: [{{name: h, nqn: '{HOST}'}}]",
                    subsystem_extra="allow_any_host: true")
    volume = Volume(target, 1, "v", *IDENTITY, *secret(key))
    stranger = Volume(target, 2, "s", "--hostnqn", "nqn.2026-01.org.example:other", "--hostid",
                      "6f1b3a52-7f0e-4c4e-9d0c-000000000001")
    with open(target.config, encoding="ascii") as f:
        text = f.read()
    with open(target.config, "w", encoding="ascii") as f:
        f.write(text.replace(f"nqn: '{HOST}'", f"nqn: '{HOST}', dhchap_key_file: {key}"))
    apply(target)
    wait_until(lambda: volume.status()["reconnects"] == 1 and volume.status()["state"] == "live",
               "the volume has proven itself")
    expect_equal(stranger.status()["reconnects"], 0, "reconnects of a host without a key")
    expect("it must prove" in target.read_log(), target.read_log())
    stranger.detach()
    volume.detach()
    must_end(scratch, target, key)


def wrong_configurations(scratch):
    key = make_key(scratch, "host")
    for text, words in (
            (hosts(scratch.file("none")), ("No such file",)),
            (hosts("relative"), ("absolute path",)),
            (hosts(key, ", dhchap_hashes: [md5]"), ("md5", "sha256")),
            (hosts(key, ", dhchap_dhgroups: [ffdhe2048, ffdhe2048]"), ("twice",)),
            (f"hosts: [{{name: h, nqn: '{HOST}', dhchap_ctrl_key_file: {key}}}]", ("needs dhchap_key_file",))):
        path = scratch.file("t.yaml")
        with open(path, "w", encoding="ascii") as f:
            f.write(f"version: 1\nportals: [{{name: p, address: 127.0.0.1}}]\n{text}\n")
        done = run(RBLKD, "--check", "--config", path, check=False)
        expect_equal(done.returncode, CONFIG, done.stderr)
        for word in words:
            expect(word in done.stderr, f"the message lacks {word!r}:\n{done.stderr}")
    expect_equal(run(RBLKCTL, "gen-key", "--file", key, check=False).returncode, BUSY,
                 "a secret is never overwritten")
    done = rblk(scratch, "attach", f"{NQN}@127.0.0.1", *ctrl_secret(key), check=False)
    expect_equal(done.returncode, USAGE, done.stderr)


if __name__ == "__main__":
    run_cases([
        ("host and target prove their identity", proven),
        ("wrong and missing secrets are refused, with the reason on both sides", refused),
        ("a target that cannot prove itself is refused", target_without_secret),
        ("each hash and each group", each_choice),
        ("a secret is changed without a break", changed_secret),
        ("a secret is changed while rblkd runs", changed_while_it_runs),
        ("a host that is given a key must prove itself", key_given_later),
        ("wrong configurations are named", wrong_configurations),
    ])
