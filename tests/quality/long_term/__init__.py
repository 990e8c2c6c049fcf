"""The labelled set of long-term memory: 315 memories of three people, 156 questions in two halves."""
