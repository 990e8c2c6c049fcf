"""The orchestrator: takes runs on, sees them through, and tells how they stand."""
