"""Links that callers of the gateway make: a record in the working memory of the mesh, and a sealed text that names it.

A link is valid as long as its record exists: revoking it deletes the record, for all replicas.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Final

from archon.background import BackgroundLoop
from archon.errors import InvalidArgument, LinkRefused, ResourceExhausted
from archon_services.common.sealing import Sealer
from archon_services.gateway.own_values import OwnValues

MAX_LINKS: Final = 20
"""Links of one run."""

MIN_SECONDS: Final = 60.0
MAX_SECONDS: Final = 30 * 86_400.0
"""The lifetime of a link: records are kept for as long after the last one of their run was made."""

CHECK_INTERVAL: Final = 1.0
"""Seconds between two looks at the records of links whose events are watched."""

_PURPOSE: Final = "share"


@dataclass(frozen=True, slots=True)
class MadeLink:
    """A link to a run. `by` is the identity that has made it, `created` and `until` are in wall seconds; `token` is the
    text that opens it."""

    id: str
    tenant: str
    run_id: str
    by: str
    created: float
    until: float
    token: str

    @property
    def scope(self) -> str:
        """The scope of the records of its run."""
        return _scope(self.tenant, self.run_id)


class MadeLinks:
    """Makes, lists, opens and revokes links. `watch` is the body of a loop that notices revoked ones."""

    def __init__(self, values: OwnValues, sealer: Sealer) -> None:
        self._values, self._sealer = values, sealer
        self._watched: Counter[tuple[str, str]] = Counter()
        """Scope and id of links whose events are watched."""
        self._revoked: set[str] = set()

    async def make(self, tenant: str, run_id: str, by: str, seconds: float) -> MadeLink:
        """Makes a link that is valid for some seconds. Raises InvalidArgument, ResourceExhausted if the run has too
        many, and Unavailable."""
        if not MIN_SECONDS <= seconds <= MAX_SECONDS:
            raise InvalidArgument(f"a link is valid for {MIN_SECONDS:g} to {MAX_SECONDS:g} seconds, not {seconds:g}")
        if len(await self.list(tenant, run_id)) >= MAX_LINKS:
            raise ResourceExhausted(f"a run has at most {MAX_LINKS} links: revoke one of them")
        now = time.time()
        link_id = secrets.token_hex(8)
        token = self._sealer.seal(_PURPOSE, json.dumps([link_id, tenant, run_id]))
        link = MadeLink(link_id, tenant, run_id, by, now, now + seconds, token)
        with self._values.scope(link.scope) as values:
            await values.set(link.id, asdict(link), 0)
        return link

    async def list(self, tenant: str, run_id: str) -> list[MadeLink]:
        """Returns the links of a run that are valid, the newest first. Raises Unavailable."""
        with self._values.scope(_scope(tenant, run_id)) as values:
            links = [MadeLink(**value.value) for value in await values.list_values()]
        valid = [link for link in links if link.until > time.time()]
        return sorted(valid, key=lambda link: -link.created)

    async def revoke(self, link: MadeLink) -> None:
        """Has all replicas refuse a link, and end its streams. Raises Unavailable."""
        with self._values.scope(link.scope) as values:
            await values.delete(link.id)
        if (link.scope, link.id) in self._watched:
            self._revoked.add(link.id)

    async def open(self, token: str) -> MadeLink:
        """Returns the link of a text. Raises LinkRefused if it has expired, was revoked, or never existed, and
        Unavailable."""
        text = self._sealer.open(_PURPOSE, token)
        if text is not None:
            id_, tenant, run_id = json.loads(text)
            with self._values.scope(_scope(tenant, run_id)) as values:
                record = await values.get(id_)
            if record is not None and (link := MadeLink(**record)).until > time.time():
                return link
        raise LinkRefused("this link has expired, was revoked, or never existed")

    def is_revoked(self, link_id: str) -> bool:
        """Returns whether a link that is watched was revoked."""
        return link_id in self._revoked

    @contextmanager
    def watched(self, tenant: str, run_id: str, link_id: str) -> Iterator[None]:
        """Has the loop look at the record of a link for the duration of the block."""
        record = _scope(tenant, run_id), link_id
        self._watched[record] += 1
        try:
            yield
        finally:
            self._watched[record] -= 1
            if not self._watched[record]:
                del self._watched[record]
                self._revoked.discard(link_id)

    def loop(self) -> BackgroundLoop:
        """Returns the loop that notices links which other replicas have revoked; its owner starts and closes it."""
        return BackgroundLoop("revoked links", self._watch)

    async def _watch(self) -> None:
        while True:
            for scope, link_id in list(self._watched):
                with self._values.scope(scope) as values:
                    if await values.get(link_id) is None and (scope, link_id) in self._watched:
                        self._revoked.add(link_id)
            await asyncio.sleep(CHECK_INTERVAL)


def _scope(tenant: str, run_id: str) -> str:
    return f"shares/{tenant}/{run_id}"
