"""`python -m sealbook.cli` is `sealbook`."""

from __future__ import annotations

from sealbook.cli.main import main

if __name__ == "__main__":
    main()
