"""Tools of other agents: found in the registry, leased, and executed where they live."""
