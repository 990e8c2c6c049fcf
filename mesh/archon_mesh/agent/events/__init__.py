"""Events of an agent's run, for front ends."""
