"""`archon` in a fork of the tests: with the default handler of SIGINT, also if the shell that started the tests makes
them ignore it."""

from __future__ import annotations

import signal

from tests.fixtures.command_line import main

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    main()
