"""Bytes at an open port: broken frames of HTTP/2, other protocols, and handshakes of TLS that go wrong."""

from __future__ import annotations

import asyncio
import random
import ssl
import struct
from collections import Counter
from collections.abc import Sequence
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS: Final = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
OTHERS: Final = (
    *(
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /x HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"\x00" * 64,
        b"QUIT\r\n",
    ),
    *(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"SSH-2.0-x\r\n", b"*1\r\n$4\r\nPING\r\n", b"{}" * 100, b""),
)
PATIENCE: Final = 0.05
"""Seconds in which a server may answer; it is left then."""

CONCURRENCY: Final = 32
TYPES: Final = 0xB
"""Types of frames that HTTP/2 knows, from 0; the last one here is unknown."""


def connection_bytes(seed: int) -> bytes:
    """Returns what one connection sends: nearly valid frames, changed ones, or something else."""
    dice = random.Random(seed)
    if dice.random() < 0.15:
        return dice.choice([*OTHERS, dice.randbytes(dice.choice([1, 9, 100, 5_000]))])
    frames = b"".join(_frame(dice) for _ in range(dice.choice([1, 2, 5, 40])))
    sent = bytearray(PREFACE + SETTINGS + frames)
    match dice.random():
        case chance if chance < 0.4:
            return bytes(sent)
        case chance if chance < 0.8:
            for _ in range(dice.randint(1, 6)):
                sent[dice.randrange(len(PREFACE), len(sent))] = dice.randrange(256)
            return bytes(sent)
    return bytes(sent[: dice.randrange(len(sent))])


def _frame(dice: random.Random) -> bytes:
    """Returns one frame; a flood of one kind now and then: rapid resets, pings, empty continuations, settings."""
    stream = dice.choice([0, 1, 1, 3, 2, 2**31 - 1])
    match dice.randrange(8):
        case 0:
            return _whole(0x1, dice.choice([0x4, 0x5, 0x0, 0x2D]), stream, _headers(dice))
        case 1:  # DATA with the prefix of a message of gRPC that lies about its length or compression
            prefix = bytes([dice.choice([0, 1, 7])]) + struct.pack(">I", dice.choice([0, 3, 2**20, 2**32 - 1]))
            return _whole(0x0, dice.choice([0, 1, 8]), stream, prefix + dice.randbytes(dice.choice([0, 3, 500])))
        case 2:
            opened = _whole(0x1, 0x4, 1, _headers(dice))
            return opened + _whole(0x3, 0, 1, struct.pack(">I", 8)) * dice.choice([1, 200])
        case 3:
            return _whole(0x6, 0, 0, dice.randbytes(8)) * dice.choice([1, 100])
        case 4:
            pairs = b"".join(
                struct.pack(">HI", dice.randrange(9), dice.choice([0, 1, 2**31, 2**32 - 1])) for _ in range(5)
            )
            return _whole(0x4, dice.choice([0, 1]), 0, pairs)
        case 5:
            return _whole(0x8, 0, stream, struct.pack(">I", dice.choice([0, 1, 2**31 - 1, 2**32 - 1])))
        case 6:
            return _whole(0x1, 0, 1, _headers(dice)) + _whole(0x9, 0, 1, b"") * dice.choice([1, 200])
    return _whole(dice.randint(0, TYPES), dice.randrange(256), stream, dice.randbytes(dice.choice([0, 1, 40, 2_000])))


