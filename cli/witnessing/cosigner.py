"""Who the witness is: its name, what signs under it, and which of its keys may have signed before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

from sealbook.journal.keys.public_halves import Purpose
from sealbook.journal.keys.ring import Keyring
from sealbook.merkle.keys import NoteSigner, VerifierKey


@dataclass(frozen=True, slots=True)
class Cosigner:
    """A witness's name and its keys.

    `signed` has the keys of this name, retired ones too, of which a signature may have left; `mark_signed` makes it
    durable that one of the signers' may, and does nothing when that is known already. `bind` makes it durable that they
    sign out of one state, to which `mark_signed` holds them from then on.
    """

    name: str
    signers: tuple[NoteSigner, ...]
    signed: frozenset[VerifierKey] = frozenset()
    mark_signed: Callable[[], None] = field(default=lambda: None, repr=False, compare=False)
    bind: Callable[[str], None] = field(default=lambda state: None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.signers or any(signer.key.name != self.name for signer in self.signers):
            raise ValueError(f"witness {self.name}: one key or more of that name expected")

    @classmethod
    def of_ring(cls, ring: Keyring, name: str, *, passphrase: bytes | None = None) -> Self:
        """The witness of this name in a ring of keys. `NotFound` when no key signs under it."""
        keys = ring.signing(Purpose.WITNESS, name)

        bound: str | None = None

        def bind(state: str) -> None:
            nonlocal bound
            for key in keys:
                ring.bind(key, state)
            bound = state

        def mark_signed() -> None:
            for key in keys:
                if not key.signed:
                    ring.mark_signed(key, bound)

        return cls(
            name,
            ring.witness_signers(name, passphrase=passphrase),
            frozenset(key.verifier for key in ring.named(name) if key.purpose is Purpose.WITNESS and key.signed),
            mark_signed,
            bind,
        )
