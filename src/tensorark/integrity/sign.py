"""Detached signatures: over canonical files, over roots with sha256 shards, over content (§6.5).

Owns what is measured for each kind of statement, and the verdict. Everything is computed anew from
bytes, unless the caller asks to take digests as given. Must never sign on the strength of a digest
that is not cryptographic, nor open a file that a statement names but through `io.safe_names`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tensorark import files
from tensorark.conversion.as_zt_model import model_of
from tensorark.core.brief import brief
from tensorark.core.conversation import drive
from tensorark.core.model import Part, Shard, Tensor
from tensorark.core.progress import Progress
from tensorark.core.rules import Finding, Reading, difference
from tensorark.errors import Error, Hint, InvalidInput, ReadFailed, Rejected, Unsupported, quoted
from tensorark.files import File, PathLike
from tensorark.files.folder import entry_of
from tensorark.files.shards import digest_of_file
from tensorark.formats.zt.canonical import judge
from tensorark.formats.zt.digest import content_digest
from tensorark.formats.zt.frame import RawFrame
from tensorark.formats.zt.manifest import Manifest
from tensorark.formats.zt.write import encode_content_part, encode_objects
from tensorark.integrity.digests import (
    part_digests,
    sha256_of,
    span_digest,
    whole,
    workers,
)
from tensorark.integrity.keys import key_id, read_private, read_public
from tensorark.integrity.signature_document import (
    Kind,
    Signed,
    SignedStatement,
    Statement,
    parse_document,
)
from tensorark.integrity.verify import verify
from tensorark.io.inputs import operation
from tensorark.io.open_file import read_bytes
from tensorark.io.publish import publish
from tensorark.io.safe_names import below

SUFFIX: Final = ".sig.json"

Known = Mapping[str, str]
"""sha256 digests that the caller vouches for, in hexadecimal, by file name."""

VERDICTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "signature-invalid": "invalid signature",
        "signature-key": "signed by another key",
        "signature-swapped": "names are swapped",
        "signature-missing": "incomplete",
        "signature-differs": "not what was signed",
        "signature-name": "renamed",
    }
)
"""What a check comes to, by the codes of its findings, the weightiest first."""

_NOTHING: Final[Known] = MappingProxyType({})
_CRYPTOGRAPHIC: Final = re.compile("sha256:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SignatureCheck:
    """What verifying a signature has shown.

    `statement` is what was signed; `findings` are why it does not hold; `checked` files, shards or
    parts were read and hashed, `taken` were not, their digests being taken as given.
    """

    __repr__ = brief

    statement: Statement
    findings: tuple[Finding, ...] = ()
    checked: int = 0
    taken: int = 0

    @property
    def ok(self) -> bool:
        """Whether the signature is valid and the model is what was signed."""
        return not self.findings

    @property
    def verdict(self) -> str:
        """``authentic``, or one of `VERDICTS`."""
        codes = {each.rule for each in self.findings}
        return next((text for code, text in VERDICTS.items() if code in codes), "authentic")


# ------------------------------------------------------------------------------------------ signing


@operation()
def sign(
    path: PathLike,
    key: PathLike,
    target: PathLike | None = None,
    *,
    over: Kind | None = None,
    passphrase: str | None = None,
    trust_digests: bool = False,
    known: Known = _NOTHING,
    overwrite: bool = False,
    threads: int | None = None,
    progress: Progress = lambda _done: None,
) -> SignedStatement:
    """Sign the model at `path` with the private `key`; write ``<name>.sig.json`` or `target`.

    `over` is what is signed: ``file``, the bytes of all files (a `.zt` must be canonical);
    ``root``, a `.zt` whose shard table gives sha256 digests only; ``content``, tensors whatever
    file holds them. By default the first of these that the `.zt` allows, and content for any other
    format. Payload is verified against its digests first and then hashed with sha256.

    `trust_digests` takes the sha256 digests that a `.zt` gives for shards or parts as they stand,
    `known` those of files; what they stand for is then neither read nor verified.

    Raises:
        InvalidInput: when this model cannot be signed in this way, or the target exists.
        Rejected: when payload does not match its digests.
        Unsupported: when a shard digest is not cryptographic, or the key of another kind.
        ReadFailed: when a file is missing, cannot be read, or is a link out of its folder.
    """
    secret = read_private(key, passphrase)
    with files.open(path) as file:
        goal = Path(target) if target is not None else signature_path(file.path)
        if goal.exists() and not overwrite:
            with publish(goal, overwrite=False):  # says so before an hour of hashing
                pass
        _check_links(file)
        kind = over or _kind_for(file)
        if not trust_digests and not known:
            _require_sound(file, threads, deep=kind == "root")
        make = {"file": _sign_files, "root": _sign_root, "content": _sign_content}[kind]
        about = make(file, _Trust(trust_digests, known), threads, progress)
        left = _uncovered(path, file, goal) if kind != "content" else ()
    statement = replace(about, key=key_id(secret.public_key()), uncovered=left)
    made = SignedStatement(statement, secret.sign(statement.encode()))
    with publish(goal, overwrite=overwrite) as sink:
        sink.write(made.encode())
    return made


def signature_path(path: PathLike) -> Path:
    """Return where the signature of the model at `path` is looked for."""
    return Path(path).with_name(Path(path).name + SUFFIX)


@dataclass(frozen=True, slots=True)
class _Trust:
    """What is taken as given."""

    digests: bool
    known: Known


def _kind_for(file: File) -> Kind:
    native = file.catalog.native
    if not isinstance(native, Manifest):
        return "content"
    if native.shards:
        strong = all(_CRYPTOGRAPHIC.fullmatch(each.digest) for each in native.shards.values())
        return "root" if strong else "content"
    return "content" if _canonical_faults(file) else "file"


def _canonical_faults(file: File) -> list[Finding]:
    gathered: list[Finding] = []
    native = file.catalog.native
    if isinstance(native, Manifest | RawFrame):
        try:
            drive(judge(native, Reading(gathered=gathered)), file.source)
        except Rejected as error:
            if not gathered:
                raise error.located(file.path) from None
    return gathered


def _require_sound(file: File, threads: int | None, *, deep: bool) -> None:
    """Refuse to sign what does not match its own digests."""
    for found in verify(file, threads=threads, deep=deep).findings:
        raise Rejected(
            f"damaged payload is not signed: {found.detail}",
            code=found.rule,
            section=found.section,
            path=file.path,
            where=found.where,
            expected=found.expected,
            found=found.found,
        )


def _check_links(file: File) -> None:
    """Refuse a model whose opened file is a link out of its folder; readers refuse the others."""
    main = file.source.path_of()
    below(main.absolute().parent, main.name)


def _sign_files(file: File, trust: _Trust, threads: int | None, progress: Progress) -> Statement:
    if isinstance(file.catalog.native, RawFrame):
        detail = "a data shard is signed by way of its root"
        raise InvalidInput(detail, code="data-shard", path=file.path)
    for fault in _canonical_faults(file):
        raise InvalidInput(
            f"only a canonical .zt is signed as a file: {fault.detail}",
            code="not-canonical",
            path=file.path,
            where=fault.where,
            hint=Hint(
                "repack() makes it canonical; over='content' or 'root' does without",
                tark="`tark repack` makes it canonical; --over content or root does without",
            ),
        )
    main = file.source.path_of()

    def signed(label: str | None) -> Signed:
        name = _plain(main.name if label is None else label, file.path)
        if label and not below(main.parent, name).samefile(file.source.path_of(label)):
            detail = "a file of this model does not lie under its name"
            raise InvalidInput(detail, code="name", path=file.path, found=quoted(name))
        digest = trust.known.get(name) or span_digest(file, whole(file, label), "sha256", progress)
        return Signed(name=name, size=file.source.size(label), sha256=digest)

    with workers(threads) as pool:
        files = tuple(pool.map(signed, file.labels))
    return Statement(kind="file", key="", format=file.format.name, files=files)


def _sign_root(file: File, trust: _Trust, _threads: int | None, progress: Progress) -> Statement:
    shards = _strong_shards(file)
    vouched = trust.known and not trust.digests  # else read by `verify`, or taken from the table
    for label, shard in shards.items():
        _agree(file, label, shard.digest.partition(":")[2], trust, required=bool(vouched))
    root = Signed(
        name=_plain(file.source.path_of().name, file.path),
        size=file.source.size(),
        sha256=span_digest(file, whole(file, None), "sha256", progress),
    )
    _agree(file, None, root.sha256, trust, required=False)
    return Statement(
        kind="root", key="", format="zt", files=(root,), shards=tuple(_signed_shards(shards))
    )


def _agree(file: File, label: str | None, sha256: str, trust: _Trust, *, required: bool) -> None:
    """Refuse to sign when the digest that is known of a file is another than `sha256`."""
    given = trust.known.get(file.source.path_of(label).name)
    if given == sha256 or (given is None and not required):
        return
    raise InvalidInput(
        "no known digest is that of this shard" if given is None else "known digests contradict",
        code="known",
        path=file.path,
        where=() if label is None else ("shards", label),
        expected=sha256,
        found=given or "none",
    )


def _strong_shards(file: File) -> dict[str, Shard]:
    """Return the shard table of a root, all of whose digests are cryptographic."""
    native = file.catalog.native
    if not isinstance(native, Manifest) or not native.shards:
        detail = "this is no .zt with shards, so there is no root to sign"
        raise InvalidInput(
            detail,
            code="no-root",
            path=file.path,
            hint=Hint("over='file' or 'content'", tark="--over file or content"),
        )
    for label, shard in native.shards.items():
        if not _CRYPTOGRAPHIC.fullmatch(shard.digest):
            raise Unsupported(
                "the digest of a shard is not cryptographic: a signature would not cover its bytes",
                code="weak-digest",
                section="6.5",
                path=file.path,
                where=("shards", label, "digest"),
                expected="sha256",
                found=shard.digest,
                hint=Hint(
                    "split() it again with algorithm='sha256', or sign over='content'",
                    tark="`tark split --digest sha256` again, or --over content",
                ),
            )
    return dict(native.shards)


def _signed_shards(shards: Mapping[str, Shard]) -> Iterator[Signed]:
    for label, shard in shards.items():
        yield Signed(name=label, size=shard.size, sha256=shard.digest.partition(":")[2])


def _sign_content(file: File, trust: _Trust, threads: int | None, progress: Progress) -> Statement:
    if isinstance(file.catalog.native, RawFrame):
        detail = "a data shard holds no tensors by itself"
        raise InvalidInput(detail, code="data-shard", path=file.path)
    found = list(_strong_tensors(model_of(file), trust, threads, progress))
    tensors = [tensor for tensor, _ in found]
    return Statement(
        kind="content", key="", content=_content(tensors), tensors=tuple(map(_entry, tensors))
    )


def _strong_tensors(
    file: File,
    trust: _Trust,
    threads: int | None,
    progress: Progress,
    names: Sequence[str] | None = None,
) -> Iterator[tuple[Tensor, int]]:
    """Yield tensors whose parts have sha256 digests, by name, and how many of these were given."""
    wanted = None if names is None else set(names)

    def digested(batch: list[str]) -> list[tuple[Tensor, int]]:
        chosen = [name for name in batch if wanted is None or name in wanted]
        return [_strong(file, file.catalog.tensors[name], trust, progress) for name in chosen]

    with workers(threads) as pool:
        found = [each for batch in pool.map(digested, file.batches()) for each in batch]
    yield from sorted(found, key=lambda each: each[0].name.encode())


def _strong(file: File, tensor: Tensor, trust: _Trust, progress: Progress) -> tuple[Tensor, int]:
    parts: dict[str, Part] = {}
    taken = 0
    for role, part in tensor.parts.items():
        if trust.digests and part.digest and _CRYPTOGRAPHIC.fullmatch(part.digest):
            parts[role] = part
            taken += 1
            continue
        where = ("objects", tensor.name, "parts", role)
        digest = part_digests(file, part, where, ["sha256"]).whole["sha256"]
        parts[role] = replace(part, digest=f"sha256:{digest}")
        progress(part.nbytes)
    return replace(tensor, parts=parts), taken


def _content(tensors: Sequence[Tensor]) -> str:
    return content_digest(tensors, "sha256").partition(":")[2]


def _entry(tensor: Tensor) -> Signed:
    digest = sha256_of(encode_objects([tensor], encode_content_part))
    return Signed(name=tensor.name, size=tensor.nbytes, sha256=digest)


def _uncovered(path: PathLike, file: File, goal: Path) -> tuple[str, ...]:
    """Return what lies in a folder that was named as a whole and is not of the model."""
    if not Path(path).is_dir():
        return ()
    home = Path(path)
    covered = {each.name for each in file.paths() if each.parent == home} | {goal.name}
    names = sorted(os.fsencode(each.name) for each in home.iterdir() if each.name not in covered)
    return tuple(name.decode("utf-8", "replace") for name in names)


def _plain(name: str, path: str) -> str:
    try:
        name.encode()
    except UnicodeEncodeError:
        detail = "the name of the file is no text"
        raise InvalidInput(detail, code="name", path=path, found=ascii(name)) from None
    return name


# ---------------------------------------------------------------------------------------- verifying


def verify_signature(
    path: PathLike,
    key: PathLike,
    signature: PathLike | None = None,
    *,
    passphrase: str | None = None,
    any_name: bool = False,
    trust_digests: bool = False,
    known: Known = _NOTHING,
    threads: int | None = None,
    progress: Progress = lambda _done: None,
) -> SignatureCheck:
    """Check the signature of the model at `path`: by default ``<name>.sig.json`` beside it.

    `key` is the public key that is trusted, or the private one. Nothing of the model is read before
    the signature itself is found valid. `any_name` lets the opened file be called otherwise than
    when it was signed. `trust_digests` and `known` as for `sign`.

    Raises:
        Rejected: when the signature file is none.
        ReadFailed: when the model or the signature is missing, or is a link out of its folder.
    """
    public = read_public(key, passphrase)
    main = _main(path)
    document = signature_path(main) if signature is None else Path(signature)
    signed = parse_document(read_bytes(document), os.fspath(document))
    statement = signed.statement
    refusal = _judge_signature(signed, key_id(public), public.verify)
    if refusal is not None:
        return SignatureCheck(statement=statement, findings=(refusal,))
    if not main.is_dir():
        below(main.absolute().parent, main.name)
    check = {"file": _check_files, "root": _check_root, "content": _check_content}[statement.kind]
    found = check(main, statement, _Trust(trust_digests, known), threads, progress)
    first = statement.files[0].name if statement.files else main.name
    if any_name or main.is_dir() or main.name == first:
        return found
    name = difference(
        "signature-name",
        ("files", first),
        "the file was signed under another name",
        expected=quoted(first),
        found=quoted(main.name),
    )
    return replace(found, findings=(*found.findings, name))


def _main(path: PathLike) -> Path:
    """Return the file that stands for a model; a folder where no single file does."""
    if Path(path).is_dir():
        try:
            return Path(entry_of(path))
        except InvalidInput:
            return Path(path)
    if not Path(path).exists():
        raise ReadFailed("no such file", code="missing-file", path=os.fspath(path))
    return Path(path)


def _judge_signature(
    signed: SignedStatement, trusted: str, verifies: Callable[[bytes, bytes], None]
) -> Finding | None:
    """Say why a signature is not one by the trusted key; None where it is."""
    from cryptography.exceptions import InvalidSignature

    named = signed.statement.key
    try:
        verifies(signed.signature, signed.statement.encode())
    except InvalidSignature:
        if named != trusted:
            detail = "the statement names another key than the trusted one"
            return difference("signature-key", ("key",), detail, expected=trusted, found=named)
        detail = "the signature is not one of this key over this statement"
        return difference("signature-invalid", ("signature",), detail)
    if named != trusted:  # signed by this key, in the name of another
        detail = "the statement names a key that did not sign it"
        return difference("signature-invalid", ("key",), detail)
    return None


def _check_files(
    main: Path, statement: Statement, trust: _Trust, threads: int | None, progress: Progress
) -> SignatureCheck:
    """Compare files by name with what was signed, without opening them as models."""
    home = main if main.is_dir() else main.absolute().parent

    def measured(at: int) -> Signed | None:
        wanted = statement.files[at]
        path = main if at == 0 and main is not home else below(home, wanted.name)
        return _measured(path, wanted, trust.known.get(wanted.name), progress)

    with workers(threads) as pool:
        found = list(pool.map(measured, range(len(statement.files))))
    findings = list(compare(statement.files, found, "files"))
    if not findings:  # only now is it what was signed, and safe to open
        findings += _uncounted(main, statement)
    elif statement.format == "zt":
        findings += _located(main)
    taken = sum(each.name in trust.known for each in statement.files)
    return SignatureCheck(
        statement=statement,
        findings=tuple(findings),
        checked=sum(each is not None for each in found) - taken,
        taken=taken,
    )


def _uncounted(main: Path, statement: Statement) -> Iterator[Finding]:
    """Yield the files of a model that a statement does not list, and what it lists besides."""
    names = [each.name for each in statement.files]
    try:
        with files.open(main) as file:
            held = [names[0] if label is None else label for label in file.labels]
    except Error as error:
        detail = f"the model does not open: {error}"
        yield difference("signature-differs", error.where, detail)
        return
    for name in sorted({*held} - {*names}):
        detail = f"{quoted(name)} is of this model, and the statement does not list it"
        yield difference("signature-differs", ("files", name), detail)
    for name in sorted({*names} - {*held}):
        detail = f"{quoted(name)} is not of this model, and the statement lists it"
        yield difference("signature-differs", ("files", name), detail)


def _measured(path: Path, wanted: Signed, known: str | None, progress: Progress) -> Signed | None:
    """Return name, size and sha256 of a file; None when it is missing."""
    try:
        digest = known or digest_of_file(path, "sha256")
        size = path.stat().st_size
    except FileNotFoundError:
        return None
    except ReadFailed as error:
        if error.code == "missing-file":
            return None
        raise
    progress(size)
    return Signed(name=wanted.name, size=size, sha256=digest)


def compare(
    expected: Sequence[Signed], found: Sequence[Signed | None], what: str
) -> Iterator[Finding]:
    """Yield what is missing, in the place of another, or different; both are in one order."""
    owners = {(each.size, each.sha256): each.name for each in expected}
    for wanted, each in zip(expected, found, strict=True):
        where = (what, wanted.name)
        if each is None:
            detail = f"{quoted(wanted.name)} is missing"
            yield difference("signature-missing", where, detail)
        elif (each.size, each.sha256) in owners and each.sha256 != wanted.sha256:
            other = owners[each.size, each.sha256]
            detail = f"under the name {quoted(wanted.name)} lies what was signed as {quoted(other)}"
            yield difference("signature-swapped", where, detail)
        elif each.size != wanted.size:
            yield difference(
                "signature-differs",
                where,
                f"{quoted(wanted.name)} has another size than was signed",
                expected=f"{wanted.size} bytes",
                found=each.size,
            )
        elif each.sha256 != wanted.sha256:
            yield difference(
                "signature-differs",
                where,
                f"{quoted(wanted.name)} is not what was signed",
                expected=wanted.sha256,
                found=each.sha256,
            )


def _located(path: Path) -> list[Finding]:
    """Name the tensors that do not match their own digests; nothing where the file is unreadable.

    A file that was replaced by another sound one has none, and differs all the same.
    """
    try:
        with files.open(path) as file:
            damaged = [each for each in verify(file).findings if each.where[:1] == ("objects",)]
    except Error:
        return []
    return [difference("signature-differs", each.where, each.detail) for each in damaged]


def _check_root(
    main: Path, statement: Statement, trust: _Trust, threads: int | None, progress: Progress
) -> SignatureCheck:
    """Compare the bytes of a root with what was signed, then each shard with the root's table."""
    found = [_measured(main, statement.files[0], None, progress)]
    findings = list(compare(statement.files, found, "files"))
    if findings:
        return SignatureCheck(statement=statement, findings=tuple(findings), checked=1)
    with files.open(main) as file:
        shards = _strong_shards(file)
        if tuple(_signed_shards(shards)) != statement.shards:
            detail = "the statement lists other shards than the root that it is about"
            wrong = difference("signature-differs", ("shards",), detail)
            return SignatureCheck(statement=statement, findings=(wrong,), checked=1)

        def check(wanted: Signed) -> tuple[Finding | None, int]:
            return _check_shard(file, wanted, statement.shards, trust, progress)

        with workers(threads) as pool:
            done = list(pool.map(check, statement.shards))
    taken = sum(given for _, given in done)
    return SignatureCheck(
        statement=statement,
        findings=tuple(each for each, _ in done if each is not None),
        checked=1 + len(done) - taken,
        taken=taken,
    )


