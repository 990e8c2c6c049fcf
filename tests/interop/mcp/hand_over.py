"""The command that the conformance suite starts for each scenario: hands it over to the test, which runs the client in its
own process, and exits with its code. It imports little: the suite starts all scenarios at the same time.

python -S -E hand_over.py SOCKET URL
"""

import os
import socket
import sys

NAMES = ("MCP_CONFORMANCE_SCENARIO", "MCP_CONFORMANCE_CONTEXT")

with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(sys.argv[1])
    fields = [sys.argv[2], *(os.environ.get(name, "") for name in NAMES)]
    connection.sendall("\0".join(fields).encode() + b"\n")
    answer = b""
    while chunk := connection.recv(65536):
        answer += chunk
code, _, text = answer.decode().partition("\n")
sys.stderr.write(text)
sys.exit(int(code or 1))
