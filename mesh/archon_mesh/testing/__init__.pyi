"""The types of the lazy names: this file is not executed, so that the package does not import the services."""

from typing import Final

from archon.testing import Delayed as Delayed
from archon.testing import Delegation as Delegation
from archon.testing import FakeAgent as FakeAgent
from archon.testing import FakeOrchestrator as FakeOrchestrator
from archon.testing import Reply as Reply
from archon.testing import TaskResult as TaskResult
from archon_mesh.llm import ScriptedModel as ScriptedModel
from archon_mesh.testing.injected_fault import InjectedFault as InjectedFault
from archon_mesh.testing.model_faults import FaultyModel as FaultyModel
from archon_mesh.testing.model_faults import ModelFault as ModelFault
from archon_mesh.testing.recorded_model import RecordedModel as RecordedModel
from archon_mesh.testing.tool_faults import FaultyTool as FaultyTool
from archon_mesh.testing.tool_faults import ToolFault as ToolFault
from archon_mesh.testing.virtual_time import VirtualTime as VirtualTime
from archon_services.testing import EtcdProcess as EtcdProcess
from archon_services.testing import Fault as Fault
from archon_services.testing import InProcessMesh as InProcessMesh
from archon_services.testing import LocalMesh as LocalMesh

__all__: Final[list[str]]
