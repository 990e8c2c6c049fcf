"""What strangers send is logged in a few lines without its bytes."""

from __future__ import annotations

import logging
import os
import subprocess
import sys

import pytest
from grpc._cython import cygrpc

from archon.grpc_log import LOGGED, StrangersFilter, quieten

SENT = b"Bearer hunter2-\xe8"


def record(error: BaseException) -> logging.LogRecord:
    info = (type(error), error, None)
    return logging.LogRecord("grpc", logging.ERROR, __file__, 1, "Invalid encoding on %s", (SENT,), info)


def not_utf8() -> UnicodeDecodeError:
    return UnicodeDecodeError("utf-8", SENT, 15, 16, "invalid continuation byte")


def test_malformed_calls_are_logged_a_few_times_without_their_bytes() -> None:
    strangers = StrangersFilter()
    records = [record(not_utf8()) for _ in range(100)]
    logged = [each for each in records if strangers.filter(each)]
    assert len(logged) == LOGGED
    text = logging.Formatter().format(logged[0])
    assert "hunter2" not in text and "Traceback" not in text
    assert logged[0].levelno == logging.WARNING


def test_what_is_not_of_a_stranger_is_logged_as_it_is() -> None:
    kept = record(ValueError("a fault of ours"))
    assert StrangersFilter().filter(kept) and kept.exc_info is not None


def test_the_library_prints_no_stack(capsys: pytest.CaptureFixture[str]) -> None:
    quieten()
    quieten()
    filters = logging.getLogger(cygrpc.__name__).filters
    assert len([each for each in filters if isinstance(each, StrangersFilter)]) == 1
    try:
        raise not_utf8()
    except UnicodeDecodeError:
        cygrpc.traceback.print_exc()
        assert cygrpc.traceback.format_exc().startswith("Traceback")
    assert capsys.readouterr().err == ""


def test_with_tls_the_library_prints_no_line_for_each_broken_handshake() -> None:
    code = "import sys; import archon; print('grpc' in sys.modules, __import__('os').environ['GRPC_VERBOSITY'])"
    own = {name: value for name, value in os.environ.items() if name != "GRPC_VERBOSITY"}  # gRPC sets it as it loads
    done = subprocess.run(
        [sys.executable, "-c", code], env={**own, "ARCHON_TLS": "/x"}, capture_output=True, text=True, check=True
    )
    assert done.stdout == "False NONE\n"
