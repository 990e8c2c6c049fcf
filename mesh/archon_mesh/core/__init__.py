"""The pure domain: no I/O, no gRPC, no event loop; the clock is an argument.

Import the modules directly, so that code that only needs messages does not import networkx.
"""
