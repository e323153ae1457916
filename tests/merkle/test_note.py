"""Signed notes and verifier keys: what is read, what counts as signed, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.cosignature import cosign
from sealbook.merkle.errors import Malformed, VerificationError
from sealbook.merkle.hashing import EMPTY_ROOT
from sealbook.merkle.keys import (
    Algorithm,
    NoteSigner,
    SignatureLine,
    VerifierKey,
    private_key_text,
)
from sealbook.merkle.note import (
    NOTE_BYTES_MAX,
    SIGNATURE_LINES_MAX,
    Note,
    open_checkpoint,
    open_note,
    sign_text,
    verify_line,
)

ORIGIN = "example.com/log"
LOG = NoteSigner.from_seed(ORIGIN, Algorithm.ED25519, b"\x01" * 32)
OTHER = NoteSigner.from_seed("example.com/other", Algorithm.ED25519, b"\x02" * 32)
WITNESS = NoteSigner.from_seed("witness.example/w", Algorithm.ED25519_COSIGNATURE, b"\x03" * 32)
LATTICE = NoteSigner.from_seed("witness.example/pq", Algorithm.MLDSA44_COSIGNATURE, b"\x04" * 32)
CHECKPOINT = Checkpoint(ORIGIN, 5, bytes(range(32)))
TEXT = CHECKPOINT.text()


def signed(text: str, *signers: NoteSigner) -> Note:
    return Note(text, tuple(sign_text(text, signer) for signer in signers))


def flipped(line: SignatureLine) -> SignatureLine:
    return SignatureLine(line.name, line.key_id, bytes([line.signature[0] ^ 1]) + line.signature[1:])


# --- Notes ----------------------------------------------------------------------------------------------------------


def test_a_signed_note_is_read_and_its_signature_verifies() -> None:
    data = signed("first\n\nsecond\n", LOG).encode()
    note = Note.parse(data)
    assert note.text == "first\n\nsecond\n"
    [signature] = open_note(note, [LOG.key])
    assert (signature.key, signature.timestamp) == (LOG.key, None)
    assert note.encode() == data


def test_the_text_ends_at_the_last_empty_line() -> None:
    inner = signed("inner\n", LOG).encode().decode()
    note = Note.parse(signed(inner, OTHER).encode())
    assert note.text == inner
    # The inner signature is text, not a signature of the outer note.
    with pytest.raises(VerificationError, match="no known key"):
        open_note(note, [LOG.key])


LINE = str(sign_text("text\n", LOG))
MALFORMED = {
    "nothing": b"",
    "text alone": b"text\n",
    "no signature line": b"text\n\n",
    "no newline at the end": f"text\n\n{LINE}".encode(),
    "no empty line": f"text\n{LINE}\n".encode(),
    "an empty line at the end": f"text\n\n{LINE}\n\n".encode(),
    "a carriage return": f"text\r\n\r\n{LINE}\r\n".encode(),
    "a carriage return after the signature": f"text\n\n{LINE}\r\n".encode(),
    "a tab": f"te\txt\n\n{LINE}\n".encode(),
    "a NUL": f"te\0xt\n\n{LINE}\n".encode(),
    "an escape": f"te\x1bxt\n\n{LINE}\n".encode(),
    "a byte that is no UTF-8": b"te\xffxt\n\n" + LINE.encode() + b"\n",
    "a surrogate": b"te\xed\xa0\x80xt\n\n" + LINE.encode() + b"\n",
    "an overlong newline": b"te\xc0\x8axt\n\n" + LINE.encode() + b"\n",
    "a hyphen for the dash": f"text\n\n{LINE.replace(chr(0x2014), '-')}\n".encode(),
    "two spaces after the dash": f"text\n\n{LINE.replace(' ', '  ', 1)}\n".encode(),
    "a space at the end of the line": f"text\n\n{LINE} \n".encode(),
    "no name": f"text\n\n{LINE.replace(ORIGIN, '')}\n".encode(),
    "a plus in the name": f"text\n\n{LINE.replace(ORIGIN, 'a+b')}\n".encode(),
    "a no-break space in the name": f"text\n\n{LINE.replace(ORIGIN, 'a' + chr(0xA0) + 'b')}\n".encode(),
    "no base64": f"text\n\n{SignatureLine.PREFIX}{ORIGIN}\n".encode(),
    "base64 without padding": f"text\n\n{LINE.rstrip('=')}\n".encode(),
    "base64 for URLs": f"text\n\n{SignatureLine.PREFIX}{ORIGIN} _-__ABCD\n".encode(),
    "base64 with stray bits": f"text\n\n{SignatureLine.PREFIX}{ORIGIN} AAAAAAF=\n".encode(),
    "a key ID and no signature": f"text\n\n{SignatureLine.PREFIX}{ORIGIN} AAAAAA==\n".encode(),
    "three bytes": f"text\n\n{SignatureLine.PREFIX}{ORIGIN} AAAA\n".encode(),
    "another line among the signatures": f"text\n\n{LINE}\nmore\n".encode(),
    "an unknown line that is malformed": f"text\n\n{LINE}\n{SignatureLine.PREFIX}unknown !!!!\n".encode(),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_note_is_refused(name: str) -> None:
    with pytest.raises(Malformed) as caught:
        Note.parse(MALFORMED[name])
    assert str(caught.value).isprintable(), "the error stays on one line"


def test_a_hundred_signature_lines_are_read_and_one_more_is_refused() -> None:
    lines = "".join(f"{SignatureLine(f'k{number}', b'abcd', b's')}\n" for number in range(SIGNATURE_LINES_MAX))
    assert len(Note.parse(f"text\n\n{lines}".encode()).lines) == SIGNATURE_LINES_MAX
    with pytest.raises(Malformed, match="at most 100"):
        Note.parse(f"text\n\n{lines}{LINE}\n".encode())


def test_a_note_is_as_long_as_its_bytes() -> None:
    for signers in ((LOG,), (LOG, OTHER)):
        lines = tuple(sign_text("a\n", signer) for signer in signers) + tuple(
            SignatureLine("z\N{LATIN SMALL LETTER E WITH ACUTE}", b"abcd", bytes(length)) for length in range(1, 5)
        )
        for character in ("a", "\N{EM DASH}"):
            start = character + "\n"
            room = NOTE_BYTES_MAX - len(Note(start, lines).encode())
            longest = Note("a" * room + start, lines)
            assert len(longest.encode()) == NOTE_BYTES_MAX
            assert Note.parse(longest.encode()) == longest
            with pytest.raises(Malformed, match="at most"):
                Note("a" * (room + 1) + start, lines)


def test_a_note_that_is_too_long_is_refused_before_it_is_read() -> None:
    with pytest.raises(Malformed, match="at most"):
        Note.parse(b"\xff" * (NOTE_BYTES_MAX + 1))
    with pytest.raises(Malformed, match="at most"):
        Note("a" * NOTE_BYTES_MAX + "\n", (sign_text("a\n", LOG),))


@pytest.mark.parametrize("text", ["", "text", "te\rxt\n", "te\ud800xt\n"])
def test_a_note_that_has_no_bytes_cannot_be_made(text: str) -> None:
    with pytest.raises(Malformed):
        Note(text, (sign_text("text\n", LOG),))


TEXTS = st.text(st.characters(exclude_categories=["Cs"], min_codepoint=0x20) | st.just("\n"), max_size=60)
NAMES = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Zs", "Zl", "Zp"], exclude_characters="+\x85"),
    min_size=1,
    max_size=20,
)
LINES = st.builds(SignatureLine, NAMES, st.binary(min_size=4, max_size=4), st.binary(min_size=1, max_size=90))


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(TEXTS, st.lists(LINES, min_size=1, max_size=5))
def test_every_note_that_can_be_made_is_read_as_it_was_written(text: str, lines: list[SignatureLine]) -> None:
    note = Note(text + "\n", tuple(lines))
    assert Note.parse(note.encode()) == note


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(st.data())
def test_bytes_that_are_read_as_a_note_are_those_that_the_note_writes(data: st.DataObject) -> None:
    original = signed("a\n\nb\n", LOG).encode()
    at = data.draw(st.integers(0, len(original)))
    put = data.draw(st.sampled_from([b"", b"\n", b"\n\n", b"=", b"A", b" ", b"\x00", b"\xe2\x80\x94 ", b"\xff"]))
    changed = original[:at] + put + original[at + data.draw(st.integers(0, 2)) :]
    try:
        note = Note.parse(changed)
    except Malformed:
        return
    assert note.encode() == changed


# --- Who signed -----------------------------------------------------------------------------------------------------


def test_an_unknown_key_is_ignored_even_if_its_name_or_its_id_alone_is_known() -> None:
    line = sign_text(TEXT, LOG)
    same_name = SignatureLine(ORIGIN, b"\0\0\0\0", line.signature)
    same_id = SignatureLine("example.com/other", line.key_id, line.signature)
    note = Note(TEXT, (same_name, same_id, line))
    [signature] = open_note(note, [LOG.key])
    assert signature.line == line
    with pytest.raises(VerificationError, match="no known key"):
        open_note(Note(TEXT, (same_name, same_id)), [LOG.key])


def test_a_known_key_whose_line_fails_rejects_the_whole_note() -> None:
    note = Note(TEXT, (sign_text(TEXT, LOG), flipped(sign_text(TEXT, OTHER))))
    assert len(open_note(note, [LOG.key])) == 1
    with pytest.raises(VerificationError, match=r"example\.com/other.* does not verify"):
        open_note(note, [LOG.key, OTHER.key])


def test_a_signature_of_another_text_or_of_another_length_fails() -> None:
    line = sign_text(TEXT, LOG)
    for wrong in (
        sign_text(TEXT + "more\n", LOG),
        SignatureLine(line.name, line.key_id, line.signature[:-1]),
        SignatureLine(line.name, line.key_id, line.signature + b"\0"),
    ):
        with pytest.raises(VerificationError, match="does not verify"):
            open_note(Note(TEXT, (wrong,)), [LOG.key])


def test_a_key_counts_once_and_each_of_its_lines_must_verify() -> None:
    line = sign_text(TEXT, LOG)
    assert len(open_note(Note(TEXT, (line, line)), [LOG.key])) == 1
    with pytest.raises(VerificationError, match="does not verify"):
        open_note(Note(TEXT, (line, flipped(line))), [LOG.key])


def test_a_note_without_known_keys_is_rejected() -> None:
    with pytest.raises(VerificationError, match="no known key"):
        open_note(signed(TEXT, LOG), [])


def test_a_key_that_is_given_twice_is_refused() -> None:
    again = VerifierKey.parse(str(LOG.key))
    with pytest.raises(VerificationError, match="two keys are known as"):
        open_note(signed(TEXT, OTHER), [LOG.key, OTHER.key, again])


def test_signatures_come_in_the_notes_order_with_the_time_of_cosignatures() -> None:
    note = Note(TEXT, (cosign(TEXT, 7, WITNESS), sign_text(TEXT, LOG), cosign(TEXT, 8, LATTICE)))
    signatures = open_note(note, [LOG.key, LATTICE.key, WITNESS.key])
    assert [(signature.key, signature.timestamp) for signature in signatures] == [
        (WITNESS.key, 7),
        (LOG.key, None),
        (LATTICE.key, 8),
    ]


def test_only_plain_ed25519_keys_sign_plain_notes() -> None:
    with pytest.raises(ValueError, match="does not sign plain notes"):
        sign_text(TEXT, WITNESS)


def test_a_line_is_held_to_the_key_it_names() -> None:
    with pytest.raises(VerificationError, match="is not of"):
        verify_line(OTHER.key, TEXT, sign_text(TEXT, LOG))


def test_lines_of_chosen_keys_are_kept_and_newer_ones_take_the_place_of_older_ones() -> None:
    note = Note(TEXT, (sign_text(TEXT, LOG), cosign(TEXT, 7, WITNESS)))
    assert note.of([LOG.key]) == signed(TEXT, LOG)
    newer = cosign(TEXT, 9, WITNESS)
    assert note.adding([newer]) == Note(TEXT, (note.lines[0], newer))
    with pytest.raises(Malformed, match="1 to 100 signature lines"):
        note.of([OTHER.key])


# --- Checkpoints as notes -------------------------------------------------------------------------------------------


def test_a_signed_checkpoint_tells_the_logs_signatures_from_the_cosignatures() -> None:
    data = Note(TEXT, (sign_text(TEXT, LOG), cosign(TEXT, 7, WITNESS))).encode()
    opened = open_checkpoint(data, origin=ORIGIN, log_keys=[LOG.key, OTHER.key], cosigner_keys=[WITNESS.key])
    assert opened.checkpoint == CHECKPOINT
    assert [signature.key for signature in opened.log_signatures] == [LOG.key]
    assert [signature.key for signature in opened.cosignatures] == [WITNESS.key]


def test_a_checkpoint_of_another_origin_is_refused_whoever_signed_it() -> None:
    with pytest.raises(VerificationError, match=r"is of 'example\.com/log', not of 'example\.com/log/b'"):
        open_checkpoint(signed(TEXT, LOG).encode(), origin=f"{ORIGIN}/b", log_keys=[LOG.key])


def test_cosignatures_alone_do_not_make_a_checkpoint_the_logs() -> None:
    data = Note(TEXT, (cosign(TEXT, 7, WITNESS),)).encode()
    with pytest.raises(VerificationError, match="no key of the log signed"):
        open_checkpoint(data, origin=ORIGIN, log_keys=[LOG.key], cosigner_keys=[WITNESS.key])


def test_extension_lines_are_refused() -> None:
    with pytest.raises(Malformed, match="three lines"):
        open_checkpoint(signed(TEXT + "more\n", LOG).encode(), origin=ORIGIN, log_keys=[LOG.key])


def test_an_ed25519_cosigners_key_is_no_logs_key_and_an_mldsa_one_is() -> None:
    note = Note(TEXT, (cosign(TEXT, 7, WITNESS), cosign(TEXT, 8, LATTICE)))
    with pytest.raises(ValueError, match="is no log's key"):
        open_checkpoint(note.encode(), origin=ORIGIN, log_keys=[WITNESS.key])
    [signature] = open_checkpoint(note.encode(), origin=ORIGIN, log_keys=[LATTICE.key]).log_signatures
    assert signature.timestamp == 8


def test_a_key_that_is_the_logs_and_a_cosigners_stands_on_both_sides() -> None:
    data = Note(TEXT, (cosign(TEXT, 8, LATTICE),)).encode()
    opened = open_checkpoint(data, origin=ORIGIN, log_keys=[LATTICE.key], cosigner_keys=[LATTICE.key])
    assert opened.log_signatures == opened.cosignatures


# --- Keys -----------------------------------------------------------------------------------------------------------


def test_a_verifier_key_is_read_as_it_is_written() -> None:
    for signer in (LOG, WITNESS, LATTICE):
        assert VerifierKey.parse(str(signer.key)) == signer.key


def test_a_private_key_is_read_as_it_is_written_and_never_shown() -> None:
    text = private_key_text(LOG.key, b"\x01" * 32)
    signer = NoteSigner.parse(text)
    assert signer.key == LOG.key
    assert sign_text(TEXT, signer) == sign_text(TEXT, LOG)
    secret = text.rpartition("+")[2]
    assert secret not in repr(signer)
    for broken in (text + "!", text[:-4], text.replace("PRIVATE+KEY+", ""), text.replace(ORIGIN, "other")):
        with pytest.raises(Malformed) as caught:
            NoteSigner.parse(broken)
        assert secret[:20] not in str(caught.value)
    with pytest.raises(ValueError, match="the seed is not that of"):
        private_key_text(LOG.key, b"\x02" * 32)


def test_a_seed_of_another_length_or_for_a_key_that_is_only_read_is_refused() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        NoteSigner.from_seed("a", Algorithm.ED25519, b"\x01" * 31)
    with pytest.raises(ValueError, match="only read"):
        NoteSigner.from_seed("a", Algorithm.ECDSA, b"\x01" * 32)


P = 2**255 - 19
D = -121665 * pow(121666, -1, P) % P


def added_points(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    """RFC 8032's addition on edwards25519, in affine coordinates."""
    (x1, y1), (x2, y2) = one, other
    product = D * x1 * x2 * y1 * y2
    x = (x1 * y2 + x2 * y1) * pow(1 + product, -1, P)
    y = (y1 * y2 + x1 * x2) * pow(1 - product, -1, P)
    return x % P, y % P


