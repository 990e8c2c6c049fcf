"""Agents declared in YAML: one file that runs in a script, is served as a role, and is a sub-agent of another."""

from archon_mesh.declared.load import Declared, load_agent
from archon_mesh.declared.schema import json_schema

__all__ = ["Declared", "json_schema", "load_agent"]
