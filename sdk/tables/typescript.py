"""Renders the tables in TypeScript: `sdk/typescript/src/reasons.ts`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sdk.tables import reasons as table


def reasons_file() -> str:
    """Returns the source of the table of reasons and kinds."""
    rows = table.reasons()
    lines = ["// Made by `python -m sdk.tables`. Do not edit.", ""]
    lines += ["/** The canonical gRPC codes by name. */", "export const CODES = {"]
    lines += [f"  {code}: {number}," for number, code in enumerate(table.GRPC_CODES) if number]
    lines += [
        "} as const;",
        "",
        "/** The name of a canonical gRPC code. */",
        "export type Code = keyof typeof CODES;",
        "",
    ]
    lines += ["/** The reasons of the contract, without their prefix: number in the enum, gRPC code, kind. */"]
    lines += ["export const REASONS = {"]
    for row in rows:
        lines.append(f"  /** {row.comment} */")
        lines.append(f'  {row.name}: {{ number: {row.number}, code: "{row.code}", kind: "{row.kind.name}" }},')
    lines += ["} as const;", "", "/** A reason of the contract. */", "export type Reason = keyof typeof REASONS;", ""]
    lines += ["/** The kinds of failures, in the order of the catalogue. */", "export const KINDS = {"]
    for kind in table.kinds():
        entry = (
            f'failureClass: "{kind.failure_class.name}", severity: "{kind.severity.name}", retry: "{kind.retry.name}"'
        )
        lines.append(f'  "{kind.name}": {{ {entry} }},')
    lines += ["} as const;", "", "/** The name of a kind of failure. */", "export type Kind = keyof typeof KINDS;", ""]
    lines += ["/** The kind of an error of each code whose reason does not tell. */"]
    lines += ["export const KIND_OF_CODE: Record<Code, Kind> = {"]
    lines += [f'  {code}: "{kind.name}",' for code, kind in table.kinds_of_codes()]
    lines += ["};", "", "/** The reason of an error of each code, if none is given. */"]
    lines += ["export const REASON_OF_CODE: Record<Code, Reason> = {"]
    lines += [f'  {code}: "{reason}",' for code, reason in table.default_reasons()]
    return "\n".join([*lines, "};", ""])


FILES: Final[dict[str, Callable[[], str]]] = {"sdk/typescript/src/reasons.ts": reasons_file}
