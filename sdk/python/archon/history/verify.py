"""Verifies the history of a run against its links and seals. It needs no service, only the public keys.

An intact history proves that the holder of the key has sealed exactly these steps, in this order, none missing
before the last seal. It proves nothing about steps after that, and nothing against a holder of the private key.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from archon.errors import DataLoss
from archon.history.chain import LINK_BYTES, RecordedStep, anchor_of, link_of
from archon.history.keys import PublicKeys
from archon.history.seal import Seal, SealReason, chain_of_run


@dataclass(frozen=True, slots=True)
class RunReport:
    """The result of a verification."""

    run_id: str
    steps: int = 0
    events: int = 0
    """The last event of the steps that are intact."""

    unlinked: int = 0
    """The steps at the beginning that an earlier version of Archon wrote without links: nothing proves them."""

    sealed_events: int = 0
    """The last event that a seal covers."""

    seal: Seal | None = None
    """The last seal."""

    quarantined: bool = False
    """Whether the last step was stored without a look at the steps before: its seal does not cover them."""

    fault: str = ""
    """The first broken link, as a clause; empty if there is none."""

    @property
    def intact(self) -> bool:
        """Whether no link and no seal is broken."""
        return not self.fault

    @property
    def complete(self) -> bool:
        """Whether a seal covers the end of the run: no step can be missing."""
        return self.intact and self.seal is not None and self.seal.reason is SealReason.END

    @property
    def proven(self) -> bool:
        """Whether it is intact, and sealed as far as any step goes or up to its end."""
        return self.intact and self.sealed_events > 0 and not self.unlinked and not self.quarantined


def verify_run(
    run_id: str,
    steps: Iterable[RecordedStep],
    keys: PublicKeys | None = None,
    *,
    last_seq: int = 0,
    ended: bool = False,
) -> RunReport:
    """Verifies the steps of a run, in order from the first. Without `keys` only the links are verified. `last_seq` is
    the last event of the run and `ended` whether it has ended, as its orchestrator says; 0 and False if unknown."""
    report = RunReport(run_id)
    previous = b""
    for step in steps:
        fault, previous = _check_step(report, run_id, step, previous)
        if not fault and step.seal:
            seal, fault = _check_seal(run_id, step, keys)
            if not fault and seal is not None:
                is_apart = seal.reason is SealReason.QUARANTINE
                report = replace(report, seal=seal, sealed_events=step.last_seq, quarantined=is_apart)
        if fault:
            return replace(report, fault=fault)
        report = replace(
            report,
            steps=report.steps + 1,
            events=step.last_seq,
            unlinked=report.unlinked + (not step.link),
        )
    return replace(report, fault=_check_end(report, last_seq, ended=ended))


def _check_step(report: RunReport, run_id: str, step: RecordedStep, previous: bytes) -> tuple[str, bytes]:
    """Returns the fault of a step, empty if it is intact, and its link."""
    end = report.events
    if report.seal is not None and report.seal.reason in (SealReason.END, SealReason.QUARANTINE):
        return f"a step was added after its end, event {end}", b""
    if step.base > end:
        return f"the step after event {end} is missing: the next one begins after event {step.base}", b""
    if step.base < end or not step.base < step.last_seq < 2**63:
        return f"the step after event {step.base} is at the wrong place: the one before ends with event {end}", b""
    if not step.link:
        if previous:
            return f"the step after event {end} has no link", b""
        return "", b""
    before = anchor_of(run_id, step.base) if _begins_anew(step) else previous or anchor_of(run_id, step.base)
    expected = link_of(before, run_id, step.base, step.last_seq, step.data, step.inputs)
    if len(step.link) != LINK_BYTES or step.link != expected:
        return f"the step after event {end} was changed: its link does not match", b""
    return "", step.link


def _begins_anew(step: RecordedStep) -> bool:
    """Whether the seal of a step says that its link follows none: only the holder of the key can say so."""
    try:
        return bool(step.seal) and Seal.decode(step.seal).reason is SealReason.QUARANTINE
    except DataLoss:
        return False


def _check_seal(run_id: str, step: RecordedStep, keys: PublicKeys | None) -> tuple[Seal | None, str]:
    at = f"the seal on event {step.last_seq}"
    try:
        seal = Seal.decode(step.seal)
    except DataLoss as error:
        return None, f"{at} cannot be read: {error.message}"
    if not step.link:
        return None, f"{at} is on a step without a link"
    if keys is None:
        return None, ""
    if seal.key_id not in keys.keys:
        known = ", ".join(keys.names())
        return None, f"{at} is by the key {seal.key_id}, which is not among the public keys ({known})"
    if not keys.verifies(seal, chain_of_run(run_id), step.last_seq, step.link):
        return None, f"{at} does not match: it, or a step up to there, was changed"
    return seal, ""


def _check_end(report: RunReport, last_seq: int, *, ended: bool) -> str:
    if report.events < last_seq:
        return f"the step after event {report.events} is missing: the run has {last_seq} events"
    sealed = report.seal is not None
    if ended and sealed and not report.complete and not report.quarantined:
        return f"its end has no seal: the last one is on event {report.sealed_events}"
    return ""