def _check_shard(
    file: File, wanted: Signed, every: Sequence[Signed], trust: _Trust, progress: Progress
) -> tuple[Finding | None, int]:
    """Return what is wrong with a shard, and 1 where its digest was taken as given."""
    given = 0
    try:
        size = file.source.size(wanted.name)
        name = file.source.path_of(wanted.name).name
        if trust.digests or name in trust.known:
            digest, given = trust.known.get(name, wanted.sha256), 1
        else:
            digest = span_digest(file, whole(file, wanted.name), "sha256", progress)
        found: Signed | None = Signed(name=wanted.name, size=size, sha256=digest)
    except ReadFailed as error:
        if error.code == "missing-shard":
            found = None
        elif error.code == "wrong-shard" and error.path is not None:
            found = _measured(Path(error.path), wanted, None, progress)
        else:
            raise
    others = [each for each in every if each.name != wanted.name]
    pairs = compare([wanted, *others], [found, *others], "shards")
    return next(pairs, None), given


def _check_content(
    main: Path, statement: Statement, trust: _Trust, threads: int | None, progress: Progress
) -> SignatureCheck:
    """Compare every tensor of a model, whatever its format, with what was signed."""
    try:
        file = files.open(main)
    except (Rejected, ReadFailed) as error:
        if isinstance(error, ReadFailed) and error.code not in {"missing-shard", "wrong-shard"}:
            raise
        code = "signature-missing" if error.code == "missing-shard" else "signature-differs"
        wrong = difference(code, error.where, f"the model does not open: {error}")
        return SignatureCheck(statement=statement, findings=(wrong,))
    with file:
        model = model_of(file)
        held = _held(model)
        findings = list(_unusable(model, held))
        gone = {name for each in findings for name in held[str(each.where[1])]}
        names = [name for name in model.catalog.tensors if name not in gone]
        try:
            done = list(_strong_tensors(model, trust, threads, progress, names))
        except (Rejected, ReadFailed) as error:  # the bytes break their encoding, or are others
            if isinstance(error, ReadFailed) and error.code != "wrong-shard":
                raise
            findings.append(difference("signature-differs", error.where, str(error)))
            return SignatureCheck(statement=statement, findings=tuple(findings))
    tensors = [tensor for tensor, _ in done]
    findings += _compare_tensors(statement, [_entry(each) for each in tensors], gone)
    if not findings and _content(tensors) != statement.content:
        detail = "the content digest is not the one that was signed"
        findings.append(difference("signature-differs", ("content",), detail))
    taken = sum(given for _, given in done)
    return SignatureCheck(
        statement=statement,
        findings=tuple(findings),
        checked=sum(len(each.parts) for each in tensors) - taken,
        taken=taken,
    )


