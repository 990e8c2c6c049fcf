"""An inbox that records what sessions deliver."""

from __future__ import annotations

from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2
from archon_services.orchestrator.ports import Delivery


class Inbox:
    def __init__(self) -> None:
        self.deliveries: list[Delivery] = []
        self.expected = True
        self.takes = True

    def deliver(self, run_id: str, delivery: Delivery) -> bool:
        if self.takes:
            self.deliveries.append(delivery)
        return self.takes

    def expects(self, ref: common_pb2.TaskRef, source: str) -> bool:
        return self.expected

    def progress(self, ref: common_pb2.TaskRef, progress: agent_pb2.Progress, source: str) -> None:
        pass
