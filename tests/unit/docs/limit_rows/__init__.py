"""The rows of docs/limits.md, an area in each module."""
