"""The waterfall of a run: spans and critical path, derived from its events and records, as text, JSON and SVG."""
