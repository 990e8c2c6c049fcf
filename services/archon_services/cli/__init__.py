"""The command line: one file per command. `archon --help` says what there is."""
