#!/usr/bin/python3
"""NBD over TLS: foreign clients with keys and with certificates, and clients that have neither, the
wrong ones, or try to get something in before the encryption."""

import json
import os
import socket
import ssl
import struct
import sys
import warnings

from nbd_server import (ABORT, ACK, ERR, EXPORT_NAME, GO, IHAVEOPT, INFO, INFO_REP, INVALID, LIST, LIST_META, MIB,
                        READ, REPLY_MAGIC, STARTTLS, STRUCTURED_REPLY, UNSUP, WRITE, Raw, expect, expect_equal, go_data)
from harness import NQN, PATIENCE, Target, expect_data, free_port, rblk, run, run_cases, wait_until

USAGE, CONFIG, PRIVILEGE = 2, 3, 9
warnings.simplefilter("ignore", DeprecationWarning)  # TLS 1.1, which must fail
TLS_REQD = ERR + 5
SIMPLE = 0x67446698


class Keys:
    """A CA, a certificate for the server and one for a client, those of another CA, and shared keys."""

    def __init__(self, scratch):
        self.scratch = scratch
        self.server, self.client = self.folder("server"), self.folder("client")
        self.other, self.swapped = self.folder("other"), self.folder("swapped")
        for ca, server, client in (("ours", self.server, self.client), ("theirs", None, self.other)):
            self.make_ca(ca)
            if server:
                self.sign(ca, server, "server", "ip_address = 127.0.0.1\ndns_name = localhost\ntls_www_server\n")
            self.sign(ca, client, "client", "tls_www_client\n")
        # Signed by our CA, but as a server's: it is no client's.
        self.sign("ours", self.swapped, "client", "tls_www_server\n")
        run("cp", os.path.join(self.client, "ca-cert.pem"), self.other)
        self.psk_folder = self.folder("psk")
        self.psk = os.path.join(self.psk_folder, "keys.psk")
        run("psktool", "-u", "alice", "-p", self.psk)
        self.wrong_psk = os.path.join(self.folder("wrong"), "keys.psk")
        run("psktool", "-u", "alice", "-p", self.wrong_psk)

    def folder(self, name):
        path = self.scratch.file(name)
        os.mkdir(path)
        return path

    def template(self, name, text):
        path = self.scratch.file(f"{name}.template")
        with open(path, "w", encoding="ascii") as f:
            f.write(f"cn = {name}\nexpiration_days = 30\n" + text)
        return path

    def make_ca(self, name):
        key, certificate = self.scratch.file(f"{name}.key"), self.scratch.file(f"{name}.pem")
        run("certtool", "--generate-privkey", "--key-type", "ecdsa", "--outfile", key)
        run("certtool", "--generate-self-signed", "--load-privkey", key, "--outfile", certificate,
            "--template", self.template(name, "ca\ncert_signing_key\n"))

    def sign(self, ca, folder, role, text):
        key, certificate = (os.path.join(folder, f"{role}-{x}.pem") for x in ("key", "cert"))
        run("certtool", "--generate-privkey", "--key-type", "ecdsa", "--outfile", key)
        run("certtool", "--generate-certificate", "--load-privkey", key, "--outfile", certificate,
            "--load-ca-certificate", self.scratch.file(f"{ca}.pem"), "--load-ca-privkey", self.scratch.file(f"{ca}.key"),
            "--template", self.template(role, text + "signing_key\n"))
        run("cp", self.scratch.file(f"{ca}.pem"), os.path.join(folder, "ca-cert.pem"))
        os.chmod(key, 0o600)

    def context(self, folder):
        """Of a client of Python's: OpenSSL, where the others are GnuTLS."""
        context = ssl.create_default_context(cafile=os.path.join(self.client, "ca-cert.pem"))
        if folder:
            context.load_cert_chain(*(os.path.join(folder, f"client-{x}.pem") for x in ("cert", "key")))
        return context


class Served:
    """A volume with a TCP port and these options."""

    def __init__(self, scratch, target, *options, name="tls"):
        self.scratch, self.name, self.port = scratch, name, free_port()
        rblk(scratch, "attach", f"{NQN}@{target.address}", "--frontend", "socket", "--name", name,
             "--listen", f"127.0.0.1:{self.port}", *options)
        self.where = f"127.0.0.1:{self.port}"

    def x509(self, folder):
        return f"nbds://{self.where}/?tls-certificates={folder}"

    def psk(self, file):
        return f"nbds://alice@{self.where}/?tls-psk-file={file}"

    def connect(self):
        return Raw(socket.create_connection(("127.0.0.1", self.port), PATIENCE))

    def refused(self):
        return status_of(self.scratch, self.name)["tls_refused"]

    def detach(self):
        rblk(self.scratch, "detach", self.name)


