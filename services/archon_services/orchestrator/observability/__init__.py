"""The metrics and the traces of an orchestrator. Spans are derived from the events of the journal.

commits         counters of the journal's commits
run_events      counters of runs, tasks and attempts
span_ids        the ids of spans, which every replica derives alike
context         the trace of a run, and the parents of its agents' spans
run_log         the events of a run as its spans need them
run_spans       the spans of a run, made of its log
exporter        hands runs that have ended to the exporter of the process
"""
