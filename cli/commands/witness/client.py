"""`witness add`, `list`, `submit`, `status`, `resolve`: the log's side. Who witnesses our logs, and how that stands."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from sealbook.cli.commands.log.publish import (
    Policies,
    fail_open_option,
    policy_option,
    publish,
    remark_none,
    remark_signed_name,
)
from sealbook.cli.ground import exit_codes, keyring_options
from sealbook.cli.ground.keyring_options import keys_option, passphrase_option
from sealbook.cli.ground.options import Verb, format_option, store_log_option
from sealbook.cli.ground.setup import Setup, pass_setup
from sealbook.cli.publishing import policy_file
from sealbook.cli.publishing.memory import KnownWitness, Memory
from sealbook.cli.records import lines, objects
from sealbook.cli.screen.output import Output
from sealbook.cli.screen.safe import line, safe
from sealbook.journal import Log, NotFound, Tenant
from sealbook.journal.keys.public_halves import Purpose
from sealbook.journal.records import instants
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.keys import VerifierKey
from sealbook.merkle.note import Note
from sealbook.merkle.policy import Policy


@click.command(
    "add",
    cls=Verb,
    examples=(
        "sealbook witness add w1 w1.example.com+aa3a128c+BIqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c https://w1.example.com",
        "sealbook witness add w2 w2+fe77a3a8+BO1JKMYo0cLG6ukDOJBZlWEpWSc6XGP5NjbBRhSshzfR http://w2 --optional",
    ),
)
@click.argument("name", metavar="NAME")
@click.argument("key", metavar="VKEY")
@click.argument("url", metavar="URL")
@keys_option
@policy_option
@click.option("--quorum", "threshold", metavar="K|any|all", help="From now on so many of the quorum's group suffice.")
@click.option("--optional", is_flag=True, help="Ask it and keep its cosignatures, and need none of them.")
@pass_setup
def add(
    setup: Setup,
    name: str,
    key: str,
    url: str,
    keys: str | None,
    policy: Path | None,
    threshold: str | None,
    optional: bool,
) -> None:
    """Write a witness into the policy, under a NAME of your choice. URL is what stands before /add-checkpoint.

    It joins the group that the quorum names; in a new policy that is the group `witnesses`, all of which must cosign.
    The policy is a file for people too: groups within groups are made with an editor, and comments stay.
    """
    if optional and threshold is not None:
        raise click.UsageError("--optional and --quorum exclude each other")
    path = policy or policy_file.default_path(keyring_options.opened(keys).folder)
    changed = policy_file.add_witness(path, name, key, url, threshold=threshold, optional=optional)
    setup.remark(f"{path}: {_quorum_text(changed)}")


@click.command(
    "list",
    cls=Verb,
    examples=("sealbook witness list", "sealbook --tenant acme witness list -o tlog-policy > policy.txt"),
)
@keys_option
@policy_option
@format_option("text", "json", "tlog-policy")
@store_log_option
@pass_setup
def list_(setup: Setup, keys: str | None, policy: Path | None, form: str) -> None:
    """List the witnesses of the policy. As tlog-policy it is what a verifier of the tenant's log follows, with its
    keys: hand it out."""
    ring = keyring_options.opened(keys)
    found = policy_file.required(policy or policy_file.default_path(ring.folder), named=policy is not None)
    with setup.output() as output:
        if form == "tlog-policy":
            output.text(policy_file.for_verifiers(found, _log_keys(setup, ring)).decode("utf-8", "surrogateescape"))
        elif form == "json":
            for witness in found.witnesses:
                item = {"name": witness.name, "key": str(witness.key), "url": witness.url}
                output.line(objects.text({**item, "needed": witness.name in _members(found)}))
        else:
            rows = [
                [(safe(item.name), ()), (safe(item.key.id), ()), (safe(item.url or lines.BLANK), ())]
                for item in found.witnesses
            ]
            lines.table(output, ("NAME", "KEY", "URL"), rows)
            output.line(safe(_quorum_text(found)))


@click.command("submit", cls=Verb, examples=("sealbook witness submit", "sealbook --tenant acme witness submit"))
@keys_option
@policy_option
@fail_open_option
@passphrase_option
@store_log_option
@pass_setup
def submit(setup: Setup, keys: str | None, policy: Path | None, fail_open: bool, passphrase_file: str | None) -> int:
    """Ask every witness now: one turn of `log publish`, in which no witness is left out."""
    ring = keyring_options.opened(keys)
    path = policy or policy_file.default_path(ring.folder)
    policy_file.required(path, named=policy is not None)
    found = Policies(path, named=True, fail_open=fail_open, refresh=0, patient=False)
    return publish(setup, ring, found.rules, asks=found.ask(), every=None, passphrase_file=passphrase_file)


@click.command("status", cls=Verb, examples=("sealbook witness status", "sealbook witness status -o json"))
@keys_option
@policy_option
@format_option("text", "json")
@store_log_option
@pass_setup
def status(setup: Setup, keys: str | None, policy: Path | None, form: str) -> int:
    """Show how far each log is signed, cosigned and published, and what its witnesses last said.

    The exit code is 3 when a witness contradicts a log and its publishing is therefore stopped.
    """
    ring = keyring_options.opened(keys)
    default = policy_file.default_path(ring.folder)
    found = policy_file.required(policy, named=True) if policy else policy_file.read(default)
    stopped = False
    with setup.journal(readonly=True) as journal, setup.output() as output:
        logs = setup.logs(journal)
        remark_none(setup, logs)
        for number, log in enumerate(logs):
            remark_signed_name(setup, log)
            item = _standing(log, Memory(ring.folder, log.origin), found)
            stopped = stopped or item["stopped"] is not None
            if form == "json":
                output.line(objects.text(item))
                continue
            if number:
                output.line()
            _print_standing(output, item)
    return exit_codes.INTEGRITY if stopped else exit_codes.OK


@click.command("resolve", cls=Verb, examples=("sealbook --tenant acme witness resolve",))
@keys_option
@store_log_option
@pass_setup
def resolve(setup: Setup, keys: str | None) -> None:
    """Let a log be published again that was stopped. Understand first why: the evidence stays where it is.

    The witnesses that were charged are then asked as for the first time, so what has not been settled stops it again.
    """
    memory = Memory(keyring_options.opened(keys).folder, setup.log_origin())
    if memory.stopped() is None:
        raise NotFound("stop of publishing for", memory.origin)
    with memory.held():
        stop = memory.resolve(at=int(time.time()))
    for charge in stop.charges:
        setup.remark(
            f"{memory.origin}: {charge.url}: {charge.reason}: resolved; the evidence stays in {charge.evidence}"
        )


# --- within ------------------------------------------------------------------------------------------------------


def _log_keys(setup: Setup, ring: Any) -> list[VerifierKey]:
    return [key.verifier for key in ring.signing(Purpose.LOG, setup.log_origin())]


def _members(policy: Policy) -> set[str]:
    """The names that the quorum rests on, directly or through groups."""
    needed = set() if policy.quorum is None else {policy.quorum}
    for group in reversed(policy.groups):  # members are defined before the group
        if group.name in needed:
            needed.update(group.members)
    return needed


def _quorum_text(policy: Policy) -> str:
    group = next((group for group in policy.groups if group.name == policy.quorum), None)
    if policy.quorum is None:
        return "no witness is needed"
    if group is None:
        return f"{policy.quorum} must cosign"
    return f"{group.threshold} of {len(group.members)} must cosign: {', '.join(group.members)}"


def _standing(log: Log, memory: Memory, policy: Policy | None) -> dict[str, Any]:
    """A log and its witnesses as JSON."""
    from sealbook.cli.publishing.publisher import NOBODY, verified

    policy = policy or NOBODY
    signed, note, stop = log.signed_checkpoint(), log.published_checkpoint(), memory.stopped()
    held = {} if signed is None or signed.note is None else verified(signed.note, policy)
    published = None if note is None else Checkpoint.parse(Note.parse(note).text).size
    kept = None if published is None else log.signed_checkpoint(published)
    return {
        "tenant": log.name if isinstance(log, Tenant) else None,
        "origin": log.origin,
        "size": log.checkpoint().size,
        "signed": None if signed is None else signed.checkpoint.size,
        "published": published,
        "without_quorum": None if kept is None else kept.without_quorum,
        "quorum": policy.quorum,
        "quorum_met": signed is not None and policy.satisfied(held),
        "stopped": None
        if stop is None
        else {"at": instants.of_millis(stop.at * 1000), "charges": [asdict(charge) for charge in stop.charges]},
        "witnesses": _witnesses(policy, memory.known(), set(held)),
    }


def _witnesses(policy: Policy, known: Mapping[str, KnownWitness], held: set[VerifierKey]) -> list[dict[str, Any]]:
    def instant(seconds: int | None) -> str | None:
        return None if seconds is None else instants.of_millis(seconds * 1000)

    found = []
    for witness in policy.witnesses:
        item = known.get((witness.url or "").rstrip("/"), KnownWitness())
        found.append(
            {
                "name": witness.name,
                "url": witness.url,
                "cosigned_signed": witness.key in held,
                "size": item.size,
                "cosigned": item.cosigned,
                "cosigned_at": instant(item.cosigned_at),
                "failures": item.failures,
                "failed_at": instant(item.failed_at),
                "failure": item.failure,
            }
        )
    return found


def _print_standing(output: Output, item: dict[str, Any]) -> None:
    of = [] if item["tenant"] is None else [("tenant", safe(item["tenant"]))]
    pairs = [*of, ("origin", safe(item["origin"]))]
    if item["stopped"] is not None:
        pairs.append(("STOPPED", f"{item['stopped']['at']}: nothing is signed or published before it is resolved"))
        for charge in item["stopped"]["charges"]:
            pairs.append(("", line(f"{charge['url']}: {charge['reason']} (evidence: {charge['evidence']})")))
    pairs += [
        ("size", str(item["size"])),
        ("signed", lines.BLANK if item["signed"] is None else str(item["signed"])),
        ("quorum", _quorum_met_text(item)),
        ("published", _published_text(item)),
    ]
    lines.pairs(output, pairs)
    headings = ("WITNESS", "COSIGNED", "AT", "FAILURES", "LAST FAILURE")
    rows = [
        [
            (safe(witness["name"]), ()),
            (str(witness["cosigned"]) if witness["cosigned"] else lines.BLANK, ()),
            (witness["cosigned_at"] or lines.BLANK, ("dim",)),
            (str(witness["failures"]), ()),
            (line(witness["failure"] or lines.BLANK), ()),
        ]
        for witness in item["witnesses"]
    ]
    if rows:
        lines.table(output, headings, rows)


def _quorum_met_text(item: dict[str, Any]) -> str:
    """How many of whom have cosigned what was signed last."""
    if item["quorum"] is None:
        return "nobody need cosign"
    if item["signed"] is None:
        return "nothing is signed yet"
    return f"{'met' if item['quorum_met'] else 'NOT MET'} at size {item['signed']}"


def _published_text(item: dict[str, Any]) -> str:
    if item["published"] is None:
        return "nothing yet"
    return f"{item['published']} WITHOUT ITS QUORUM" if item["without_quorum"] else str(item["published"])
