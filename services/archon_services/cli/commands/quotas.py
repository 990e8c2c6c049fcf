"""`archon quotas`: the use of quotas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from archon_services.cli.options import JsonOption, OrchestratorOption
from archon_services.cli.render.output import print_json, print_table
from archon_services.cli.target.mesh import call_orchestrator
from archon_services.reports.texts import strip_controls

if TYPE_CHECKING:
    from archon.types import QuotaCount, QuotaUse

_HEADERS: Final = ("tenant", "identity", "runs", "streams", "instances", "runs today", "bytes", "tokens", "usd")
_QUOTAS: Final = (
    *("runs", "streams", "instances"),
    *("runs_per_day", "bytes_per_day", "tokens_per_day", "usd_per_day"),
)
LISTED: Final = 10_000
"""Identities that are listed."""


def quotas(as_json: JsonOption = False, orchestrator: OrchestratorOption = "") -> None:
    """Show the quotas of your tenant and of yourself, with their use: used/limit. Days begin at midnight in UTC.

    Auditors and admins see all identities of the tenant. Runs and streams are counted by the replica of the
    orchestrator that answers.
    """
    uses = call_orchestrator(orchestrator, lambda client: client.quotas(limit=LISTED))
    if as_json:
        print_json([_values(use) for use in uses])
    elif not uses:
        print("This mesh has no quotas.")
    else:
        rows = []
        for use in uses:
            counts = {count.quota: count for count in use.counts}
            cells = [_cell(counts.get(quota)) for quota in _QUOTAS]
            rows.append([use.tenant, strip_controls(use.identity) or "(all)", *cells])
        print_table(_HEADERS, rows, right=range(2, len(_HEADERS)))


def _cell(count: QuotaCount | None) -> str:
    if count is None:
        return "-"
    limit = "-" if count.limit is None else _number(count.limit)
    return f"{_number(count.used)}/{limit}"


def _number(number: float) -> str:
    return f"{number:,.6f}".rstrip("0").rstrip(".")


def _values(use: QuotaUse) -> dict[str, object]:
    counts = {count.quota: {"used": count.used, "limit": count.limit} for count in use.counts}
    return {"tenant": use.tenant, "identity": use.identity, "weight": use.weight, "quotas": counts}
