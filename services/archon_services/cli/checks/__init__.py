"""What `archon doctor` looks at: one file per matter, each of whose functions returns findings."""
