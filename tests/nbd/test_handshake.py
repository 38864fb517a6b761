#!/usr/bin/python3
"""The fixed newstyle handshake: every option, in right and wrong order, well-formed and not."""

import struct

from nbd_server import (ABORT, ACK, EXPORT_NAME, EXTENDED_HEADERS, GO, IHAVEOPT, INFO, INFO_REP,
                        INVALID, LIST, LIST_META, META_REP, POLICY, READ, SERVER_REP, SET_META,
                        STARTTLS, STRUCTURED_REPLY, TOO_BIG, UNKNOWN, UNSUP, BLOCK_STATUS, EINVAL,
                        MIB, Raw, Server, expect, expect_equal, go_data, meta, string)
from harness import run_cases


def kinds(replies):
    return [kind for kind, _ in replies]


def with_server(function):
    def case(scratch):
        server = Server(scratch)
        function(server)
        expect_equal(server.go().call(READ, 0, 512)[0], 0, "a read of the next client")
        server.stop()
    return case


def case_export_name(server):
    for flags, padding in ((3, 0), (1, 124), (0, 124), (2, 0)):
        raw = Raw(server.connect()).greet(flags)
        raw.send_option(EXPORT_NAME, b"ram")
        size, _ = struct.unpack(">QH", raw.recv(10))
        expect_equal(size, 64 * MIB, "size")
        expect_equal(raw.recv(padding), bytes(padding), "padding")
        expect_equal(raw.call(READ, 0, 512), (0, bytes(512)), "read")
        raw.disconnect()


def case_export_name_unknown(server):
    raw = Raw(server.connect()).greet()
    raw.send_option(EXPORT_NAME, b"other")
    raw.expect_closed()


def case_unknown_client_flag(server):
    Raw(server.connect()).greet(0x80).expect_closed()


def case_not_fixed_newstyle(server):
    raw = Raw(server.connect()).greet(0)
    raw.send_option(LIST)
    raw.expect_closed()


def case_wrong_option_magic(server):
    raw = Raw(server.connect()).greet()
    raw.send(struct.pack(">QII", IHAVEOPT + 1, LIST, 0))
    raw.expect_closed()


def case_abort(server):
    raw = Raw(server.connect()).greet()
    expect_equal(raw.option(ABORT), [(ACK, b"")], "ABORT")
    raw.expect_closed()
    raw = Raw(server.connect()).greet()
    raw.send_option(ABORT, b"with data, which is wrong but must not hurt")
    raw.recv_option_reply(ABORT)
    raw.expect_closed()


def case_list(server):
    raw = Raw(server.connect()).greet()
    expect_equal(raw.option(LIST), [(SERVER_REP, string(b"ram")), (ACK, b"")], "LIST")
    expect_equal(kinds(raw.option(LIST, b"x")), [INVALID], "LIST with data")
    expect_equal(kinds(raw.option(LIST)), [SERVER_REP, ACK], "LIST again")


def case_info(server):
    raw = Raw(server.connect()).greet()
    replies = raw.option(INFO, go_data(b"", 3, 1, 2))
    by_type = {struct.unpack_from(">H", d)[0]: d[2:] for k, d in replies if k == INFO_REP}
    expect_equal(sorted(by_type), [0, 1, 2, 3], "infos")
    expect_equal(by_type[1], b"ram", "name")
    expect(b"namespace 1" in by_type[2], f"description {by_type[2]}")
    expect_equal(struct.unpack(">III", by_type[3]), (1, 4096, 32 * MIB), "block sizes")
    expect_equal(replies[-1], (ACK, b""), "INFO ends")
    # it changes nothing: GO still works, and with unknown and repeated infos too
    replies = raw.option(GO, go_data(b"ram", 3, 3, 77, 0xffff, 1))
    expect_equal(kinds(replies), [INFO_REP, INFO_REP, INFO_REP, ACK], "GO")
    expect_equal(raw.call(READ, 0, 512)[0], 0, "read")


