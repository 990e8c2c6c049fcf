"""Events of an agent run, as front ends see them."""
