"""Scenarios that every SDK is held to, and their runner: it starts a subject, plays its peers, and compares.

`archon conformance` runs them; the protocol of a subject and the vocabulary of the scenarios are in
sdk/conformance/README.md of the repository.
"""

import os

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # before gRPC is imported: scenarios break many connections on purpose

from archon.conformance.case import Case, Scenario, cases_of, load_scenarios, scenarios_folder
from archon.conformance.report import Report
from archon.conformance.run import Options, chosen, run_and_print, run_cases
from archon.conformance.suite import Outcome, Suite

__all__ = [
    "Case",
    "Options",
    "Outcome",
    "Report",
    "Scenario",
    "Suite",
    "cases_of",
    "chosen",
    "load_scenarios",
    "run_and_print",
    "run_cases",
    "scenarios_folder",
]
