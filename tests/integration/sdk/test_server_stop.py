"""A server may stop just after a client has connected: grpcio 1.78 ends the process with SIGSEGV then."""

from __future__ import annotations

import subprocess
import sys

STOPS = """
import asyncio
import grpc.aio

async def main():
    for _ in range(300):
        server = grpc.aio.server()
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            await channel.channel_ready()
        await server.stop(0)

asyncio.run(main())
"""


def test_a_server_that_stops_just_after_a_connection_does_not_crash() -> None:
    ended = subprocess.run([sys.executable, "-c", STOPS], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
