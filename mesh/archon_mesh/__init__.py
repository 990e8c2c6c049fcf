"""The agent framework of Archon and its pure domain: core, model clients, tools, memory, agents."""
