"""The suites that a change touches: tests/run --changed."""

import subprocess

from program import ROOT

# The longest path that a file begins with decides; tests/lint/suites.py holds the table complete. ALL: the gate.
# A suite that is only in the deep run stands here for its own files alone: a machine takes longer than the gate.
ALL = "*"
TOUCHES = {
    "base/": ALL,
    "transport/": ALL,
    "native/": ALL,
    "meson.build": ALL,
    "meson_options.txt": ALL,
    "softrdma/": "lint unit transport softrdma raw",
    "softrdma/cm/": "lint unit transport softrdma raw initiator",
    "target/": "lint unit raw storm failnth initiator loop library",
    "target/config/": "lint unit raw loop",
    "initiator/": "lint unit failnth initiator nbd loop library",
    "library/": "lint loop library",
    "nbd_bridge/": "lint unit failnth nbd loop",
    "tools/": "lint loop",
    "tools/rblk/": "lint failnth nbd loop library",
    "tools/rblkctl/": "lint loop",
    "tools/shared/": "lint nbd loop",
    "tools/fio/": "lint loop library",
    "tools/nbdkit/": "lint loop library",
    "tools/python/": "lint library",
    "tools/bench/": "lint bench",
    "tools/ceph/": "lint ceph",
    "tools/deb": "lint packaging",
    "tools/packages": "lint packaging",
    "tools/rpm/": "lint packaging",
    "tools/systemd/": "lint loop packaging",
    "debian/": "packaging",
    "docs/": "lint",
    "docs/man/": "lint loop",
    "docs/examples/": "lint loop",
    "docs/HACKING.md": "lint recipes",
    "README.md": "lint packaging",
    "docs/SOFTRDMA.md": "lint packaging",
    "CHANGELOG.md": "lint",
    "CONTRIBUTING.md": "lint",
    "LICENSE": "lint packaging",
    ".ci/": "lint",
    ".clang-format": "lint",
    ".editorconfig": "",
    ".gitignore": "",
    "tests/": "lint",
    "tests/lib/": "lint nbd loop library failnth initiator bench",
    "tests/lib/page_machine.py": "lint loop",
    "tests/lib/pages.py": "lint loop packaging",
    "tests/bench/": "lint bench",
    "tests/ceph/": "lint ceph",
    "tests/failnth/": "lint failnth",
    "tests/fuzz/": "lint unit",
    "tests/hostile_target/": "lint initiator library",
    "tests/library/": "lint library",
    "tests/loop/": "lint loop",
    "tests/loop/initiator/": "lint initiator",
    "tests/nbd/": "lint nbd",
    "tests/packaging/": "lint packaging",
    "tests/raw/": "lint raw storm failnth",
    "tests/recipes/": "lint recipes",
    "tests/busy": "lint",
    "tests/mutants": "lint runner",
    "tests/mutations/": "lint",
    "tests/run": "lint runner",
    "tests/steady": "lint",
    "tests/runner/": "lint runner",
    "tests/softrdma/": "lint softrdma",
    "tests/storm/": "lint storm",
    "tests/transport/": "lint transport",
    "tests/unit/": "lint unit ceph",
    "tests/vm/": "lint vm",
}


def row_of(path):
    """The row of the table that decides on this file, or None."""
    return max((row for row in TOUCHES if path == row or row.endswith("/") and path.startswith(row)), key=len, default=None)


def git(*arguments):
    done = subprocess.run(["git", *arguments, "-z"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return [name for name in done.stdout.split("\0") if name]


def changed_files(commit):
    """Those that differ from this commit, new ones with them."""
    return sorted(set(git("diff", "--name-only", commit) + git("ls-files", "--others", "--exclude-standard")))


def suites(commit, gate_suites):
    """The suites for what has changed since this commit."""
    found = set()
    for path in changed_files(commit):
        row = row_of(path)
        touched = TOUCHES[row] if row else ALL
        found |= set(gate_suites if touched == ALL else touched.split())
    return sorted(found)