def square_root(value: int) -> int | None:
    root = pow(value, (P + 3) // 8, P)
    for candidate in (root, root * pow(2, (P - 1) // 4, P) % P):
        if candidate * candidate % P == value % P:
            return candidate
    return None


def small_order_ys() -> set[int]:
    """The y of every point that eight times itself leads to the neutral one: by halving from it, three times."""
    points = {(0, 1)}
    # 2(x, y) = (x', y') is solved over the eight points by trying those that doubling takes into the set: x^2 and y^2
    # of a point of order 4 are -1 and 0, those of order 8 satisfy y^2 = x^2 or y^2 = -x^2 on the curve.
    ys = {1, P - 1, 0}
    for sign in (1, -1):
        # y^2 = sign * -x^2 into -x^2 + y^2 = 1 + d x^2 y^2 gives a quadratic in x^2.
        a, b, c = -sign * D % P, (1 + sign) % P, 1
        discriminant = square_root((b * b - 4 * a * c) % P)
        if discriminant is None:
            continue
        for root in (discriminant, P - discriminant):
            x_squared = (-b + root) * pow(2 * a, -1, P) % P
            y = square_root(-sign * x_squared % P)
            x = square_root(x_squared)
            if x is not None and y is not None and (-x * x + y * y - 1 - D * x * x * y * y) % P == 0:
                ys |= {y, P - y}
                points |= {(x, y)}
    for point in points:
        for _ in range(3):
            point = added_points(point, point)
        assert point == (0, 1)
    return ys


def test_keys_of_small_order_are_refused_under_every_encoding() -> None:
    ys = small_order_ys()
    assert len(ys) == 5
    for y in ys:
        for top in (0, 1 << 255):
            with pytest.raises(Malformed, match="small order"):
                VerifierKey("a", Algorithm.ED25519, (y | top).to_bytes(32, "little"))


def test_keys_that_are_not_canonical_or_not_on_the_curve_are_refused() -> None:
    for y in (P, P + 1, P + 3, 2**255 - 1):
        with pytest.raises(Malformed, match="not a canonical"):
            VerifierKey("a", Algorithm.ED25519, y.to_bytes(32, "little"))
    off = [y for y in range(2, 30) if square_root((y * y - 1) * pow(D * y * y + 1, -1, P) % P) is None]
    assert len(off) > 5
    for y in range(2, 30):
        data = y.to_bytes(32, "little")
        if y in off:
            with pytest.raises(Malformed, match="not a point"):
                VerifierKey("a", Algorithm.ED25519_COSIGNATURE, data)
        else:
            VerifierKey("a", Algorithm.ED25519_COSIGNATURE, data)


@pytest.mark.parametrize("name", ["", "a b", "a+b", "a\tb", "a\u3000b", "a\u2028b", "a\u0085b", "a\0b", "a\ud800b"])
def test_a_name_that_no_key_may_have_is_refused(name: str) -> None:
    with pytest.raises(Malformed):
        VerifierKey(name, Algorithm.ED25519, LOG.key.public_key)
    with pytest.raises(Malformed):
        SignatureLine(name, b"abcd", b"s")


def test_a_name_has_at_most_255_bytes() -> None:
    VerifierKey("é" * 127 + "e", Algorithm.ED25519, LOG.key.public_key)
    with pytest.raises(Malformed, match="1 to 255 bytes"):
        VerifierKey("é" * 128, Algorithm.ED25519, LOG.key.public_key)


def test_the_same_public_key_has_another_id_under_another_name_or_algorithm() -> None:
    keys = [
        VerifierKey(name, algorithm, LOG.key.public_key)
        for name in ("a", "b")
        for algorithm in (Algorithm.ED25519, Algorithm.ED25519_COSIGNATURE)
    ]
    assert len({key.key_id for key in keys}) == 4


def test_ecdsa_notes_and_rfc_6962_tree_heads_verify_and_their_fakes_do_not() -> None:
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    private = ec.derive_private_key(6962, ec.SECP256R1())
    public = private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)

    note_key = VerifierKey(ORIGIN, Algorithm.ECDSA, public)
    line = SignatureLine(ORIGIN, note_key.key_id, private.sign(TEXT.encode(), ec.ECDSA(SHA256())))
    assert open_note(Note(TEXT, (line,)), [note_key])
    with pytest.raises(VerificationError, match="does not verify"):
        open_note(Note(TEXT + "more\n", (line,)), [note_key])

    # RFC 6962 section 3.5: version, signature type, timestamp, tree size, root.
    time = (1_700_000_000_000).to_bytes(8)
    head = b"\x00\x01" + time + (5).to_bytes(8) + CHECKPOINT.root
    value = private.sign(head, ec.ECDSA(SHA256()))
    tree_key = VerifierKey(ORIGIN, Algorithm.RFC6962_TREE_HEAD, public)
    good = time + b"\x04\x03" + len(value).to_bytes(2) + value

    def opened(signature: bytes, text: str = TEXT) -> None:
        open_checkpoint(
            Note(text, (SignatureLine(ORIGIN, tree_key.key_id, signature),)).encode(),
            origin=ORIGIN,
            log_keys=[tree_key],
        )

    opened(good)
    for fake in (
        good + b"\0",
        good[:-1],
        b"\x01" + good[1:],
        good[:8] + b"\x04\x01" + good[10:],
        good[:11],
        good[:10] + b"\0\0" + value,
    ):
        with pytest.raises(VerificationError):
            opened(fake)
    with pytest.raises(VerificationError):
        opened(good, Checkpoint(ORIGIN, 6, CHECKPOINT.root).text())


def test_a_public_key_of_another_curve_is_refused() -> None:
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    public = ec.derive_private_key(1, ec.SECP384R1()).public_key()
    with pytest.raises(Malformed, match="P-256"):
        VerifierKey("a", Algorithm.ECDSA, public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))


def test_the_empty_tree_is_signed_and_opened() -> None:
    text = Checkpoint(ORIGIN, 0, EMPTY_ROOT).text()
    opened = open_checkpoint(signed(text, LOG).encode(), origin=ORIGIN, log_keys=[LOG.key])
    assert opened.checkpoint.size == 0
