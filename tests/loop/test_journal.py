#!/usr/bin/python3
"""When standard error is the journal, each record that is about a host, a namespace, a portal or a
volume has that as a field, so that journalctl can filter by it. A journal that is absent costs the
fields and no record."""

import os
import re
import socket
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from harness import (NQN, PATIENCE, RBLK, Target, Volume, expect, expect_equal, injected, rblk, run,  # noqa: E402
                     run_cases, wait_until)

MIB = 1 << 20


class Journal:
    """A socket in place of journald's. records: what has arrived, as dictionaries."""

    def __init__(self, scratch):
        self.path = scratch.file("journal")
        self.records = []
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.socket.setblocking(False)

    def receive(self):
        while True:
            try:
                datagram = self.socket.recv(65536)
            except BlockingIOError:
                return self.records
            lines = datagram.decode().splitlines()
            record = dict(line.split("=", 1) for line in lines)
            expect_equal(len(record), len(lines), "no field is there twice")
            self.records.append(record)

    def wait_for(self, pattern):
        """The first record with such a message."""
        def find():
            return [r for r in self.receive() if re.search(pattern, r["MESSAGE"])]
        wait_until(find, f"a record '{pattern}', not in {self.records}")
        return find()[0]


def is_journal(scratch, log, journal=None):
    """The environment of a program whose standard error is this file, said to be the journal's."""
    with open(log, "ab") as f:
        st = os.fstat(f.fileno())
    return dict(scratch.env, JOURNAL_STREAM=f"{st.st_dev}:{st.st_ino}",
                RBLK_JOURNAL_SOCKET=journal.path if journal else scratch.file("absent"))


def expect_fields(record, identifier, priority, **about):
    got = {key: value for key, value in record.items() if key != "MESSAGE"}
    wanted = {"SYSLOG_IDENTIFIER": identifier, "PRIORITY": str(priority)}
    wanted.update((f"RBLK_{name.upper()}", str(value)) for name, value in about.items())
    expect_equal(got, wanted, f"fields of '{record['MESSAGE']}'")


def start(scratch, journal, **options):
    path = scratch.make_file("disk.img", 16 * MIB)
    scratch.env = is_journal(scratch, scratch.file("rblkd.log"), journal)
    return Target(scratch, [f"nsid: 1, file: {path}"], **options)


def of_rblkd(scratch):
    """A host that connects, an I/O error, and a host that is refused."""
    journal = Journal(scratch)
    mine, other = "nqn.2026-01.org.example:mine", "nqn.2026-01.org.example:other"
    target = start(scratch, journal, subsystem_extra=f"allow_hosts: ['{mine}']")
    expect_fields(journal.wait_for("^ready, portals 1/1"), "rblkd", 6)
    expect_fields(journal.wait_for("cache: "), "rblkd", 6, subsystem=NQN, nsid=1)
    volume = Volume(target, 1, "v1", "--hostnqn", mine)
    expect_fields(journal.wait_for(": connected to"), "rblkd", 6, subsystem=NQN, host=mine, portal="p")
    with injected(target, "io_submit:error=EIO"):
        run("/usr/bin/python3", "-m", "nbd", "-u", volume.uri, "-c",
            "try:\n    h.pread(4096, 0)\n    assert False\nexcept nbd.Error as e:\n    assert e.errno == 'EIO'\n")
    expect_fields(journal.wait_for("read of .* failed: Input/output error"), "rblkd", 4,
                  subsystem=NQN, nsid=1, host=mine)
    volume.detach()
    expect_fields(journal.wait_for(": disconnected from"), "rblkd", 6, subsystem=NQN, host=mine, portal="p")
    refused = rblk(scratch, "attach", f"{NQN}@{target.address}", "--hostnqn", other, "--frontend", "socket", check=False)
    expect(refused.returncode != 0, "the other host is refused")
    expect_fields(journal.wait_for(": refused at"), "rblkd", 4, subsystem=NQN, host=other, portal="p")
    target.stop()
    lines = [line for line in target.read_log().splitlines() if line.startswith("<")]
    expect_equal(lines, [], "records on standard error")


def of_a_volume(scratch):
    """All records of a volume process are about its volume."""
    target = Target(scratch, ["nsid: 1, null: 16MiB"])
    journal = Journal(scratch)
    log = scratch.file("serve.log")
    env = is_journal(scratch, log, journal)
    with open(log, "ab") as f:
        serve = subprocess.Popen([RBLK, "serve", f"{NQN}@{target.address}", "--ns", "1", "--name", "db"], env=env,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=f, text=True)
    expect(serve.stdout.readline(), "the volume is served")
    target.kill()
    about = {"volume": "db", "subsystem": NQN, "nsid": 1}
    expect_fields(journal.wait_for("; reconnecting$"), "rblk", 4, **about)
    target.start()
    expect_fields(journal.wait_for(": reconnected after"), "rblk", 6, **about)
    serve.terminate()
    expect_equal(serve.wait(PATIENCE), 0, "exit status of rblk serve")
    serve.stdout.close()
    expect(not [r for r in journal.receive() if r.get("RBLK_VOLUME") != "db"], f"all about it: {journal.records}")
    target.stop()


def without_journal(scratch):
    """Every record is a line of standard error, with the priority in front."""
    target = start(scratch, None)
    volume = Volume(target, 1)
    volume.detach()
    target.stop()
    log = target.read_log()
    for text in ("ready, portals 1/1", ": connected to", ": disconnected from", "stopped"):
        expect(re.search(f"^<6>.*{text}", log, re.M), f"'{text}' is not in the log:\n{log}")


run_cases([
    ("rblkd: namespace, host and portal are fields", of_rblkd),
    ("a volume process: the volume is a field of each record", of_a_volume),
    ("without a journal nothing is lost", without_journal),
])
