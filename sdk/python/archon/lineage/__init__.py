"""x"""
from archon.lineage.run import RunLineage
from archon.lineage.uses import TaskLineage, Use, UseKind
