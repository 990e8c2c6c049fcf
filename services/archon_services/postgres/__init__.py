"""What services need of PostgreSQL: addresses, connections that heal, errors of our tree, group commit, migrations."""