def case_go_unknown_name(server):
    raw = Raw(server.connect()).greet()
    for name in (b"other", b"ra", b"ramm", b"x" * 255, b"x" * 256, b"x" * 4096, b"\xff\xfe"):
        kind, text = raw.option(GO, go_data(name))[-1]
        expect_equal(kind, UNKNOWN, f"GO {name[:10]}")
        expect(len(text) < 256, "a short text")
    expect_equal(raw.option(GO, go_data(b"ram"))[-1][0], ACK, "GO at last")


def case_go_malformed(server):
    raw = Raw(server.connect()).greet()
    for data in (b"", b"\0\0\0", b"\0\0\0\0", b"\0\0\0\0\0", struct.pack(">I", 0xffffffff) + b"xx",
                 string(b"ram"), string(b"ram") + b"\0\1", string(b"ram") + b"\0\1\0\1\0",
                 string(b"ram") + b"\0\0\0\0", string(b"ram") + b"\xff\xff\0\0",
                 struct.pack(">I", 4097) + b"x" * 4097 + b"\0\0", string(b"ra\0m") + b"\0\0"):
        for option in (INFO, GO):
            expect_equal(kinds(raw.option(option, data)), [INVALID], f"{option} {data[:20]}")
    expect_equal(raw.option(GO, go_data(b""))[-1][0], ACK, "GO at last")


def case_structured_reply(server):
    raw = Raw(server.connect()).greet()
    expect_equal(kinds(raw.option(STRUCTURED_REPLY, b"x")), [INVALID], "with data")
    for _ in range(2):
        expect_equal(raw.option(STRUCTURED_REPLY), [(ACK, b"")], "STRUCTURED_REPLY")
    flags = struct.unpack(">xxQH", raw.option(GO, go_data())[0][1])[1]
    expect(flags & 1 << 7, "DF is offered with structured replies")
    expect(not server.go().flags & 1 << 7, "and not without")


def case_unsupported(server):
    raw = Raw(server.connect()).greet()
    for option in (STARTTLS, EXTENDED_HEADERS, 4, 0, 12, 99, 0x7fffffff, 0xffffffff):
        for data in (b"", b"some data", bytes(16384)):
            kind = raw.option(option, data)[-1][0]
            expect(kind in (UNSUP, POLICY), f"option {option}: {kind:#x}")
    expect_equal(raw.option(GO, go_data())[-1][0], ACK, "GO at last")


def case_oversize_option(server):
    raw = Raw(server.connect()).greet()
    for option in (INFO, GO, LIST, SET_META, 77):
        expect_equal(kinds(raw.option(option, bytes(MIB))), [TOO_BIG], f"option {option}")
    expect_equal(raw.option(GO, go_data())[-1][0], ACK, "GO at last")
    raw = Raw(server.connect()).greet()
    raw.send_option(GO, b"", 0xffffffff)
    raw.expect_closed()
    raw = Raw(server.connect()).greet()
    raw.send_option(EXPORT_NAME, b"", 20000)
    raw.expect_closed()


def case_meta_needs_structured(server):
    raw = Raw(server.connect()).greet()
    for option in (SET_META, LIST_META):
        expect_equal(kinds(raw.option(option, meta(b"", b"base:allocation"))), [INVALID], "before")
    raw.option(STRUCTURED_REPLY)
    expect_equal(kinds(raw.option(SET_META, meta(b"", b"base:allocation"))), [META_REP, ACK], "after")


