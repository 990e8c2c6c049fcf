"""Tools that an agent lends to others: leases, executions, and the service."""
