"""Verifying detached signatures: is a model what a trusted key signed.

Owns the verdict. Nothing of a model is read before its signature is found valid, and no file that
a statement names is opened but through `io.safe_names`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tensorark import files
from tensorark.conversion.as_zt_model import normalize
from tensorark.core.brief import brief
from tensorark.core.progress import Progress
from tensorark.core.rules import Finding, difference
from tensorark.errors import Error, InvalidInput, ReadFailed, Rejected, quoted
from tensorark.files import File, PathLike
from tensorark.files.folder import entry_of
from tensorark.integrity.comparison import compare, hash_file, verdict_of
from tensorark.integrity.digests import label_digest, workers
from tensorark.integrity.keys import key_id, read_public
from tensorark.integrity.sign import signature_path
from tensorark.integrity.signature_document import (
    Signed,
    SignedStatement,
    Statement,
    parse_document,
)
from tensorark.integrity.signed_content import (
    content_of,
    entry_of_tensor,
    hash_tensors,
    signed_shards,
    strong_shards,
)
from tensorark.integrity.trust import NOTHING, Known, Trust
from tensorark.integrity.verify import verify
from tensorark.io.open_file import read_bytes
from tensorark.io.safe_names import below


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
        """``authentic``, or one of `tensorark.integrity.comparison.VERDICTS`."""
        return verdict_of(self.findings)


def verify_signature(
    path: PathLike,
    key: PathLike,
    signature: PathLike | None = None,
    *,
    passphrase: str | None = None,
    any_name: bool = False,
    trust_digests: bool = False,
    known: Known = NOTHING,
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
    found = check(main, statement, Trust(trust_digests, known), threads, progress)
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
    main: Path, statement: Statement, trust: Trust, threads: int | None, progress: Progress
) -> SignatureCheck:
    """Compare files by name with what was signed, without opening them as models."""
    home = main if main.is_dir() else main.absolute().parent

    def hash_listed(at: int) -> Signed | None:
        wanted = statement.files[at]
        path = main if at == 0 and main is not home else below(home, wanted.name)
        return hash_file(path, wanted.name, trust.known.get(wanted.name), progress)

    with workers(threads) as pool:
        found = list(pool.map(hash_listed, range(len(statement.files))))
    findings = list(compare(statement.files, found, "files"))
    if not findings:  # only now is it what was signed, and safe to open
        findings += _compare_list(main, statement)
    elif statement.format == "zt":
        findings += _find_damage(main)
    taken = sum(each.name in trust.known for each in statement.files)
    return SignatureCheck(
        statement=statement,
        findings=tuple(findings),
        checked=sum(each is not None for each in found) - taken,
        taken=taken,
    )


def _compare_list(main: Path, statement: Statement) -> Iterator[Finding]:
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


def _find_damage(path: Path) -> list[Finding]:
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
    main: Path, statement: Statement, trust: Trust, threads: int | None, progress: Progress
) -> SignatureCheck:
    """Compare the bytes of a root with what was signed, then each shard with the root's table."""
    found = [hash_file(main, statement.files[0].name, None, progress)]
    findings = list(compare(statement.files, found, "files"))
    if findings:
        return SignatureCheck(statement=statement, findings=tuple(findings), checked=1)
    with files.open(main) as file:
        shards = strong_shards(file)
        if tuple(signed_shards(shards)) != statement.shards:
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
    file: File, wanted: Signed, every: Sequence[Signed], trust: Trust, progress: Progress
) -> tuple[Finding | None, int]:
    """Return what is wrong with a shard, and 1 where its digest was taken as given."""
    given = 0
    try:
        size = file.source.size(wanted.name)
        name = file.source.path_of(wanted.name).name
        if trust.digests or name in trust.known:
            digest, given = trust.known.get(name, wanted.sha256), 1
        else:
            digest = label_digest(file, wanted.name, "sha256", progress)
        found: Signed | None = Signed(name=wanted.name, size=size, sha256=digest)
    except ReadFailed as error:
        if error.code == "missing-shard":
            found = None
        elif error.code == "wrong-shard" and error.path is not None:
            found = hash_file(Path(error.path), wanted.name, None, progress)
        else:
            raise
    others = [each for each in every if each.name != wanted.name]
    pairs = compare([wanted, *others], [found, *others], "shards")
    return next(pairs, None), given


def _check_content(
    main: Path, statement: Statement, trust: Trust, threads: int | None, progress: Progress
) -> SignatureCheck:
    """Compare every tensor of a model, whatever its format, with what was signed."""
    try:
        file = files.open(main)
    except (Rejected, ReadFailed) as error:
        wrong = difference(_code_of(error), error.where, f"the model does not open: {error}")
        return SignatureCheck(statement=statement, findings=(wrong,))
    with file:
        model = normalize(file)
        held = _tensors_in(model)
        findings = list(_judge_files(model, held))
        gone = {name for each in findings for name in held[str(each.where[1])]}
        names = [name for name in model.catalog.tensors if name not in gone]
        try:
            done = list(hash_tensors(model, trust, threads, progress, names))
        except (Rejected, ReadFailed) as error:  # the bytes break their encoding, or are others
            if isinstance(error, ReadFailed) and error.code != "wrong-shard":
                raise
            findings.append(difference("signature-differs", error.where, str(error)))
            return SignatureCheck(statement=statement, findings=tuple(findings))
    tensors = [tensor for tensor, _ in done]
    findings += _compare_tensors(statement, [entry_of_tensor(each) for each in tensors], gone)
    if not findings and content_of(tensors) != statement.content:
        detail = "the content digest is not the one that was signed"
        findings.append(difference("signature-differs", ("content",), detail))
    taken = sum(given for _, given in done)
    return SignatureCheck(
        statement=statement,
        findings=tuple(findings),
        checked=sum(len(each.parts) for each in tensors) - taken,
        taken=taken,
    )


def _tensors_in(file: File) -> dict[str, set[str]]:
    """Return the tensors that have bytes in each further file; what holds none is no content."""
    held: dict[str, set[str]] = {}
    for name, tensor in file.catalog.tensors.items():
        for part in tensor.parts.values():
            for span in part.blob.spans:
                if span.file is not None and span.length:
                    held.setdefault(span.file, set()).add(name)
    return held


def _judge_files(file: File, labels: Iterable[str]) -> Iterator[Finding]:
    for label in labels:
        try:
            file.source.size(label)
        except (Rejected, ReadFailed) as error:
            code, detail = _code_of(error), error.detail
            if isinstance(error, Rejected):
                detail = f"the file is another one: {error}"
            yield difference(code, ("shards", label), detail)


def _code_of(error: Rejected | ReadFailed) -> str:
    """Return the code of what a file that cannot be used means; another failure is raised again."""
    if isinstance(error, Rejected) or error.code == "wrong-shard":
        return "signature-differs"
    if error.code == "missing-shard":
        return "signature-missing"
    raise error


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
            yield difference(
                "signature-differs",
                where,
                "the tensor is not what was signed",
                expected=f"{wanted.size} bytes, {wanted.sha256}",
                found=f"{each.size} bytes, {each.sha256}",
            )
    names = {each.name for each in statement.tensors}
    for each in found:
        if each.name not in names:
            detail = "the tensor was not signed"
            yield difference("signature-differs", ("objects", each.name), detail)
