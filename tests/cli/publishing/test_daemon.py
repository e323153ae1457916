"""All logs, again and again: what one daemon notices between its turns."""

from __future__ import annotations

import trio
from published_log import signed_note
from publishing_world import BASE, World, over, rules
from tampering import change, engine_of

from sealbook.cli.ground import exit_codes
from sealbook.cli.publishing.daemon import Daemon, first_of
from sealbook.cli.publishing.publisher import NOBODY, PublishingState, Turn
from sealbook.journal import Corrupt, entries
from sealbook.journal.keys.public_halves import Purpose
from sealbook.journal.schema import tables
from sealbook.merkle.checkpoint import Checkpoint


class Told(list[tuple[str, Turn | Exception]]):
    """How each log's turn ended."""

    def __call__(self, origin: str, ended: Turn | Exception) -> None:
        self.append((origin, ended))


def daemon(world: World, told: Told) -> Daemon:
    return Daemon(
        ring=world.ring,
        logs=lambda: [world.journal.tenant(name) for name in world.journal.tenants()],
        rules=lambda memory: rules(NOBODY),
        transport=over(()),
        clock=world.clock,
        told=told,
    )


def test_a_log_that_is_adopted_meanwhile_is_published_under_its_new_origin(world: World) -> None:
    told = Told()
    running = daemon(world, told)
    assert trio.run(running.once) == exit_codes.OK
    world.tenant.adopt_log("elsewhere", signed_note(Checkpoint(BASE, 9, bytes(32))), actor="ada")
    world.ring.generate(Purpose.LOG, "elsewhere", created=0, tenant="default")
    assert trio.run(running.once) == exit_codes.OK
    ended = [(origin, turn.state, turn.size) for origin, turn in told if isinstance(turn, Turn)]
    assert ended == [(BASE, PublishingState.PUBLISHED, 3), ("elsewhere", PublishingState.PUBLISHED, 4)]


def test_a_log_whose_origin_is_damaged_does_not_keep_the_others(world: World) -> None:
    world.journal.tenant("acme").append("r", [entries.concluded("ok")], epoch=1, seal=True)
    change(engine_of(world.journal), {(tables.ORIGINS, b"acme"): bytes(8) + b"\xff"})
    told = Told()
    assert trio.run(daemon(world, told).once) == exit_codes.INTEGRITY
    ended = dict(told)
    assert isinstance(ended["acme"], Corrupt)
    published = ended[BASE]
    assert isinstance(published, Turn) and published.state is PublishingState.PUBLISHED


def test_of_errors_in_groups_one_is_told() -> None:
    error = KeyError("the one")
    inner = ExceptionGroup("inner", [error, ValueError("another")])
    assert first_of(BaseExceptionGroup("outer", [inner, KeyboardInterrupt()])) is error
