"""The recipes of docs/HACKING.md, applied to a copy of the source tree.

    recipe = Recipe(scratch, "backend")         # the block "```sh recipe=backend" runs in the copy
    recipe.build("target/rblkd")
    Target(scratch, [...], rblkd=recipe.program("target/rblkd"))

The copy is built with the options of the build under test. It starts with the objects of that build, so
only what the recipe touches is compiled; without them (or with other flags) everything is.
"""

import configparser
import os
import re
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from harness import BUILD, ROOT, expect, run  # noqa: E402

PAGE = "docs/HACKING.md"
BLOCK = re.compile(r"^```sh recipe=(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PRODUCT = ("base", "transport", "softrdma", "target", "initiator", "nbd_bridge", "tools")
OBJECTS = (".o", ".a", ".so")
BUILD_S = 600


def names():
    """The commands of all recipes of the page."""
    return [name for name, _ in BLOCK.findall(read(os.path.join(ROOT, PAGE)))]


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


class Recipe:
    def __init__(self, scratch, name):
        # The copy's build has the same relative place as the build under test: so the commands of
        # both are equal.
        above = os.path.join(scratch.path, "a", "b", "c")
        self.tree = os.path.join(above, os.path.basename(ROOT))
        self.build_folder = os.path.normpath(os.path.join(self.tree, os.path.relpath(BUILD, ROOT)))
        copy_tree(self.tree)
        commands = dict(BLOCK.findall(read(os.path.join(ROOT, PAGE))))
        expect(name in commands, f"{PAGE} has no recipe '{name}'")
        run("sh", "-euc", commands[name], cwd=self.tree)

    def build(self, *targets):
        run("meson", "setup", *options(), "-Dtests=disabled", "-Dman=disabled", self.build_folder, self.tree)
        copy_objects(self.build_folder)
        run("ninja", "-C", self.build_folder, "softrdma/libsoftrdma.so", *targets, timeout=BUILD_S)

    def program(self, path):
        return os.path.join(self.build_folder, path)


def is_build(folder):
    return os.path.exists(os.path.join(folder, "meson-private")) or os.path.samefile(folder, BUILD)


def copy_tree(to):
    """Copies the tree without builds and without the history. Times are kept, because ninja
    compares them."""
    def left_out(folder, entries):
        return [e for e in entries if e in (".git", "build", "__pycache__") or
                (os.path.isdir(os.path.join(folder, e)) and is_build(os.path.join(folder, e)))]

    shutil.copytree(ROOT, to, symlinks=True, ignore=left_out)


def options():
    """Sets the build up as the build under test."""
    lines = configparser.ConfigParser(interpolation=None, delimiters=("=",))
    lines.optionxform = str
    lines.read(os.path.join(BUILD, "meson-private", "cmd_line.txt"), encoding="utf-8")
    given = [f"-D{key}={value}" for key, value in lines["options"].items() if key not in ("tests", "man")]
    files = re.findall(r"'([^']+)'", lines["properties"].get("native_file", "")) if "properties" in lines else []
    return [argument for path in files for argument in ("--native-file", path)] + given


def copy_objects(to):
    """Copies the compiled objects, with ninja's records of them."""
    for product in PRODUCT:
        for folder, _, entries in os.walk(os.path.join(BUILD, product)):
            here = os.path.join(to, os.path.relpath(folder, BUILD))
            for name in entries:
                if name.endswith(OBJECTS):
                    os.makedirs(here, exist_ok=True)
                    shutil.copy2(os.path.join(folder, name), os.path.join(here, name))
    log = read(os.path.join(BUILD, ".ninja_log"))
    with open(os.path.join(to, ".ninja_log"), "w", encoding="utf-8") as f:
        f.writelines(line for line in log.splitlines(keepends=True)
                     if line.startswith("#") or line.split("\t")[3].startswith(tuple(p + "/" for p in PRODUCT)))
    shutil.copy2(os.path.join(BUILD, ".ninja_deps"), to)
