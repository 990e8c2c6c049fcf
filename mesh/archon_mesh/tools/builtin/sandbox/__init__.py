"""A sandbox for Python programs."""

from archon_mesh.tools.builtin.sandbox.limits import SandboxLimits
from archon_mesh.tools.builtin.sandbox.sandbox import SandboxResult, check_available, run_sandboxed

__all__ = ["SandboxLimits", "SandboxResult", "check_available", "run_sandboxed"]
