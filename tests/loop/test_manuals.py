#!/usr/bin/python3
"""The manual pages: each option of a program is in its page, each option of a page is one of its program, and the
examples do what they say. Addresses, paths and ports are replaced by those of the test."""

import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from harness import (LASTING, NQN, PATIENCE, RBLK, RBLKCTL, RBLKD, Target, expect, expect_equal,  # noqa: E402
                     keep_registrant, run, run_cases)

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
STANDARD = {"help", "version"}
# Of other programs, or spelled with a variable part.
FOREIGN = {"rblk": {"dhchap"}, "rblkctl": {"config", "check"}, "rblkd": set()}


def page(name):
    with open(os.path.join(ROOT, "docs", "man", f"{name}.scd"), encoding="utf-8") as f:
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


def examples(text):
    """The lines of EXAMPLES."""
    section = re.split(r"^# ", text.split("# EXAMPLES", 1)[1], flags=re.M)[0]
    return [line.removesuffix("++").strip() for line in section.splitlines() if line.strip()]


def of_rblk(scratch):
    target = Target(scratch, ["nsid: 1, ram: 1MiB"])
    commands, subject = scratch.file("bin"), f"{NQN}@{target.address}"
    os.mkdir(commands)
    os.symlink(RBLK, os.path.join(commands, "rblk"))
    with open(os.path.join(commands, "systemctl"), "w", encoding="ascii") as f:
        f.write("#!/bin/sh\n")
    os.chmod(os.path.join(commands, "systemctl"), 0o755)
    environment = dict(scratch.env, PATH=f"{commands}:{os.environ['PATH']}", RBLK_CONFIG_DIR=scratch.file("etc"))
    lines = examples(page("rblk.8"))
    expect(len(lines) >= 5, f"{lines}")
    for line in lines:
        line = re.sub(r"nqn\.[\w.:-]+@192\.0\.2\.1", subject, line).replace("192.0.2.1", target.address)
        line = line.replace("/run/rblk", environment["RBLK_RUN_DIR"])
        if line.startswith("rblk attach --all"):  # after the volume of the same namespace: it has other options
            run("rblk", "detach", "db", env=environment, check=False)
            line += " --frontend socket"
        if "stats" in line or "capture" in line or "fio" in line or "detach" in line:
            ensure(environment, subject)
        line += {"--top": " --count 1", "--rw=": " --size=64k"}.get(next((w for w in ("--top", "--rw=") if w in line), ""), "")
        done = subprocess.run(["sh", "-c", line], env=environment, capture_output=True, text=True, timeout=2 * PATIENCE,
                              check=False, cwd=scratch.path)
        expect_equal(done.returncode, 0, f"{line}: {done.stdout}{done.stderr}")
    for volume in json.loads(run("rblk", "list", "-o", "json", env=environment).stdout)["volumes"]:
        run("rblk", "detach", volume["name"], env=environment)
    expect_equal(target.stop(), 0, "exit status of rblkd")


def ensure(environment, subject):
    """The volume db of the examples, alone."""
    for volume in json.loads(run("rblk", "list", "-o", "json", env=environment).stdout)["volumes"]:
        if volume["name"] != "db":
            run("rblk", "detach", volume["name"], env=environment)
    run("rblk", "attach", subject, "--name", "db", env=environment)


def of_rblkctl(scratch):
    """The commands of the page, and the titles of the tables that it shows below them."""
    uuid, identifier = LASTING.removeprefix("uuid: "), "6f1b3a52-7f0e-4c4e-9d0c-0a4d5e6f7a8b"
    target = Target(scratch, [f"nsid: 1, ram: 1MiB, {LASTING}"],
                    extra=keep_registrant(scratch, uuid, identifier, "nqn.2026-01.org.example:db2"))
    run(RBLK, "attach", f"{NQN}@{target.address}", "--name", "db", "--frontend", "socket", env=scratch.env)
    environment = dict(scratch.env, PATH=f"{os.path.dirname(RBLKCTL)}:{os.environ['PATH']}", RBLK_CONTROL_SOCKET=target.control, COLUMNS="68")
    with open(target.config, "a", encoding="ascii") as f:
        f.write("      - {nsid: 2, ram: 1MiB}\n")  # for apply
    blocks = [block for block in page("rblkctl.8").split("```")[1::2] if block.startswith("\n# ")]
    expect(len(blocks) >= 5, f"{blocks}")
    for command, shown in re.findall(r"^# (.*)\n((?:[^#\n].*\n)*)", "".join(blocks).replace("\\\\\n", ""), re.M):
        line = re.sub(r"nqn\.[\w.-]+:db\b", NQN, command).replace("--top", "--top --count 1").replace("--time 2s", "--time 1ms")
        done = subprocess.run(["sh", "-c", line], env=environment, capture_output=True, text=True, timeout=2 * PATIENCE,
                              check=False, cwd=scratch.path)
        expect_equal(done.returncode, 0, f"{line}: {done.stdout}{done.stderr}")
        for title in re.findall(r"^ *[A-Z][A-Z0-9. /%-]+$", shown, re.M):
            expect(title.split() in [said.split() for said in done.stdout.splitlines()], f"{title}: not in {done.stdout}")
    run(RBLK, "detach", "db", env=scratch.env)
    expect_equal(target.stop(), 0, "exit status of rblkd")


def fits_a_terminal(_scratch):
    """What is shown as it is, in 80 columns: the page indents it by 12, and a host's NQN cannot be broken."""
    for name in ("rblk.8", "rblkd.8", "rblkctl.8", "rblk-target.yaml.5"):
        wide = [line for block in page(name).split("```")[1::2] for line in block.splitlines()
                if len(line) > 80 - 12 and "nvmexpress:uuid:" not in line]
        expect(not wide, "\n".join([f"{name}: wider than a terminal", *wide]))


def of_the_configuration(scratch):
    text = page("rblk-target.yaml.5").split("# EXAMPLE", 1)[1].split("```")[1]
    device = scratch.make_file("log", 1 << 20)
    text = text.replace("/srv/rblk", scratch.path).replace("device: /dev/vg0/log", f"file: {device}")
    config = scratch.file("example.yaml")
    with open(config, "w", encoding="utf-8") as f:
        f.write(text)
    done = run(RBLKD, "--check", "-c", config, check=False, env=scratch.env)
    expect_equal(done.returncode, 0, f"the example: {done.stdout}{done.stderr}")


CASES = [
    ("options", options),
    ("80 columns", fits_a_terminal),
    ("the examples of rblk(8)", of_rblk),
    ("the examples of rblkctl(8)", of_rblkctl),
    ("the example of rblk-target.yaml(5)", of_the_configuration),
]

if __name__ == "__main__":
    run_cases(CASES)
