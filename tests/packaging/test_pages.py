#!/usr/bin/python3
"""The commands of the pages, word by word: README.md and docs/SOFTRDMA.md in a fresh Debian 12 that has only what they
install, the others in programs of other suites.

A block is what Markdown shows as code. Each one is run, unless the line before it is a comment that says why
not: <!-- not run: needs two machines -->. MARKS has the number of these, so one more is a decision.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "tests", "lib"))
import pages  # noqa: E402
MARKS = {"README.md": 3, "docs/SOFTRDMA.md": 5, "docs/SETUP.md": 1, "docs/CEPH.md": 0}
# These take all blocks of a page that are not marked, where services run, and where a cluster is.
ELSEWHERE = {"docs/SETUP.md": "tests/vm/t/setup-page.sh", "docs/CEPH.md": "tests/ceph/test_ceph.py"}
STEP_S = 1500  # far beyond what any step takes
OPTIONAL = ("libsystemd-dev", "libmicrohttpd-dev", "systemtap-sdt-dev", "libcmocka-dev", "scdoc")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LACKING = re.compile(r"^.*(?:not found$|: not found|No such file or directory).*$", re.MULTILINE)
# Mounts and processes end with the command, however that ends.
OWN = ("unshare", "--mount", "--pid", "--fork", "--kill-child")
INSTALLS = ("tools/packages", "apt-get install")


def read(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as f:
        return f.read()


def blocks(page):
    return pages.blocks(read(page), pages.MARKDOWN)


def sources():
    """Lines of sources.list: Debian's own archives, from where this machine has them."""
    if not shutil.which("apt-get"):
        return []
    said = run("apt-get", "indextargets", "Created-By: Packages", "Origin: Debian", "Component: main",
               "--format", "deb $(REPO_URI) $(RELEASE) main")
    return sorted({line for line in said.splitlines() if " bookworm" in line})


