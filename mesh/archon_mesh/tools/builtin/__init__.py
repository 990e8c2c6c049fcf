"""Tools that come with Archon."""

from archon_mesh.tools.builtin.calculator import Calculator
from archon_mesh.tools.builtin.date_and_time import DateAndTime
from archon_mesh.tools.builtin.files import ListFiles, ReadFile, WriteFile
from archon_mesh.tools.builtin.python_tool import PythonTool
from archon_mesh.tools.builtin.sandbox import SandboxLimits
from archon_mesh.tools.builtin.sql import SqlQuery, SqlTables
from archon_mesh.tools.builtin.web import FetchPage, WebSearch

__all__ = [
    "Calculator",
    "DateAndTime",
    "FetchPage",
    "ListFiles",
    "PythonTool",
    "ReadFile",
    "SandboxLimits",
    "SqlQuery",
    "SqlTables",
    "WebSearch",
    "WriteFile",
]
