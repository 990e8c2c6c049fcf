"""A history that was changed in any way is noticed, and its first broken link is named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from archon.errors import FailedPrecondition, InvalidArgument
from archon.history import (
    AuditKey,
    PublicKeys,
    RecordedStep,
    RunHistory,
    RunReport,
    Seal,
    SealReason,
    anchor_of,
    link_of,
    read_bundle,
    verify_run,
    write_bundle,
)
from archon.history.seal import Place, chain_of_run

KEY: Final = AuditKey.generate()
OTHER: Final = AuditKey.generate()
KEYS: Final = PublicKeys.of(KEY)
SIZES: Final = (3, 2, 1, 4)

Steps = Sequence[RecordedStep]


def history(
    run_id: str = "r", *, key: AuditKey | None = KEY, seals: Sequence[int] = (3,), datas: Sequence[bytes] = ()
) -> list[RecordedStep]:
    """Returns the steps of an ended run; those with an index in `seals` are sealed, the last one as the end."""
    steps: list[RecordedStep] = []
    link, base = anchor_of(run_id), 0
    for number, size in enumerate(SIZES):
        data = datas[number] if datas else f"{run_id} data {number}".encode("utf-8", "surrogatepass")
        inputs = f"in {number}".encode()
        link = link_of(link, run_id, base, base + size, data, inputs)
        reason = SealReason.END if number == len(SIZES) - 1 else SealReason.LENGTH
        is_sealed = key is not None and number in seals
        seal = key.seal(chain_of_run(run_id), base + size, link, 100.0, reason) if key and is_sealed else b""
        steps.append(RecordedStep(base, base + size, data, inputs, link, seal))
        base += size
    return steps


def relinked(steps: Steps, start: int) -> list[RecordedStep]:
    """Returns the steps as an attacker without the key makes them: all links from `start` on computed anew."""
    link = steps[start - 1].link if start else anchor_of("r")
    out = list(steps[:start])
    for step in steps[start:]:
        link = link_of(link, "r", step.base, step.last_seq, step.data, step.inputs)
        out.append(replace(step, link=link))
    return out


def verified(steps: Steps, *, last_seq: int = 10, ended: bool = True) -> RunReport:
    return verify_run("r", steps, KEYS, last_seq=last_seq, ended=ended)


def test_an_ended_run_with_a_seal_is_complete() -> None:
    report = verified(history())
    assert (report.fault, report.steps, report.events, report.sealed_events) == ("", 4, 10, 10)
    assert report.proven and report.complete
    assert report.seal is not None and (report.seal.key_id, report.seal.time) == (KEY.key_id, 100.0)


def _changed(**fields: object) -> Callable[[list[RecordedStep]], list[RecordedStep]]:
    return lambda steps: [steps[0], replace(steps[1], **fields), *steps[2:]]  # type: ignore[arg-type]


TAMPERED: Final[dict[str, tuple[Callable[[list[RecordedStep]], list[RecordedStep]], str]]] = {
    "a byte of the data": (_changed(data=b"r data X"), "the step after event 3 was changed: its link does not match"),
    "a byte of the inputs": (_changed(inputs=b"in X"), "the step after event 3 was changed: its link does not match"),
    "a byte moved from data to inputs": (
        _changed(data=b"r data ", inputs=b"1in 1"),
        "the step after event 3 was changed: its link does not match",
    ),
    "the number of its last event": (
        _changed(last_seq=6),
        "the step after event 3 was changed: its link does not match",
    ),
    "its link": (_changed(link=bytes(32)), "the step after event 3 was changed: its link does not match"),
    "a link of another size": (_changed(link=b"x"), "the step after event 3 was changed: its link does not match"),
    "no link": (_changed(link=b""), "the step after event 3 has no link"),
    "all links computed anew": (
        lambda steps: relinked([steps[0], replace(steps[1], data=b"X"), *steps[2:]], 1),
        "the seal on event 10 does not match: it, or a step up to there, was changed",
    ),
    "two steps swapped": (
        lambda steps: [
            steps[0],
            replace(steps[2], base=3, last_seq=5),
            replace(steps[1], base=5, last_seq=6),
            steps[3],
        ],
        "the step after event 3 was changed: its link does not match",
    ),
    "a middle step removed": (
        lambda steps: [steps[0], *steps[2:]],
        "the step after event 3 is missing: the next one begins after event 5",
    ),
    "the first step removed": (
        lambda steps: steps[1:],
        "the step after event 0 is missing: the next one begins after event 3",
    ),
    "a step twice": (
        lambda steps: [*steps[:2], *steps[1:]],
        "the step after event 3 is at the wrong place: the one before ends with event 5",
    ),
    "the tail with the seal removed": (
        lambda steps: steps[:3],
        "the step after event 6 is missing: the run has 10 events",
    ),
    "every step removed": (lambda _: [], "the step after event 0 is missing: the run has 10 events"),
    "a step of another run": (
        lambda steps: [steps[0], history("s")[1], *steps[2:]],
        "the step after event 3 was changed: its link does not match",
    ),
    "a step added after the end": (
        lambda steps: [
            *steps,
            RecordedStep(10, 11, b"x", b"", link_of(steps[3].link, "r", 10, 11, b"x", b"")),
        ],
        "a step was added after its end, event 10",
    ),
    "a forged seal": (
        lambda steps: [*steps[:3], replace(steps[3], seal=steps[3].seal[:-1] + bytes([steps[3].seal[-1] ^ 1]))],
        "the seal on event 10 does not match: it, or a step up to there, was changed",
    ),
    "the time of the seal": (
        lambda steps: [*steps[:3], replace(steps[3], seal=steps[3].seal[:15] + b"\0" + steps[3].seal[16:])],
        "the seal on event 10 does not match: it, or a step up to there, was changed",
    ),
    "the seal of another step": (
        lambda steps: [replace(steps[0], seal=steps[3].seal), *steps[1:]],
        "the seal on event 3 does not match: it, or a step up to there, was changed",
    ),
    "the seal of another run": (
        lambda steps: [*steps[:3], replace(steps[3], seal=history("s")[3].seal)],
        "the seal on event 10 does not match: it, or a step up to there, was changed",
    ),
    "a seal that is cut": (
        lambda steps: [*steps[:3], replace(steps[3], seal=steps[3].seal[:-1])],
        "the seal on event 10 cannot be read: it is no seal of a known version",
    ),
    "another key": (
        lambda _: history(key=OTHER),
        f"the seal on event 10 is by the key {OTHER.key_id}, which is not among the public keys ({KEY.key_id})",
    ),
    "another run's history": (lambda _: history("s"), "the step after event 0 was changed: its link does not match"),
}


@pytest.mark.parametrize("kind", TAMPERED)
def test_a_changed_history_names_its_first_broken_link(kind: str) -> None:
    change, fault = TAMPERED[kind]
    report = verified(change(history()))
    assert report.fault == fault
    assert not report.proven


def test_a_run_whose_last_seal_was_removed_is_not_complete() -> None:
    steps = history(seals=(1, 3))
    steps[3] = replace(steps[3], seal=b"")
    assert verified(steps).fault == "its end has no seal: the last one is on event 5"
    bare = verified([replace(step, seal=b"") for step in history()])
    assert (bare.fault, bare.proven, bare.seal) == ("", False, None)


def test_steps_after_the_last_seal_are_not_proven() -> None:
    report = verified(history(seals=(1,))[:3], last_seq=6, ended=False)
    assert (report.fault, report.events, report.sealed_events) == ("", 6, 5)
    assert report.proven and not report.complete
    rewritten = relinked([*history(seals=(1,))[:2], replace(history()[2], data=b"X")], 2)
    assert verified(rewritten, last_seq=6, ended=False).intact, "as docs/audit.md says"


def test_steps_of_an_earlier_version_prove_nothing() -> None:
    old = replace(history()[0], link=b"", seal=b"")
    link = anchor_of("r", 3)
    steps = [old]
    for step in history()[1:]:
        link = link_of(link, "r", step.base, step.last_seq, step.data, step.inputs)
        steps.append(replace(step, link=link, seal=b""))
    report = verified(steps)
    assert (report.fault, report.unlinked, report.proven) == ("", 1, False)
    stripped = [old, *history()[1:]]
    assert verified(stripped).fault == "the step after event 3 was changed: its link does not match"


def test_a_quarantined_run_proves_its_end_alone() -> None:
    steps = history(key=None)
    link = link_of(anchor_of("r", 6), "r", 6, 10, steps[3].data, steps[3].inputs)
    end = replace(steps[3], link=link, seal=KEY.seal(chain_of_run("r"), 10, link, 100.0, SealReason.QUARANTINE))
    report = verified([*steps[:3], end])
    assert (report.fault, report.quarantined, report.proven) == ("", True, False)
    forged = replace(end, seal=OTHER.seal(chain_of_run("r"), 10, link, 100.0, SealReason.QUARANTINE))
    assert "which is not among the public keys" in verified([*steps[:3], forged]).fault


def test_a_seal_of_an_earlier_key_verifies_after_a_rotation() -> None:
    rotated = PublicKeys.parse(OTHER.public_pem + KEY.public_pem)
    assert list(rotated.names()) == [OTHER.key_id, KEY.key_id]
    assert verify_run("r", history(), rotated, last_seq=10, ended=True).complete


@pytest.mark.parametrize("run_id", ["r", "", "\u0433", "a\nb", "\udc80"])
def test_names_that_look_alike_have_other_chains(run_id: str) -> None:
    links = {anchor_of(each) for each in ("r", "", "\u0433", "r ", "R", "a\nb", "\udc80")}
    assert len(links) == 7
    assert verify_run(run_id, history(run_id), KEYS).complete


def test_numbers_that_no_run_has_are_a_fault() -> None:
    for base, last_seq in ((-1, 3), (0, 2**63), (0, -1), (2**70, 2**71)):
        assert verified([RecordedStep(base, last_seq, b"", b"", bytes(32))]).fault


def test_a_saved_history_verifies_elsewhere(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    with file.open("wb") as output:
        write_bundle(RunHistory("r", 10, True, tuple(history())), output)
    read = read_bundle(file)
    assert read == RunHistory("r", 10, True, tuple(history()))
    assert verified(read.steps).complete
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines)[:-20])
    with pytest.raises(InvalidArgument, match="cut or changed"):
        read_bundle(file)
    file.write_bytes(b"".join(lines[:-1]))
    assert verified(read_bundle(file).steps).fault == "the step after event 6 is missing: the run has 10 events"
    for other in (b"", b"[]\n", b'{"archon_history": 2}\n', b"\xff\n", lines[0] + b"{}\n"):
        file.write_bytes(other)
        with pytest.raises(InvalidArgument):
            read_bundle(file)


def test_a_key_file_is_private_and_has_an_ed25519_key(tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    file.write_bytes(KEY.pem)
    file.chmod(0o644)
    with pytest.raises(FailedPrecondition, match="chmod 600"):
        AuditKey.read(file)
    file.chmod(0o600)
    assert AuditKey.read(file).key_id == KEY.key_id
    for content in (b"", KEY.public_pem, b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"):
        file.write_bytes(content)
        with pytest.raises(FailedPrecondition, match="private key"):
            AuditKey.read(file)
    with pytest.raises(FailedPrecondition, match="no public key"):
        PublicKeys.parse(KEY.pem)
    with pytest.raises(FailedPrecondition, match="No such file"):
        PublicKeys.read(tmp_path / "none")


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 13])
def test_runs_that_end_at_once_share_one_signature(count: int) -> None:
    ends = {f"r{number}": history(f"r{number}", key=None)[-1] for number in range(count)}
    places = [Place(chain_of_run(run_id), end.last_seq, end.link, SealReason.END) for run_id, end in ends.items()]
    seals = KEY.seal_all(places, 100.0)
    assert len({Seal.decode(seal).signature for seal in seals}) == 1
    for run_id, seal in zip(ends, seals, strict=True):
        steps = history(run_id, key=None)
        assert verify_run(run_id, [*steps[:3], replace(steps[3], seal=seal)], KEYS).complete
        for other in set(seals) - {seal}:
            assert verify_run(run_id, [*steps[:3], replace(steps[3], seal=other)], KEYS).fault
        cut = seal[:-33] if count > 1 else seal[:-1]
        assert verify_run(run_id, [*steps[:3], replace(steps[3], seal=cut)], KEYS).fault
