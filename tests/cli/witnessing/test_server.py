"""A witness over HTTP: the conversation of tlog-witness row by row, what a hostile client sends, what is survived."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from witness_world import LATTICE, NAME, ORIGIN, PATIENCE_S, STRANGER, WITNESS, Got, GrowingLog, Running, asked

from sealbook.cli.witnessing.cosigner import Cosigner
from sealbook.journal.engine.memory import MemoryEngine
from sealbook.journal.engine.port import Applied, Unknown, Work
from sealbook.journal.errors import Busy, EngineFailed, StoreFull
from sealbook.journal.testing import ManualClock
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.hashing import EMPTY_ROOT
from sealbook.merkle.keys import Algorithm, NoteSigner, SignatureLine
from sealbook.merkle.note import Note, open_checkpoint, parse_lines, sign_text, verify_line
from sealbook.merkle.witness import REQUEST_BYTES_MAX, AddCheckpoint, origin_key
from sealbook.merkle.witness_client import Cosigned, Stale, read_answer

Serve = Callable[..., Running]

EM_DASH = "\N{EM DASH}".encode()


def has_no_cosignature(got: Got) -> bool:
    return EM_DASH not in got.body and NAME.encode() not in got.body


def size_of(running: Running, origin: str = ORIGIN) -> int:
    """The size that the witness serves of a log, 0 if none."""
    got = running.get(origin)
    if got.status == 404:
        return 0
    return Checkpoint.parse(Note.parse(got.body).text).size


@pytest.fixture
def witness(serve: Serve) -> Running:
    return serve()


@pytest.fixture
def at_nine(witness: Running, log: GrowingLog) -> Running:
    """A witness that has cosigned the log at size 9."""
    assert witness.post(log.request(0, 9)).status == 200
    return witness


# --- the conversation -----------------------------------------------------------------------------------------------


def test_row_1_a_malformed_body_is_400(witness: Running) -> None:
    assert witness.post(b"old 0\n").status == 400


def test_row_2_an_unknown_origin_is_404(witness: Running) -> None:
    assert witness.post(GrowingLog("stranger.example/log").request(0, 3)).status == 404


def test_row_3_a_checkpoint_that_no_trusted_key_signed_is_403(witness: Running, log: GrowingLog) -> None:
    assert witness.post(log.request(0, 3, STRANGER)).status == 403


def test_row_4_an_old_size_beyond_the_checkpoint_s_is_400(at_nine: Running, log: GrowingLog) -> None:
    assert at_nine.post(log.request(9, 8)).status == 400


def test_row_5_an_old_size_that_is_not_the_remembered_one_is_409_with_the_size(
    at_nine: Running, log: GrowingLog
) -> None:
    for old in (0, 8, 10):
        got = at_nine.post(log.request(old, 12))
        assert (got.status, got.media_type, got.body) == (409, "text/x.tlog.size", b"9\n")


def test_row_5_a_log_that_was_never_cosigned_has_size_0(witness: Running, log: GrowingLog) -> None:
    got = witness.post(log.request(3, 5))
    assert (got.status, got.media_type, got.body) == (409, "text/x.tlog.size", b"0\n")


def test_row_6_the_empty_tree_under_another_root_is_422(witness: Running, log: GrowingLog) -> None:
    text = f"{ORIGIN}\n0\n{b64encode(bytes(32)).decode()}\n"
    note = Note(text, (sign_text(text, log.signer),))
    assert witness.post(b"old 0\n\n" + note.encode()).status == 422


def test_row_6_a_proof_from_size_0_is_422(witness: Running, log: GrowingLog) -> None:
    assert witness.post(AddCheckpoint(0, (bytes(32),), log.note(3)).encode()).status == 422


def test_row_6_another_root_at_the_same_size_is_422(at_nine: Running, fork: GrowingLog) -> None:
    assert at_nine.post(fork.request(9, 9)).status == 422


def test_row_6_a_proof_that_does_not_hold_is_422(at_nine: Running, log: GrowingLog, fork: GrowingLog) -> None:
    good = log.proof(9, 12)
    flipped = (bytes([good[0][0] ^ 1]) + good[0][1:], *good[1:])
    for proof in (good[:-1], (*good, good[-1]), good[::-1], flipped, (), fork.proof(9, 12)):
        assert at_nine.post(AddCheckpoint(9, proof, log.note(12)).encode()).status == 422
    assert at_nine.post(fork.request(9, 12)).status == 422
    assert size_of(at_nine) == 9


def test_row_7_a_growth_is_200_with_cosignatures_over_exactly_this_checkpoint(
    at_nine: Running, log: GrowingLog, clock: ManualClock
) -> None:
    got = at_nine.post(log.request(9, 12))
    assert got.status == 200
    (line,) = parse_lines(got.body.decode())
    assert verify_line(WITNESS.key, log.checkpoint(12).text(), line).timestamp == clock.wall_ms // 1000


def test_an_equal_size_is_refreshed_under_the_new_time(at_nine: Running, log: GrowingLog, clock: ManualClock) -> None:
    clock.advance(60)
    (line,) = parse_lines(at_nine.post(log.request(9, 9)).body.decode())
    assert verify_line(WITNESS.key, log.checkpoint(9).text(), line).timestamp == clock.wall_ms // 1000


def test_the_empty_log_is_cosigned_and_grows(witness: Running, log: GrowingLog) -> None:
    text = Checkpoint(ORIGIN, 0, EMPTY_ROOT).text()
    note = Note(text, (sign_text(text, log.signer),)).encode()
    assert witness.post(AddCheckpoint(0, (), note).encode()).status == 200
    assert witness.post(log.request(0, 4)).status == 200


def test_every_key_of_the_witness_cosigns(serve: Serve, log: GrowingLog) -> None:
    witness = serve(cosigner=Cosigner(NAME, (WITNESS, LATTICE)))
    lines = parse_lines(witness.post(log.request(0, 3)).body.decode())
    for key, line in zip((WITNESS.key, LATTICE.key), lines, strict=True):
        verify_line(key, log.checkpoint(3).text(), line)


def test_our_own_client_catches_up_from_the_409(at_nine: Running, log: GrowingLog, clock: ManualClock) -> None:
    from sealbook.merkle.witness import Answer

    def told(old: int, size: int) -> Any:
        request = AddCheckpoint.parse(log.request(old, size))
        got = at_nine.post(request.encode())
        answer = Answer(got.status, got.media_type, got.body)
        return read_answer(request, answer, keys=[WITNESS.key], cosigned_size=0, now=clock.wall_ms // 1000)

    assert told(0, 14) == Stale(9)
    assert isinstance(told(9, 14), Cosigned)


def test_the_monitoring_url_serves_what_was_cosigned(at_nine: Running, log: GrowingLog) -> None:
    got = at_nine.get(ORIGIN)
    assert (got.status, got.media_type) == (200, "text/plain; charset=utf-8")
    opened = open_checkpoint(got.body, origin=ORIGIN, log_keys=[log.signer.key], cosigner_keys=[WITNESS.key])
    assert (opened.checkpoint, len(opened.cosignatures)) == (log.checkpoint(9), 1)


def test_the_monitoring_url_of_anything_else_is_404(at_nine: Running, other: GrowingLog) -> None:
    key = origin_key(ORIGIN).hex()
    assert at_nine.get(other.origin).status == 404
    for path in (f"/{key.upper()}/checkpoint", f"/{key[:-1]}/checkpoint", f"/{key}0/checkpoint", f"/{key}", "/"):
        assert at_nine.ask("GET", path).status == 404


def test_what_the_specifications_leave_to_choice_is_404(at_nine: Running) -> None:
    note = at_nine.get(ORIGIN).body
    got = at_nine.ask("POST", "/sign-subtree", b"subtree 0 9\n" + b64encode(bytes(32)) + b"\n\n" + note)
    assert got.status == 404 and has_no_cosignature(got)
    assert at_nine.ask("POST", "/add-entries", b"").status == 404


def test_a_connection_stays_open_after_a_body_that_nobody_wanted(at_nine: Running) -> None:
    for number in range(200):  # it was a race: the server hung up some time after its answer
        assert at_nine.ask("POST", "/add-entries", b"x" * number).status == 404
        assert at_nine.ask("PUT", "/add-checkpoint", b"x" * number).status == 405


def test_other_methods_are_405(witness: Running) -> None:
    for method in ("GET", "PUT", "DELETE", "PATCH", "OPTIONS"):
        assert witness.ask(method, "/add-checkpoint", b"").status == 405
    assert witness.ask("POST", f"/{origin_key(ORIGIN).hex()}/checkpoint", b"").status == 405


# --- what a hostile client sends --------------------------------------------------------------------------------------


def hostile(log: GrowingLog) -> Iterator[tuple[str, bytes]]:
    """Bodies that are none, each a good growth from 9 to 12 with one thing wrong."""
    good, note = log.request(9, 12), log.note(12)
    first, *proof = good.partition(b"\n\n")[0].split(b"\n")
    assert first == b"old 9"
    text, line = log.checkpoint(12).text(), str(sign_text(log.checkpoint(12).text(), log.signer))
    key_and_signature = line.rsplit(" ", 1)[1]

    def body(*, old: bytes = first, hashes: list[bytes] = proof, note: bytes = note) -> bytes:
        return b"\n".join([old, *hashes, b"", b""]) + note

    def signed(text: str) -> bytes:
        """The text with a line of the log's over exactly these bytes, well-formed or not."""
        signature = b64encode(log.signer.key.key_id + log.signer.sign(text.encode())).decode()
        return f"{text}\n\N{EM DASH} {ORIGIN} {signature}\n".encode()

    assert body() == good
    yield "nothing", b""
    yield "no checkpoint", b"old 9\n\n"
    yield "no empty line", good.replace(b"\n\n", b"\n", 1)
    for number in (b"+9", b"09", b"-9", b" 9", b"9 ", b"9_0", b"0x9", b"9.0", b"", b"9223372036854775808", b"9" * 20):
        yield f"old {number!r}", body(old=b"old " + number)
    yield "old in other digits", body(old="old ٩".encode())
    for line_of_old in (b"OLD 9", b"old\t9", b"old  9", b"old9", b"old 9\r", b"9", b"new 9"):
        yield f"first line {line_of_old!r}", body(old=line_of_old)
    hashes = {
        "unpadded": proof[0].rstrip(b"="),
        "url-safe": urlsafe_b64encode(b"\xff" * 32),
        "not canonical": proof[0][:-2] + bytes([proof[0][-2] + 1]) + b"=",
        "0 bytes": b64encode(b"") + b" ",
        "31 bytes": b64encode(bytes(31)),
        "33 bytes": b64encode(bytes(33)),
        "with CR": proof[0] + b"\r",
        "with a space": proof[0] + b" ",
    }
    for what, value in hashes.items():
        yield f"a proof line {what}", body(hashes=[value, *proof[1:]])
    yield "64 proof lines", body(hashes=[b64encode(bytes(32))] * 64)
    for size in ("+12", "012", "12 ", " 12", "1_2", "١٢", "-1", "", str(2**63), "9" * 20):
        yield f"size {size!r}", body(note=signed(text.replace("\n12\n", f"\n{size}\n")))
    root = text.split("\n")[2]
    roots = {
        "unpadded": root.rstrip("="),
        "of 31 bytes": b64encode(bytes(31)).decode(),
        "not canonical": root[:-2] + chr(ord(root[-2]) + 1) + "=",
        "empty": "",
    }
    for what, other_root in roots.items():
        yield f"a root {what}", body(note=signed(text.replace(root, other_root)))
    yield "an extension line", body(note=signed(text + "extension\n"))
    yield "an empty line in the text", body(note=signed(text + "\nsmuggled\n"))
    yield "an empty origin", body(note=signed(text.removeprefix(ORIGIN)))
    yield "an origin of 256 bytes", body(note=signed(text.replace(ORIGIN, "o" * 256)))
    yield "CRLF", body(note=note.replace(b"\n", b"\r\n"))
    yield "a tab", body(note=signed(text.replace("example", "exam\tple")))
    yield "NUL", body(note=signed(text.replace("example", "exam\0ple")))
    yield "invalid UTF-8", body(note=note.replace(b"example", b"ex\xffmple"))
    yield "no final newline", good.removesuffix(b"\n")
    yield "two empty lines before the signatures", body(note=note.replace(b"\n\n", b"\n\n\n"))
    yield "an empty line after the signatures", good + b"\n"
    yield "more after the signatures", good + b"more\n"
    yield "no signature", body(note=text.encode() + b"\n")
    yield "a hyphen for the dash", body(note=note.replace(EM_DASH, b"-"))
    yield "a signature that is no base64", body(note=note.replace(key_and_signature.encode(), b"!!!!"))
    yield "a signature of 4 bytes", body(note=note.replace(key_and_signature.encode(), b64encode(bytes(4))))
    yield "a signature not padded", body(note=note.replace(key_and_signature.encode(), b64encode(bytes(68))[:-1]))


