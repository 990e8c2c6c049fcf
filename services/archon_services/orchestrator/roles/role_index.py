"""Finds the role whose registration fits a query best."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from archon.registry import Registration
from archon_mesh.core.text_index import Field, Match, TextIndex

NEARLY: Final = 0.97
"""Roles whose scores are at least this part of the best one fit as well: the one with fewest capabilities and tools is
taken."""


def closest(query: str, instances: Iterable[Registration]) -> Match | None:
    """Returns the role that a query is for, by descriptions, capabilities, examples, tags and tools; None if none
    shares a word with it. Of roles that fit equally well it is the narrowest: that with fewest capabilities and tools.

    `instances` has one instance of each role.
    """
    roles = {instance.role: instance for instance in instances}
    matches = TextIndex({role: tuple(_fields(instance)) for role, instance in roles.items()}).search(query)
    equal = [match for match in matches if match.score >= matches[0].score * NEARLY]
    return min(equal, key=lambda match: _breadth(roles[match.name]), default=None)


def _breadth(instance: Registration) -> int:
    return len(instance.capabilities) + len(instance.tools)


def _fields(instance: Registration) -> Iterator[Field]:
    yield Field(instance.role, 2.0)
    yield Field(instance.description, 2.0)
    for capability in instance.capabilities:
        yield Field(f"{capability.id} {capability.name}")
        yield Field(capability.description)
        yield Field(" ".join(capability.tags), 1.5)
        for example in capability.examples:
            yield Field(example)
    for tool in instance.tools:
        yield Field(f"{tool.name} {tool.title}")
        yield Field(tool.description)
