"""`keys`: the keys that sign records, checkpoints and cosignatures. Private halves are never printed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from sealbook.cli.ground import keyring_options
from sealbook.cli.ground.keyring_options import keys_option, passphrase_option
from sealbook.cli.ground.options import Verb, VerbGroup, format_option
from sealbook.cli.ground.setup import Setup, pass_setup
from sealbook.cli.records import lines, objects
from sealbook.cli.screen.output import Output
from sealbook.cli.screen.safe import safe
from sealbook.journal import NotFound
from sealbook.journal.keys import pkcs8, public_halves
from sealbook.journal.keys.public_halves import ALGORITHMS, KeyRefused, Purpose, published_path
from sealbook.journal.keys.ring import Key, Keyring
from sealbook.journal.records import instants
from sealbook.journal.schema.origins import check_origin
from sealbook.merkle.keys import Algorithm

Function = TypeVar("Function", bound=Callable[..., Any])

HEADINGS = ("NAME", "PURPOSE", "ALGORITHM", "STATE", "CREATED", "ID")

name_argument = click.argument("name", metavar="NAME")


@click.group("keys", cls=VerbGroup)
def command() -> None:
    """Keys of record signers, logs and witnesses. They live outside of every store, and each has one name and purpose.

    NAME is a key's name, which is the origin for a log's key, or its id as `keys list` prints it.
    """


def purpose_options(function: Function) -> Function:
    """Which key is meant: `--record NAME`, `--log` with its origin, or `--witness NAME`."""
    for option in (
        click.option("--exact", is_flag=True, help="--origin is the whole origin of the log, not a base."),
        click.option(
            "--origin", metavar="BASE", help="With --log: the base of the origins, instead of the one before."
        ),
        click.option("--witness", metavar="NAME", help="A witness's key: cosigns checkpoints under this name."),
        click.option("--log", is_flag=True, help="A log's key, named after its origin: signs its checkpoints."),
        click.option("--record", metavar="NAME", help="A record signer's key: signs records under this name."),
    ):
        function = option(function)
    return function


@command.command(
    "gen",
    cls=Verb,
    examples=(
        "sealbook keys gen --record worker-1",
        "sealbook keys gen --log --origin example.com/journal",
        "sealbook keys gen --witness witness.example.com --algorithm both",
    ),
)
@purpose_options
@click.option(
    "--algorithm",
    type=click.Choice(["ed25519", "ml-dsa-44", "both"]),
    default="ed25519",
    show_default=True,
    help="With --witness: the algorithm of its cosignatures.",
)
@click.option(
    "--protect", is_flag=True, help="Put private halves under a passphrase, and ask for it if no file has it."
)
@keys_option
@passphrase_option
@pass_setup
def gen(
    setup: Setup,
    record: str | None,
    log: bool,
    witness: str | None,
    origin: str | None,
    exact: bool,
    algorithm: str,
    protect: bool,
    keys: str | None,
    passphrase_file: str | None,
) -> None:
    """Make a key and print its public half.

    --log makes one key per tenant of the store, or for the tenant that --tenant names: the origin is the base for the
    tenant `default` and BASE/TENANT for any other, and for a log that went on under another origin (`sealbook log
    adopt`) that one. Those that have a key keep it, and it is printed like a new one.
    """
    _one_of(record, log, witness)
    ring = keyring_options.opened(keys)
    wanted: list[tuple[Purpose, str, Algorithm | None, str | None]]
    if record is not None:
        wanted = [(Purpose.RECORD, record, None, None)]
    elif witness is not None:
        ed25519, mldsa = ALGORITHMS[Purpose.WITNESS]
        chosen = {"ed25519": [ed25519], "ml-dsa-44": [mldsa], "both": [ed25519, mldsa]}[algorithm]
        wanted = [(Purpose.WITNESS, witness, each, None) for each in chosen]
    else:
        wanted = []
        for name, tenant in _origins(setup, origin, exact):
            if kept := _kept(ring, name, tenant):
                setup.remark(f"{name} keeps its key {kept[-1].id}")
                _print_public(setup, kept)
            else:
                wanted.append((Purpose.LOG, name, None, tenant))
    if not wanted:
        return
    what = "the new key" if len(wanted) == 1 else "the new keys"
    passphrase = keyring_options.passphrase(passphrase_file, what=what, needed=protect, new=True)
    for purpose, name, chosen_algorithm, tenant in wanted:
        made = ring.generate(
            purpose, name, created=_now(), algorithm=chosen_algorithm, tenant=tenant, passphrase=passphrase
        )
        _print_made(setup, [made])


@command.command("list", cls=Verb, examples=("sealbook keys list", "sealbook keys list -o json"))
@keys_option
@format_option("text", "json")
@pass_setup
def list_(setup: Setup, keys: str | None, form: str) -> None:
    """List all keys, retired ones too."""
    ring = keyring_options.opened(keys)
    found = ring.keys()
    with setup.output(paged=True) as output:
        if form == "json":
            for key in found:
                output.line(objects.text(_object(ring, key)))
            return
        rows = [
            [
                (safe(key.name), ()),
                (str(key.purpose), ()),
                (key.algorithm_word, ()),
                (_state(ring, key), ()),
                (instants.of_millis(key.created), ("dim",)),
                (safe(key.id), ()),
            ]
            for key in found
        ]
        lines.table(output, HEADINGS, rows)


@command.command("show", cls=Verb, examples=("sealbook keys show worker-1", "sealbook keys show worker-1 -o json"))
@name_argument
@keys_option
@format_option("text", "json")
@pass_setup
def show(setup: Setup, name: str, keys: str | None, form: str) -> None:
    """Print the public halves of a name's keys, and the largest checkpoint that a log's key has signed."""
    ring = keyring_options.opened(keys)
    found = ring.find(name)
    with setup.output() as output:
        for number, key in enumerate(found):
            item = _object(ring, key)
            if form == "json":
                output.line(objects.text(item))
                continue
            if number:
                output.line()
            published = item.pop("published")
            if published is not None:
                item["signed up to"] = f"size {published['size']}, root {published['root']}"
            lines.pairs(output, [(title, safe(_word(value))) for title, value in item.items() if value is not None])


@command.command(
    "rotate",
    cls=Verb,
    examples=(
        "sealbook keys rotate example.com/journal",
        "sealbook keys rotate example.com/journal --finish",
    ),
)
@name_argument
@click.option("--finish", is_flag=True, help="Retire the old key: from now on the new one signs alone.")
@keys_option
@passphrase_option
@pass_setup
def rotate(setup: Setup, name: str, finish: bool, keys: str | None, passphrase_file: str | None) -> None:
    """Make a new key for a name, which the old one signs beside until --finish retires it.

    Hand out the new public half meanwhile. A record has one signature, so there the new key takes over at once. The
    old key is kept, for what it signed is verified with it.
    """
    ring = keyring_options.opened(keys)
    if finish:
        retired = ring.finish_rotation(name)
        for key in retired:
            setup.remark(f"{key.id} is retired")
        if not retired:
            setup.remark(f"{name} has no key to retire")
        return
    needed = any(ring.is_protected(key) for key in ring.find(name) if _signs(ring, key))
    passphrase = keyring_options.passphrase(passphrase_file, what=f"the key {name}", needed=needed)
    _print_made(setup, ring.rotate(name, created=_now(), passphrase=passphrase))


@command.command(
    "export",
    cls=Verb,
    examples=(
        "sealbook keys export worker-1",
        "sealbook keys export worker-1 --private --to worker-1.pem",
    ),
)
@name_argument
@click.option("--private", is_flag=True, help="The private half, as PKCS#8 in PEM; only into a file.")
@click.option("--to", "to", metavar="FILE", help="The new file to write, instead of printing a public half.")
@keys_option
@pass_setup
def export(setup: Setup, name: str, private: bool, to: str | None, keys: str | None) -> None:
    """Print the public halves of the keys that sign under a name, or copy one private half into a new file.

    The private half stays under its passphrase. What a log's key has signed goes into FILE.published beside it: keep
    the two together, and sign in one place only.
    """
    if private and to is None:
        raise click.UsageError("--private needs --to FILE: a private half is never printed")
    ring = keyring_options.opened(keys)
    found = ring.find(name)
    chosen = [key for key in found if len(found) == 1 or _signs(ring, key)]
    if private:
        assert to is not None
        if len(chosen) != 1:
            ids = ", ".join(key.id for key in chosen)
            raise KeyRefused(name, f"it has several keys, name one by its id: {ids}")
        ring.export_private(chosen[0], to)
        setup.remark(f"{to} holds the private half of {chosen[0].id}")
    elif to is not None:
        with Path(to).open("x", encoding="utf-8") as file:
            file.writelines(f"{key.public_text}\n" for key in chosen)
    else:
        _print_public(setup, chosen)


@command.command(
    "import",
    cls=Verb,
    examples=(
        "sealbook keys import --record worker-1 worker-1.pem",
        "sealbook keys import --log --origin example.com/journal --never-signed log.pem",
    ),
)
@click.argument("file", metavar="FILE")
@purpose_options
@click.option(
    "--never-signed", is_flag=True, help="With --log: the key has signed nothing, so there is no FILE.published."
)
@keys_option
@passphrase_option
@pass_setup
def import_(
    setup: Setup,
    file: str,
    record: str | None,
    log: bool,
    witness: str | None,
    origin: str | None,
    exact: bool,
    never_signed: bool,
    keys: str | None,
    passphrase_file: str | None,
) -> None:
    """Take in a private half: PKCS#8 in PEM, or the PRIVATE+KEY line of the Go tools.

    A log's key comes with what it has signed, as FILE.published. A key that the ring has already is refused, whatever
    its name and purpose there.
    """
    _one_of(record, log, witness)
    tenant: str | None = None
    signed: bytes | None = None
    if record is not None:
        purpose, name = Purpose.RECORD, record
    elif witness is not None:
        purpose, name = Purpose.WITNESS, witness
    else:
        purpose = Purpose.LOG
        name, tenant = _origin(setup, origin, exact)
        beside = published_path(Path(file))
        signed = beside.read_bytes() if beside.exists() else None
    private = Path(file).read_bytes()
    needed = pkcs8.is_protected(private)
    passphrase = keyring_options.passphrase(passphrase_file, what=f"the key {name}", needed=needed)
    key = keyring_options.opened(keys).import_private(
        purpose,
        name,
        private,
        created=_now(),
        tenant=tenant,
        passphrase=passphrase,
        signed=signed,
        never_signed=never_signed,
    )
    _print_made(setup, [key])


# --- which key ---------------------------------------------------------------------------------------------------


def _one_of(record: str | None, log: bool, witness: str | None) -> None:
    given = (record is not None) + log + (witness is not None)
    if given != 1:
        told = ("none was", "", "two were", "three were")[given]
        raise click.UsageError(f"exactly one of --record NAME, --log and --witness NAME is needed, and {told} given")


def _origins(setup: Setup, base: str | None, exact: bool) -> list[tuple[str, str | None]]:
    """The origins that are to have a key, each with the tenant whose log it is."""
    if exact or setup.tenant_given:
        return [_origin(setup, base, exact)]
    with _based(setup, base).journal(readonly=True) as journal:
        return [(journal.tenant(name).origin, name) for name in journal.tenants() or [setup.tenant]]


def _origin(setup: Setup, base: str | None, exact: bool) -> tuple[str, str | None]:
    """The origin of the log of the tenant that the setup names; with `exact` the base itself, of nobody's log unless a
    tenant is named."""
    setup = _based(setup, base)
    if exact:
        return check_origin(setup.origin), setup.tenant if setup.tenant_given else None
    return setup.log_origin(), setup.tenant


def _based(setup: Setup, base: str | None) -> Setup:
    return setup if base is None else replace(setup, origin=base)


def _kept(ring: Keyring, origin: str, tenant: str | None) -> list[Key]:
    """The keys that the origin of this tenant's log has. That of another tenant is left to `generate` to refuse."""
    found = [key for key in ring.named(origin) if key.purpose == "log"]
    theirs = [key for key in found if key.tenant is not None]
    if tenant is None and theirs:
        folder = public_halves.name_folder(ring.folder, origin)
        never = (
            "" if any(key.signed for key in found) else f", or, as it never signed, remove {folder} and make it anew"
        )
        reason = f"it is that of tenant {theirs[0].tenant}'s log, made without --exact: choose another origin{never}"
        raise KeyRefused(theirs[0].id, reason)
    return [key for key in found if key.tenant == tenant and _signs(ring, key)]


