"""A seal: an Ed25519 signature over a chain up to one of its links, with the time and the id of the key.

Source: RFC 8032 (Ed25519).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from archon.errors import DataLoss

SIGNATURE_BYTES: Final = 64

_DOMAIN: Final = b"archon seal 1\0"
_FIELDS: Final = struct.Struct(">8sqB")
"""Id of the key, microseconds of wall time, reason."""

_PLACE: Final = struct.Struct(">Iq32s")
"""Bytes of the name of the chain, number, link."""

_VERSION: Final = 1
_BYTES: Final = 1 + _FIELDS.size + SIGNATURE_BYTES


class SealReason(IntEnum):
    """Why a chain was sealed: it has ended, another owner goes on with it, or enough has been added to it."""

    END = 1
    CLAIM = 2
    LENGTH = 3


@dataclass(frozen=True, slots=True)
class Seal:
    """A signature by the key `key_id` (16 hexadecimal digits). `time` is in wall seconds, by the clock of the process
    that sealed."""

    key_id: str
    time: float
    reason: SealReason
    signature: bytes

    def encode(self) -> bytes:
        """Returns the seal as it is stored."""
        return bytes((_VERSION,)) + _fields(self.key_id, self.time, self.reason) + self.signature

    @classmethod
    def decode(cls, stored: bytes) -> Seal:
        """Reads a stored seal. Raises DataLoss if it is something else."""
        if len(stored) != _BYTES or stored[0] != _VERSION:
            raise DataLoss("it is no seal of a known version")
        key_id, micros, reason = _FIELDS.unpack_from(stored, 1)
        try:
            known = SealReason(reason)
        except ValueError:
            raise DataLoss(f"it is a seal for an unknown reason: {reason}") from None
        return cls(key_id.hex(), micros / 1_000_000, known, stored[-SIGNATURE_BYTES:])

    def message(self, chain: str, number: int, link: bytes) -> bytes:
        """Returns the text that is signed: all fields of the seal, and its place."""
        return message_of(chain, number, link, self.key_id, self.time, self.reason)


def message_of(chain: str, number: int, link: bytes, key_id: str, time: float, reason: SealReason) -> bytes:
    """Returns the text that a seal signs. `chain` names the chain, such as `run/RUN`; `number` is the place of the
    link in it."""
    name = chain.encode("utf-8", "surrogatepass")
    return _DOMAIN + _fields(key_id, time, reason) + _PLACE.pack(len(name), number, link) + name


def chain_of_run(run_id: str) -> str:
    """Returns the name of a run's chain, whose links are numbered by their last events."""
    return f"run/{run_id}"


def chain_of_audit(name: str) -> str:
    """Returns the name of a chain of the audit log in seals."""
    return f"audit/{name}"


def _fields(key_id: str, time: float, reason: SealReason) -> bytes:
    return _FIELDS.pack(bytes.fromhex(key_id), round(time * 1_000_000), reason)
