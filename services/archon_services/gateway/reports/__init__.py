"""Documents about a run, rendered here: the sources of an answer, the use of time, the difference from another run."""
