"""`reconcile`: record what somebody found out about an effect in doubt."""

from __future__ import annotations

import re
from typing import Any

import click

from sealbook.cli.commands.run import ordered_effects
from sealbook.cli.ground.options import Verb, format_option, run_argument
from sealbook.cli.ground.setup import Setup, pass_setup
from sealbook.cli.importing import entry_json, strict
from sealbook.cli.records.printer import Look, Printer
from sealbook.journal import Effect, EffectSettled, NotFound, Tenant, entries, requests
from sealbook.journal.errors import printable

_DIGITS = re.compile("[0-9a-fA-F]{1,64}")
LEASE_S = 30.0  # of a lease that ends in the transaction that takes it


@click.command(
    "reconcile",
    cls=Verb,
    examples=("""sealbook reconcile order-42 96361b93 --landed --result '{"receipt": 7}' --owner ada""",),
)
@run_argument
@click.argument("effect", metavar="EFFECT")
@click.option("--landed", "disposition", flag_value="landed", help="It happened.")
@click.option("--did-not-happen", "disposition", flag_value="did-not-happen", help="It may be attempted again.")
@click.option("--result", metavar="JSON", help="With --landed: what the call would have returned.")
@click.option("--evidence", metavar="JSON", help="What shows it; recorded with it.")
@click.option("--owner", required=True, metavar="NAME", help="Who says so: the run's lease is taken for this record.")
@format_option("short", "json")
@pass_setup
def command(
    setup: Setup,
    run: str,
    effect: str,
    disposition: str | None,
    result: str | None,
    evidence: str | None,
    owner: str,
    form: str,
) -> None:
    """Record whether an effect in doubt has happened, so that its run can go on.

    EFFECT is the effect's key, or its first digits, as `sealbook effects --in-doubt` shows them. The run's lease must
    be free; it is taken, the record is appended, and it is released: all or nothing.
    """
    if disposition is None:
        raise click.UsageError("pass either --landed or --did-not-happen")
    if result is not None and disposition != "landed":
        raise click.UsageError("--result goes with --landed: what did not happen has none")
    data = None if result is None else {"result": _value(result, "--result")}
    shown = None if evidence is None else _value(evidence, "--evidence")
    with setup.writing(known=True) as tenant:
        standing = tenant.standing(run)
        if standing is None:
            raise NotFound("run", run)
        found = _in_doubt(tenant, run, effect)
        entry = entries.effect_reconciled(
            found.key,
            disposition=disposition,
            evidence=shown,
            attempt=found.attempt,
            case=standing.case,
            data=data,
        )
        steps: list[requests.Request] = [
            requests.acquire(run, owner=owner, ttl=LEASE_S),
            requests.append(run, [entry]),
            requests.release(run),
        ]
        records = tenant.group(steps)[1]
    with setup.report(f"record {records[-1].seq} of {printable(run)} was written") as output:
        Printer(output, Look(form, everything=form == "json")).show_all(records)


def _in_doubt(tenant: Tenant, run: str, digits: str) -> Effect:
    """The one effect in doubt of the run whose key begins so.

    `NotFound` where no effect's key does, `EffectSettled` where one does that is in doubt no more, a usage error where
    several in doubt do or where this is no key.
    """
    effects = ordered_effects(tenant, run)
    meant = [effect for effect in effects if digits and effect.key.hex().startswith(digits.lower())]
    found = [effect for effect in meant if effect.in_doubt]
    if len(found) > 1:
        raise click.UsageError(f"{len(found)} effects in doubt have keys that begin with {digits}: give more digits")
    if found:
        return found[0]
    if meant:
        settled = meant[-1]
        raise EffectSettled(run, settled.key.hex(), settled.attempt, settled.status, settled.end_seq)
    if named := [effect.key.hex()[:16] for effect in effects if effect.name == digits]:
        raise click.UsageError(f"{digits!r} is the name of an effect: give its key, {' or '.join(named)}")
    if not _DIGITS.fullmatch(digits):
        raise click.UsageError(f"{digits!r} is no key of an effect, which has 64 hex digits")
    raise NotFound("effect", digits)


def _value(text: str, option: str) -> Any:
    return entry_json.unescaped(strict.loads(text.encode("utf-8", "surrogateescape"), option), option)
