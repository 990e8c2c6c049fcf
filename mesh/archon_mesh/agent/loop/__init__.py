"""The agent loop: model calls and tool calls until there is an answer."""
