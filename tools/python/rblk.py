# SPDX-License-Identifier: BSD-3-Clause
"""NVMe over RDMA volumes in Python, by librblk(3), for tests and notebooks.

    import rblk
    with rblk.Volume("nvme+rdma://192.0.2.1/nqn.2026-01.org.example:disks?ns=1") as volume:
        volume.write(0, b"hello".ljust(volume.block_size, b"\\0"))
        volume.flush()
        print(volume.read(0, volume.block_size)[:5], volume.status()["state"])

Calls wait for their end, with the interpreter's lock released. A Volume may be used by several
threads: each call takes a free queue, or opens one. Failures of I/O are OSError, others rblk.Error,
with what to do in its hint. The environment variable LIBRBLK names another library.
"""

import ctypes
import errno
import json
import os
import threading

__all__ = ["Error", "Volume"]
_READ, _WRITE, _FLUSH, _WRITE_ZEROES, _DISCARD, _COMPARE_AND_WRITE = range(6)
_FUA, _MAY_UNMAP = 1, 2
_PATH_KEEP, _PATH_DEAD = 1, 2


class _Error(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("message", ctypes.c_char * 1024), ("hint", ctypes.c_char * 256)]


class _Option(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("value", ctypes.c_char_p)]


class _Info(ctypes.Structure):
    _fields_ = [("size_bytes", ctypes.c_uint64), ("block_size", ctypes.c_uint32),
                ("max_io_bytes", ctypes.c_uint32), ("n_queues", ctypes.c_uint32),
                ("is_read_only", ctypes.c_uint32), ("has_write_zeroes", ctypes.c_uint32),
                ("has_discard", ctypes.c_uint32), ("reads_zero_after_discard", ctypes.c_uint32),
                ("uuid", ctypes.c_uint8 * 16), ("nguid", ctypes.c_uint8 * 16),
                ("serial", ctypes.c_char * 24), ("model", ctypes.c_char * 48),
                ("firmware", ctypes.c_char * 16), ("max_compare_bytes", ctypes.c_uint64),
                ("reserved", ctypes.c_uint64 * 15)]


class _Io(ctypes.Structure):
    _fields_ = [("op", ctypes.c_uint32), ("flags", ctypes.c_uint32), ("offset", ctypes.c_uint64),
                ("length", ctypes.c_uint64), ("buffer", ctypes.c_void_p), ("memory", ctypes.c_void_p),
                ("done", ctypes.c_void_p), ("context", ctypes.c_void_p), ("result", ctypes.c_int32),
                ("reserved", ctypes.c_uint32), ("internal", ctypes.c_uint64 * 48)]


def _load():
    library = ctypes.CDLL(os.environ.get("LIBRBLK", "librblk.so.0"))
    pointer, out = ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)
    path = [pointer, ctypes.c_char_p, ctypes.c_uint32, ctypes.c_int, ctypes.POINTER(_Error)]
    for name, types in (("open", [ctypes.c_char_p, ctypes.POINTER(_Option), out, ctypes.POINTER(_Error)]),
                        ("close", [pointer]), ("get_info", [pointer, ctypes.POINTER(_Info)]),
                        ("get_status", [pointer, out]),
                        ("path_add", path), ("path_remove", path),
                        ("queue_open", [pointer, out, ctypes.POINTER(_Error)]),
                        ("queue_close", [pointer]), ("run", [pointer, ctypes.POINTER(_Io)])):
        getattr(library, "rblk_" + name).argtypes = types
    library.rblk_free.argtypes, library.rblk_free.restype = [pointer], None
    library.rblk_version.restype = ctypes.c_char_p
    return library


_library = _load()


class Error(OSError):
    """A failure of the library; hint says what to do, or is ""."""

    def __init__(self, error):
        self.hint = error.hint.decode(errors="replace")
        super().__init__(-error.code, error.message.decode(errors="replace"))


def _call(function, *arguments):
    error = _Error()
    if function(*arguments, ctypes.byref(error)) < 0:
        raise Error(error)


def version():
    """The version of the library."""
    return _library.rblk_version().decode()


