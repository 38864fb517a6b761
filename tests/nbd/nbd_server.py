"""The NBD server on a volume in memory, and a client that builds NBD byte by byte.

The raw client sends exactly the bytes of a test, legal or not; libnbd would refuse some.
"""

import os
import signal
import socket
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from harness import BUILD, PATIENCE, SANITIZER_REPORT, Failure, expect, expect_equal  # noqa: E402

SERVER = os.path.join(BUILD, "tests", "nbd", "nbd_ram_server")
MIB = 1 << 20

# Options, their replies, commands, flags, errors: as in nbd_wire.h.
(EXPORT_NAME, ABORT, LIST, STARTTLS, INFO, GO, STRUCTURED_REPLY, LIST_META, SET_META,
 EXTENDED_HEADERS) = 1, 2, 3, 5, 6, 7, 8, 9, 10, 11
ACK, SERVER_REP, INFO_REP, META_REP = 1, 2, 3, 4
ERR = 1 << 31
UNSUP, POLICY, INVALID, UNKNOWN, TOO_BIG = ERR + 1, ERR + 2, ERR + 3, ERR + 6, ERR + 9
READ, WRITE, DISC, FLUSH, TRIM, CACHE, WRITE_ZEROES, BLOCK_STATUS = range(8)
FUA, NO_HOLE, DF, REQ_ONE, FAST_ZERO = 1, 2, 4, 8, 16
EPERM, EIO, EINVAL, ENOSPC, ENOTSUP, ESHUTDOWN = 1, 5, 22, 28, 95, 108
CHUNK_NONE, CHUNK_DATA, CHUNK_STATUS, CHUNK_ERROR, CHUNK_ERROR_OFFSET = 0, 1, 5, 0x8001, 0x8002

GREETING = 0x4E42444D41474943
IHAVEOPT = 0x49484156454F5054
REPLY_MAGIC = 0x0003E889045565A9


