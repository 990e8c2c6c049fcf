"""What an orchestrator counts for its metrics; `orchestrator.gauges` has what is read when metrics are collected."""