class Volume:
    """A namespace by its URI; options are those of librblk(3), with _ for -: ctrl_loss_tmo="30s"."""

    def __init__(self, uri, **options):
        array = (_Option * (len(options) + 1))()
        for entry, (name, value) in zip(array, options.items()):
            entry.name, entry.value = name.replace("_", "-").encode(), str(value).encode()
        self._volume = ctypes.c_void_p()
        self._lock, self._free, self._n_queues = threading.Condition(), [], 0
        _call(_library.rblk_open, uri.encode(), array, ctypes.byref(self._volume))

    def close(self):
        """Closes the volume; no call is under way. A second close does nothing."""
        while self._free:
            _library.rblk_queue_close(self._free.pop())
        _library.rblk_close(self._volume)
        self._volume, self._n_queues = ctypes.c_void_p(), 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _info(self):
        info = _Info()
        self._check(_library.rblk_get_info(self._open(), ctypes.byref(info)))
        return info

    @property
    def size(self):
        """Bytes."""
        return self._info().size_bytes

    @property
    def block_size(self):
        """Offsets and lengths are multiples of it."""
        return self._info().block_size

    @property
    def max_compare_bytes(self):
        """The most that one compare_and_write takes; 0: the target has none."""
        return self._info().max_compare_bytes

    def status(self):
        """The answer of rblk_get_status, as a dict."""
        text = ctypes.c_void_p()
        self._check(_library.rblk_get_status(self._open(), ctypes.byref(text)))
        try:
            return json.loads(ctypes.string_at(text.value))
        finally:
            _library.rblk_free(text)

    def path_add(self, address, keep=False, timeout=10):
        """One more path: "HOST[:PORT]" of a portal. Waits until it is live, timeout seconds at most; one that
        is not is an Error and is taken out again. With keep it stays, and is tried again."""
        _call(_library.rblk_path_add, self._open(), address.encode(), _PATH_KEEP if keep else 0, int(timeout * 1000))

    def path_remove(self, address, dead=False, timeout=30):
        """Takes a path out: its I/O is done and flushed first. dead: its target is off, for sure, so writes that
        wait for it go on. TimeoutError: it goes by itself."""
        _call(_library.rblk_path_remove, self._open(), address.encode(), _PATH_DEAD if dead else 0,
              int(timeout * 1000))

    def read(self, offset, length):
        """Returns length bytes."""
        buffer = ctypes.create_string_buffer(length)
        self._run(_READ, offset, length, buffer)
        return buffer.raw

    def write(self, offset, data, fua=False):
        """Writes all of data; with fua it is durable then."""
        data = bytes(data)
        buffer = ctypes.create_string_buffer(data, len(data))
        self._run(_WRITE, offset, len(data), buffer, _FUA if fua else 0)

    def write_zeroes(self, offset, length, may_unmap=False):
        """Makes a range zero."""
        self._run(_WRITE_ZEROES, offset, length, None, _MAY_UNMAP if may_unmap else 0)

    def discard(self, offset, length):
        """The contents of a range are not needed any more."""
        self._run(_DISCARD, offset, length, None)

    def compare_and_write(self, offset, expected, data, fua=False):
        """Writes data and returns True, if expected is what is there; otherwise returns False. Both have the
        same length. ConnectionResetError: it was done or not."""
        expected, data = bytes(expected), bytes(data)
        if len(expected) != len(data):
            raise ValueError(f"{len(expected)} bytes are compared, and {len(data)} written")
        buffer = ctypes.create_string_buffer(expected + data, 2 * len(data))
        try:
            self._run(_COMPARE_AND_WRITE, offset, len(data), buffer, _FUA if fua else 0)
        except OSError as error:
            if error.errno != errno.EILSEQ:
                raise
            return False
        return True

    def flush(self):
        """Makes what was written durable."""
        self._run(_FLUSH, 0, 0, None)

    def _open(self):
        if not self._volume:
            raise ValueError("the volume is closed")
        return self._volume

    @staticmethod
    def _check(result):
        if result < 0:
            raise OSError(-result, os.strerror(-result))

    def _take(self):
        with self._lock:
            limit = self._info().n_queues
            while not self._free and self._n_queues >= limit:
                self._lock.wait()
            if self._free:
                return self._free.pop()
            self._n_queues += 1
        queue = ctypes.c_void_p()
        try:
            _call(_library.rblk_queue_open, self._volume, ctypes.byref(queue))
        except Error:
            with self._lock:
                self._n_queues -= 1
            raise
        return queue

    def _run(self, op, offset, length, buffer, flags=0):
        if not 0 <= offset < 1 << 64 or not 0 <= length < 1 << 64:  # ctypes would take the lowest bits
            self._check(-errno.EINVAL)
        io = _Io(op=op, flags=flags, offset=offset, length=length,
                 buffer=ctypes.cast(buffer, ctypes.c_void_p) if buffer is not None else None)
        queue = self._take()
        try:
            self._check(_library.rblk_run(queue, ctypes.byref(io)))
        finally:
            with self._lock:
                self._free.append(queue)
                self._lock.notify()
