"""Detached signatures: over canonical files, over roots with sha256 shards, over content (§6.5).

Everything is computed anew from bytes, unless the caller asks to take digests as given. Must never
sign on the strength of a digest that is not cryptographic.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Final

from tensorark import files
from tensorark.conversion.as_zt_model import normalize
from tensorark.core.conversation import drive
from tensorark.core.progress import Progress
from tensorark.core.rules import Finding, Reading
from tensorark.errors import Hint, InvalidInput, Rejected, quoted
from tensorark.files import File, PathLike
from tensorark.integrity.digests import label_digest, workers
from tensorark.integrity.keys import key_id, read_private
from tensorark.integrity.signature_document import Kind, Signed, SignedStatement, Statement
from tensorark.integrity.signed_content import (
    CRYPTOGRAPHIC,
    content_of,
    entry_of_tensor,
    hash_tensors,
    signed_shards,
    strong_shards,
)
from tensorark.integrity.trust import NOTHING, Known, Trust
from tensorark.integrity.verify import verify
from tensorark.io.inputs import operation
from tensorark.io.publish import publish
from tensorark.io.safe_names import below

SUFFIX: Final = ".sig.json"


@operation()
def sign(
    path: PathLike,
    key: PathLike,
    target: PathLike | None = None,
    *,
    over: Kind | None = None,
    passphrase: str | None = None,
    trust_digests: bool = False,
    known: Known = NOTHING,
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
        about = make(file, Trust(trust_digests, known), threads, progress)
        left = _find_uncovered(path, file, goal) if kind != "content" else ()
    statement = replace(about, key=key_id(secret.public_key()), uncovered=left)
    made = SignedStatement(statement, secret.sign(statement.encode()))
    with publish(goal, overwrite=overwrite) as sink:
        sink.write(made.encode())
    return made


def signature_path(path: PathLike) -> Path:
    """Return where the signature of the model at `path` is looked for."""
    return Path(path).with_name(Path(path).name + SUFFIX)


def _kind_for(file: File) -> Kind:
    shards = file.catalog.shards
    if shards:
        strong = all(CRYPTOGRAPHIC.fullmatch(each.digest) for each in shards.values())
        return "root" if strong else "content"
    if file.format.canonical is None or not file.describes_tensors:
        return "content"
    return "content" if _judge_canonical(file) else "file"


def _judge_canonical(file: File) -> list[Finding]:
    gathered: list[Finding] = []
    if file.format.canonical is not None:
        reading = Reading(gathered=gathered)
        try:  # digests are verified, or trusted, apart from this
            drive(file.format.canonical(file.catalog, reading, digests=False), file.source)
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


def _sign_files(file: File, trust: Trust, threads: int | None, progress: Progress) -> Statement:
    if not file.describes_tensors:
        detail = "a data shard is signed by way of its root"
        raise InvalidInput(detail, code="data-shard", path=file.path)
    for fault in _judge_canonical(file):
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

    def sign_file(label: str | None) -> Signed:
        name = _require_text(main.name if label is None else label, file.path)
        if label and not below(main.parent, name).samefile(file.source.path_of(label)):
            detail = "a file of this model does not lie under its name"
            raise InvalidInput(detail, code="name", path=file.path, found=quoted(name))
        digest = trust.known.get(name) or label_digest(file, label, "sha256", progress)
        return Signed(name=name, size=file.source.size(label), sha256=digest)

    with workers(threads) as pool:
        files = tuple(pool.map(sign_file, file.labels))
    return Statement(kind="file", key="", format=file.format.name, files=files)


def _sign_root(file: File, trust: Trust, _threads: int | None, progress: Progress) -> Statement:
    shards = strong_shards(file)
    vouched = trust.known and not trust.digests  # else read by `verify`, or taken from the table
    for label, shard in shards.items():
        _require_agreement(
            file, label, shard.digest.partition(":")[2], trust, required=bool(vouched)
        )
    root = Signed(
        name=_require_text(file.source.path_of().name, file.path),
        size=file.source.size(),
        sha256=label_digest(file, None, "sha256", progress),
    )
    _require_agreement(file, None, root.sha256, trust, required=False)
    return Statement(
        kind="root", key="", format="zt", files=(root,), shards=tuple(signed_shards(shards))
    )


def _require_agreement(
    file: File, label: str | None, sha256: str, trust: Trust, *, required: bool
) -> None:
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


def _sign_content(file: File, trust: Trust, threads: int | None, progress: Progress) -> Statement:
    if not file.describes_tensors:
        detail = "a data shard holds no tensors by itself"
        raise InvalidInput(detail, code="data-shard", path=file.path)
    found = list(hash_tensors(normalize(file), trust, threads, progress))
    tensors = [tensor for tensor, _ in found]
    return Statement(
        kind="content",
        key="",
        content=content_of(tensors),
        tensors=tuple(map(entry_of_tensor, tensors)),
    )


def _find_uncovered(path: PathLike, file: File, goal: Path) -> tuple[str, ...]:
    """Return what lies in a folder that was named as a whole and is not of the model."""
    if not Path(path).is_dir():
        return ()
    home = Path(path)
    covered = {each.name for each in file.paths() if each.parent == home} | {goal.name}
    names = sorted(os.fsencode(each.name) for each in home.iterdir() if each.name not in covered)
    return tuple(name.decode("utf-8", "replace") for name in names)


def _require_text(name: str, path: str) -> str:
    try:
        name.encode()
    except UnicodeEncodeError:
        detail = "the name of the file is no text"
        raise InvalidInput(detail, code="name", path=path, found=ascii(name)) from None
    return name
