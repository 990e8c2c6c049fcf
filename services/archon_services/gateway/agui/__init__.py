"""AG-UI for the mesh: every role, and the mesh itself, is an agent for front ends that speak the Agent-User Interaction
protocol (https://docs.ag-ui.com, version 1.0).

A run of the protocol is a run of the mesh, or the part of one that follows the answers to its questions; a thread is a
session. The room keeps nothing of a run, so that any replica answers for it. It needs the optional package
`archon-mesh[agui]`.
"""