class Fresh:
    """A Debian 12 of debootstrap's smallest kind, with the sources of this tree in /root/rblk."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "root")
        self.sources = sources()

    def make(self):
        mirror = next(line.split()[1] for line in self.sources if line.split()[2] == "bookworm")
        run(*OWN, "debootstrap", "--variant=minbase", "bookworm", self.path, mirror)
        self.write("etc/apt/sources.list", "\n".join(self.sources) + "\n")
        self.write("etc/hosts", "127.0.0.1 localhost\n")  # by the installer of a machine, not by debootstrap
        # proxies, and snapshots, which are old
        self.write("etc/apt/apt.conf", "".join(
            line + "\n" for line in run("apt-config", "dump").splitlines()
            if line.startswith(("Acquire::http", "Acquire::Check-Valid-Until"))))
        tree = os.path.join(self.path, "root", "rblk")
        os.mkdir(tree)
        run("sh", "-c", f"git ls-files -z --cached --others --exclude-standard | xargs -0 cp -P --parents -t {tree}")

    def write(self, name, text):
        with open(os.path.join(self.path, name), "w", encoding="utf-8") as f:
            f.write(text)

    def run(self, commands, network=False):
        """As root at a terminal would: each command must succeed. By itself it has only the loopback of a network, so
        that its ports are its own. Returns what it said."""
        said = os.path.join(self.path, "tmp", "said")
        self.write("tmp/commands", f"set -em\ncd /root/rblk\nexec >/tmp/said 2>&1\n{commands}\nwait\n")
        enter = [*OWN, *([] if network else ["--net"])]
        up = "" if network else "ip link set lo up; "
        inside = f"mount -t proc proc {self.path}/proc; {up}exec chroot {self.path} bash /tmp/commands"
        code = subprocess.run([*enter, "sh", "-c", inside], stdin=subprocess.DEVNULL, check=False, timeout=STEP_S,
                              env={"PATH": PATH, "HOME": "/root", "RBLK_IMAGE_MIB": "128"}).returncode
        text = open(said, encoding="utf-8", errors="replace").read()
        expect(code == 0, f"exit status {code} of:\n{commands}\n{text}")
        return text


def expect(is_so, otherwise):
    if not is_so:
        raise AssertionError(otherwise)


def run(*command):
    done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False, timeout=STEP_S)
    expect(done.returncode == 0, f"exit status {done.returncode} of {' '.join(command)}\n{done.stdout}")
    return done.stdout


def block_with(words, page="README.md"):
    """The one block of the page that has these words and is run."""
    found = [text for _, text, reason in blocks(page) if words in text and not reason]
    expect(len(found) == 1, f"{len(found)} blocks of {page} have '{words}' and are run")
    return found[0]


def run_block(fresh, text):
    """First the lines that install, where there is a network; then all of it."""
    for line in text.splitlines():
        if line.strip().startswith(INSTALLS):
            fresh.run(line, network=True)
    said = fresh.run("\n".join(pages.wait_after(line) for line in text.splitlines()))
    return said, [line for line in LACKING.findall(said) if ": left out: " not in line]


# ---- cases ------------------------------------------------------------------------------------


def each_block_is_run_or_marked(fresh):
    for page, n in MARKS.items():
        marked = [line for line, _, reason in blocks(page) if reason]
        expect(len(marked) == n, f"{page} has blocks that are not run in lines {marked}, and not {n}")
        expect(len(pages.MARKDOWN.findall(read(page))) == n, f"{page} has a mark without a block")
    for page, program in ELSEWHERE.items():
        expect(page in read(program), f"{program} does not run {page}")
    in_cases = {block_with("rblkd --config"), block_with("tools/quickstart"), block_with("rping", "docs/SOFTRDMA.md")}
    here = [page for page in MARKS if page not in ELSEWHERE]
    left = {text for page in here for _, text, reason in blocks(page) if not reason} ^ in_cases
    expect(not left, "no case runs these:\n" + "\n".join(left))


def a_fresh_machine(fresh):
    fresh.make()


def by_hand(fresh):
    """Everything is there that the page names or uses, and each command answers what it is there for."""
    said, lacking = run_block(fresh, block_with("rblkd --config"))
    for words in ("left out: cmocka not found", "ready, portals 1/1", "nqn.2026-01.org.example:demo  127.0.0.1:4420",
                  "export-size: 268435456", "live for", "detached demo", "rblkd: stopped"):
        expect(words in said, f"no '{words}' in:\n{said}")
    expect(not lacking, "something is missing:\n" + "\n".join(lacking))


def quickstart(fresh):
    said, _ = run_block(fresh, block_with("tools/quickstart"))
    expect("file system clean" in said, said)


def softrdma_quick_start(fresh):
    said, _ = run_block(fresh, block_with("rping", "docs/SOFTRDMA.md"))
    for words in ("hca_id:\tsoftrdma0", "server DISCONNECT EVENT", "BW peak"):
        expect(words in said, f"no '{words}' in:\n{said}")


def tests_that_come_later(fresh):
    """Packages that are installed after the build do not break it; asked again, meson makes the tests."""
    fresh.run("apt-get install -y --no-install-recommends libcmocka-dev", network=True)
    fresh.run("ninja -C build/release")
    said = fresh.run("meson setup --reconfigure build/release && ninja -C build/release tests/unit/test_addr")
    expect(re.search(r"^ +tests +: yes$", said, re.MULTILINE), said)


def least_that_builds(fresh):
    """Without any of what is optional, the build is smaller, and not broken."""
    fresh.run("dpkg --purge --force-depends " + " ".join(OPTIONAL))
    said = fresh.run("meson setup build/least && ninja -C build/least")
    expect(said.count(": left out: ") == 7, said)


CASES = [each_block_is_run_or_marked, a_fresh_machine, by_hand, quickstart, softrdma_quick_start, tests_that_come_later,
         least_that_builds]


def run_cases(fresh):
    n_failed = 0
    print(f"1..{len(CASES)}", flush=True)
    for i, case in enumerate(CASES, 1):
        try:
            case(fresh)
            print(f"ok {i} - {case.__name__}", flush=True)
        except (AssertionError, OSError, subprocess.SubprocessError) as e:
            n_failed += 1
            print(f"not ok {i} - {case.__name__}\n# " + "\n# ".join(str(e).splitlines()[-40:]), flush=True)
            if case is a_fresh_machine:
                print("Bail out! there is no fresh machine")
                break
    return 1 if n_failed else 0


def main():
    if os.geteuid() or "DEB_BUILD_ARCH" in os.environ:  # a package's build has no network
        sys.exit(print("1..0 # SKIP needs root and Debian's archive"))
    if not shutil.which("debootstrap"):
        sys.exit(print("1..0 # SKIP debootstrap is not installed: tools/packages test"))
    if not any(" bookworm " in line for line in sources()):
        sys.exit(print("1..0 # SKIP apt has no archive of Debian 12 on this machine"))
    os.nice(10)
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(run_cases(Fresh(folder)))


if __name__ == "__main__":
    main()
