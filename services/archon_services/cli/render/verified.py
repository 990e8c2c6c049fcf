"""The result of a verification, as sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archon_services.reports.texts import zoned_time

if TYPE_CHECKING:
    from archon.history import ChainReport, RunReport


def run_sentence(report: RunReport, *, has_keys: bool) -> str:
    """Describes the verified part of a run, or names its first broken link."""
    run = f"run {report.run_id}"
    if not report.intact:
        return f"{run}: {report.fault}"
    size = f"{_count(report.steps, 'step')}, {_count(report.events, 'event')}"
    if report.unlinked == report.steps and report.steps:
        return f"{run}: {size}: an earlier version of Archon wrote them without links, nothing proves them"
    if report.seal is None:
        reason = "no step is sealed" if has_keys else "without a public key (--key FILE) no seal is verified"
        return f"{run}: {size}: the links match, but {reason}"
    sealed = f"sealed by key {report.seal.key_id} at {zoned_time(report.seal.time)}"
    if report.unlinked:
        return f"{run}: {size}, {sealed}: intact after the first {report.unlinked}, which have no links"
    if report.quarantined:
        return f"{run}: {size}, {sealed}: the run was quarantined, and its seal does not cover the steps before"
    if not report.complete:
        return f"{run}: {size}, {sealed} up to event {report.sealed_events}: intact, and the run goes on"
    return f"{run}: {size}, {sealed}: intact"


def chain_sentence(report: ChainReport, *, has_keys: bool) -> str:
    """Describes the verified part of a chain of the audit log, or names its first broken link."""
    chain = f"chain {report.chain}"
    if report.fault is not None:
        return f"{chain}: entry {report.fault.number}: {report.fault.reason}"
    size = _count(report.last - report.first + 1, "entry", "entries")
    if report.seal is None:
        reason = "no entry is sealed" if has_keys else "without a public key (--key FILE) no seal is verified"
        return f"{chain}: {size}: the links match, but {reason}"
    rest = f", {report.last - report.sealed} not sealed yet" if report.sealed < report.last else ""
    return f"{chain}: {size}, sealed by key {report.seal.key_id} at {zoned_time(report.seal.time)}{rest}: intact"


def _count(number: int, noun: str, nouns: str = "") -> str:
    return f"{number:,} {noun if number == 1 else nouns or f'{noun}s'}"
