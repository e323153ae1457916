"""`verify`: derive everything again, and say what was checked, what was found, and what no store can show."""

from __future__ import annotations

from pathlib import Path

import click

from sealbook.cli.auditing import verdict as verdicts
from sealbook.cli.auditing.evidence import (
    FILE,
    Desk,
    brought,
    desk_options,
    findings_of,
    open_questions,
    progress_option,
    publications,
)
from sealbook.cli.ground import isolation
from sealbook.cli.ground.options import Verb, format_option
from sealbook.cli.ground.parallel import JOBS_MAX, sweeper
from sealbook.cli.ground.setup import Setup, pass_setup
from sealbook.cli.offline.files import OfflineFiles, verify_files
from sealbook.cli.records import objects
from sealbook.cli.screen import progress
from sealbook.journal import Finding, Level, NotFound
from sealbook.journal.records.names import STORE_LOG

LEVELS = ("structure", "chain", "signatures", "log", "deep")


@click.command(
    "verify",
    cls=Verb,
    examples=(
        "sealbook verify",
        "sealbook verify order-42",
        "sealbook --tenant acme verify",
        "sealbook verify -o json",
        "sealbook verify --level chain --jobs 2 --progress=json",
        "sealbook verify --checkpoint seen-in-march.txt --checkpoint seen-in-may.txt --policy policy.txt",
        "sealbook verify --proof order-45.tlog-proof --records order-45.records --policy policy.txt --state seen.json",
    ),
)
@click.argument("runs", nargs=-1, metavar="[RUN...]")
@click.option(
    "--level", type=click.Choice(LEVELS), default="deep", show_default=True, help="How deep; each does the ones before."
)
@desk_options
@click.option("--strict", is_flag=True, help="Exit with 1 if anything was not checked.")
@click.option(
    "--jobs",
    type=click.IntRange(1, JOBS_MAX),
    default=1,
    show_default=True,
    metavar="N",
    help="Processes that check records side by side, at levels below deep.",
)
@progress_option
@click.option("--proof", type=FILE, metavar="FILE", help="Verify this .tlog-proof instead, without any store.")
@click.option("--records", type=FILE, metavar="FILE", help="The run's records: `sealbook run RUN -o records`.")
@click.option(
    "--state",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Remembers a checkpoint of each log: an older or other one is refused, a larger one needs --consistency.",
)
@click.option(
    "--consistency",
    type=FILE,
    metavar="FILE",
    help="Proof that the checkpoint begins with the one in --state: `sealbook log consistency OLD -o json`.",
)
@click.option(
    "--monitored",
    type=FILE,
    metavar="FILE",
    help="The state of `sealbook log monitor`: shows that the tenant's log was not forked, for a proof by --store-log.",
)
@click.option("--sealed", is_flag=True, help="Refuse an anchor: the run must be whole and sealed.")
@format_option("text", "json")
@pass_setup
def command(
    setup: Setup,
    runs: tuple[str, ...],
    level: str,
    checkpoints: tuple[Path, ...],
    policy: Path | None,
    max_age: str | None,
    signers: Path | None,
    require_signatures: bool,
    strict: bool,
    jobs: int,
    progress_form: str,
    proof: Path | None,
    records: Path | None,
    state: Path | None,
    consistency: Path | None,
    monitored: Path | None,
    sealed: bool,
    form: str,
) -> int:
    """Derive everything again from the record bytes and report every difference.

    The whole store is checked, also with --tenant: that tenant's findings are told, and those of others only counted.
    With RUNs, those of the tenant are checked, down to their leaves in the log. Exit codes: 0 consistent, 3 if anything
    was found, of whichever tenant, 1 if records of a newer version were met, or, with --strict, if anything was not
    checked. What a store alone cannot show is listed as not checked.

    Levels: structure looks whether records stand where they should, without gaps; chain at every byte of them and at
    their chains; signatures also at those; log also at leaves, trees and checkpoints; deep derives all other rows too.

    Each --checkpoint is a constraint of its own: its log must be one of the store's, have that size, and have had that
    root. With --policy it must be signed and cosigned as the policy says, and so must what the store has published.

    With --proof no store is needed: the records' bytes, their chain, the leaf, the log's root, its signature and the
    quorum of witnesses are recomputed from the files. 3 if any of that does not hold, 1 if the leaf covers not all of
    the records. --state remembers the first checkpoint of a log that is accepted, and a larger one once --consistency
    has shown that it begins with the one before; until then that stays among what was not checked. A proof through a
    store log is not monitored unless --monitored shows that the heads of the tenant's log extend one another.
    """
    of_store = any((checkpoints, signers, require_signatures, jobs > 1, level != "deep"))
    if proof is not None:
        if runs or records is None or policy is None or of_store:
            raise click.UsageError("--proof goes with --records and --policy, and without a RUN or what is of a store")
        files = OfflineFiles(proof, records, policy, state, consistency, monitored)
        return verify_files(setup, files, max_age=max_age, sealed=sealed, strict=strict, form=form)
    if any((records, state, consistency, monitored, sealed)):
        raise click.UsageError("--records, --state, --consistency, --monitored and --sealed go with --proof")
    if runs and (checkpoints or policy or jobs > 1 or level != "deep"):
        raise click.UsageError("--level, --jobs, --checkpoint and --policy are of the whole store, and RUNs are not")
    if jobs > 1 and level == "deep":
        raise click.UsageError("--jobs is for the levels below deep, which looks at one run after the other")
    desk = brought(checkpoints, policy, max_age, signers, require_signatures)
    return _verify_store(setup, runs, level, desk, strict, jobs, progress_form, form)


def _verify_store(
    setup: Setup, runs: tuple[str, ...], level: str, desk: Desk, strict: bool, jobs: int, progress_form: str, form: str
) -> int:
    if setup.own_process:
        code = isolation.code_of_child(setup.folder)
        if code is not None:
            return code

    only = setup.tenant if setup.tenant_given and not runs else None
    depth = Level[level.upper()]
    with setup.journal(readonly=True) as journal:
        tenant = journal.tenant(setup.tenant)
        with progress.shown("verifying", quiet=setup.quiet, form=progress_form) as report:
            reports = [tenant.verify(run, trust=desk.trust) for run in dict.fromkeys(runs)] or [
                journal.check(
                    progress=report, level=depth, trust=desk.trust, elsewhere=sweeper(setup.folder, desk.trust, jobs)
                )
            ]
        tenants = journal.tenants()
        found = [*desk.refused, *(finding for part in reports for finding in part.findings)]
        questions = [line for part in reports for line in part.not_checked]
        if not runs and depth >= Level.LOG:
            public = list(publications(setup.every_log(journal), desk))
            found += findings_of(public)
            questions += open_questions(public, desk)
    # The tenant's own row may be what is missing: whoever asks for the tenant must hear of that.
    if only is not None and only not in tenants and all(finding.tenant != only for finding in found):
        raise NotFound("tenant", only)

    def told(finding: Finding) -> bool:
        return only is None or finding.tenant in (None, STORE_LOG, only)

    findings = [finding for finding in found if told(finding)]
    others = [finding for finding in found if not told(finding)]
    verdict = verdicts.AuditVerdict(reports, findings, list(dict.fromkeys(questions)), others)
    with setup.output() as output:
        if form == "json":
            output.line(objects.text(verdicts.as_object(verdict)))
        else:
            verdicts.print_text(output, verdict)
    return verdict.code(strict=strict)