def status_of(scratch, name):
    return json.loads(rblk(scratch, "status", name, "-o", "json").stdout)


def with_target(function):
    def case(scratch):
        target = Target(scratch, ["nsid: 1, ram: 16MiB"])
        function(scratch, target, Keys(scratch))
        target.stop()
    return case


def copies(scratch, uri, options, there):
    """All of a disk there and back, by nbdcopy and by qemu-img."""
    source, back = scratch.file("source"), scratch.file("back")
    with open(source, "wb") as f:
        f.write(os.urandom(16 * MIB))
    expect_equal(run("nbdinfo", "--size", uri).stdout.strip(), str(16 * MIB), "size")
    run("nbdcopy", "--connections=4", source, uri)
    run("nbdcopy", uri, back)
    run("cmp", source, back)
    run("qemu-img", "convert", "-n", "--object", options, "--image-opts", "--target-image-opts", f"driver=file,filename={back}", there)
    run("qemu-img", "compare", "--object", options, "--image-opts", f"driver=file,filename={source}", there)


def case_keys(scratch, target, keys):
    served = Served(scratch, target, "--tls-psk", keys.psk)
    copies(scratch, served.psk(keys.psk), f"tls-creds-psk,id=t,endpoint=client,dir={keys.psk_folder},username=alice",
           f"driver=nbd,host=127.0.0.1,port={served.port},tls-creds=t")
    for file in (keys.wrong_psk,):
        expect(run("nbdinfo", served.psk(file), check=False).returncode, "a wrong key")
    expect(run("nbdinfo", served.psk(keys.psk).replace("alice", "mallory"), check=False).returncode, "another user")
    expect(run("nbdinfo", served.x509(keys.client), check=False).returncode, "a certificate, where keys are wanted")
    with open(keys.psk, "a", encoding="ascii") as f:
        f.write("bob:" + "5a" * 32 + "\n")
    run("nbdinfo", served.psk(keys.psk).replace("alice", "bob"))  # the file is read again
    served.detach()


def case_certificates(scratch, target, keys):
    served = Served(scratch, target, "--tls", "require", "--tls-certificates", keys.server)
    copies(scratch, served.x509(keys.client), f"tls-creds-x509,id=t,endpoint=client,dir={keys.client}",
           f"driver=nbd,host=127.0.0.1,port={served.port},tls-creds=t")
    before = served.refused()
    for folder in (keys.other, keys.swapped):
        expect(run("nbdinfo", served.x509(folder), check=False).returncode, f"certificates of {folder}")
    expect(run("nbdinfo", served.psk(keys.psk), check=False).returncode, "a key, where certificates are wanted")
    wait_until(lambda: served.refused() >= before + 3, "it is counted")
    served.detach()


def case_both(scratch, target, keys):
    served = Served(scratch, target, "--tls-certificates", keys.server, "--tls-psk", keys.psk)
    for uri in (served.x509(keys.client), served.psk(keys.psk)):
        run("nbdinfo", uri)
    served.detach()


def case_plain_clients_where_tls_is_required(scratch, target, keys):
    served = Served(scratch, target, "--tls-psk", keys.psk)
    done = run("nbdinfo", f"nbd://{served.where}", check=False)
    expect(done.returncode, "nbdinfo without TLS")
    raw = served.connect()
    raw.greet()
    for option, data in ((LIST, b""), (STRUCTURED_REPLY, b""), (INFO, go_data()), (GO, go_data()), (99, b"x"),
                         (LIST_META, struct.pack(">II", 0, 0))):
        expect_equal(raw.option(option, data)[0][0], TLS_REQD, f"option {option}")
    expect_equal(raw.option(ABORT)[0][0], ACK, "ABORT")
    raw = served.connect()
    raw.greet()
    raw.send_option(EXPORT_NAME, b"")
    raw.expect_closed()
    run("nbdinfo", f"nbd+unix:///?socket={status_of(scratch, 'tls')['socket']}")  # the unix socket is not concerned
    served.detach()


def case_clients_decide(scratch, target, keys):
    served = Served(scratch, target, "--tls", "allow", "--tls-psk", keys.psk)
    run("nbdinfo", f"nbd://{served.where}")
    run("nbdinfo", served.psk(keys.psk))
    served.detach()
    served = Served(scratch, target)
    raw = served.connect()
    raw.greet()
    expect_equal(raw.option(STARTTLS)[0][0], UNSUP, "STARTTLS without keys")
    raw.close()
    served.detach()


