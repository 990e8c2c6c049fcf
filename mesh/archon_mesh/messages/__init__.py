"""Messages between agents in one process. Agents of a mesh exchange them by `TaskContext.send` and `messages`."""

from archon_mesh.messages.bus import DeadLetter, MessageBus, Subscription

__all__ = ["DeadLetter", "MessageBus", "Subscription"]