def _held(file: File) -> dict[str, set[str]]:
    """Return the tensors that have bytes in each further file; what holds none is no content."""
    held: dict[str, set[str]] = {}
    for name, tensor in file.catalog.tensors.items():
        for part in tensor.parts.values():
            for span in part.blob.spans:
                if span.file is not None and span.length:
                    held.setdefault(span.file, set()).add(name)
    return held


def _unusable(file: File, labels: Iterable[str]) -> Iterator[Finding]:
    for label in labels:
        try:
            file.source.size(label)
        except Rejected as error:
            detail = f"the file is another one: {error}"
            yield difference("signature-differs", ("shards", label), detail)
        except ReadFailed as error:
            if error.code not in {"missing-shard", "wrong-shard"}:
                raise
            code = "signature-missing" if error.code == "missing-shard" else "signature-differs"
            yield difference(code, ("shards", label), error.detail)


def _compare_tensors(
    statement: Statement, found: Sequence[Signed], gone: set[str]
) -> Iterator[Finding]:
    present = {each.name: each for each in found}
    for wanted in statement.tensors:
        if wanted.name in gone:
            continue
        each = present.get(wanted.name)
        where = ("objects", wanted.name)
        if each is None:
            yield difference("signature-missing", where, "the tensor is missing")
        elif each != wanted:
            detail = "the tensor is not what was signed"
            yield difference(
                "signature-differs",
                where,
                detail,
                expected=f"{wanted.size} bytes, {wanted.sha256}",
                found=f"{each.size} bytes, {each.sha256}",
            )
    names = {each.name for each in statement.tensors}
    for each in found:
        if each.name not in names:
            detail = "the tensor was not signed"
            yield difference("signature-differs", ("objects", each.name), detail)


def read_sums(path: PathLike) -> dict[str, str]:
    """Read the digests that ``sha256sum`` writes, by file name, for `known`.

    Raises:
        Rejected: when a line is anything else.
    """
    found: dict[str, str] = {}
    for line in read_bytes(path).decode("utf-8", "surrogateescape").splitlines():
        match = re.fullmatch(r"([0-9a-f]{64}) [ *](.+)", line)
        if match is None or found.setdefault(match[2], match[1]) != match[1]:
            raise Rejected(
                "a line is none that sha256sum writes, or gives a name twice",
                code="known",
                path=os.fspath(path),
                found=quoted(line),
            )
    return found