def encrypted(served, keys, raw):
    expect_equal(raw.option(STARTTLS)[0][0], ACK, "STARTTLS")
    raw.sock = keys.context(keys.client).wrap_socket(raw.sock, server_hostname="127.0.0.1")
    return raw


def case_what_was_said_before(scratch, target, keys):
    """Options in plain text do not count behind STARTTLS, and nothing can be slipped in."""
    served = Served(scratch, target, "--tls", "allow", "--tls-certificates", keys.server)
    raw = served.connect()
    raw.greet()
    expect_equal(raw.option(STRUCTURED_REPLY)[0][0], ACK, "structured replies, in plain text")
    encrypted(served, keys, raw)
    expect_equal(raw.option(STARTTLS)[0][0], INVALID, "STARTTLS again")
    expect_equal([kind for kind, _ in raw.option(GO, go_data())], [INFO_REP, ACK], "GO")
    raw.request(READ, 0, 512, cookie=7)
    expect_equal(raw.recv_simple(512)[:2], (7, 0), "a simple reply")
    raw.close()
    header = struct.pack(">QII", IHAVEOPT, LIST, 0)
    raw = served.connect()
    raw.greet()
    raw.sock.sendall(struct.pack(">QII", IHAVEOPT, STARTTLS, 0) + header)
    raw.expect_closed()
    raw = served.connect()
    raw.greet()
    expect_equal(raw.option(STARTTLS, b"x")[0][0], INVALID, "STARTTLS with data")
    expect_equal(raw.option(STARTTLS)[0][0], ACK, "STARTTLS")
    raw.sock.sendall(header)
    answer = b""
    try:
        while more := raw.sock.recv(4096):
            answer += more
    except ConnectionError:
        pass
    expect(struct.pack(">Q", REPLY_MAGIC) not in answer, f"plain text is no option: {answer}")
    run("nbdinfo", served.x509(keys.client))
    served.detach()


def case_hostile_clients(scratch, target, keys):
    served = Served(scratch, target, "--tls-certificates", keys.server)
    silent = []
    for i in range(8):
        raw = served.connect()
        raw.greet()
        expect_equal(raw.option(STARTTLS)[0][0], ACK, "STARTTLS")
        try:
            raw.sock.sendall((b"", b"\x16", b"\x16\x03\x01\x40\x00" + b"\xff" * 16384, b"\x16\x03\x01\x00\x00" * 100,
                                b"\x15\x03\x03\x00\x02\x02\x00", os.urandom(5000), b"\x80\x2e\x01\x03\x01", b"GET /")[i])
        except OSError:
            pass  # closed already
        silent.append(raw)
    for folder, version in ((None, None), (keys.client, ssl.TLSVersion.TLSv1_1)):
        raw = served.connect()
        raw.greet()
        expect_equal(raw.option(STARTTLS)[0][0], ACK, "STARTTLS")
        context = keys.context(folder)
        try:
            if version:
                context.set_ciphers("ALL:@SECLEVEL=0")
                context.minimum_version = context.maximum_version = version
            raw.sock = context.wrap_socket(raw.sock, server_hostname="127.0.0.1")
            raw.send_option(LIST)
            expect(not raw.sock.recv(1), "an answer")
        except (ssl.SSLError, OSError):
            pass
    run("nbdinfo", served.x509(keys.client))
    for raw in silent:
        raw.close()
    wait_until(lambda: served.refused() == 10, "they are counted")
    served.detach()


def case_records_of_any_size(scratch, target, keys):
    """Requests in pieces, several in a record, payloads across records; a client that does not read."""
    served = Served(scratch, target, "--tls-certificates", keys.server)
    raw = served.connect()
    raw.greet()
    encrypted(served, keys, raw)
    raw.option(GO, go_data())
    data = os.urandom(3 * MIB)
    stream = b"".join(struct.pack(">IHHQQI", 0x25609513, 0, WRITE, i, i * MIB, MIB) + data[i * MIB:(i + 1) * MIB]
                      for i in range(3))
    at, step = 0, 1
    while at < len(stream):
        raw.sock.sendall(stream[at:at + step])
        at, step = at + step, step * 7 % 65521 + 1
    expect_equal(sorted(struct.unpack(">IIQ", raw.recv(16)) for _ in range(3)), [(SIMPLE, 0, i) for i in range(3)],
                 "writes")
    reads = [struct.pack(">IHHQQI", 0x25609513, 0, READ, i, i % 3 * MIB, MIB) for i in range(24)]
    raw.sock.sendall(b"".join(reads))  # more than the sockets hold: the server waits for us
    for _ in reads:
        magic, error, cookie = struct.unpack(">IIQ", raw.recv(16))
        expect_equal((magic, error), (SIMPLE, 0), "a read")
        expect_data(raw.recv(MIB), data[cookie % 3 * MIB:(cookie % 3 + 1) * MIB], f"request {cookie}")
    plain = raw.sock.unwrap()  # the orderly end of TLS: the server ends, too
    plain.close()
    wait_until(lambda: not status_of(scratch, "tls")["connections"], "the connection is over")
    served.detach()


