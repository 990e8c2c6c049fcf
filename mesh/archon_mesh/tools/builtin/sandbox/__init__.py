"""A sandbox for Python programs."""

from archon_mesh.tools.builtin.sandbox.limits import DEFAULT, SandboxLimits
from archon_mesh.tools.builtin.sandbox.sandbox import SandboxResult, check_available, run_sandboxed

__all__ = ["DEFAULT", "SandboxLimits", "SandboxResult", "check_available", "run_sandboxed"]
