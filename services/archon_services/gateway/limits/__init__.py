"""Limits of the HTTP gateway per identity: requests in time, and open streams."""
