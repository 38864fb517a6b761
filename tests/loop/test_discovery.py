#!/usr/bin/python3
"""The output of `rblk discover`: subsystems by host, referrals, the service itself; and its changes."""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from harness import (NQN, RBLKCTL, RBLKD, Target, expect, expect_equal, rblk, run, run_cases)  # noqa: E402

FRIEND = "nqn.2026-01.org.example:friend"
OWN = "nqn.2026-01.org.example:discovery"
ELSEWHERE = "nqn.2026-01.org.example:discovery-2"
WELL_KNOWN = "nqn.2014-08.org.nvmexpress.discovery"
CONFIG = 3


def discover(scratch, target, hostnqn):
    done = rblk(scratch, "discover", target.address, "--hostnqn", hostnqn, "-o", "json")
    log = json.loads(done.stdout)
    return log["generation"], [(r["type"], r["subsystem"], f"{r['address']}:{r['port']}")
                               for r in log["subsystems"]]


def edit(target, before, after):
    with open(target.config, encoding="ascii") as f:
        text = f.read()
    expect(before in text, f"{before!r} is not in the configuration")
    with open(target.config, "w", encoding="ascii") as f:
        f.write(text.replace(before, after))
    run(RBLKCTL, "apply", "--socket", target.control)


def by_host(scratch):
    target = Target(scratch, ["nsid: 1, ram: 16MiB"], subsystem_extra=f"allow_hosts: ['{FRIEND}']")
    expect_equal(discover(scratch, target, FRIEND)[1], [("subsystem", NQN, target.address)], "records")
    expect_equal(discover(scratch, target, "nqn.2026-01.org.example:stranger")[1], [], "records")
    target.stop()


def referrals_and_itself(scratch):
    target = Target(scratch, ["nsid: 1, ram: 16MiB"], extra="discovery: {referrals: [{address: 192.0.2.7}]}")
    subsystem = ("subsystem", NQN, target.address)
    generation, records = discover(scratch, target, FRIEND)
    expect_equal(records, [subsystem, ("referral", WELL_KNOWN, "192.0.2.7:4420")], "records")
    edit(target, "{address: 192.0.2.7}",
         f"{{address: '2001:db8::7', port: 8009, nqn: '{ELSEWHERE}'}}, {{address: 192.0.2.8}}")
    later, records = discover(scratch, target, FRIEND)
    expect_equal(records, [subsystem, ("referral", ELSEWHERE, "2001:db8::7:8009"),
                           ("referral", WELL_KNOWN, "192.0.2.8:4420")], "records after a change")
    expect(later > generation, "the generation counter stands still")
    edit(target, "discovery: {", f"discovery: {{nqn: '{OWN}', ")
    expect_equal(discover(scratch, target, FRIEND)[1][0], ("discovery", OWN, target.address), "first record")
    edit(target, f"nqn: '{OWN}', ", "")
    expect_equal(discover(scratch, target, FRIEND)[1], records, "records after the change was undone")
    target.stop()


def many_records(scratch):
    """More entries than one read of the log returns."""
    referrals = ", ".join(f"{{address: 192.0.2.{i}}}" for i in range(1, 33))
    target = Target(scratch, ["nsid: 1, ram: 16MiB"], extra=f"discovery: {{referrals: [{referrals}]}}")
    records = discover(scratch, target, FRIEND)[1]
    expect_equal([r[2] for r in records[1:]], [f"192.0.2.{i}:4420" for i in range(1, 33)], "referrals")
    target.stop()


def wrong_configurations(scratch):
    for text, words in (("{referrals: [{port: 4420}]}", "address"),
                        ("{referrals: [{address: here}]}", "IPv4 or IPv6"),
                        ("{nqn: nonsense}", "nqn."),
                        (f"{{nqn: '{WELL_KNOWN}'}}", "discovery service's own")):
        path = scratch.file("t.yaml")
        with open(path, "w", encoding="ascii") as f:
            f.write(f"version: 1\nportals: [{{name: p, address: 127.0.0.1}}]\ndiscovery: {text}\n")
        done = run(RBLKD, "--check", "--config", path, check=False)
        expect_equal(done.returncode, CONFIG, done.stderr)
        expect(words in done.stderr, f"the message lacks {words!r}:\n{done.stderr}")


if __name__ == "__main__":
    run_cases([
        ("each host sees what it may use", by_host),
        ("referrals, and the service itself", referrals_and_itself),
        ("more records than fit into one read", many_records),
        ("wrong configurations are named", wrong_configurations),
    ])
