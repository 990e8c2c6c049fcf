"""Ownership of runs: leases, takeover, forwarded commands."""
