"""The fold: from an event and the state before it to the state after it."""
