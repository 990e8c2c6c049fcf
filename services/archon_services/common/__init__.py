"""Code that all services share: settings, process, background loops, feeds, validation, paging, versions."""