def test_whatever_is_malformed_is_400_and_changes_nothing(at_nine: Running, log: GrowingLog) -> None:
    cases = list(hostile(log))
    assert len(cases) > 60
    found = {what: at_nine.post(body).status for what, body in cases}
    assert found == dict.fromkeys(found, 400)
    assert size_of(at_nine) == 9
    assert at_nine.post(log.request(9, 12)).status == 200


def test_a_signature_that_is_not_the_log_s_is_403(at_nine: Running, log: GrowingLog) -> None:
    text = log.checkpoint(12).text()
    good = sign_text(text, log.signer)
    other_text = sign_text(log.checkpoint(13).text(), log.signer)
    corrupt = SignatureLine(ORIGIN, log.signer.key.key_id, bytes([good.signature[0] ^ 1]) + good.signature[1:])
    renamed = NoteSigner.from_seed("example.com/other", Algorithm.ED25519, b"\x01" * 32)
    cases = {
        "of another key ID": [sign_text(text, STRANGER)],
        "of another name": [sign_text(text, renamed)],
        "of another name and this key ID": [SignatureLine("example.com/other", good.key_id, good.signature)],
        "corrupt": [corrupt],
        "good and corrupt": [good, corrupt],
        "corrupt and good": [corrupt, good],
        "of another text": [other_text],
        "twice": [good, good],
    }
    for what, lines in cases.items():
        got = at_nine.post(AddCheckpoint(9, log.proof(9, 12), Note(text, tuple(lines)).encode()).encode())
        assert (what, got.status) == (what, 403)
    assert size_of(at_nine) == 9


