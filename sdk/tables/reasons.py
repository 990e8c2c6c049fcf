"""The reasons of errors and the kinds of failures, as rows that a renderer of each language writes down.

The number of a reason is that of the enum `ErrorReason`, its gRPC code that of its class in `archon.errors`; kind, class,
severity and advice follow from the catalogue of `archon.failure_kinds`, and the comment from the contract.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from archon import errors
from archon.api.common.v1 import failure_pb2
from archon.failure_kinds import CATALOGUE, FailureKind, kind_of

ROOT: Final = Path(__file__).resolve().parents[2]
CONTRACT: Final = ROOT / "protos" / "archon" / "api" / "common" / "v1" / "failure.proto"
PREFIX: Final = "ERROR_REASON_"

GRPC_CODES: Final = (
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
)
"""The canonical codes; the position of each is its number."""

WITHOUT_CLASS: Final = {
    "CONFLICT": "ABORTED",
    "DRAINING": "UNAVAILABLE",
    "ERROR_BUDGET_EXHAUSTED": "RESOURCE_EXHAUSTED",
    "INSTANCE_LOST": "UNAVAILABLE",
    "INVALID_PAGE_TOKEN": "INVALID_ARGUMENT",
    "NOT_HELD": "NOT_FOUND",
    "NO_CAPACITY": "RESOURCE_EXHAUSTED",
    "PAUSE_EXPIRED": "DEADLINE_EXCEEDED",
    "POISONED": "ABORTED",
    "PROTOCOL_MISMATCH": "FAILED_PRECONDITION",
    "QUARANTINED": "INTERNAL",
    "RUN_TIMEOUT": "DEADLINE_EXCEEDED",
    "RUN_TOO_LARGE": "RESOURCE_EXHAUSTED",
    "STALE_EPOCH": "ABORTED",
    "TOO_MANY_EVENTS": "RESOURCE_EXHAUSTED",
}
"""The codes of reasons that have no class of their own. An error that arrives keeps the code that it came with."""


@dataclass(frozen=True, slots=True)
class Reason:
    """One row of the table of reasons: `name` is without the prefix of the enum, `number` is that of the enum, `code` the
    name of the gRPC code of an error that is made from the reason alone."""

    name: str
    number: int
    code: str
    kind: FailureKind
    comment: str

    @property
    def code_number(self) -> int:
        """The number of the gRPC code, 1 to 16."""
        return GRPC_CODES.index(self.code)


def reasons() -> list[Reason]:
    """Returns all reasons of the contract but UNSPECIFIED, in the order of their numbers. Raises LookupError for one whose
    code is not known."""
    codes = _codes()
    comments = _comments()
    rows = []
    for full_name, number in sorted(failure_pb2.ErrorReason.items(), key=lambda item: item[1]):
        if number == 0:
            continue
        name = full_name.removeprefix(PREFIX)
        if name not in codes:
            raise LookupError(f"the code of the reason {name} is not known: add it to WITHOUT_CLASS of {__file__}")
        rows.append(Reason(name, number, codes[name], kind_of(codes[name], name), comments[name]))
    return rows


def kinds() -> list[FailureKind]:
    """Returns all kinds of failures, in the order of the catalogue."""
    return list(CATALOGUE.values())


def kinds_of_codes() -> list[tuple[str, FailureKind]]:
    """Returns the kind that an error of each gRPC code has, if its reason does not tell; in the order of the codes."""
    return [(code, kind_of(code, "")) for code in GRPC_CODES[1:]]


def default_reasons() -> list[tuple[str, str]]:
    """Returns the reason of an error of each gRPC code, if none is given; in the order of the codes."""
    roots = {cls.code: cls.default_reason for cls in errors.ArchonError.__subclasses__()}
    return [(code, roots[code]) for code in GRPC_CODES[1:]]


def _codes() -> dict[str, str]:
    """Returns the code of each reason: that of its class, the first of them if there are several."""
    codes = dict(WITHOUT_CLASS)
    waiting = errors.ArchonError.__subclasses__()
    while waiting:
        cls = waiting.pop(0)
        if cls.__module__ == errors.__name__:
            codes.setdefault(cls.default_reason, cls.code)
        waiting += cls.__subclasses__()
    return codes


def _comments() -> dict[str, str]:
    """Returns the contract's comment on each reason."""
    enum = CONTRACT.read_text().partition("enum ErrorReason {")[2].partition("\n}")[0]
    matches = re.finditer(r"((?:^  //.*\n)+)^  ERROR_REASON_(\w+) = ", enum, re.MULTILINE)
    return {match[2]: re.sub(r"\s*//\s*", " ", match[1]).strip() for match in matches}
