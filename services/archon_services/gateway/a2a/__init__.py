"""A2A for the mesh: every role, and the mesh itself, is an agent that speaks the Agent2Agent protocol.

An A2A task is a run, its id is the run's, a context is a session. The room keeps nothing of a task, so that any replica
answers for it. It needs the optional package `archon-mesh[a2a]`.
"""