def case_mistakes(scratch, target, keys):
    where = f"{NQN}@{target.address}"
    port = f"127.0.0.1:{free_port()}"
    empty, open_psk = keys.folder("empty"), scratch.file("open.psk")
    run("cp", keys.psk, open_psk)
    os.chmod(open_psk, 0o644)
    mixed = keys.folder("mixed")
    for name, folder in (("ca-cert", keys.server), ("server-cert", keys.server), ("server-key", keys.client)):
        run("cp", os.path.join(folder, f"{name.replace('server', os.path.basename(folder))}.pem"),
            os.path.join(mixed, f"{name}.pem"))
    for options, code, text in (
            (("--tls", "require"), USAGE, "--tls require needs keys"),
            (("--tls", "always"), USAGE, "--tls"),
            (("--tls-psk", keys.psk, "--no-listen"), USAGE, "TLS is for TCP clients"),
            (("--tls-psk", scratch.file("none")), CONFIG, "No such file"),
            (("--tls-psk", open_psk), CONFIG, "others may read"),
            (("--tls-certificates", empty), CONFIG, "ca-cert.pem"),
            (("--tls-certificates", mixed), CONFIG, "server-cert.pem")):
        listen = () if "--no-listen" in options else ("--listen", port)
        done = rblk(scratch, "attach", where, "--frontend", "socket", *listen,
                    *(o for o in options if o != "--no-listen"), check=False)
        expect_equal(done.returncode, code, f"{options}: {done.stderr}")
        expect(text in done.stderr and done.stderr.count("error:") == 1, f"{options}: {done.stderr}")
    served = Served(scratch, target, "--tls-psk", keys.psk)
    done = rblk(scratch, "attach", where, "--frontend", "socket", "--name", "tls", "--listen", served.where, check=False)
    expect("--tls is require, not off" in done.stderr, done.stderr)
    served.detach()


def case_owner_and_group(scratch, target, keys):
    """The unix socket for another user, as libvirt needs it."""
    path = scratch.file("q.sock")
    where = f"{NQN}@{target.address}"
    arguments = ("--frontend", "socket", "--name", "q", "--socket", path)
    for options, text in ((("--socket-owner", "no-such-user"), "--socket-owner: there is no user"),
                          (("--socket-group", "no such"), "--socket-group: there is no group"),
                          (("--socket-group", "4294967295"), "--socket-group")):
        done = rblk(scratch, "attach", where, *arguments, *options, check=False)
        expect_equal(done.returncode, USAGE, done.stderr)
        expect(text in done.stderr, done.stderr)
    if os.getuid():
        done = rblk(scratch, "attach", where, *arguments, "--socket-owner", "root", check=False)
        expect_equal(done.returncode, PRIVILEGE, done.stderr)
        expect("only root may" in done.stderr and not os.path.exists(path), done.stderr)
        owner, group = str(os.getuid()), str(os.getgid())
    else:
        owner, group = "65534", "12345"
    rblk(scratch, "attach", where, *arguments, "--socket-owner", owner, "--socket-group", group, "--socket-mode", "0660")
    found = os.stat(path)
    expect_equal((found.st_uid, found.st_gid, found.st_mode & 0o777),
                 (65534, 12345, 0o660) if owner == "65534" else (os.getuid(), os.getgid(), 0o660), "the socket")
    done = rblk(scratch, "attach", where, *arguments, "--socket-mode", "0660", check=False)
    expect("--socket-owner is" in done.stderr, done.stderr)
    rblk(scratch, "detach", "q")
    expect(not os.path.exists(path), "the socket is removed")


run_cases([(name[5:].replace("_", " "), with_target(function))
           for name, function in list(globals().items())
           if name.startswith("case_") and (len(sys.argv) < 2 or sys.argv[1] in name)])
