"""Reports about runs: the sources of an answer, and where the time of a run went; as lines, JSON and drawings, for the
command line and the HTTP gateway."""
