"""The pure domain: no I/O, no gRPC, no event loop, and no clock but one that is handed in.

Import the modules themselves: whoever needs messages only shall not pay for networkx.
"""
