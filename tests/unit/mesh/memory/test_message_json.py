"""Messages as they are stored."""

from __future__ import annotations

import pytest

from archon.errors import DataLoss
from archon_mesh.core.media import Media
from archon_mesh.core.messages import ChatMessage
from archon_mesh.memory.message_json import message_from_json, message_to_json
from tests.fixtures.media import PNG


def test_a_message_is_stored_with_its_files() -> None:
    files = [Media(PNG, "image/png", name="a.png"), Media.at("https://x.org/a", "image/png")]
    message = ChatMessage("user", "Look.", files=files)
    assert message_from_json(message_to_json(message), "r") == message


def test_a_message_stored_before_there_were_files_is_read() -> None:
    assert message_from_json('{"role":"user","content":"Hi."}', "r") == ChatMessage("user", "Hi.")
    assert "files" not in message_to_json(ChatMessage("user", "Hi."))


@pytest.mark.parametrize("files", ['"a"', '[{"data":"?"}]', '[{"url":"ftp://x"}]', "1"])
def test_a_malformed_file_is_data_loss(files: str) -> None:
    with pytest.raises(DataLoss):
        message_from_json(f'{{"role":"user","content":"Hi.","files":{files}}}', "r")
