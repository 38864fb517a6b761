#!/usr/bin/python3
"""What programs are built with: the header compiles alone, and the library exports its functions only."""

import glob
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from harness import BUILD, ROOT, expect, expect_equal, run, run_cases  # noqa: E402

HEADER = os.path.join(ROOT, "library", "rblk.h")
LIBRARY = os.path.join(BUILD, "library", "librblk.so.0")
MAP = os.path.join(ROOT, "library", "librblk.map")
SYMBOLS = os.path.join(ROOT, "debian", "librblk0.symbols")
PAGES = glob.glob(os.path.join(ROOT, "docs", "man", "librblk*.3.scd"))


def text_of(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def declared():
    text = re.sub(r"/\*.*?\*/", "", text_of(HEADER), flags=re.S)
    return set(re.findall(r"\b(rblk_\w+)\((?!\*)", text))


def exported():
    """name -> version, of what the library defines."""
    out = run("nm", "-D", "--defined-only", LIBRARY).stdout
    found = dict(re.findall(r"^\w+ T (\w+)@@(\S+)$", out, re.M))
    others = re.findall(r"^\w+ [^AT] (\S+)$", out, re.M)
    expect_equal(others, [], "exported data")
    return found


def test_header(scratch):
    flags = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]
    for compiler, standard, suffix in (("cc", "-std=c11", ".c"), ("c++", "-std=c++17", ".cpp")):
        with tempfile.NamedTemporaryFile("w", suffix=suffix) as source:
            source.write(f'#include "{HEADER}"\nint main(void) {{ struct rblk_io io = {{}}; (void)io; return 0; }}\n'
                         if suffix == ".cpp" else f'#include "{HEADER}"\nint main(void) {{ return 0; }}\n')
            source.flush()
            done = subprocess.run([compiler, standard, *flags, source.name], stderr=subprocess.PIPE,
                                  text=True, check=False)
            expect(done.returncode == 0, f"{compiler} {standard}:\n{done.stderr}")


def test_symbols(scratch):
    symbols = exported()
    expect_equal(set(symbols), declared(), "exported functions, and those of the header")
    expect_equal(set(symbols), set(re.findall(r"\b(rblk_\w+);", text_of(MAP))), "those of the map")
    listed = dict(re.findall(r"^ (rblk_\w+)@(\S+) ", text_of(SYMBOLS), re.M))
    expect_equal(symbols, listed, "those of debian/librblk0.symbols, with their versions")


def test_needed(scratch):
    """Nothing of RDMA is linked: it is found at run time."""
    needed = re.findall(r"NEEDED.*\[(.*)\]", run("readelf", "-d", LIBRARY).stdout)
    expect(not [n for n in needed if "ibverbs" in n or "rdmacm" in n], f"needed: {needed}")
    expect("librblk.so.0" in run("readelf", "-d", LIBRARY).stdout, "soname")


def test_described(scratch):
    text = " ".join(text_of(page) for page in PAGES)
    missing = sorted(name for name in declared() if name not in text)
    expect(not missing, f"not in librblk(3): {missing}")


if __name__ == "__main__":
    run_cases([("the header compiles alone as C11 and C++17", test_header),
               ("the library exports its functions, and nothing else", test_symbols),
               ("it needs no RDMA library", test_needed),
               ("each function is described", test_described)])
