"""Spans of runs, derived from the events of the journal.

span_ids     the ids of spans, which every replica derives alike
context      the trace of a run, and the parents of its agents' spans
run_log      what of a run's events its spans show
otel_spans   a log as OpenTelemetry's spans
exporter     hands the spans of runs that have ended to the exporter of the process
"""
