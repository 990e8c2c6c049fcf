"""`python -m archon.conformance`: the same as `archon conformance`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from archon.conformance.run import Options, chosen, run_and_print
from archon.errors import ArchonError


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m archon.conformance")
    parser.add_argument("--subject", required=True, help="command that starts the subject; its mode is appended")
    parser.add_argument("--case", action="append", default=[], help="scenario, area, case, or pattern; may be repeated")
    parser.add_argument("--mode", default="", choices=["", "agent", "client"])
    parser.add_argument("--transport", default="", choices=["", "dialled", "attached"])
    parser.add_argument("--security", default="", choices=["", "plain", "mtls"])
    parser.add_argument("--expected", type=Path, help="list of expected failures")
    parser.add_argument("--pace", type=float, default=1.0, help="multiplies all times within which things must happen")
    parser.add_argument("--junit", type=Path)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--list", action="store_true", help="print the names of the cases only")
    parser.add_argument("--verbose", action="store_true")
    given = parser.parse_args()
    options = Options(
        subject=given.subject,
        names=given.case,
        mode=given.mode,
        transport=given.transport,
        security=given.security,
        expected=given.expected,
        pace=given.pace,
        verbose=given.verbose,
    )
    try:
        if given.list:
            print("\n".join(f"{case.name}: {case.scenario.does}" for case in chosen(options)))
            return 0
        return run_and_print(options, as_json=given.json, junit=given.junit)
    except ArchonError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
