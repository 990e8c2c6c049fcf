"""The counters of an orchestrator; `orchestrator.gauges` has the values that are read when metrics are collected."""
