"""PostgreSQL for services: addresses, connections, error conversion, group commit, notifications, migrations."""