def test_a_proof_and_a_checkpoint_of_another_log_help_nobody(
    at_nine: Running, log: GrowingLog, other: GrowingLog
) -> None:
    text = Checkpoint(other.origin, 12, log.checkpoint(12).root).text()
    by_log = Note(text, (sign_text(text, log.signer),)).encode()
    assert at_nine.post(AddCheckpoint(0, (), by_log).encode()).status == 403


def test_lines_that_nobody_asked_for_are_neither_kept_nor_served(at_nine: Running, log: GrowingLog) -> None:
    text = log.checkpoint(12).text()
    lines = (
        SignatureLine(NAME, WITNESS.key.key_id, bytes(72)),
        sign_text(text, log.signer),
        sign_text(text, STRANGER),
        SignatureLine("someone.example", b"abcd", b"anything"),
    )
    got = at_nine.post(AddCheckpoint(9, log.proof(9, 12), Note(text, lines).encode()).encode())
    assert got.status == 200
    kept = Note.parse(at_nine.get(ORIGIN).body).lines
    assert kept == (lines[1], *parse_lines(got.body.decode()))


def test_a_replayed_request_is_409_after_the_log_has_grown(at_nine: Running, log: GrowingLog) -> None:
    assert at_nine.post(log.request(9, 12)).status == 200
    assert at_nine.post(log.request(9, 12)).body == b"12\n"
    assert at_nine.post(log.request(0, 9)).body == b"12\n"
    assert at_nine.post(log.request(12, 12)).status == 200, "and refreshes once it names the new size"


