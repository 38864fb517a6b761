#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Foreign conformance programs: stock verbs programs over softrdma, unmodified, with the data
checked by those that can. SOFTRDMA_LIB names the library."""

import functools
import os
import re
import sys

from foreign import (Failure, HERE, Program, SANITIZER, Skip, alone, enter_own_network, listens, need, pair, refusal, run,
                     softrdma, wait_until)

N = 200  # iterations of perftest
UDADDY_PORT = 7174
STDBUF = "/usr/libexec/coreutils/libstdbuf.so"  # makes a program write whole lines at once


def case(name, function, *arguments):
    return name, functools.partial(function, *arguments)


def both(name, command):
    """A program whose client is its server plus an address."""
    return case(name, pair, command, command + " HERE")


def pingpong(options):
    return both(f"ibv_rc_pingpong {options}", f"ibv_rc_pingpong -g 0 -p PORT -n 300 {options}")


def srq_pingpong(options):
    return both(f"ibv_srq_pingpong {options}", f"ibv_srq_pingpong -g 0 -p PORT -n 300 {options}")


def cm(name, server, client):
    return case(name, pair, server, client)


def perftest(program, options):
    return both(f"{program} {options}".strip(), f"{program} -F -n {N} -p PORT {options}")


def in_turns(pairs):
    """Programs whose port is fixed. The client begins when the server is ready."""
    for server, client, ready in pairs:
        first = spoken(server)
        try:
            wait_until(lambda: ready(first), "the server is ready", first)
            second = Program(client.replace("HERE", HERE).split())
            try:
                second.expect_success()
                first.expect_success()
            except Failure as e:
                raise Failure(f"{e}\nserver: {first}\nclient: {second}") from None
            finally:
                second.end()
        finally:
            first.end()


def spoken(command):
    """A program whose lines appear in the file as it writes them."""
    need(command.split()[0])
    if not os.path.exists(STDBUF):
        raise Skip("coreutils' libstdbuf is not installed")
    if SANITIZER:
        return Program(command.split(), wrapper=[*softrdma(before=[STDBUF])], env={"_STDBUF_O": "L"})
    return Program(command.split(), env={"_STDBUF_O": "L", "LD_PRELOAD": STDBUF})


def rping(address):
    options = f"-a {address} -p PORT -V -C 20 -v"
    first, second = pair(f"rping -s {options}", f"rping -c {options}")
    for said in first, second:
        if said.count("ping data: rdma-ping-") < 19:
            raise Failure(f"rping did not get through:\n{said}")


def strict_refusal():
    server, client = "rdma_xserver -p PORT", "rdma_xclient -s HERE -p PORT"
    refusal(server, client, env={"SOFTRDMA_STRICT": "1"})


def qperf():
    """Each measurement for a second; the last word ends the server."""
    said = pair("qperf -lp PORT", "qperf -lp PORT -t 1 HERE uc_lat uc_bw uc_rdma_write_lat uc_rdma_write_bw quit")[1]
    for name in "uc_lat", "uc_bw", "uc_rdma_write_lat", "uc_rdma_write_bw":
        if not re.search(rf"{name}:\n +\w+ += +[1-9]", said):
            raise Failure(f"no {name} in\n{said}")


def under_limit():
    """A tenth of what the segment takes where address space is free."""
    command = "ibv_rc_pingpong -g 0 -p PORT -n 100"
    pair(command, command + " HERE", wrapper=["prlimit", "--as=1000000000", *softrdma()])


def perftest_cases():
    for op in "send", "write", "read", "atomic":
        for options in "", "-R", "-e":
            if (op, options) != ("write", "-e"):  # refused by perftest itself
                yield perftest(f"ib_{op}_lat", options)
        events = [] if op == "write" else ["-e", "-R -q 4 -e"]
        for options in "", "-R", "-q 4", *events:
            yield perftest(f"ib_{op}_bw", options)
    for atomic in "CMP_AND_SWAP", "FETCH_AND_ADD":
        yield perftest("ib_atomic_bw", f"-A {atomic} -q 4")
    yield perftest("ib_send_lat", "--use-srq")
    for options in "--use-srq", "--use-srq -q 4", "--use-srq -R", "-b":
        yield perftest("ib_send_bw", options)
    yield perftest("ib_write_bw", "-b")


def cases():
    yield case("ibv_devices", alone, ["ibv_devices"], "softrdma0")
    yield case("ibv_devinfo -v", alone, ["ibv_devinfo", "-v"], "softrdma0")
    yield from map(pingpong, ["", "-e", "-N", "-c", "-c -e", "-c -N", "-c -N -e", "-s 1000000 -c"])
    yield from map(srq_pingpong, ["", "-e", "-c", "-c -e"])
    yield case("rping -V", rping, HERE)
    yield case("rping -V, IPv6", rping, "::1")
    yield cm("ucmatose", "ucmatose -p PORT -c 4", "ucmatose -p PORT -c 4 -s HERE")
    yield cm("ucmatose with migration", "ucmatose -p PORT -c 4 -m", "ucmatose -p PORT -c 4 -m -s HERE")
    yield cm("rdma_client", "rdma_server -p PORT", "rdma_client -s HERE -p PORT")
    yield from perftest_cases()
    yield cm("rstream: rsockets", "rstream -p PORT -S 4096 -C 50", "rstream -s HERE -p PORT -S 4096 -C 50")
    if not SANITIZER:  # which takes more address space than that
        yield case("ulimit -v", under_limit)
    # It sends 16 bytes of inline data on a queue pair created without any.
    yield cm("rdma_xclient", "rdma_xserver -p PORT", "rdma_xclient -s HERE -p PORT")
    yield case("rdma_xclient is refused with --strict", strict_refusal)
    yield case("XRC by rdma_cm is refused: rdma_xclient", refusal, "rdma_xserver -p PORT -c x",
               "rdma_xclient -s HERE -p PORT -c x")
    for options in "", "-e", "-c", "-c -e", "-s 4096":
        yield both(f"ibv_ud_pingpong {options}".strip(), f"ibv_ud_pingpong -g 0 -p PORT -n 300 {options}")
    for options in "", "-e", "-s 100000":
        yield both(f"ibv_uc_pingpong {options}".strip(), f"ibv_uc_pingpong -g 0 -p PORT -n 300 {options}")
    for program in "ib_send_lat", "ib_send_bw", "ib_write_lat", "ib_write_bw":
        yield perftest(program, "-c UC")
    yield case("qperf uc", qperf)
    yield both("ib_send_lat -c UD", f"ib_send_lat -F -c UD -n {N} -p PORT -x 0")
    # These have a fixed port, so they take turns.
    yield case("udaddy", in_turns, [
        (f"udaddy {options}", f"udaddy {options} -s HERE", lambda _: listens(UDADDY_PORT)) for options in ("", "-c 4", "-S 2000")])
    yield case("mckey", in_turns, [
        (f"mckey -m {group}", f"mckey -m {group} -s", lambda first: "receiving data" in first.said())
        for group in ("239.1.2.3", "ff05::77")])
    for options in "", "-e", "-s 100000":
        yield both(f"ibv_xsrq_pingpong {options}".strip(), f"ibv_xsrq_pingpong -g 0 -p PORT -n 300 {options}")
    for program in "ib_send_lat", "ib_send_bw", "ib_write_lat", "ib_write_bw", "ib_read_lat", "ib_read_bw", "ib_atomic_bw":
        yield perftest(program, "-c XRC")
    for options in "-e", "-q 4", "-b":
        yield perftest("ib_send_bw", f"-c XRC {options}")


if __name__ == "__main__":
    enter_own_network()
    sys.exit(run(list(cases())))
