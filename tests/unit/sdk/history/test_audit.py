"""The chains of the audit log: entries, links and seals, and the ways in which logs of others were broken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Final

import pytest

from archon.errors import DataLoss
from archon.history import AuditEntry, AuditKey, AuditLink, PublicKeys, SealReason, verify_chain, verify_log
from archon.history.audit import MAX_ENTRY, audit_link, first_audit_link
from archon.history.seal import chain_of_audit

KEY: Final = AuditKey.generate()
KEYS: Final = PublicKeys.of(KEY)


def entry(number: int = 1, **fields: object) -> AuditEntry:
    return AuditEntry("default", 100.0 + number, "alice", "run.submit", f"r{number}", **fields)  # type: ignore[arg-type]


def chain(
    name: str = "c", entries: Sequence[AuditEntry] = (), *, seals: Sequence[int] = (3, 5), key: AuditKey = KEY
) -> list[AuditLink]:
    """Returns a chain of five entries, sealed at these numbers."""
    links: list[AuditLink] = []
    link = first_audit_link(name)
    for number, each in enumerate(entries or [entry(number) for number in range(1, 6)], 1):
        digest = sha256(each.encode()).digest()
        link = audit_link(link, number, digest)
        seal = key.seal(chain_of_audit(name), number, link, 200.0, SealReason.LENGTH) if number in seals else b""
        links.append(AuditLink(name, number, digest, link, seal, each.encode()))
    return links


def test_an_intact_chain_is_sealed_up_to_its_end() -> None:
    report = verify_chain("c", chain(), KEYS)
    assert (report.first, report.last, report.sealed, report.fault) == (1, 5, 5, None)
    hidden = [replace(link, data=b"") for link in chain()]
    assert verify_chain("c", hidden, KEYS).fault is None, "a reader of another tenant verifies the digests"


Links = list[AuditLink]
TAMPERED: Final[dict[str, tuple[Callable[[Links], Links], int, str]]] = {
    "an entry changed": (
        lambda c: [c[0], replace(c[1], data=entry(7).encode()), *c[2:]],
        2,
        "it does not match its digest",
    ),
    "an entry and its digest": (
        lambda c: [c[0], replace(c[1], data=entry(7).encode(), digest=sha256(entry(7).encode()).digest()), *c[2:]],
        2,
        "its link does not match",
    ),
    "all links computed anew": (
        lambda c: [
            replace(new, seal=old.seal)
            for new, old in zip(chain("c", [entry(9), *(entry(n) for n in range(2, 6))], seals=()), c, strict=True)
        ],
        3,
        "its seal does not match",
    ),
    "an entry removed": (lambda c: [c[0], *c[2:]], 3, "entry 2 is missing"),
    "the beginning removed": (lambda c: c[1:], 2, "no seal says that they were removed after their time"),
    "an entry twice": (lambda c: [c[0], c[0], *c[1:]], 1, "it is there twice"),
    "entries swapped": (
        lambda c: [c[0], replace(c[2], number=2), replace(c[1], number=3), *c[3:]],
        2,
        "its",
    ),
    "an entry of another chain": (lambda c: [c[0], chain("d")[1], *c[2:]], 2, "its link does not match"),
    "another key": (lambda _: chain(key=AuditKey.generate()), 3, "not among the public keys"),
    "a seal that is cut": (lambda c: [*c[:2], replace(c[2], seal=b"x"), *c[3:]], 3, "its seal cannot be read"),
}


@pytest.mark.parametrize("kind", TAMPERED)
def test_a_changed_chain_names_its_first_broken_entry(kind: str) -> None:
    change, number, reason = TAMPERED[kind]
    fault = verify_chain("c", change(chain()), KEYS).fault
    assert fault is not None and fault.number == number and reason in fault.reason, fault


def test_a_chain_whose_beginning_was_removed_starts_at_a_seal() -> None:
    kept = [replace(chain()[2], data=b""), *chain()[3:]]
    report = verify_chain("c", kept, KEYS)
    assert (report.first, report.last, report.fault) == (3, 5, None)


def test_a_chain_that_was_cut_is_noticed_by_a_later_one() -> None:
    end = chain()[-1]
    later = chain("d", [entry(details={"ends": [f"c 5 {end.link.hex()}"]}), entry(2)], seals=(2,))
    assert [report.fault for report in verify_log({"c": chain(), "d": later}, KEYS)] == [None, None]
    cut, _ = verify_log({"c": chain()[:3], "d": later}, KEYS)
    assert cut.fault is not None and (cut.fault.number, "a later chain" in cut.fault.reason) == (4, True)
    (_, gone) = verify_log({"d": later}, KEYS)
    assert (gone.chain, gone.fault is not None) == ("c", True)


def test_a_clock_that_was_set_back_breaks_no_chain() -> None:
    entries = [replace(entry(number), time=1000.0 - number) for number in range(1, 6)]
    assert verify_chain("c", chain("c", entries), KEYS).fault is None


def test_an_entry_is_one_line_of_ascii_whatever_names_hold() -> None:
    hostile = replace(
        entry(details={"reason": 'x"\n{"action":"run.cancel"}'}),
        identity="al\nice\r\x1b[2J\u2028",
        target="\u0430lice",
        actors=("service:front\0end", "second"),
    )
    encoded = hostile.encode()
    assert encoded.isascii() and not set(encoded) & set(b"\n\r\x1b\0")
    assert AuditEntry.decode(encoded) == hostile
    assert entry().encode() != replace(entry(), identity="\u0430lice").encode(), "look-alikes stay apart"


def test_sub_and_act_are_as_in_rfc_8693() -> None:
    encoded = replace(entry(), actors=("service:front-end", "agent:clerk")).encode()
    assert b'"sub":"alice"' in encoded
    assert b'"act":{"sub":"service:front-end","act":{"sub":"agent:clerk"}}' in encoded
    assert b'"act"' not in entry().encode()


def test_an_entry_has_a_bounded_size() -> None:
    huge = replace(entry(), identity="\u0430" * 10_000, target="t" * 10_000)
    many = replace(huge, details={f"k{n}" * 300: ["v" * 9_000] * 90 for n in range(50)})
    assert len(many.encode()) <= MAX_ENTRY
    assert AuditEntry.decode(many.encode()).details == {"left_out": "the details were too large"}
    assert len(huge.encode()) <= MAX_ENTRY


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"\xff", b'{"tenant":"t","time":"x","sub":"s","action":"a"}'])
def test_something_else_is_no_entry(data: bytes) -> None:
    with pytest.raises(DataLoss):
        AuditEntry.decode(data)
