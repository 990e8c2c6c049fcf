"""Recorded runs: a run with its events and the calls of its agents, as reports about runs read them.

recorded = await fetch_run(client, run_id)
print(recorded.answer, recorded.cost_usd, recorded.roles)
"""

from archon_mesh.recorded.recorded_run import RecordedRun, fetch_run

__all__ = ["RecordedRun", "fetch_run"]
