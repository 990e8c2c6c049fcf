"""Searching the web and reading pages as tools."""

from archon_mesh.tools.builtin.web.fetch_page import FetchPage
from archon_mesh.tools.builtin.web.search import WebSearch

__all__ = ["FetchPage", "WebSearch"]
