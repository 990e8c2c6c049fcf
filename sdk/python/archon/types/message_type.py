"""The types of messages between agents."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from archon.api.agent.v1 import message_pb2
from archon.types.enum_name import enum_name

_PREFIX: Final = "MESSAGE_TYPE_"


class MessageType(StrEnum):
    """The purpose of a message. A message of an unknown type, as of a later version, is a notification."""

    TASK_REQUEST = "task_request"
    TASK_RESPONSE = "task_response"
    STATUS_UPDATE = "status_update"
    ERROR = "error"
    INFORMATION_SHARE = "information_share"
    CONTEXT_REQUEST = "context_request"
    HELP_REQUEST = "help_request"
    NOTIFICATION = "notification"

    @property
    def number(self) -> int:
        """The value in the contract."""
        return message_pb2.MessageType.Value(_PREFIX + self.name)

    @classmethod
    def of_number(cls, number: int) -> MessageType:
        """Returns the type of a value in the contract."""
        return cls(enum_name(message_pb2.MessageType, _PREFIX, number) or cls.NOTIFICATION)
