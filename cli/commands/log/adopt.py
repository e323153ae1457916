"""`log adopt`: let a log that cannot be extended any more go on under a new origin."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import click

from sealbook.cli.commands.log.monitor import trusted_policy
from sealbook.cli.ground import keyring_options
from sealbook.cli.ground.keyring_options import keys_option, passphrase_option
from sealbook.cli.ground.named_files import FileRefused
from sealbook.cli.ground.options import Verb, format_option
from sealbook.cli.ground.setup import Setup, pass_setup
from sealbook.cli.publishing.memory import Memory
from sealbook.cli.records import objects
from sealbook.cli.screen.safe import safe
from sealbook.cli.screen.words import counted
from sealbook.journal import InvalidInput
from sealbook.journal.keys.public_halves import Purpose
from sealbook.journal.keys.ring import Keyring
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.errors import Malformed
from sealbook.merkle.note import Note
from sealbook.merkle.policy import Policy, PolicyLog

FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command(
    "adopt",
    cls=Verb,
    examples=(
        "sealbook log adopt --new-origin log-2/main --old-checkpoint last.txt --policy policy.txt --actor ada",
        "sealbook --tenant acme log adopt --new-origin log-2/acme --actor ada --reason 'the newer store is lost'",
    ),
)
@click.option("--new-origin", required=True, metavar="NAME", help="The origin under which the log goes on.")
@click.option(
    "--old-checkpoint",
    "file",
    type=FILE,
    metavar="FILE",
    help="The last checkpoint of the old origin; else what its keys in --keys have promised last.",
)
@click.option("--policy", type=FILE, metavar="FILE", help="Which log and witnesses signed it: a tlog-policy.")
@click.option("--vkey", "vkeys", multiple=True, metavar="KEY", help="A verifier key of the old log.")
@keys_option
@passphrase_option
@click.option("--actor", required=True, metavar="NAME", help="Who decides it.")
@click.option("--reason", default="", metavar="TEXT", help="Why.")
@format_option("short", "json")
@pass_setup
def command(
    setup: Setup,
    new_origin: str,
    file: Path | None,
    policy: Path | None,
    vkeys: tuple[str, ...],
    keys: str | None,
    passphrase_file: str | None,
    actor: str,
    reason: str,
    form: str,
) -> None:
    """Let the tenant's log go on under a new origin, where its store is older than what had been published.

    The first leaf of the new log states the old one's last checkpoint, and the store's leaves follow in their order;
    whoever monitors the old log follows the new one by that leaf. The checkpoint must be signed by the old log: by
    --policy or --vkey, or else by the log's keys in --keys. It must be the last one: the larger the checkpoint that is
    left out, the more outsiders refuse the new log. The new log needs a key of its own, as it is another log:
    `sealbook --tenant TENANT keys gen --log` makes it afterwards. It is recorded in the run ~tenant.
    """
    ring = keyring_options.opened(keys)
    with setup.journal(readonly=False) as journal:
        tenant = setup.known_tenant(journal)
        origin, name = tenant.origin, tenant.name
        with _publishing_held(origin, ring):
            note = _promised(origin, ring, passphrase_file) if file is None else file.read_bytes()
            old = _verified(note, origin, policy, vkeys, ring)
            _check_last(old, ring)
            adopted = tenant.adopt_log(new_origin, note, actor=actor, reason=reason)
    with setup.report(f"the log goes on as {adopted.origin}") as output:
        if form == "json":
            members = {"tenant": name, "origin": adopted.origin, "size": adopted.size}
            output.line(objects.text({**members, "old": objects.checkpoint(adopted.old)}))
        else:
            output.line(
                f"{safe(adopted.origin)}: {counted(adopted.size, 'leaf', 'leaves')}, goes on from"
                f" {safe(adopted.old.origin)} at size {adopted.old.size}"
            )


def _publishing_held(origin: str, ring: Keyring) -> AbstractContextManager[None]:
    """Nobody publishes the old log meanwhile with these keys: it would promise more than the last checkpoint."""
    return Memory(ring.folder, origin).held() if ring.folder.is_dir() else nullcontext()


def _promised(origin: str, ring: Keyring, passphrase_file: str | None) -> bytes:
    """The checkpoint that the log's keys have promised last, as a signed note. It was held to what had been promised
    before when it was promised, and is signed once more: no new promise."""
    keys = [key for key in ring.named(origin) if key.purpose is Purpose.LOG]
    promises = [promise for key in keys if (promise := ring.published(key)) is not None]
    if not promises:
        raise click.UsageError(f"no key in {ring.folder} has signed a checkpoint of {origin}: name --old-checkpoint")
    last = max(promises, key=lambda promise: promise.size)
    protected = any(ring.is_protected(key) for key in ring.signing(Purpose.LOG, origin))
    passphrase = keyring_options.passphrase(passphrase_file, what="the log's key", needed=protected)
    lines = ring.sign_checkpoint(last, consistent=lambda published: True, passphrase=passphrase)
    return Note(last.text(), tuple(lines)).encode()


def _verified(note: bytes, origin: str, policy: Path | None, vkeys: tuple[str, ...], ring: Keyring) -> Checkpoint:
    """The checkpoint of the old log, as far as whoever calls trusts its signature."""
    try:
        stated = Checkpoint.parse(Note.parse(note).text).origin
    except Malformed as error:  # the operator's own words, not what is to be verified
        raise FileRefused("the old checkpoint", 0, str(error)) from error
    if stated != origin:
        raise InvalidInput("old checkpoint", stated, f"is of another log than {origin}")
    if policy is not None or vkeys:
        return trusted_policy(policy, vkeys).open(note, origin=origin).checkpoint
    known = [key.verifier for key in ring.named(origin) if key.purpose is Purpose.LOG]
    if not known:
        raise click.UsageError(f"no key of {origin} is in {ring.folder}: name --policy, --vkey or --keys")
    return Policy(tuple(PolicyLog(key) for key in known), (), (), None).open(note, origin=origin).checkpoint


def _check_last(old: Checkpoint, ring: Keyring) -> None:
    """What our own keys have promised was published, or may have been: nothing smaller is the last checkpoint."""
    for key in ring.named(old.origin):
        promised = ring.published(key) if key.purpose is Purpose.LOG else None
        if promised is not None and promised.size > old.size:
            what = f"is not the last one: {key.id} has signed size {promised.size}, which is taken where none is named"
            raise InvalidInput("old checkpoint", old.size, what)
