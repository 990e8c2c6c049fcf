"""The plugin of pytest with the fixture `recorded_model`. The conftest.py of a project names it:
`pytest_plugins = ["archon_services.testing.pytest_plugin"]`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from archon_mesh.testing.recorded_model import RecordedModel

OPTION: Final = "--archon-rerecord"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option that records replies anew."""
    parser.addoption(OPTION, action="store_true", help="Record the replies of `recorded_model` anew, from live models.")


@pytest.fixture
def recorded_model(request: pytest.FixtureRequest) -> Iterator[Callable[..., RecordedModel]]:
    """Yields a function that opens a RecordedModel, whose path is relative to the folder of the test. At the end of the
    test each of them is checked."""
    opened: list[RecordedModel] = []
    folder = Path(request.node.path).parent
    rerecord = True if request.config.getoption(OPTION) else None

    def open_model(path: Path | str, role: str = "", **options: Any) -> RecordedModel:
        model = RecordedModel(folder / path, role, **{"rerecord": rerecord, **options})
        opened.append(model)
        return model

    yield open_model
    for model in opened:
        model.check()