def _signs(ring: Keyring, key: Key) -> bool:
    try:
        return key in ring.signing(key.purpose, key.name)
    except NotFound:
        return False


def _now() -> int:
    return time.time_ns() // 1_000_000


# --- how it prints -----------------------------------------------------------------------------------------------


def _print_public(setup: Setup, keys: Iterable[Key]) -> None:
    with setup.output() as output:
        _write_public(output, keys)


def _print_made(setup: Setup, keys: Sequence[Key]) -> None:
    """The public halves of keys that are in the ring by now."""
    ids = ", ".join(key.id for key in keys)
    with setup.report(f"{ids} stands in the ring") as output:
        _write_public(output, keys)


def _write_public(output: Output, keys: Iterable[Key]) -> None:
    for key in keys:
        output.line(safe(key.public_text))


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _state(ring: Keyring, key: Key) -> str:
    """`active`, `retired`, or that a key still signs beside the one that succeeds it."""
    if key.state == "active" and _succeeded(ring, key):
        return "active until --finish"
    return str(key.state)


def _succeeded(ring: Keyring, key: Key) -> bool:
    return any(each.algorithm is key.algorithm and each.generation > key.generation for each in ring.named(key.name))


def _object(ring: Keyring, key: Key) -> dict[str, Any]:
    """A key as JSON: its public half and where it stands."""
    published = ring.published(key) if key.purpose is Purpose.LOG else None
    return {
        "id": key.id,
        "name": key.name,
        "purpose": str(key.purpose),
        "algorithm": key.algorithm_word,
        "public": key.public_text,
        "signer": None if key.signer_id is None else key.signer_id.hex(),
        "tenant": key.tenant,
        "generation": key.generation,
        "created": instants.of_millis(key.created),
        "state": str(key.state),
        "signs": _signs(ring, key),
        "signed": key.signed,
        "published": None if published is None else {"size": published.size, "root": published.root.hex()},
    }
