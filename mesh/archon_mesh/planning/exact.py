"""Why an exact step fails: one whose tool is called with its arguments as they are."""

from __future__ import annotations


def unfit_arguments(tool_name: str, problem: str) -> str:
    """Returns that the arguments do not fit the parameters of the tool."""
    return f"the arguments do not fit the tool {tool_name}: {problem}"


def too_large(tool_name: str, limit: object) -> str:
    """Returns that the result was cut at a limit, in bytes, so that it is no result."""
    return f"the result of the tool {tool_name} has more than {limit:,} bytes, the limit of the tool (max_output_bytes)"
