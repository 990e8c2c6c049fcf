"""State of an agent run: ids, phase, message history, global storage."""