class Server:
    """A running nbd_ram_server; environment: see tests/lib/volume_ram.h, without VOLUME_RAM_."""

    def __init__(self, scratch, *options, program=SERVER, **environment):
        self.scratch = scratch
        self.path = scratch.file("s")
        self.log = scratch.file("server.log")
        env = dict(scratch.env, **{f"VOLUME_RAM_{k}": str(v) for k, v in environment.items()})
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([program, *options, self.path], env=env, stderr=log,
                                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        line = self.process.stdout.readline()
        expect(line == b"ready\n", f"the server did not start: {line} {self.read_log()}")
        self.uri = f"nbd+unix:///?socket={self.path}"

    def read_log(self):
        with open(self.log, encoding="utf-8", errors="replace") as f:
            return f.read()

    def connect(self, timeout=None):
        s = socket.socket(socket.AF_UNIX)
        s.connect(self.path)  # before the timeout: it would not wait for the backlog
        s.settimeout(timeout or PATIENCE)
        return s

    def go(self, **kwargs):
        return Raw(self.connect()).go(**kwargs)

    def is_alive(self):
        return self.process.poll() is None

    def stop(self, seconds=PATIENCE):
        """Sends SIGTERM; an exit status other than 0 or a sanitizer report is a failure."""
        self.process.send_signal(signal.SIGTERM)
        self.wait(seconds)

    def wait(self, seconds=PATIENCE):
        """The checks of stop, for a process that was ended already."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise Failure(f"the server did not end in {seconds} s\n{self.read_log()[-3000:]}") from None
        log = self.read_log()
        expect(not SANITIZER_REPORT.search(log), "sanitizer report:\n" + log[-6000:])
        expect_equal(code, 0, "exit status\n" + log[-2000:])


class Raw:
    """One end of an NBD conversation over a connected socket."""

    def __init__(self, sock):
        self.sock = sock
        self.size = self.flags = None
        self.is_structured = False

    # -- bytes

    def send(self, data):
        self.sock.sendall(data)

    def recv(self, n):
        data = bytearray(n)
        left = memoryview(data)
        while left:
            more = self.sock.recv_into(left)
            if not more:
                raise EOFError(f"closed after {n - len(left)} of {n} bytes")
            left = left[more:]
        return bytes(data)

    def expect_closed(self):
        try:
            data = self.sock.recv(65536)
        except ConnectionError:
            return
        expect_equal(data, b"", "a closed connection")

    def close(self):
        self.sock.close()

    # -- handshake

    def greet(self, flags=3):
        magic, have, server_flags = struct.unpack(">QQH", self.recv(18))
        expect_equal((magic, have, server_flags), (GREETING, IHAVEOPT, 3), "greeting")
        self.send(struct.pack(">I", flags))
        return self

    def send_option(self, option, data=b"", length=None):
        self.send(struct.pack(">QII", IHAVEOPT, option, len(data) if length is None else length)
                  + data)

    def recv_option_reply(self, option):
        magic, of, kind, length = struct.unpack(">QIII", self.recv(20))
        expect_equal((magic, of), (REPLY_MAGIC, option), "option reply")
        return kind, self.recv(length)

    def option(self, option, data=b"", length=None):
        """All replies up to the ACK or an error: [(kind, data)]."""
        self.send_option(option, data, length)
        replies = []
        while not replies or replies[-1][0] not in (ACK,) and replies[-1][0] < ERR:
            replies.append(self.recv_option_reply(option))
        return replies

    def go(self, name=b"", infos=(), structured=False, context=False):
        self.greet()
        if structured or context:
            expect_equal(self.option(STRUCTURED_REPLY), [(ACK, b"")], "structured replies")
            self.is_structured = True
        if context:
            replies = self.option(SET_META, meta(name, b"base:allocation"))
            expect_equal([r[0] for r in replies], [META_REP, ACK], "meta context")
        replies = self.option(GO, go_data(name, *infos))
        expect_equal(replies[-1][0], ACK, "GO")
        self.size, self.flags = struct.unpack(">xxQH", replies[0][1])
        return self

    # -- transmission

    def request(self, command, offset=0, length=0, flags=0, cookie=1, payload=b"", magic=0x25609513):
        self.send(self.header(command, offset, length, flags, cookie, magic) + payload)

    @staticmethod
    def header(command, offset=0, length=0, flags=0, cookie=1, magic=0x25609513):
        return struct.pack(">IHHQQI", magic, flags, command, cookie, offset, length)

    def recv_simple(self, n=0):
        """(cookie, error, data); data only when there is no error."""
        magic, error, cookie = struct.unpack(">IIQ", self.recv(16))
        expect_equal(magic, 0x67446698, "magic of a simple reply")
        return cookie, error, b"" if error else self.recv(n)

    def recv_chunk(self):
        """(cookie, flags, type, data)"""
        magic, flags, kind, cookie, length = struct.unpack(">IHHQI", self.recv(20))
        expect_equal(magic, 0x668E33EF, "magic of a chunk")
        return cookie, flags, kind, self.recv(length)

    def recv_read(self, offset, length):
        """One structured read: (data, error, error offset)."""
        data, covered = bytearray(), 0
        while True:
            _, flags, kind, body = self.recv_chunk()
            if kind == CHUNK_DATA:
                at = struct.unpack_from(">Q", body)[0] - offset
                data.extend(bytes(max(0, at + len(body) - 8 - len(data))))
                data[at:at + len(body) - 8] = body[8:]
                covered += len(body) - 8
            elif kind == CHUNK_ERROR:
                return bytes(data), struct.unpack_from(">I", body)[0], None
            elif kind == CHUNK_ERROR_OFFSET:
                return bytes(data), *struct.unpack_from(">IxxQ", body)
            else:
                expect_equal((kind, body), (CHUNK_NONE, b""), "chunk of a read")
            if flags & 1:
                expect_equal((len(data), covered), (length, length), "bytes of a read")
                return bytes(data), 0, None

    def call(self, command, offset=0, length=0, flags=0, payload=b""):
        """A request and its whole answer: (error, data)."""
        self.request(command, offset, length, flags, 7, payload)
        if self.is_structured and command == READ:
            data, error, _ = self.recv_read(offset, length)
            return error, data if not error else b""
        cookie, error, data = self.recv_simple(length if command == READ else 0)
        expect_equal(cookie, 7, "cookie")
        return error, data

    def disconnect(self):
        self.request(DISC)
        self.expect_closed()


def string(data):
    return struct.pack(">I", len(data)) + data


def go_data(name=b"", *infos):
    return string(name) + struct.pack(f">H{len(infos)}H", len(infos), *infos)


def meta(name, *queries):
    return string(name) + struct.pack(">I", len(queries)) + b"".join(map(string, queries))


def pattern(n, seed):
    """Bytes that differ at every offset and for every seed."""
    import random
    return random.Random(seed).randbytes(n)
