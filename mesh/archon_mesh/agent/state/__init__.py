"""State of an agent's run: identifiers, history, shared storage."""
