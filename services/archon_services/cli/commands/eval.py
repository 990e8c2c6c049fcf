"""`archon eval`: evaluates the cases of a data set."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from archon_services.cli.errors import FAILED, USAGE, CliError
from archon_services.cli.interrupts import Signals
from archon_services.cli.options import JsonOption, OrchestratorOption
from archon_services.cli.render.output import console, print_json
from archon_services.cli.target.eval_runs import baseline_runs
from archon_services.cli.target.mesh import orchestrator_client
from archon_services.cli.target.temporary_mesh import running_or_own_mesh

if TYPE_CHECKING:
    from archon.client import Client
    from archon_mesh.evals import Case, Comparison, EvalReport, Trial
    from archon_mesh.evals.targets import CaseFunction
    from archon_mesh.llm import ModelClient

ORIGIN: Final = "origin"
"""The baseline of the runs that the cases were made from."""


class Gate(StrEnum):
    """Metrics that are regressions only if they are asked to be."""

    COST = "cost"
    TOKENS = "tokens"
    TIME = "time"


_METRICS: Final = {Gate.COST: "run.cost_usd", Gate.TOKENS: "run.tokens", Gate.TIME: "run.seconds"}


def eval_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The data set, JSON Lines: `archon dataset add`.")],
    against: Annotated[
        str,
        typer.Option(
            metavar="RESULTS",
            help="The baseline: a file of --save; `origin`, the runs that the cases were made from; or runs of an "
            "earlier eval, separated by commas.",
        ),
    ] = "",
    repeat: Annotated[int, typer.Option(min=1, max=1000, metavar="N", help="Trials of each case.")] = 1,
    parallel: Annotated[int, typer.Option(min=1, max=256, metavar="N", help="Runs at a time.")] = 4,
    budget_usd: Annotated[
        float | None,
        typer.Option("--budget-usd", metavar="USD", help="Budget of all runs and judgements, in US dollars."),
    ] = None,
    gate: Annotated[
        list[Gate] | None,
        typer.Option(
            metavar="METRIC",
            help="cost, tokens or time: also fail if it is worse than the baseline by more than 10 %, beyond noise. "
            "Repeatable.",
        ),
    ] = None,
    case: Annotated[
        list[str] | None, typer.Option("--case", metavar="ID", help="Only the case with this id or tag. Repeatable.")
    ] = None,
    judge: Annotated[
        str, typer.Option(metavar="MODEL", help="The model that judges, such as openai/NAME, where a case names none.")
    ] = "",
    version: Annotated[
        list[str] | None,
        typer.Option(metavar="ROLE=VERSION", help="The version of a role to evaluate, such as 1.2 or 1.*. Repeatable."),
    ] = None,
    score: Annotated[
        Path | None,
        typer.Option(
            "--score",
            metavar="FILE",
            help="Execute nothing: score the runs of this file of --save again, as rated since.",
        ),
    ] = None,
    variant: Annotated[
        Path | None,
        typer.Option(
            "--variant",
            metavar="FILE",
            help="Answer each case by one call of this prompt, a file of `archon playground --save`, without a mesh.",
        ),
    ] = None,
    save: Annotated[
        Path | None, typer.Option("--save", metavar="FILE", help="Also write the results, a baseline of later evals.")
    ] = None,
    junit: Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="Also write JUnit XML, for CI.")] = None,
    as_json: JsonOption = False,
    orchestrator: OrchestratorOption = "",
) -> None:
    """Evaluate the cases of a data set, and compare the results with a baseline.

    \b
    archon eval cases.jsonl --repeat 3 --save baseline.json
    archon eval cases.jsonl --repeat 3 --against baseline.json --junit eval.xml

    Uses the mesh in ARCHON_HOME; if none is running, starts a temporary one. Exit code 1 if a case is below its
    threshold, or the results are worse than the baseline beyond noise. Ctrl-C cancels the runs.
    """
    from archon_mesh.evals import compare, junit_xml, read_cases, read_report, write_report

    _check_budget(budget_usd)
    versions = _versions(version or ())
    if variant is not None and (versions or score is not None or (against and not Path(against).is_file())):
        raise CliError(
            "--variant executes no runs: it goes with neither --version nor --score, and --against takes a file",
            code=USAGE,
        )
    cases = _selected(read_cases(file), case or (), file)
    baseline = read_report(against) if against and against != ORIGIN and Path(against).is_file() else None
    scored = read_report(score) if score is not None else None
    work = _Work(cases, repeat, parallel, budget_usd, versions, str(file))
    with _importing(file.parent):
        work.check_functions()
        named = against if baseline is None else ""
        if variant is not None:
            report, found = asyncio.run(work.of_variant(variant, judge)), None
        else:
            report, found = asyncio.run(work.run(orchestrator, judge, named, scored))
    baseline = baseline or found
    gates = [_METRICS[each] for each in gate or ()]
    comparison = compare(report, baseline, also=gates) if baseline is not None else None
    try:
        if save is not None:
            write_report(report, save)
        if junit is not None:
            junit.write_text(junit_xml(report, comparison, file.name), encoding="utf-8")
    except OSError as error:
        raise CliError(f"cannot write {error.filename}: {error.strerror}") from None
    _print(report, comparison, against, as_json=as_json)
    if not report.passed or (comparison is not None and comparison.regressed):
        raise typer.Exit(FAILED)


class _Work:
    """The evaluation of cases on a mesh."""

    def __init__(
        self,
        cases: Sequence[Case],
        repeat: int,
        parallel: int,
        budget_usd: float | None,
        versions: dict[str, str],
        name: str,
    ) -> None:
        self._cases = cases
        self._repeat = repeat
        self._parallel = parallel
        self._budget_usd = budget_usd
        self._versions = versions
        self._name = name

    def check_functions(self) -> None:
        """Imports the functions that score. Raises CliError if one cannot be imported."""
        from archon_mesh.evals import Python

        for case in self._cases:
            for each in case.expectations:
                if isinstance(each, Python):
                    try:
                        each.load()
                    except Exception as error:  # noqa: BLE001 - a module of the user may raise anything
                        raise CliError(f"case {case.id}: cannot import {each.function}: {error}", code=USAGE) from None

    async def run(
        self, orchestrator: str, judge: str, against: str, scored: EvalReport | None
    ) -> tuple[EvalReport, EvalReport | None]:
        """Returns the results, and the results of the runs that the baseline names, None if it names no runs."""
        model = _judge(judge)
        try:
            async with (
                running_or_own_mesh(orchestrator) as (target, signals),
                orchestrator_client(target.orchestrator) as client,
            ):
                found = await signals.guard(self._baseline(client, against, model))
                return await signals.guard(self._evaluate(client, model, scored)), found
        finally:
            if model is not None:
                await model.close()

    async def of_variant(self, variant: Path, judge: str) -> EvalReport:
        """Returns the results of one prompt, without a mesh."""
        from archon_mesh.llm import create_model
        from archon_mesh.playground import read_variant, variant_target

        prompt = read_variant(variant)
        model, judging = create_model(prompt.model), _judge(judge)
        try:
            with Signals() as signals:
                return await signals.guard(self._evaluate(variant_target(prompt, model), judging, None))
        finally:
            await model.close()
            if judging is not None:
                await judging.close()

    async def _baseline(self, client: Client, against: str, judge: ModelClient | None) -> EvalReport | None:
        """Scores the runs that --against names, before anything is spent on the eval."""
        from archon_mesh.evals import score_runs

        if not against:
            return None
        runs = await baseline_runs(client, self._cases, against, is_origin=against == ORIGIN)
        return await score_runs(self._cases, client, runs, judge=judge, name=against)

    async def _evaluate(
        self, target: Client | CaseFunction, judge: ModelClient | None, scored: EvalReport | None
    ) -> EvalReport:
        from archon.client import Client
        from archon_mesh.evals import evaluate, score_runs

        if scored is not None:
            assert isinstance(target, Client)
            runs = {case.case_id: [trial.run_id for trial in case.trials if trial.run_id] for case in scored.cases}
            return await score_runs(self._cases, target, runs, judge=judge, name=self._name)
        with _progress(len(self._cases) * self._repeat) as count:
            return await evaluate(
                self._cases,
                target,
                repeat=self._repeat,
                parallel=self._parallel,
                budget_usd=self._budget_usd,
                judge=judge,
                versions=self._versions,
                name=self._name,
                on_trial=count,
            )


@contextmanager
def _progress(trials: int) -> Iterator[Callable[[Case, Trial], None]]:
    """Shows on a terminal how many trials have ended; yields the function that counts them."""
    if not sys.stderr.isatty():
        yield lambda case, trial: None
        return
    ended = failed = 0
    with console(stderr=True).status(f"0 of {trials:,} trials") as status:

        def count(case: Case, trial: Trial) -> None:
            nonlocal ended, failed
            ended += 1
            failed += trial.passed is False
            status.update(f"{ended:,} of {trials:,} trials, {failed:,} failed")

        yield count


def _print(report: EvalReport, comparison: Comparison | None, against: str, *, as_json: bool) -> None:
    from archon_services.cli.render.eval_report import report_lines

    if as_json:
        print_json(report.document() | {"comparison": None if comparison is None else comparison.document()})
        return
    print("\n".join(report_lines(report, comparison, against)))


def _check_budget(budget_usd: float | None) -> None:
    if budget_usd is not None and not 1e-6 <= budget_usd <= 1e6:  # False for NaN as well
        raise CliError(f"--budget-usd must be 0.000001 to 1,000,000 US dollars, not {budget_usd:g}", code=USAGE)


def _versions(pairs: Sequence[str]) -> dict[str, str]:
    versions: dict[str, str] = {}
    for pair in pairs:
        role, equals, version = pair.partition("=")
        if not (role and equals and version) or role in versions:
            raise CliError(f"invalid --version {pair!r}: expected ROLE=VERSION, each role once", code=USAGE)
        versions[role] = version
    return versions


def _selected(cases: list[Case], names: Sequence[str], file: Path) -> list[Case]:
    if missing := [name for name in names if not any(name == case.id or name in case.tags for case in cases)]:
        raise CliError(f"{file} has no case with the id or tag {missing[0]!r}", code=USAGE)
    return [case for case in cases if not names or case.id in names or set(names) & set(case.tags)]


def _judge(name: str) -> ModelClient | None:
    if not name:
        return None
    from archon_mesh.llm import create_model

    return create_model(name)


@contextmanager
def _importing(folder: Path) -> Iterator[None]:
    """Lets modules beside the data set be imported, as beside an agent's file."""
    entry = str(folder.resolve())
    sys.path.insert(0, entry)
    try:
        yield
    finally:
        sys.path.remove(entry)
