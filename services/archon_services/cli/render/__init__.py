"""Output for terminals: tables, trees, live views."""
