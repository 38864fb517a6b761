#!/usr/bin/python3
"""The manual pages: each option of a program is in its page, each option of a page is one of its program, and the
examples, word by word, do what they say, on a machine that has what they name (tests/lib/page_machine.py)."""

import os
import re
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import page_machine  # noqa: E402
import pages  # noqa: E402
from harness import (BUILD, IS_SANITIZED, LASTING, PATIENCE, RBLK, RBLKCTL, RBLKD, SANITIZER_REPORT, Target, expect,  # noqa: E402
                     expect_equal, keep_registrant, run, run_cases)

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
MANUALS = os.path.join(ROOT, "docs", "man")
STANDARD = {"help", "version"}
# Blocks of a page that are run, and that are marked as not to be run.
BLOCKS = {"rblk.8": (3, 0), "rblkctl.8": (6, 0), "rblkd.8": (0, 1), "rblk-target.yaml.5": (1, 0), "librblk.3": (5, 0),
          "rblk-fio.1": (2, 0), "nbdkit-rblk-plugin.1": (3, 0), "softrdma.1": (2, 0)}
SUBSYSTEM = "nqn.2026-01.com.example:db"
# Options of other programs, or spelled with a variable part.
FOREIGN = {"rblk": {"dhchap"}, "rblkctl": {"config", "check"}, "rblkd": set()}


def page(name):
    with open(os.path.join(MANUALS, f"{name}.scd"), encoding="utf-8") as f:
        return f.read()


def help_of(program, *words):
    return run(program, *words, "--help").stdout


def subcommands(program):
    return [line.strip() for line in re.findall(r"^  ([a-z][a-z-]*(?: [a-z-]+)?)  ", help_of(program), re.M)]


def options_of(program, *words):
    return set(re.findall(r"^  (?:-\w, |    )--([a-z-]+)", help_of(program, *words), re.M)) - STANDARD


def documented(text):
    """Options that the page sets in bold, alone or in a list, and those of its synopsis."""
    bold = " ".join(re.findall(r"\*([^*\n]+)\*", text)) + " " + text.split("# DESCRIPTION")[0]
    return set(re.findall(r"(?<![\w-])--([a-z][a-z-]*)", bold)) - STANDARD


def compare(name, has, text):
    says = documented(text)
    expect(not has - says, f"{name}: not in its page: {sorted(has - says)}")
    unknown = says - has - FOREIGN[name]
    expect(not unknown, f"{name}: in the page, and no option: {sorted(unknown)}")


def options(_scratch):
    for name, program in (("rblk", RBLK), ("rblkctl", RBLKCTL)):
        commands = subcommands(program)
        expect(len(commands) > 5, f"{name}: {commands}")
        text = page(f"{name}.8")
        for command in commands:
            expect(re.search(rf"^\*{name} {command}[* ]", text, re.M) or f"*{command}*" in text,
                   f"{name} {command} is not in its page")
        compare(name, set().union(*(options_of(program, *command.split()) for command in commands)), text)
    compare("rblkd", options_of(RBLKD), page("rblkd.8"))


def paragraph(text, option):
    """The page's text on an option: from its heading to the next one."""
    section = re.search(r"^# OPTIONS OF ATTACH AND SERVE\n(.*?)^# ", text, re.M | re.S).group(1)
    found = re.search(rf"^[^\t\n]*\*--{option}\*.*?(?=^[^\t\n])", section + "\n*", re.M | re.S)
    expect(found, f"rblk.8: no paragraph on --{option}")
    return re.sub(r"\s+", " ", found.group(0).replace("_", "").replace("*", ""))


def bounds_of(option):
    """The bounds of a number, a size or a time, from the message that refuses one beyond them; or none."""
    message = run(RBLK, "attach", f"--{option}", "99999999999", check=False).stderr
    found = re.search(r"must be between (\S+) and (\S+), not", message)
    return [re.sub(r"(?<=[a-z])00[a-z]+", "", bound) for bound in found.groups()] if found else []


def values(_scratch):
    """rblk(8) has the bounds and the default of each option of attach."""
    text, n = page("rblk.8"), 0
    for option, rest in re.findall(r"^  (?:-\w, |    )--([a-z-]+)(.*?)(?=^  (?:-\w, |    )--)", help_of(RBLK, "attach"),
                                   re.M | re.S):
        has = re.findall(r"\(default: ([^ ,)]+)\)", re.sub(r"\s+", " ", rest))
        if option not in STANDARD | {"output", "from"}:
            has += [bound for bound in bounds_of(option) if not bound.startswith("0")]
        for value in has if option != "from" else []:
            expect(re.search(rf"(?<!\w){re.escape(value)}(?!\w)", paragraph(text, option)),
                   f"rblk.8 does not say {value} of --{option}: {paragraph(text, option)}")
            n += 1
    expect(n > 25, f"{n} values")


