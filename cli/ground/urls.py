"""Which URLs name a place where a log or a witness is asked."""

from __future__ import annotations

from urllib.parse import urlsplit


def is_base(url: str) -> bool:
    """Whether it is http or https, has a host, and paths can be put behind it."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises for one that is none
    except ValueError:
        return False
    whole = not (parts.query or parts.fragment) and url.split() == [url]  # a policy's words end at spaces
    return parts.scheme in ("http", "https") and bool(parts.hostname) and whole
