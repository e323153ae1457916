"""`python -m sealbook` is `sealbook`: the one module that is installed beside the four packages, in no package."""

from __future__ import annotations

from sealbook.cli.main import main

if __name__ == "__main__":
    main()
