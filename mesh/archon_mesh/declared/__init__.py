"""Agents declared in YAML: a file can be run in a script, served as a role, or used as a sub-agent."""

from archon_mesh.declared.load import DeclaredAgent, load_agent
from archon_mesh.declared.overrides import ModelOverrides
from archon_mesh.declared.rules import load_rules
from archon_mesh.declared.schema import json_schema

__all__ = ["DeclaredAgent", "ModelOverrides", "json_schema", "load_agent", "load_rules"]
