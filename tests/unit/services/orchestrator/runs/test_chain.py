"""The chain of a run: which of its steps are sealed, and that a turn of the scheduler has one signature."""

from __future__ import annotations

from archon.history import AuditKey, PublicKeys, RecordedStep, Seal, SealReason, verify_run
from archon_services.orchestrator.journal import Step
from archon_services.orchestrator.runs.turn.chain import SEAL_SECONDS, SEAL_STEPS, RunChain, StepSealer
from tests.fixtures.journal import step as plain


def next_step(chain: RunChain, base: int, now: float, *, ended: bool = False, claimed: bool = False) -> Step:
    given = plain("r", base)
    return plain(
        "r",
        base,
        time=now,
        ended=ended,
        link=chain.next(base, base + 1, given.data, given.inputs),
        seal_reason=chain.seal_reason(now, ended=ended, claimed=claimed),
    )


def test_a_usual_run_is_sealed_once_at_its_end() -> None:
    chain, reasons = RunChain("r"), []
    for base in range(20):
        step = next_step(chain, base, 100.0 + base, ended=base == 19)
        chain.stored(step)
        reasons.append(step.seal_reason)
    assert reasons == [0] * 19 + [SealReason.END]


def test_a_long_run_is_sealed_now_and_then() -> None:
    chain, sealed = RunChain("r"), []
    for base in range(3 * SEAL_STEPS):
        step = next_step(chain, base, 100.0)
        chain.stored(step)
        if step.seal_reason:
            sealed.append(base + 1)
    assert sealed == [SEAL_STEPS, 2 * SEAL_STEPS, 3 * SEAL_STEPS]
    assert next_step(chain, base + 1, 100.0 + SEAL_SECONDS - 1).seal_reason == 0
    assert next_step(chain, base + 1, 100.0 + SEAL_SECONDS).seal_reason == SealReason.LENGTH
    assert next_step(chain, base + 1, 100.0 - SEAL_SECONDS).seal_reason, "the clock was set back"


def test_a_step_that_was_not_stored_leaves_the_chain_as_it_was() -> None:
    chain = RunChain("r")
    first = next_step(chain, 0, 100.0)
    assert next_step(chain, 0, 100.0).link == first.link
    chain.stored(first)
    assert next_step(chain, 1, 100.0).link != next_step(RunChain("r"), 1, 100.0).link


def test_a_turn_has_one_signature() -> None:
    key = AuditKey.generate()
    claimed, ended, other = (
        next_step(RunChain("r"), 0, 100.0, claimed=True),
        next_step(RunChain("r"), 0, 100.0, ended=True),
        next_step(RunChain("r"), 0, 100.0),
    )
    StepSealer(key).seal([claimed, other, ended])
    assert other.seal == b""
    assert len({Seal.decode(step.seal).signature for step in (claimed, ended)}) == 1
    for step, complete in ((claimed, False), (ended, True)):
        recorded = RecordedStep(step.base, step.last_seq, step.data, step.inputs, step.link, step.seal)
        report = verify_run("r", [recorded], PublicKeys.of(key))
        assert (report.proven, report.complete) == (True, complete)


def test_without_a_key_nothing_is_sealed() -> None:
    step = next_step(RunChain("r"), 0, 100.0, ended=True)
    StepSealer(None).seal([step])
    assert step.seal == b""
