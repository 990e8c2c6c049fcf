"""The audit log: who caused which action on whose behalf, in chains that are sealed as the histories of runs are.

An entry is JSON on one line, in which `sub` and `act` are as in RFC 8693 (section 4.1): the identity on whose behalf
the call was made, and the actor who made it, if that is another one. The link of an entry follows from the link before
it and the digest of the entry, so that a chain also verifies for a reader who may not read all of its entries.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, Final

from archon.errors import DataLoss
from archon.history.keys import PublicKeys
from archon.history.seal import Seal, chain_of_audit
from archon.plain_text import cut

MAX_ENTRY: Final = 8 * 1024
"""The most bytes of an entry."""

MAX_TEXT: Final = 512
"""The most characters of a name or a value in an entry; more are cut."""

_encoded: Final = json.JSONEncoder(separators=(",", ":")).encode
"""Once: `json.dumps` makes an encoder for each call that is not of its default form."""

_ANCHOR: Final = b"archon audit 1\0"
_ENTRY: Final = struct.Struct(">32sq32s")
"""The link before, the number, the digest of the entry."""


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One entry: `identity` (`sub`) had `action` done at `time` (wall seconds), by `actors` (`act`) if they are others:
    the one who presented the credentials first. `run_id` and `target` name its object, empty if it has none."""

    tenant: str
    time: float
    identity: str
    action: str
    run_id: str = ""
    target: str = ""
    actors: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)

    def encode(self) -> bytes:
        """Returns the entry as it is stored: ASCII without a newline, at most MAX_ENTRY bytes. Details that do not fit
        are replaced by a note."""
        details = {_cut(name): _value(value) for name, value in self.details.items()}
        encoded = self._encode(details)
        return encoded if len(encoded) <= MAX_ENTRY else self._encode({"left_out": "the details were too large"})

    def _encode(self, details: Mapping[str, Any]) -> bytes:
        values: dict[str, Any] = {
            "tenant": _cut(self.tenant),
            "time": round(self.time, 6),
            "sub": _cut(self.identity),
            "action": self.action,
        }
        act: dict[str, Any] = {}
        for actor in reversed(self.actors):
            act = {"sub": _cut(actor), **({"act": act} if act else {})}
        optional = {"act": act, "run_id": _cut(self.run_id), "target": _cut(self.target), "details": details}
        values |= {name: value for name, value in optional.items() if value}
        return _encoded(values).encode("ascii")

    @classmethod
    def decode(cls, stored: bytes) -> AuditEntry:
        """Reads a stored entry. Raises DataLoss if it is something else."""
        try:
            values = json.loads(stored)
            actors: list[str] = []
            act = values.get("act")
            while act and len(actors) < MAX_TEXT:
                actors.append(str(act["sub"]))
                act = act.get("act")
            time = float(values["time"])
            return cls(
                str(values["tenant"]),
                time if math.isfinite(time) else 0.0,
                str(values["sub"]),
                str(values["action"]),
                str(values.get("run_id", "")),
                str(values.get("target", "")),
                tuple(actors),
                dict(values.get("details", {})),
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise DataLoss("an entry of the audit log cannot be read") from None


@dataclass(frozen=True, slots=True)
class AuditLink:
    """An entry in its chain. `data` is empty if the reader may not read it, or if it is the anchor of a chain whose
    beginning was removed after its time; `digest` is its SHA-256."""

    chain: str
    number: int
    digest: bytes
    link: bytes
    seal: bytes = b""
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class AuditFault:
    """The first broken link of a chain: the entry with this number, and the reason as a clause."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class ChainReport:
    """The result of a verification of one chain. `first` and `last` are the numbers of its entries, `sealed` is the
    last number that a seal covers."""

    chain: str
    first: int = 0
    last: int = 0
    sealed: int = 0
    seal: Seal | None = None
    fault: AuditFault | None = None


def first_audit_link(chain: str) -> bytes:
    """Returns the link before the first entry of a chain."""
    return sha256(_ANCHOR + chain.encode("utf-8", "surrogatepass")).digest()


def audit_link(previous: bytes, number: int, digest: bytes) -> bytes:
    """Returns the link of an entry. `number` is its place in the chain, from 1, and `digest` the SHA-256 of it."""
    return sha256(_ENTRY.pack(previous, number, digest)).digest()


def verify_chain(chain: str, links: Iterable[AuditLink], keys: PublicKeys | None = None) -> ChainReport:
    """Verifies the entries of a chain, in order. A chain whose beginning was removed starts with a sealed anchor.
    Without `keys` only the links are verified."""
    report = ChainReport(chain)
    previous = first_audit_link(chain)
    for entry in links:
        is_anchor = not report.last and entry.number > 1
        seal, reason = _check_seal(chain, entry, keys)
        if not reason:
            reason = _check_anchor(entry, keys) if is_anchor else _check_entry(report, entry, previous)
        if reason:
            return replace(report, fault=AuditFault(entry.number, reason))
        previous = entry.link
        report = replace(
            report,
            first=report.first or entry.number,
            last=entry.number,
            sealed=entry.number if seal is not None else report.sealed,
            seal=seal or report.seal,
        )
    return report


def verify_log(chains: Mapping[str, Sequence[AuditLink]], keys: PublicKeys | None = None) -> list[ChainReport]:
    """Verifies all chains of a log, and that none of them is shorter than the first entry of a later one says."""
    reports = {chain: verify_chain(chain, links, keys) for chain, links in chains.items()}
    for links in chains.values():
        for chain, number, link in _ends_named_by(links):
            report = reports.setdefault(chain, ChainReport(chain))
            if report.fault is not None:
                continue
            if report.last < number:
                fault = AuditFault(report.last + 1, "it is missing: a later chain names an entry after it")
                reports[chain] = replace(report, fault=fault)
            elif any(entry.number == number and entry.link != link for entry in chains[chain]):
                fault = AuditFault(number, "it was changed: a later chain names another link")
                reports[chain] = replace(report, fault=fault)
    return list(reports.values())


def _ends_named_by(links: Sequence[AuditLink]) -> Iterable[tuple[str, int, bytes]]:
    """Yields (chain, number, link) of the ends that the first entry of a chain names; nothing if it is not readable."""
    if not links or not links[0].data:
        return
    try:
        ends = AuditEntry.decode(links[0].data).details.get("ends", [])
        for end in ends if isinstance(ends, list) else []:
            chain, number, link = str(end).rsplit(" ", 2)
            yield chain, int(number), bytes.fromhex(link)
    except (DataLoss, ValueError):
        return


def _check_entry(report: ChainReport, entry: AuditLink, previous: bytes) -> str:
    expected = report.last + 1
    if entry.number != expected:
        return f"entry {expected} is missing" if entry.number > expected else "it is there twice"
    if entry.data and sha256(entry.data).digest() != entry.digest:
        return "it was changed: it does not match its digest"
    if entry.link != audit_link(previous, entry.number, entry.digest):
        return "it was changed: its link does not match"
    return ""


def _check_anchor(entry: AuditLink, keys: PublicKeys | None) -> str:
    if keys is not None and not entry.seal:
        return "the entries before it are missing, and no seal says that they were removed after their time"
    return ""


def _check_seal(chain: str, entry: AuditLink, keys: PublicKeys | None) -> tuple[Seal | None, str]:
    if not entry.seal:
        return None, ""
    try:
        seal = Seal.decode(entry.seal)
    except DataLoss as error:
        return None, f"its seal cannot be read: {error.message}"
    if keys is None:
        return None, ""
    if seal.key_id not in keys.keys:
        return None, f"its seal is by the key {seal.key_id}, which is not among the public keys"
    if not keys.verifies(seal, chain_of_audit(chain), entry.number, entry.link):
        return None, "its seal does not match: it, or an entry before it, was changed"
    return seal, ""


def _cut(text: object) -> str:
    return cut(str(text), MAX_TEXT)


def _value(value: object) -> Any:
    if isinstance(value, bool) or (isinstance(value, int) and abs(value) < 2**53):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, (list, tuple)):
        return [_cut(each) for each in value[:50]]
    return _cut(value)
