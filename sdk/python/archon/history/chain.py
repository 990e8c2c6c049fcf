"""The chain of a run: the link of a step is a SHA-256 over the link before it and all that the step stores.

A step that is changed, moved or removed changes every link after it. A chain alone proves nothing against an attacker
who computes all links anew; the seals on it do.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

LINK_BYTES: Final = 32

_ANCHOR: Final = b"archon history 1\0"
_HEAD: Final = struct.Struct(">32sIqqQ")
"""The link before, the bytes of the run id, base, last event, the bytes of the data: no two steps give one text."""


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """A step of a run as its journal holds it: the events after `base` up to `last_seq` (`data`), the inputs that
    caused them, its link, and its seal; the last two are empty if it has none."""

    base: int
    last_seq: int
    data: bytes
    inputs: bytes
    link: bytes = b""
    seal: bytes = b""


def anchor_of(run_id: str, base: int = 0) -> bytes:
    """Returns the link before the first step, which begins after event `base`: 0, unless an earlier version of Archon
    wrote the steps before it."""
    return sha256(_ANCHOR + base.to_bytes(8, "big") + _name(run_id)).digest()


def link_of(previous: bytes, run_id: str, base: int, last_seq: int, data: bytes, inputs: bytes) -> bytes:
    """Returns the link of a step, 32 bytes. `previous` is the link of the step before it."""
    name = _name(run_id)
    digest = sha256(_HEAD.pack(previous, len(name), base, last_seq, len(data)) + name)
    digest.update(data)
    digest.update(inputs)
    return digest.digest()


def _name(run_id: str) -> bytes:
    return run_id.encode("utf-8", "surrogatepass")
