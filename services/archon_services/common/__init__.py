"""What all services share: settings, process, paging, versions."""