def case_meta_queries(server):
    raw = Raw(server.connect()).greet()
    raw.option(STRUCTURED_REPLY)
    one = (META_REP, struct.pack(">I", 1) + b"base:allocation")
    for option, queries, n in ((LIST_META, [], 1), (LIST_META, [b"base:"], 1),
                               (LIST_META, [b"base:allocation"], 1), (LIST_META, [b"base:x"], 0),
                               (LIST_META, [b"qemu:"], 0), (LIST_META, [b""], 0),
                               (SET_META, [], 0), (SET_META, [b"base:"], 0),
                               (SET_META, [b"x" * 4096, b"base:allocation"], 1),
                               (SET_META, [b"base:allocation"] * 500, 1)):
        replies = raw.option(option, meta(b"ram", *queries))
        if option == LIST_META:
            replies = [(k, b"\0\0\0\1" + d[4:]) if k == META_REP else (k, d) for k, d in replies]
        expect_equal(replies, [one] * n + [(ACK, b"")], f"{option} {queries[:2]}")
    expect_equal(kinds(raw.option(SET_META, meta(b"other", b"base:allocation"))), [UNKNOWN], "name")
    for data in (b"", string(b"ram"), string(b"ram") + b"\0\0\0\1", string(b"ram") + b"\0\0\0\0x",
                 string(b"ram") + struct.pack(">II", 1, 5000) + bytes(5000),
                 string(b"ram") + b"\xff\xff\xff\xff" + string(b"base:")):
        expect_equal(kinds(raw.option(SET_META, data)), [INVALID], f"{data[:12]}")


def status_error(server, chosen_for, go_name, then=()):
    """The answer to BLOCK_STATUS after SET_META for one name, options, and GO for another."""
    raw = Raw(server.connect()).greet()
    raw.option(STRUCTURED_REPLY)
    raw.is_structured = True
    raw.option(SET_META, meta(chosen_for, b"base:allocation"))
    for option, data in then:
        raw.option(option, data)
    raw.option(GO, go_data(go_name))
    raw.request(BLOCK_STATUS, 0, 4096)
    _, _, kind, body = raw.recv_chunk()
    return struct.unpack_from(">I", body)[0] if kind & 0x8000 else 0


def case_meta_is_for_one_name(server):
    expect_equal(status_error(server, b"ram", b"ram"), 0, "same name")
    expect_equal(status_error(server, b"", b""), 0, "default name")
    expect_equal(status_error(server, b"", b"ram"), EINVAL, "another name")
    expect_equal(status_error(server, b"ram", b"ram", [(SET_META, meta(b"ram"))]), EINVAL, "undone")
    expect_equal(status_error(server, b"ram", b"ram", [(SET_META, b"garbage")]), EINVAL,
                 "undone by a failure")
    expect_equal(status_error(server, b"ram", b"ram", [(INFO, go_data(b"other")), (LIST, b"")]), 0,
                 "not undone by others")


def case_one_byte_at_a_time(server):
    raw = Raw(server.connect())
    raw.recv(18)
    for byte in (struct.pack(">I", 3) + struct.pack(">QII", IHAVEOPT, STRUCTURED_REPLY, 0) +
                 struct.pack(">QII", IHAVEOPT, GO, 6) + go_data()):
        raw.send(bytes([byte]))
    expect_equal(raw.recv_option_reply(STRUCTURED_REPLY)[0], ACK, "STRUCTURED_REPLY")
    expect_equal(raw.recv_option_reply(GO)[0], INFO_REP, "GO")
    expect_equal(raw.recv_option_reply(GO)[0], ACK, "GO")


def case_all_in_one_write(server):
    raw = Raw(server.connect())
    options = b"".join(struct.pack(">QII", IHAVEOPT, LIST, 0) for _ in range(500))
    raw.send(struct.pack(">I", 3) + options + struct.pack(">QII", IHAVEOPT, GO, 6) + go_data() +
             struct.pack(">IHHQQI", 0x25609513, 0, READ, 42, 0, 512))
    raw.recv(18)
    for _ in range(500):
        expect_equal(raw.recv_option_reply(LIST)[0], SERVER_REP, "LIST")
        expect_equal(raw.recv_option_reply(LIST)[0], ACK, "LIST")
    expect_equal(raw.recv_option_reply(GO)[0], INFO_REP, "GO")
    expect_equal(raw.recv_option_reply(GO)[0], ACK, "GO")
    expect_equal(raw.recv_simple(512), (42, 0, bytes(512)), "read")


def case_option_after_go(server):
    raw = server.go()
    raw.send_option(LIST, bytes(12))
    raw.expect_closed()


run_cases([(name[5:].replace("_", " "), with_server(function))
           for name, function in list(globals().items()) if name.startswith("case_")])
