"""Pure rules of the registry: state, dependency graph, queries."""
