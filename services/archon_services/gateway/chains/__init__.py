"""Whether the chains of the audit log are whole, for the web page."""