def test_a_second_branch_is_refused_whichever_size_it_has(at_nine: Running, log: GrowingLog, fork: GrowingLog) -> None:
    assert at_nine.post(log.request(9, 12)).status == 200
    assert [at_nine.post(fork.request(12, size)).status for size in (12, 13, 40)] == [422] * 3
    assert [at_nine.post(fork.request(9, size)).status for size in (10, 12, 40)] == [409] * 3
    assert size_of(at_nine) == 12


# --- bodies and connections -----------------------------------------------------------------------------------------


def padded(log: GrowingLog, old: int, size: int, length: int) -> bytes:
    """A good request of this many bytes, by lines of unknown keys."""
    text = log.checkpoint(size).text()
    lines = [sign_text(text, log.signer)]
    while len(body := AddCheckpoint(old, (), Note(text, tuple(lines)).encode()).encode()) < length:
        missing = length - len(body)
        lines.append(SignatureLine("x", b"abcd", bytes(min(2000, max(1, missing * 3 // 4 - 12)))))
    return body


def test_a_body_of_64_kib_is_taken_and_one_beyond_the_limit_is_413(witness: Running, log: GrowingLog) -> None:
    large = padded(log, 0, 3, 64 * 1024)
    assert len(large) >= 64 * 1024
    assert witness.post(large).status == 200
    beyond = large + b"x" * (REQUEST_BYTES_MAX + 1 - len(large))
    assert witness.post(beyond).status == 413
    assert witness.post(large).status == 409, "the connection goes on"


def test_a_body_that_states_too_large_a_length_is_413_before_it_comes(witness: Running) -> None:
    with socket.create_connection(("127.0.0.1", witness.port), timeout=PATIENCE_S) as client:
        client.sendall(b"POST /add-checkpoint HTTP/1.1\r\nhost: w\r\ncontent-length: 999999999999\r\n\r\nold 0\n")
        answer = client.recv(65536)
        assert answer.startswith(b"HTTP/1.1 413 ") and b"connection: close" in answer.lower()


def test_a_body_in_chunks_is_taken(witness: Running, log: GrowingLog) -> None:
    body = log.request(0, 3)
    connection = http.client.HTTPConnection("127.0.0.1", witness.port, timeout=PATIENCE_S)
    pieces = (body[at : at + 7] for at in range(0, len(body), 7))
    assert asked(connection, "POST", "/add-checkpoint", pieces, encode_chunked=True).status == 200
    too_many = iter([b"x" * 65536] * 8)
    assert asked(connection, "POST", "/add-checkpoint", too_many, encode_chunked=True).status == 413
    connection.close()


def test_a_body_that_does_not_come_is_408(serve: Serve, log: GrowingLog) -> None:
    witness = serve(body_seconds_max=0.1)
    with socket.create_connection(("127.0.0.1", witness.port), timeout=PATIENCE_S) as client:
        client.sendall(b"POST /add-checkpoint HTTP/1.1\r\nhost: w\r\ncontent-length: 100\r\n\r\nold 0\n")
        assert client.recv(65536).startswith(b"HTTP/1.1 408 ")
    # On a slow machine the next one is too late now and then, too.
    assert any(witness.post(log.request(0, 3)).status == 200 for _ in range(100))


def test_a_client_that_leaves_in_the_middle_harms_nobody(witness: Running, log: GrowingLog) -> None:
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", witness.port), timeout=PATIENCE_S) as client:
            client.sendall(b"POST /add-checkpoint HTTP/1.1\r\nhost: w\r\ncontent-length: 100\r\n\r\nold 0\n")
    assert witness.post(log.request(0, 3)).status == 200


def test_a_connection_serves_many_requests(witness: Running, log: GrowingLog) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", witness.port, timeout=PATIENCE_S)
    connection.connect()
    kept = connection.sock
    for size in range(1, 12):
        assert asked(connection, "POST", "/add-checkpoint", log.request(size - 1, size)).status == 200
    assert connection.sock is kept
    connection.close()


def test_63_proof_lines_are_read_and_refused_for_what_they_prove(at_nine: Running, log: GrowingLog) -> None:
    assert at_nine.post(AddCheckpoint(9, (bytes(32),) * 63, log.note(12)).encode()).status == 422


# --- many at once -----------------------------------------------------------------------------------------------------


def at_once(witness: Running, bodies: list[bytes]) -> list[Got]:
    """The answers to requests that are sent together, each over a connection of its own."""
    barrier = threading.Barrier(len(bodies))
    answers: dict[int, Got] = {}

    def ask(number: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", witness.port, timeout=PATIENCE_S)
        connection.connect()
        barrier.wait(PATIENCE_S)
        answers[number] = asked(connection, "POST", "/add-checkpoint", bodies[number])
        connection.close()

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(len(bodies))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    return [answers[number] for number in range(len(bodies))]


def test_of_12_growths_at_once_one_is_200_and_eleven_are_409(at_nine: Running, log: GrowingLog) -> None:
    answers = at_once(at_nine, [log.request(9, size) for size in range(10, 22)])
    assert sorted(got.status for got in answers) == [200] + [409] * 11
    (winner,) = [size for size, got in enumerate(answers, 10) if got.status == 200]
    assert size_of(at_nine) == winner
    assert {got.body for got in answers if got.status == 409} == {b"%d\n" % winner}


def test_of_two_branches_at_once_one_is_cosigned(serve: Serve, log: GrowingLog, fork: GrowingLog) -> None:
    witness = serve()
    answers = at_once(witness, [tree.request(0, size) for size in (8, 9, 10) for tree in (log, fork)])
    assert sorted(got.status for got in answers) == [200] + [409] * 5


# --- how often ------------------------------------------------------------------------------------------------------


def test_a_log_that_asks_too_often_is_429_until_the_next_day(
    serve: Serve, log: GrowingLog, other: GrowingLog, clock: ManualClock
) -> None:
    witness = serve(listed=log.entry(qpd=2) + other.entry())
    assert [witness.post(log.request(0, 3)).status, witness.post(log.request(3, 4)).status] == [200, 200]
    got = witness.post(log.request(4, 5))
    wait = 86_400 - clock.wall_ms // 1000 % 86_400
    assert (got.status, got.headers["retry-after"]) == (429, str(wait))
    assert witness.post(other.request(0, 3)).status == 200
    clock.advance(wait - 1)
    assert witness.post(log.request(4, 5)).status == 429
    clock.advance(1)
    assert witness.post(log.request(4, 5)).status == 200


def test_requests_that_the_log_did_not_sign_do_not_count(serve: Serve, log: GrowingLog) -> None:
    witness = serve(listed=log.entry(qpd=1))
    for _ in range(3):
        assert witness.post(log.request(0, 3, STRANGER)).status == 403
    assert witness.post(log.request(0, 3)).status == 200


# --- the log list is read anew ----------------------------------------------------------------------------------------


def test_a_log_that_is_added_is_served_and_one_that_is_removed_is_not(
    serve: Serve, log: GrowingLog, other: GrowingLog
) -> None:
    witness = serve(listed=log.entry())
    assert witness.post(log.request(0, 3)).status == 200
    assert witness.post(other.request(0, 3)).status == 404
    witness.logs.write_text("logs/v0\n" + other.entry())
    assert witness.post(other.request(0, 3)).status == 200
    assert witness.post(log.request(3, 4)).status == 404
    assert size_of(witness) == 3, "what was cosigned is still served"
    witness.logs.write_text("logs/v0\n" + other.entry() + log.entry())
    assert witness.post(log.request(0, 4)).body == b"3\n", "and remembered"
    assert witness.post(log.request(3, 4)).status == 200


def test_a_list_that_is_refused_leaves_the_one_before_in_force(serve: Serve, log: GrowingLog) -> None:
    witness = serve(listed=log.entry())
    own_name = GrowingLog(NAME, seed=7)
    for text in ("", "logs/v0\nvkey", "logs/v0\n" + log.entry() + own_name.entry()):
        witness.logs.write_text(text)
        assert witness.post(log.request(0, 3)).status in (200, 409)
        assert witness.post(own_name.request(0, 3)).status == 404
    witness.logs.unlink()
    assert witness.post(log.request(3, 4)).status == 200


def test_during_a_rotation_either_key_of_the_log_will_do(serve: Serve, log: GrowingLog) -> None:
    next_key = NoteSigner.from_seed(ORIGIN, Algorithm.ED25519, b"\x22" * 32)
    witness = serve(listed=log.entry())
    assert witness.post(log.request(0, 3)).status == 200
    assert witness.post(log.request(3, 4, next_key)).status == 403
    witness.logs.write_text("logs/v0\n" + log.entry() + log.entry(signer=next_key))
    assert witness.post(log.request(3, 4, next_key)).status == 200
    assert witness.post(log.request(4, 5, log.signer, next_key)).status == 200
    assert len(Note.parse(witness.get(ORIGIN).body).lines) == 3
    assert witness.post(log.request(5, 6)).status == 200


def test_a_disabled_log_stays_disabled_when_the_list_is_read_anew(
    serve: Serve, log: GrowingLog, other: GrowingLog
) -> None:
    witness = serve()
    assert witness.post(log.request(0, 3)).status == 200
    witness.state.disable(ORIGIN)
    for listed in (other.entry() + log.entry(), log.entry()):
        witness.logs.write_text("logs/v0\n" + listed)
        assert witness.post(log.request(3, 4)).status == 404
    assert size_of(witness) == 3
    witness.state.enable(ORIGIN)
    assert witness.post(log.request(3, 4)).status == 200


def test_a_pinned_beginning_is_asked_for_instead_of_the_first_that_comes(
    serve: Serve, log: GrowingLog, fork: GrowingLog
) -> None:
    witness = serve(initial=[log.checkpoint(9)])
    assert witness.post(log.request(0, 3)).body == b"9\n"
    assert witness.post(fork.request(9, 12)).status == 422
    assert witness.get(ORIGIN).status == 404
    assert witness.post(log.request(9, 12)).status == 200


# --- the world fails ------------------------------------------------------------------------------------------------


class Failing:
    """A memory engine whose next writes fail as the test says, before or after they were applied."""

    def __init__(self, clock: ManualClock) -> None:
        self._inner = MemoryEngine(clock=clock)
        self.failure: BaseException | Unknown | None = None
        self.applies = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def write(self, work: Work) -> Applied | Unknown:
        if self.failure is None or self.applies:
            done = self._inner.write(work)
        if self.failure is None:
            return done
        if isinstance(self.failure, Unknown):
            return self.failure
        raise self.failure


@pytest.mark.parametrize("applies", [False, True])
@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (StoreFull("no room for the write, nothing was written"), 500),
        (EngineFailed("the storage failed"), 500),
        (Busy("another process is writing"), 503),
        (Unknown(OSError("lost")), 500),
        (OSError("an error that nobody expected"), 500),
    ],
)
def test_a_commit_that_fails_or_is_unknown_answers_5xx_without_a_signature(
    serve: Serve,
    log: GrowingLog,
    other: GrowingLog,
    clock: ManualClock,
    failure: BaseException | Unknown,
    status: int,
    applies: bool,
) -> None:
    engine = Failing(clock)
    witness = serve(engine)
    assert witness.post(log.request(0, 3)).status == 200
    engine.failure, engine.applies = failure, applies
    for tree, old in ((log, 3), (other, 0)):
        got = witness.post(tree.request(old, 5))
        assert got.status == status
        assert has_no_cosignature(got)
    engine.failure = None
    if applies:
        assert witness.post(log.request(3, 5)).body == b"5\n"
        assert witness.post(log.request(5, 5)).status == 200
    else:
        assert size_of(witness) == 3
        assert witness.post(log.request(3, 5)).status == 200


def test_a_clock_that_has_gone_back_is_503_and_never_an_old_date(
    at_nine: Running, log: GrowingLog, clock: ManualClock
) -> None:
    clock.step_wall(-3600)
    for size in (9, 10):
        got = at_nine.post(log.request(9, size))
        assert got.status == 503
        assert has_no_cosignature(got)
    assert size_of(at_nine) == 9
    clock.step_wall(3600)
    assert at_nine.post(log.request(9, 10)).status == 200


def test_evidence_is_kept_of_what_the_log_signed(at_nine: Running, log: GrowingLog, fork: GrowingLog) -> None:
    assert at_nine.post(fork.request(9, 12)).status == 422
    assert at_nine.post(fork.request(4, 9)).status == 409
    assert at_nine.post(fork.request(9, 9, STRANGER)).status == 403
    two_roots, suspicion = at_nine.state.evidence()
    assert (two_roots.reason, two_roots.request) == ("two roots at size 9", fork.request(4, 9))
    assert suspicion.request == fork.request(9, 12)


def test_events_name_no_client_and_hold_no_body(
    at_nine: Running, log: GrowingLog, fork: GrowingLog, capfd: pytest.CaptureFixture[str]
) -> None:
    import structlog.testing

    with structlog.testing.capture_logs() as events:
        at_nine.post(log.request(9, 10))
        at_nine.post(fork.request(10, 12))
        at_nine.post(b"rubbish")
    told = json.dumps(events)
    assert {event["event"] for event in events} == {"witness.decided", "witness.evidence"}
    assert "127.0.0.1" not in told
    assert log.note(10).decode().splitlines()[2] not in told
    assert capfd.readouterr().err == ""