def completed(_scratch):
    """The shell completes the values of an option that has a choice."""
    script = ('option=$3; _init_completion() { cur= prev=$option cword=3 words=(rblk attach "$option" ""); }\n'
              'source "$1"; _rblk "$2"; echo "${COMPREPLY[@]}"')
    for option, expected in (("--policy", "latency queue-depth round-robin"), ("--fence", "require off"),
                             ("--frontend", "auto nbd socket"), ("--spin", "auto always never"), ("-o", "table json"),
                             ("--queue-size", "")):
        done = run("bash", "-c", script, "bash", os.path.join(ROOT, "tools", "completion", "rblk"), RBLK, option)
        expect_equal(done.stdout.strip(), expected, f"completion of {option}")


# ---- the examples, word by word ----

def blocks(name):
    """(commands, the mark's reason or None) of the blocks of a page: all of EXAMPLES, and elsewhere those that begin
    with a prompt."""
    text = page(name)
    begin = re.search(r"^# EXAMPLES?$", text, re.M)
    first = text.count("\n", 0, begin.start()) if begin else len(text)
    return [(block.replace("\\\\", "\\") + "\n", reason) for line, block, reason in pages.blocks(text, pages.SCDOC, None)
            if line > first or block.startswith("# ")]


def examples(name):
    return [block for block, reason in blocks(name) if not reason]


def each_is_run_or_marked(_scratch):
    names = {name.removesuffix(".scd") for name in os.listdir(MANUALS)}
    expect_equal(names, set(BLOCKS), "the pages")
    for name, counts in BLOCKS.items():
        marked = [block for block, reason in blocks(name) if reason]
        expect_equal((len(examples(name)), len(marked)), counts, f"blocks of {name} that are run, and that are marked")
        expect_equal(len(re.findall(rf"^{pages.SCDOC.pattern}$", page(name), re.M)), counts[1], f"marks of {name}")


class PageTarget(Target):
    """The target that the pages speak of, as they start it: by its usual configuration."""

    def __init__(self, scratch, extra=""):  # noqa: another configuration
        scratch.env = page_machine.environment(scratch)
        self.scratch, self.rblkd, self.process = scratch, "rblkd", None
        self.control, self.config, self.log = "/run/rblk/rblkd.sock", "/etc/rblk/target.yaml", scratch.file("rblkd.log")
        with open(self.config, "w", encoding="ascii") as f:
            f.write(f"version: 1\n{extra}\nportals:\n  - {{name: left, address: 192.0.2.1}}\n"
                    f"subsystems:\n  - nqn: {SUBSYSTEM}\n    allow_any_host: true\n    namespaces:\n"
                    f"      - {{nsid: 1, ram: 32MiB, {LASTING}}}\n")
        self.start()


def enter(scratch, command):
    """As enter_once. rping destroys its event channel while its thread may still use it, which then ends the program
    with 255: a matter of luck, with the kernel's RDMA, too."""
    while (said := enter_once(scratch, command)) is None:
        pass
    return said


def enter_once(scratch, command):
    """Enters a command at the shell there, and ends what goes on by Ctrl-C when it has shown something. Returns what
    it said; None: rping was too slow."""
    shell = subprocess.Popen(["bash", "-ec", command], env=scratch.env, cwd=scratch.path, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True, start_new_session=True)
    first = ""
    if "--top" in command:
        first = shell.stdout.readline()
        os.killpg(shell.pid, signal.SIGINT)
    out, err = shell.communicate(timeout=2 * PATIENCE)
    if shell.returncode == 255 and "rping" in command and "rdma_get_cm_event: Bad file descriptor" in out + err:
        return None
    expect(shell.returncode == (-signal.SIGINT if first else 0), f"exit status {shell.returncode} of: {command}\n{first}{out}{err}")
    expect(not SANITIZER_REPORT.search(err), err)
    return first + out


def prompts(name):
    """(command, what is shown below it) of the blocks with prompts."""
    return re.findall(r"^# ((?:.*\\\n)*.*)\n((?:[^#\n].*\n)*)", "".join(examples(name)), re.M)


def of_rblk(scratch):
    target = PageTarget(scratch)
    commands = [command for command, _ in prompts("rblk.8")]
    expect_equal(len(commands), 7, "commands")
    for command in commands:
        enter(scratch, command)
    expect(os.path.exists("/etc/rblk/volumes"), "attach --persist wrote nothing")
    enter(scratch, "rblk detach --all")
    target.stop()


