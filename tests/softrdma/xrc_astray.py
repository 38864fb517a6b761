#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""XRC requests that name a shared receive queue which is not there, between two hosts. Started by test_roce.py on
both: the one that serves has a queue in each of two protection domains, the other one sends. Prints a line for each
request: what it was, and the status of its completion."""

import json
import os
import socket
import sys
import time

from pyverbs import enums as e
from pyverbs.addr import GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttrEx
from pyverbs.srq import SRQ, SrqInitAttrEx
from pyverbs.wr import SGE, RecvWR, SendWR
from pyverbs.xrcd import XRCD, XRCDInitAttr

LENGTH = 3000  # several packets
ACCESS = (e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ)
SEND, WRITE, READ = e.IBV_WR_SEND, e.IBV_WR_RDMA_WRITE, e.IBV_WR_RDMA_READ
# The operation, and which queue it names, in which domain the memory is. The last of a number of requests on one
# connection is the one that fails.
REQUESTS = [("SEND", SEND, "none"), ("WRITE", WRITE, "none"), ("READ", READ, "none"), ("SEND", SEND, "one"),
            ("WRITE", WRITE, "one"), ("READ", READ, "one"), ("WRITE", WRITE, "two"), ("READ", READ, "two")]


def connect(qp, peer):
    attr = QPAttr(port_num=1)
    attr.path_mtu = e.IBV_MTU_1024
    attr.max_rd_atomic = attr.max_dest_rd_atomic = 1
    attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry = 12, 18, 7, 7
    attr.dest_qp_num = peer["qpn"]
    attr.ah_attr = AHAttr(port_num=1, is_global=True, gr=GlobalRoute(dgid=GID(peer["gid"]), sgid_index=0))
    attr.qp_access_flags = ACCESS
    qp.to_rts(attr)


def queue(context, pd, cq, domain):
    attr = SrqInitAttrEx(max_wr=4)
    attr.srq_type, attr.pd, attr.cq, attr.xrcd = e.IBV_SRQT_XRC, pd, cq, domain
    attr.comp_mask = (e.IBV_SRQ_INIT_ATTR_TYPE | e.IBV_SRQ_INIT_ATTR_PD | e.IBV_SRQ_INIT_ATTR_CQ |
                      e.IBV_SRQ_INIT_ATTR_XRCD)
    return SRQ(context, attr)


def serve(link, context):
    domain = XRCD(context, XRCDInitAttr(e.IBV_XRCD_INIT_ATTR_FD | e.IBV_XRCD_INIT_ATTR_OFLAGS, os.O_CREAT, -1))
    pds, cq = [PD(context), PD(context)], CQ(context, 16)
    srqs = [queue(context, pd, cq, domain) for pd in pds]
    mr = MR(pds[0], LENGTH, ACCESS)
    srqs[0].post_recv(RecvWR(sg=[SGE(mr.buf, LENGTH, mr.lkey)], num_sge=1))
    qps = []
    for line in link:
        attr = QPAttr(port_num=1)
        attr.qp_access_flags = ACCESS
        qp = QP(context, QPInitAttrEx(qp_type=e.IBV_QPT_XRC_RECV, comp_mask=e.IBV_QP_INIT_ATTR_XRCD, xrcd=domain),
                attr)
        connect(qp, json.loads(line))
        qps.append(qp)
        say(link, {"qpn": qp.qp_num, "gid": context.query_gid(1, 0).gid, "rkey": mr.rkey, "at": mr.buf,
                   "one": srqs[0].get_srq_num(), "two": srqs[1].get_srq_num(), "none": 0xffffff})


def say(link, what):
    link.write(json.dumps(what) + "\n")
    link.flush()


def send(link, context):
    pd, cq = PD(context), CQ(context, 16)
    mr = MR(pd, LENGTH, ACCESS)
    for name, operation, which in REQUESTS:
        qp = QP(context, QPInitAttrEx(qp_type=e.IBV_QPT_XRC_SEND, sq_sig_all=1, comp_mask=e.IBV_QP_INIT_ATTR_PD, pd=pd,
                                      scq=cq, cap=QPCap(max_send_wr=4)), QPAttr(port_num=1))
        say(link, {"qpn": qp.qp_num, "gid": context.query_gid(1, 0).gid})
        peer = json.loads(link.readline())
        connect(qp, peer)
        request = SendWR(num_sge=1, sg=[SGE(mr.buf, LENGTH, mr.lkey)], opcode=operation)
        request.set_qp_type_xrc(peer[which])
        if operation != SEND:
            request.set_wr_rdma(peer["rkey"], peer["at"])
        qp.post_send(request)
        n = 0
        while not n:
            n, completions = cq.poll()
            time.sleep(0.001)
        print(name, which, completions[0].status)
        qp.close()


def main():
    context = Context(name="softrdma0")
    if sys.argv[1:2]:
        with socket.create_connection((sys.argv[1], int(os.environ["PORT"]))) as s, s.makefile("rw") as link:
            send(link, context)
    else:
        with socket.create_server(("", int(os.environ["PORT"]))) as listener:
            s, _ = listener.accept()
            with s, s.makefile("rw") as link:
                serve(link, context)


main()
