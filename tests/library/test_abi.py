#!/usr/bin/python3
"""The files that programs are built with: the header compiles alone, the library exports its functions only, and what
was released stays as it is: library/librblk.abi has each function with its types and its version, each struct
with sizes and offsets, each constant with its value. `test_abi.py --describe` prints what there is now."""

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
RELEASED = os.path.join(ROOT, "library", "librblk.abi")
SPARE = ("reserved", "internal")  # fields that may become others, of a struct that stays as large
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


# ---- what was released -----------------------------------------------------------------


def fields_of(body):
    """The names of the fields of a struct."""
    for line in body.split(";"):
        function = re.search(r"\(\*(\w+)\)", line)
        names = [function[1]] if function else re.findall(r"(\w+)(?:\[\w+\])*\s*(?:,|$)", line.strip())
        yield from (name for name in names if name not in SPARE)


def layout(header, folder):
    """Sizes, offsets and constants, as the compiler has them."""
    text = re.sub(r"/\*.*?\*/", "", text_of(header), flags=re.S)
    body = []
    for name, inside in re.findall(r"^struct (\w+) \{(.*?)^\};", text, re.S | re.M):
        body.append(f'printf("struct {name}: %zu bytes\\n", sizeof(struct {name}));')
        body += [f'printf("struct {name}, {field}: %zu bytes at %zu\\n", sizeof(((struct {name} *)0)->{field}), '
                 f'offsetof(struct {name}, {field}));' for field in fields_of(inside)]
    for inside in re.findall(r"^enum \w+ \{(.*?)^\};", text, re.S | re.M):
        body += [f'printf("{name} = %d\\n", (int){name});' for name in re.findall(r"^\s*(\w+)", inside, re.M)]
    source, program = os.path.join(folder, "layout.c"), os.path.join(folder, "layout")
    with open(source, "w", encoding="ascii") as f:
        f.write(f'#include <stdio.h>\n#include "{header}"\nint main(void) {{ ' + "\n".join(body) + " return 0; }\n")
    run("cc", "-o", program, source)
    return run(program).stdout.splitlines()


def described(header, folder, versions):
    """The lines of a description."""
    text = re.sub(r"/\*.*?\*/|^#.*?$|extern \"C\" \{", "", text_of(header), flags=re.S | re.M)
    functions = re.findall(r"^([a-z][\w ]*?[ *]+)(rblk_\w+)\(([^;]*)\);", text, re.M)
    return sorted(layout(header, folder) +
                  [" ".join(f"{result}{name}({arguments})@{versions.get(name, 'none')}".split())
                   for result, name, arguments in functions])


def compared(released, now):
    """(what is broken, what is new)."""
    return sorted(set(released) - set(now)), sorted(set(now) - set(released))


def test_released(scratch):
    now = described(HEADER, scratch.path, exported())
    expect_equal({name for line in now for name in re.findall(r"(rblk_\w+)\(.*@", line)}, declared(), "functions described")
    expect(sum(line.startswith("struct ") for line in now) > 25 and sum(" = " in line for line in now) > 6, now)
    broken, new = compared(text_of(RELEASED).splitlines(), now)
    expect(not broken, "programs that were built before would break; that takes another soname:\n" + "\n".join(broken))
    expect(not new, f"new: add to {RELEASED}, once it is what will stay:\n" + "\n".join(new))


def test_planted(scratch):
    """Each change that breaks programs is found; what does not is only new."""
    released, header = text_of(RELEASED).splitlines(), text_of(HEADER)
    changed = scratch.file("changed.h")
    for old, by, is_break in (
            ("\tuint32_t flags;\t", "\tuint64_t flags;\t", True), ("RBLK_FLUSH = 2", "RBLK_FLUSH = 5", True),
            ("uint64_t internal[48]", "uint64_t internal[49]", True), ("int timeout_ms", "long timeout_ms", True),
            ("void rblk_free(void *pointer);", "", True), ("\tRBLK_DISCARD = 4,\n", "", True),
            ("int32_t result;\n\tuint32_t reserved;", "uint32_t reserved;\n\tint32_t result;", True),
            ("\tRBLK_DISCARD = 4,\n", "\tRBLK_DISCARD = 4,\n\tRBLK_MORE = 5,\n", False),
            ("uint64_t reserved[15];", "uint64_t more, reserved[14];", False), ("void rblk_free(void *pointer);",
            "void rblk_free(void *pointer);\nint rblk_more(void);", False)):
        expect(old in header, f"{old!r} is not in the header")
        with open(changed, "w", encoding="utf-8") as f:
            f.write(header.replace(old, by))
        broken, new = compared(released, described(changed, scratch.path, exported()))
        expect_equal((bool(broken), bool(new) or is_break), (is_break, True), f"{old!r} as {by!r}: {broken}, {new}")


if __name__ == "__main__" and sys.argv[1:] == ["--describe"]:
    with tempfile.TemporaryDirectory() as own:
        print("\n".join(described(HEADER, own, exported())))
elif __name__ == "__main__":
    run_cases([("the header compiles alone as C11 and C++17", test_header),
               ("the library exports its functions, and nothing else", test_symbols),
               ("it needs no RDMA library", test_needed),
               ("each function is described", test_described),
               ("what was released stays as it is", test_released),
               ("a planted break is found", test_planted)])
