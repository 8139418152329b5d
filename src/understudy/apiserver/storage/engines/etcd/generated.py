"""Keys and certificates that servers make for themselves, which all servers on one etcd share.

They are beside the keys of the store, at `/understudy/PREFIX/NAME`: no API shows them, kube-apiservers do not read
them, and no snapshot of a store has them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from understudy.apiserver.storage.engines.etcd import messages as pb
from understudy.apiserver.storage.engines.etcd.client import EtcdClient, Files
from understudy.apiserver.storage.interface import StorageError
from understudy.machinery.serializer.rpc.grpc_channel import RPCError

SECONDS = 20.0  # that etcd has to answer


def generated(servers: Sequence[str], files: Files, prefix: str, name: str, make: Callable[[], bytes]) -> bytes:
    """Return a key or certificate that the servers on an etcd share, as the first one has made it.

    It blocks the caller, whose event loop may run, for as long as etcd takes. Raises StorageError.
    """
    place = f"/understudy/{prefix.strip('/')}/{name}".encode()
    with ThreadPoolExecutor(1) as thread:
        try:
            return thread.submit(asyncio.run, _generated(servers, files, place, make)).result()
        except RPCError as why:
            raise StorageError(f"etcd at {', '.join(servers)} does not answer: {why.description}") from why


async def _generated(servers: Sequence[str], files: Files, place: bytes, make: Callable[[], bytes]) -> bytes:
    """Read a value, or put what is made, unless another server has just done so. Raises RPCError, StorageError."""
    client = EtcdClient(servers, files)
    try:
        look = pb.RangeRequest(place)
        if not (kvs := (await client.read(pb.RANGE, look, pb.RangeResponse, SECONDS)).kvs):
            made = make()
            is_missing = pb.Compare(pb.CompareTarget.VERSION, place, version=0)
            put, read = pb.RequestOp(request_put=pb.PutRequest(place, made)), pb.RequestOp(request_range=look)
            done = await client.write(pb.TXN, pb.TxnRequest((is_missing,), (put,), (read,)), pb.TxnResponse, SECONDS)
            if done.succeeded:
                return made
            kvs = done.responses[0].response_range.kvs
        return kvs[0].value
    finally:
        await client.close()
