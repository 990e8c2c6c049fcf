"""Runs under way.

manager      all runs of this process: submits, takes over, routes inputs
driver       one run
scheduler    turns: decides the runs that are ready, stores their steps in one commit, finishes them
turn/        the turn of one run: its decision, the placement of its tasks, the step to store
effects      executes effects on agents
receipts     tells senders whether their input counted
states/      states of runs, read from the journal or kept
clock/       clocks, ids and timers
"""