def _whole(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def _headers(dice: random.Random) -> bytes:
    """Returns headers as literals of HPACK: those of a call, or with something that no call has."""
    pairs = [(":method", "POST"), (":scheme", "http"), (":path", "/archon.api.registry.v1.RegistryService/Watch")]
    pairs += [(":authority", "x"), ("te", "trailers"), ("content-type", "application/grpc")]
    more = [(":path", ""), ("Upper", "x"), ("x\x00", "y"), ("grpc-timeout", "99999999999H"), ("grpc-encoding", "x")]
    more += [("authorization", "Bearer " + "x" * 30_000), (":method", "GET"), ("content-length", "-1"), ("te", "\r\n")]
    more += [("grpc-accept-encoding", "gzip," * 1_000), ("x" * 9_000, "")]
    if dice.random() < 0.6:
        pairs.insert(dice.randint(0, len(pairs)), dice.choice(more))
    if dice.random() < 0.1:
        return dice.randbytes(dice.choice([1, 30, 400]))
    return b"".join(b"\x00" + _text(name) + _text(value) for name, value in pairs)


def _text(value: str) -> bytes:
    raw = value.encode()
    length, out = len(raw), bytearray()
    if length < 127:
        return bytes([length]) + raw
    out.append(127)
    length -= 127
    while length >= 128:
        out.append(length % 128 + 128)
        length //= 128
    out.append(length)
    return bytes(out) + raw


def hello(dice: random.Random, context: ssl.SSLContext) -> bytes:
    """Returns a ClientHello, changed in some bytes, or cut."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = context.wrap_bio(incoming, outgoing, server_hostname="registry.service.default.bench")
    try:
        session.do_handshake()
    except ssl.SSLWantReadError:
        pass
    sent = bytearray(outgoing.read())
    if dice.random() < 0.3:
        return bytes(sent[: dice.randrange(len(sent))])
    for _ in range(dice.randint(0, 5)):
        sent[dice.randrange(len(sent))] = dice.randrange(256)
    return bytes(sent)


class Bytes:
    """Opens connections that send bytes. `member` is the TLS of a member of the mesh, `stranger` that of a caller without a certificate: with
    them, a third of the connections each is a broken handshake, one without a certificate, and broken frames in TLS."""

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        member: ssl.SSLContext | None = None,
        stranger: ssl.SSLContext | None = None,
    ) -> None:
        self.ends: Counter[str] = Counter()
        self.findings: list[str] = []
        self._addresses = addresses
        self._member = member
        self._stranger = stranger

    async def run(self, seeds: Sequence[int]) -> None:
        """Opens one connection per seed, CONCURRENCY at a time."""
        waiting = iter(seeds)

        async def worker() -> None:
            for seed in waiting:
                await self._connect(seed)

        await asyncio.gather(*(worker() for _ in range(CONCURRENCY)))

    async def _connect(self, seed: int) -> None:
        dice = random.Random(seed)
        host, _, port = self._addresses[seed % len(self._addresses)].rpartition(":")
        sent, context = connection_bytes(seed), None
        if self._member is not None and self._stranger is not None:
            which = dice.randrange(4)
            context = (None, self._stranger, self._member, None)[which]
            if which == 3:
                sent = hello(dice, self._stranger)
        name = "registry.service.default.bench" if context is not None else None
        try:
            async with asyncio.timeout(2):
                reader, writer = await asyncio.open_connection(host, int(port), ssl=context, server_hostname=name)
        except (OSError, TimeoutError) as error:
            self.ends[f"no connection: {type(error).__name__}"] += 1
            if isinstance(error, ConnectionRefusedError):
                self.findings.append(f"seed {seed}: port {port} is closed")
            return
        self.ends[await self._talk(seed, reader, writer, sent)] += 1

    async def _talk(self, seed: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, sent: bytes) -> str:
        """Sends, and reads what the server answers within PATIENCE. Returns how it ended."""
        answer, end = bytearray(), "left"
        try:
            writer.write(sent)
            async with asyncio.timeout(PATIENCE):
                while part := await reader.read(65_536):
                    answer += part
                end = "closed by the server"
        except TimeoutError:
            pass
        except OSError:
            end = "reset by the server"
        finally:
            writer.transport.abort()
        if b"Traceback" in answer or b'File "' in answer:
            self.findings.append(f"seed {seed}: a traceback in the answer: {bytes(answer[:300])!r}")
        return end