def of_rblkctl(scratch):
    """The commands of the page, and the titles of the tables that it shows below them."""
    uuid, identifier = LASTING.removeprefix("uuid: "), "6f1b3a52-7f0e-4c4e-9d0c-0a4d5e6f7a8b"
    target = PageTarget(scratch, keep_registrant(scratch, uuid, identifier, "nqn.2026-01.org.example:db2"))
    scratch.env["COLUMNS"] = "68"  # as wide as what the page shows
    enter(scratch, f"rblk attach {SUBSYSTEM}@192.0.2.1 --name db")
    with open(target.config, "a", encoding="ascii") as f:
        f.write("      - {nsid: 2, ram: 1MiB}\n")  # for apply
    for command, shown in prompts("rblkctl.8"):
        said = enter(scratch, command)
        for title in re.findall(r"^ *[A-Z][A-Z0-9. /%-]+$", shown, re.M):
            expect(title.split() in [line.split() for line in said.splitlines()], f"{title}: not in {said}")
    enter(scratch, "rblk detach db")
    target.stop()


def of_the_library(scratch):
    target = PageTarget(scratch)
    build, *sources = examples("librblk.3")
    said = []
    for source in sources:
        with open(scratch.file("example.c"), "w", encoding="utf-8") as f:
            f.write(source)
        said.append(enter(scratch, build))
        enter(scratch, "cc -Wall -Werror -fsyntax-only example.c $(pkg-config --cflags librblk)")
    expect_equal(said[:2], ["0 hello\n", "0\n"], "what the examples print")
    expect('"state"' in said[2], said[2])
    expect_equal(said[3:], ["1\n2\n"], "what the last example prints")
    target.stop()


def of_fio(scratch):
    target = PageTarget(scratch)
    enter(scratch, "".join(examples("rblk-fio.1")))
    target.stop()


def of_nbdkit(scratch):
    target = PageTarget(scratch)
    said = enter(scratch, "".join(examples("nbdkit-rblk-plugin.1")))
    expect_equal(said.count(f"export-size: {32 << 20}"), 2, f"exports that were shown, one over TLS, in:\n{said}")
    expect("with TLS" in said, said)
    expect_equal(os.path.getsize(scratch.file("disk.img")), 32 << 20, "bytes of the copy")
    target.stop()


def of_softrdma(scratch):
    scratch.env = page_machine.environment(scratch)
    lines = "".join(examples("softrdma.1")).splitlines()
    said = enter(scratch, "exec 2>&1\nset -m\n" + "\n".join(pages.wait_after(line) for line in lines) + "\nwait\n")
    for words in ("hca_id:\tsoftrdma0", "server DISCONNECT EVENT", "RC Send Only"):
        expect(words in said, f"no '{words}' in:\n{said}")


def of_the_configuration(scratch):
    scratch.env = page_machine.environment(scratch)
    with open("/etc/rblk/target.yaml", "w", encoding="utf-8") as f:
        f.write(examples("rblk-target.yaml.5")[0])
    with page_machine.device("/dev/vg0/log", scratch.make_file("log", 1 << 20)):
        enter(scratch, "rblkd --check")


def fits_a_terminal(_scratch):
    """Blocks fit 80 columns: the page indents them by 12, and a host's NQN cannot be broken."""
    for name in ("rblk.8", "rblkd.8", "rblkctl.8", "rblk-target.yaml.5"):
        wide = [line for block in page(name).split("```")[1::2] for line in block.splitlines()
                if len(line) > 80 - 12 and "nvmexpress:uuid:" not in line]
        expect(not wide, "\n".join([f"{name}: wider than a terminal", *wide]))


def rendered_in_80_columns(_scratch):
    """As man(1) shows the whole pages there: it cuts and breaks nothing that is shown as it is."""
    for name in BLOCKS:
        source = run("scdoc", input=page(name)).stdout
        shown = run("man", "-l", "-", input=source, env=dict(os.environ, MANWIDTH="80", LC_ALL="C.UTF-8")).stdout
        expect("NAME\n" in shown, f"man shows nothing of {name}: {shown}")
        wide = [line for line in shown.splitlines() if len(line) > 80]
        expect(not wide, "\n".join([f"{name}: wider than 80 columns", *wide]))


def on_their_machine():
    """The cases that need the machine that the pages speak of."""
    names = {"rblk(8)": of_rblk, "rblkctl(8)": of_rblkctl, "rblk-target.yaml(5)": of_the_configuration}
    if not IS_SANITIZED:  # others' programs cannot load what is instrumented
        names |= {"librblk(3)": of_the_library, "rblk-fio(1)": of_fio, "softrdma(1)": of_softrdma}
    if not IS_SANITIZED and os.path.exists(os.path.join(BUILD, "tools", "nbdkit", "nbdkit-rblk-plugin.so")):
        names |= {"nbdkit-rblk-plugin(1)": of_nbdkit}
    return names


CASES = [
    ("options", options),
    ("bounds and defaults", values),
    ("completed values", completed),
    ("80 columns", fits_a_terminal),
    ("80 columns of man(1)", rendered_in_80_columns),
    ("each block of the pages is run or marked", each_is_run_or_marked),
]

if __name__ == "__main__":
    page_machine.go_on(on_their_machine().values())
    CASES += page_machine.cases((f"the examples of {name}", function) for name, function in on_their_machine().items())
    run_cases(CASES)
