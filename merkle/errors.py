"""What is raised when a proof, a checkpoint or a leaf entry does not hold."""

from __future__ import annotations


class VerificationError(Exception):
    """What was claimed does not hold. The text says which check failed, with the values.

    It stands alone: no journal is involved when an auditor checks a proof from a file.
    """


class Malformed(VerificationError):
    """The bytes are not in the format, or a value has no bytes in it."""


def shown(value: object) -> str:
    """The value as it may stand in an error of one line: ASCII, and short."""
    if isinstance(value, int) and value.bit_length() > 128:  # Python refuses to print integers of 4,300 digits
        return f"an integer of {value.bit_length()} bits"
    text = ascii(value).removeprefix("b")  # bytes are mostly text of others, and shown as such
    return text if len(text) <= 80 else f"{text[:80]}…"
