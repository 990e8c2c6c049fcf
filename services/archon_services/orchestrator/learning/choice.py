"""The choices that learned weights make for a run: recorded in its metadata at the submit, so that every attempt, a
replay and a fork of it have the same ones."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from archon.learning import CHOICES_KEY
from archon_services.orchestrator.learning.weights import NEUTRAL, Subject, Weights

LAST_BELOW: Final = 0.75
"""Weight of a tool below which the tool is offered after the others."""

MAX_INSTANCES: Final = 20
"""Instances of a role whose weights a run records."""

MAX_ROLES: Final = 100
"""Roles of a run with choices."""


def choose_variant(run_id: str, role: str, variants: Sequence[str], weights: Weights) -> str:
    """Returns one of the variants, each with the probability of its weight; the same one for the same run, role,
    variants and weights."""
    names = sorted(variants)
    parts = [weights.get(Subject("variant", role, name), NEUTRAL) for name in names]
    digest = hashlib.sha256(f"{run_id}\0{role}".encode()).digest()
    point = int.from_bytes(digest[:8], "big") / 2**64 * sum(parts)
    for name, part in zip(names, parts, strict=True):
        point -= part
        if point < 0:
            return name
    return names[-1]


def last_tools(role: str, weights: Weights) -> list[str]:
    """Returns the tools of a role that are offered last, the best of them first."""
    low = [
        (-weight, subject.name)
        for subject, weight in weights.items()
        if subject.kind == "tool" and subject.role == role and weight < LAST_BELOW
    ]
    return [name for _, name in sorted(low)]


def choices_of(
    run_id: str, version: int, weights: Weights, variants: Mapping[str, Sequence[str]], roles: Sequence[str] = ()
) -> dict[str, Any]:
    """Returns the choices for a run, by role, with the version of the weights; empty if there is nothing to choose.
    `variants` has the prompt variants by role, `roles` are further roles. The weights of roles and instances, by which
    placement goes, are recorded for the explanation of the run."""
    chosen: dict[str, dict[str, Any]] = {}
    for role in sorted({*variants, *roles})[:MAX_ROLES]:
        entry: dict[str, Any] = {}
        if names := sorted(variants.get(role, ())):
            entry["variant"] = choose_variant(run_id, role, names, weights)
            entry["weights"] = {name: weights.get(Subject("variant", role, name), NEUTRAL) for name in names}
        if last := last_tools(role, weights):
            entry["tools_last"] = last
        if (weight := weights.get(Subject("role", role), NEUTRAL)) != NEUTRAL:
            entry["weight"] = weight
        if instances := _instances(role, weights):
            entry["instances"] = instances
        if entry:
            chosen[role] = entry
    return {"version": version, "roles": chosen} if chosen else {}


def _instances(role: str, weights: Weights) -> dict[str, float]:
    found = [(each.name, weight) for each, weight in weights.items() if each.kind == "instance" and each.role == role]
    return dict(sorted(found)[:MAX_INSTANCES])


def write_choices(choices: Mapping[str, Any], metadata: Any) -> None:
    """Records the choices in the metadata of a run, in place of an entry by the caller."""
    metadata.pop(CHOICES_KEY, None)
    if choices:
        metadata[CHOICES_KEY] = json.dumps(choices, separators=(",", ":"), sort_keys=True)
