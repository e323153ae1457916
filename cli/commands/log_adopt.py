"""`log adopt`: let a log that cannot be extended any more go on under a new origin."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from sealbook.cli import keyring_options
from sealbook.cli.commands.log_monitor import trusted_policy
from sealbook.cli.keyring_options import keys_option
from sealbook.cli.options import Verb, format_option
from sealbook.cli.setup import Setup, pass_setup

if TYPE_CHECKING:
    from sealbook.journal.keyring import Keyring
    from sealbook.merkle.checkpoint import Checkpoint

FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command(
    "adopt",
    cls=Verb,
    examples=("sealbook log adopt --new-origin log-2/main --old-checkpoint last.txt --policy policy.txt --actor ada",),
)
@click.option("--new-origin", required=True, metavar="NAME", help="The origin under which the log goes on.")
@click.option(
    "--old-checkpoint", "file", type=FILE, required=True, metavar="FILE", help="The last checkpoint of the old origin."
)
@click.option("--policy", type=FILE, metavar="FILE", help="Which log and witnesses signed it: a tlog-policy.")
@click.option("--vkey", "vkeys", multiple=True, metavar="KEY", help="A verifier key of the old log.")
@keys_option
@click.option("--actor", required=True, metavar="NAME", help="Who decides it.")
@click.option("--reason", default="", metavar="TEXT", help="Why.")
@format_option("short", "json")
@pass_setup
def command(
    setup: Setup,
    new_origin: str,
    file: Path,
    policy: Path | None,
    vkeys: tuple[str, ...],
    keys: str | None,
    actor: str,
    reason: str,
    form: str,
) -> None:
    """Let the tenant's log go on under a new origin, where its store is older than what had been published.

    The first leaf of the new log states the old one's last checkpoint, and the store's leaves follow in their order;
    whoever monitors the old log follows the new one by that leaf. The checkpoint must be signed by the old log: by
    --policy or --vkey, or else by the log's keys in --keys. It must be the last one: the larger the checkpoint that is
    left out, the more outsiders refuse the new log. The new log needs a key of its own, as it is another log:
    `sealbook keys gen --log --origin NAME --exact`. It is recorded in the run ~tenant.
    """
    from sealbook.cli.rendering import objects
    from sealbook.cli.rendering.safe import safe
    from sealbook.cli.rendering.words import counted

    note = file.read_bytes()
    ring = keyring_options.opened(keys)
    with setup.writing() as tenant:
        old = _verified(note, tenant.origin, policy, vkeys, ring)
        _check_last(old, ring)
        adopted = tenant.adopt_log(new_origin, note, actor=actor, reason=reason)
        name = tenant.name
    with setup.report(f"the log goes on as {adopted.origin}") as output:
        if form == "json":
            members = {"tenant": name, "origin": adopted.origin, "size": adopted.size}
            output.line(objects.text({**members, "old": objects.checkpoint(adopted.old)}))
        else:
            output.line(
                f"{safe(adopted.origin)}: {counted(adopted.size, 'leaf', 'leaves')}, goes on from"
                f" {safe(adopted.old.origin)} at size {adopted.old.size}"
            )


def _verified(note: bytes, origin: str, policy: Path | None, vkeys: tuple[str, ...], ring: Keyring) -> Checkpoint:
    """The checkpoint of the old log, as far as whoever calls trusts its signature."""
    from sealbook.journal.keyring import Purpose
    from sealbook.merkle.policy import Policy, PolicyLog

    if policy is not None or vkeys:
        return trusted_policy(policy, vkeys).open(note, origin=origin).checkpoint
    known = [key.verifier for key in ring.named(origin) if key.purpose is Purpose.LOG]
    if not known:
        raise click.UsageError(f"no key of {origin} is in {ring.folder}: name --policy, --vkey or --keys")
    return Policy(tuple(PolicyLog(key) for key in known), (), (), None).open(note, origin=origin).checkpoint


def _check_last(old: Checkpoint, ring: Keyring) -> None:
    """What our own keys have promised was published, or may have been: nothing smaller is the last checkpoint."""
    from sealbook.journal import InvalidInput
    from sealbook.journal.keyring import Purpose

    for key in ring.named(old.origin):
        promised = ring.published(key) if key.purpose is Purpose.LOG else None
        if promised is not None and promised.size > old.size:
            what = f"is not the last one: {key.id} has signed size {promised.size}"
            raise InvalidInput("old checkpoint", old.size, what)
