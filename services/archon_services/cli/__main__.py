"""python -m archon_services.cli"""

from __future__ import annotations

from archon_services.cli.main import main

if __name__ == "__main__":
    main()
