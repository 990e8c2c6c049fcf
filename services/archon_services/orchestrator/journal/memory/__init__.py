"""The journal in memory."""
