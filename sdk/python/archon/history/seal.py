"""A seal: an Ed25519 signature over a chain up to one of its links, with the time and the id of the key.

Chains that are sealed at the same moment share one signature, which costs more than all links of a usual run: it is
over the root of a tree of hashes, and each seal has the path from its chain to the root.

Source: RFC 8032 (Ed25519), RFC 6962 section 2.1 (the tree).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from hashlib import sha256
from typing import Final, NamedTuple

from archon.errors import DataLoss

SIGNATURE_BYTES: Final = 64

MAX_PATH: Final = 32
"""Levels of a tree: it has at most 2 to this power chains."""

_DOMAIN: Final = b"archon seal 1\0"
_LEAF: Final = b"\0"
_NODE: Final = b"\1"
_FIELDS: Final = struct.Struct(">8sqB")
"""Id of the key, microseconds of wall time, reason."""

_PLACE: Final = struct.Struct(">Iq32s")
"""Bytes of the name of the chain, number, link."""

_VERSION: Final = 1
_BYTES: Final = 1 + _FIELDS.size + SIGNATURE_BYTES
_SIBLING: Final = 33
"""Bytes of a level of the path: 0 if the sibling is on the left, else 1, and its hash."""


class SealReason(IntEnum):
    """Why a chain was sealed: it has ended, another owner goes on with it, enough has been added to it, or its run was
    ended without a look at the steps before, which could not be read."""

    END = 1
    CLAIM = 2
    LENGTH = 3
    QUARANTINE = 4


class Place(NamedTuple):
    """A link to seal. `chain` names the chain, such as `run/RUN`; `number` is the place of the link in it."""

    chain: str
    number: int
    link: bytes
    reason: SealReason


@dataclass(frozen=True, slots=True)
class Seal:
    """A signature by the key `key_id` (16 hexadecimal digits). `time` is in wall seconds, by the clock of the process
    that sealed; `path` leads to the root of the tree, empty if the chain was sealed alone."""

    key_id: str
    time: float
    reason: SealReason
    signature: bytes
    path: bytes = b""

    def encode(self) -> bytes:
        """Returns the seal as it is stored."""
        return bytes((_VERSION,)) + _fields(self.key_id, self.time, self.reason) + self.signature + self.path

    @classmethod
    def decode(cls, stored: bytes) -> Seal:
        """Reads a stored seal. Raises DataLoss if it is something else."""
        levels, rest = divmod(len(stored) - _BYTES, _SIBLING)
        if rest or not 0 <= levels <= MAX_PATH or stored[0] != _VERSION:
            raise DataLoss("it is no seal of a known version")
        key_id, micros, reason = _FIELDS.unpack_from(stored, 1)
        try:
            known = SealReason(reason)
        except ValueError:
            raise DataLoss(f"it is a seal for an unknown reason: {reason}") from None
        signature = stored[_BYTES - SIGNATURE_BYTES : _BYTES]
        return cls(key_id.hex(), micros / 1_000_000, known, signature, stored[_BYTES:])

    def message(self, chain: str, number: int, link: bytes) -> bytes:
        """Returns the text that was signed if the seal belongs to this place."""
        node = leaf_of(Place(chain, number, link, self.reason), self.key_id, self.time)
        for start in range(0, len(self.path), _SIBLING):
            sibling = self.path[start + 1 : start + _SIBLING]
            pair = node + sibling if self.path[start] else sibling + node
            node = sha256(_NODE + pair).digest()
        return _DOMAIN + node


def leaf_of(place: Place, key_id: str, time: float) -> bytes:
    """Returns the hash of all fields of a seal, and its place."""
    name = place.chain.encode("utf-8", "surrogatepass")
    fields = _fields(key_id, time, place.reason)
    return sha256(_LEAF + fields + _PLACE.pack(len(name), place.number, place.link) + name).digest()


def tree_of(leaves: Sequence[bytes]) -> tuple[bytes, list[bytes]]:
    """Returns the text to sign for these leaves, and the path of each. A node without a sibling moves up a level."""
    level = list(leaves)
    paths = [b""] * len(leaves)
    below = [[number] for number in range(len(leaves))]
    """The leaves below each node of the level."""
    while len(level) > 1:
        upper, upper_below = [], []
        for left in range(0, len(level) - 1, 2):
            right = left + 1
            for number in below[left]:
                paths[number] += b"\1" + level[right]
            for number in below[right]:
                paths[number] += b"\0" + level[left]
            upper.append(sha256(_NODE + level[left] + level[right]).digest())
            upper_below.append(below[left] + below[right])
        if len(level) % 2:
            upper.append(level[-1])
            upper_below.append(below[-1])
        level, below = upper, upper_below
    return _DOMAIN + level[0], paths


def chain_of_run(run_id: str) -> str:
    """Returns the name of a run's chain, whose links are numbered by their last events."""
    return f"run/{run_id}"


def chain_of_audit(name: str) -> str:
    """Returns the name of a chain of the audit log in seals."""
    return f"audit/{name}"


def _fields(key_id: str, time: float, reason: SealReason) -> bytes:
    return _FIELDS.pack(bytes.fromhex(key_id), round(time * 1_000_000), reason)
