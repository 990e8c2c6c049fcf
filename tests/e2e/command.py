"""`archon` in a fork of the tests: with the default handler of SIGINT, also if the shell that started the tests makes
them ignore it; and with the patience of a chat in CHAT_PATIENCE, if it is set."""

from __future__ import annotations

import os
import signal

from archon_services.cli.chat import output
from tests.fixtures.command_line import main

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if patience := os.environ.get("CHAT_PATIENCE"):
        output.PATIENCE = float(patience)  # type: ignore[misc]
    main()
