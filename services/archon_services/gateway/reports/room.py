"""The room of reports about a run: documents for browsers, and JSON for programs, at `/reports/runs/RUN/NAME`.

They are made of things that the caller may read, by the functions that the command line uses. Share links open none.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from starlette.routing import BaseRoute, Route

from archon_services.gateway.callers import Callers
from archon_services.gateway.own_values import OwnValues
from archon_services.gateway.reports.difference import Difference
from archon_services.gateway.reports.documents import Handler, for_browsers, style
from archon_services.gateway.reports.prompts import Prompts
from archon_services.gateway.reports.reading import RunReader
from archon_services.gateway.reports.sources import Sources
from archon_services.gateway.reports.trial_ledger import TrialLedger
from archon_services.gateway.reports.trials import Trials
from archon_services.gateway.reports.use_of_time import UseOfTime
from archon_services.gateway.room import Gateway


@asynccontextmanager
async def reports_room(gateway: Gateway) -> AsyncIterator[Sequence[BaseRoute]]:
    """Serves `/reports/...`."""
    async with Callers(gateway) as callers, OwnValues.of(gateway) as values:
        reader = RunReader(gateway, callers)
        sources, used = Sources(reader), UseOfTime(reader)
        ledger = TrialLedger(values, gateway.settings.trial_usd_per_day)
        async with Trials(gateway.settings, ledger) as trials:
            prompts = Prompts(gateway, reader, callers, trials, ledger)
            yield [
                Route("/reports/style.css", style, methods=["GET"]),
                Route("/reports/trials", for_browsers(prompts.records), methods=["GET"]),
                _route("sources", sources.show),
                _route("sources.svg", sources.draw),
                _route("time", used.show),
                _route("time.svg", used.draw),
                _route("difference", Difference(reader, callers).show),
                _route("prompts", prompts.listed),
                _route("prompts/{number:int}", prompts.show),
                _route("prompts/{number:int}", prompts.attempt, "POST"),
            ]


def _route(name: str, handler: Handler, method: str = "GET") -> Route:
    return Route(f"/reports/runs/{{run_id}}/{name}", for_browsers(handler), methods=[method])
