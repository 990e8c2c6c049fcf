"""Inputs as bytes, to stand beside the events they caused: so that a checker can decide them again.

Payloads are left out: the event that an input caused has them, and no decision reads one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from enum import IntEnum
from typing import Any

from archon_mesh.core.run import inputs as inp
from archon_mesh.core.run.common import Edge, Failure, Submission, TaskState, Want

VERSION = 1

_TYPES: dict[str, type] = {
    cls.__name__: cls
    for cls in (
        inp.Submit,
        inp.Claim,
        inp.SlotFound,
        inp.ResultIn,
        inp.RejectIn,
        inp.LostIn,
        inp.RecordsIn,
        inp.PublishedIn,
        inp.Cancel,
        inp.Tick,
        Submission,
        Failure,
        Edge,
        Want,
    )
}
_OPAQUE = frozenset({"payload", "goal"})
_NAMES = {cls: [field.name for field in fields(cls) if field.name not in _OPAQUE] for cls in _TYPES.values()}


def encode_inputs(given: Sequence[inp.Input], now: float) -> bytes:
    """The inputs of one append and the time they were decided at."""
    return json.dumps([VERSION, now, [_pack(one) for one in given]], separators=(",", ":")).encode()


def decode_inputs(data: bytes) -> tuple[list[inp.Input], float]:
    """What `encode_inputs` was given, without payloads."""
    version, now, packed = json.loads(data)
    if version != VERSION:
        raise ValueError(f"inputs of version {version} can't be read")
    return [_unpack(one) for one in packed], now


def _pack(value: Any) -> Any:
    if isinstance(value, IntEnum):
        return int(value)
    if is_dataclass(value):
        cls = type(value)
        return {"": cls.__name__, **{name: _pack(getattr(value, name)) for name in _NAMES[cls]}}
    if isinstance(value, tuple):
        return [_pack(one) for one in value]
    return value


def _unpack(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_unpack(one) for one in value)
    if not isinstance(value, dict):
        return value
    cls = _TYPES[value[""]]
    given = {name: _unpack(value[name]) for name in _NAMES[cls]}
    if cls is inp.ResultIn:
        given["state"] = TaskState(given["state"])
    opaque = {field.name: None for field in fields(cls) if field.name in _OPAQUE}
    return cls(**given, **opaque)
