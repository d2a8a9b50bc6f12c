"""Every code that an error can carry, and what it means: what `tark explain` and the docs say.

Owns the words for codes that are no rules; rules speak for themselves. A test compares this table
with the code, so that a new code cannot be forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final

from tensorark.core.rules import all_rules

CODES: Final[Mapping[str, str]] = MappingProxyType(
    {
        # what a file is instead of a tensor file
        "file.7z": "A 7z archive.",
        "file.bzip2": "A bzip2 archive.",
        "file.empty": "The file has no bytes: a download or a copy did not happen.",
        "file.ggml": "A GGML file from before GGUF.",
        "file.gguf": "A GGUF file.",
        "file.git-lfs-pointer": "A pointer of Git LFS stands in place of the file it points to.",
        "file.gzip": "A gzip archive.",
        "file.hdf5": "An HDF5 file.",
        "file.html": "A web page stands in place of the file: a log-in, or an error page.",
        "file.json": "A JSON document that is no shard index: perhaps the error of a server.",
        "file.keras": "A Keras model, a zip archive around an HDF5 file.",
        "file.lz4": "An LZ4 stream.",
        "file.onnx": "An ONNX model.",
        "file.pickle": "A Python pickle, which can run code when it is loaded. It is not.",
        "file.rar": "A rar archive.",
        "file.tar": "A tar archive.",
        "file.tflite": "A TensorFlow Lite model.",
        "file.torch": "A torch checkpoint in a zip archive.",
        "file.torch-export": "A torch program from `torch.export`, in a zip archive.",
        "file.torch-index": "An index of torch checkpoints: its shards are pickles.",
        "file.torch-legacy": "A torch checkpoint of the old stream format.",
        "file.torchscript": "A TorchScript program: code and weights in a zip archive.",
        "file.unknown": "The first bytes are those of no format that is known.",
        "file.xml": "An XML document: perhaps the error of an object store.",
        "file.xz": "An xz archive.",
        "file.zeros": "The file begins with nothing but zeros: an unfinished download.",
        "file.zip": "A zip archive of something else.",
        "file.zstd": "A zstd stream.",
        "file.ztensor-old": "A zTensor file of version 0 or 1; version 2 is another format.",
        # by the classes of errors
        "generation": "The file has no such generation.",
        "inputs": "Uses change the input of a parameter in a way that no weight makes up for.",
        "length": "The file is shorter than it was asked to be taken.",
        "invalid-input": "The caller asked for something that cannot be done.",
        "limit": "A cap of this library was reached, not one of the format.",
        "malformed": "The file breaks its format.",
        "no-match": "A pattern of names matches nothing: a slip, more often than not.",
        "not-found": "There is no tensor, part or resource of that name.",
        "read-failed": "The system refused to open or read the file.",
        "unsupported": "The file is understood, but something that it needs is not supported.",
        # what was asked for
        "align": "An alignment is a multiple of 4096 bytes.",
        "artifact-id": "The id of an artifact has 16 bytes.",
        "array": "numpy makes no array of what was given.",
        "attribute": "The value of an attribute cannot be stored in this format.",
        "axis": "The tensor has no such axis.",
        "block-size": "The blocks of this layout have another size.",
        "buffer": "The buffer is not plain, contiguous and of the right size.",
        "cast": "A cast goes from and to float types.",
        "checkpoint-rows": "The artifact does not hold all rows of a checkpoint's tensor.",
        "checkpoint-shape": "A tensor of the checkpoint has not the shape that is configured.",
        "closed": "The file was closed before.",
        "component": "The artifact has no such component, or it does not fit.",
        "compressed.bitmask": "The bitmask and the values of a compressed tensor do not fit.",
        "config": "The configuration of the model is missing, or does not fit.",
        "coords": "The arrays of indices do not describe a sparse tensor.",
        "data-shard": "A shard without a manifest is not a model by itself.",
        "device": "Arrays cannot be put on this device.",
        "dtype": "No storage type holds such elements without a conversion.",
        "duplicate": "A name or an entry is given twice.",
        "encode-code": "A code is larger than its bits allow.",
        "encode-divisor": "The format needs a divisor for the whole matrix.",
        "encode-method": "The format is not made by this method.",
        "encode-nonfinite": "A value that is not finite cannot be quantized.",
        "encode-scale": "A row or a group does not fit the range of its scale.",
        "encode-values": "The values do not fit the format that was asked for.",
        "encoding": "The encoding is none that is written.",
        "exists": "The target exists, and it was not asked to be replaced.",
        "file-name": "This system has no file of a name that the format allows.",
        "folder": "A folder is given that holds no model, or more than one.",
        "format": "There is no format of that name to save in.",
        "frame-size": "The size of a frame is out of range.",
        "frames": "The part would have more frames than one seek table holds.",
        "framework": "This module gives arrays of another framework.",
        "group-size": "The axis is not a whole number of groups.",
        "hadamard-signs": "The signs of the rotation do not fit the axis.",
        "hadamard-width": "The axis is not a whole number of rotation blocks.",
        "hot-profile": "This is no profile of hot tokens.",
        "import-encoding": "The checkpoint does not hold the parameter in the format to import.",
        "import-scales": "The imported scales do not fit the codes.",
        "index": "The index does not fit what is written.",
        "io": "A file is read by `auto`, `mmap` or `pread`.",
        "json": "A value has no JSON text.",
        "known": "A list of digests is not one, or does not fit the model.",
        "layout": "The tensor is not stored in the layout that was asked for.",
        "level": "The compression level is out of range.",
        "masks": "There is no such way to write masks.",
        "max-bytes": "A tensor does not fit into one file of that size.",
        "link": "A link is not amended in place: what it leads to may serve others.",
        "manifest": "A name or a shape has no place in a manifest.",
        "mask": "The mask does not keep the pattern of N in M.",
        "mask-values": "A mask holds something else than 0 and 1.",
        "masking": "There is no such way to apply masks.",
        "max-file-bytes": "The limit leaves no room for payload.",
        "name": "A name is given twice, or is not text.",
        "ninfer-object": "An object has not the bytes it was planned with.",
        "ninfer-payload": "The payload is not as long as it was planned.",
        "ninfer-range": "The range leaves the payload of the artifact.",
        "ninfer-set": "The directory is one of several files.",
        "ninfer-shape": "The shape does not fit the NInfer layout.",
        "no-auxiliary": "The use has no such auxiliary.",
        "no-object": "The artifact has no object of that name.",
        "no-parameter": "The artifact has no parameter of that name.",
        "no-root": "The model has no shards, so there is no root.",
        "no-resource": "The artifact has no resource of that role.",
        "no-source": "No checkpoint that was given holds this.",
        "no-tensor": "The file holds no tensor of that name.",
        "not-a-file": "The path is no regular file: a folder, a pipe, a device.",
        "not-a-folder": "The path is no folder.",
        "not-canonical": "The `.zt` is not canonical, so it is not signed as a file.",
        "not-finite": "Only finite values are quantized.",
        "not-ninfer": "Parameters exist in NInfer artifacts alone.",
        "not-zt": "Canonical form exists for `.zt` alone.",
        "not-tensorbit": "The file is no Tensorbit model.",
        "object-size": "The bytes are not those of the object.",
        "option": "The target format does not take this option.",
        "parameter-shape": "The parts of a parameter do not cover its shape.",
        "part": "The tensor has several parts, and none was chosen.",
        "parameters": "The components call for more parameters than are looked at.",
        "passphrase": "The key is encrypted and the passphrase is missing or wrong, or not wanted.",
        "pattern": "This is no pattern of N in M.",
        "position": "A file is written from front to back.",
        "quantized-blob": "Only an index can say that a blob is quantized.",
        "range": "The part has no such range.",
        "raw": "The part is not encoded, so there is nothing to decode.",
        "recipe": "The recipe of the conversion is wrong or incomplete.",
        "recipe-format": "The parameter cannot be stored in the format that the recipe chooses.",
        "replace": "A replacement is written as ROLE=FILE.",
        "resource": "Several components have a resource of this role, and none was chosen.",
        "rows": "The object has no such rows.",
        "same-file": "The target is the source: inputs are never written.",
        "scores": "Scores are real numbers, and none is NaN.",
        "scale": "The scales do not fit the values.",
        "scipy-format": "Of scipy's formats, CSR and COO are stored.",
        "shape": "That is no shape, or no kernel takes it.",
        "sharded": "The model is split over files, and this needs a single one.",
        "size": "This is no size, or no whole number of bytes.",
        "slice": "This is no index, or it does not fit the shape.",
        "span": "A byte range has a negative offset or length.",
        "stream": "A tensor is being fed, and another one was begun.",
        "stream-length": "The bytes fed are not as many as shape and type say.",
        "target": "The format or the suffix of the target is none that is written.",
        "threads": "At least one thread must read.",
        "too-many-shards": "The model has more shards than this process may open.",
        "masked": "A masked array would lose its mask.",
        "torch-layout": "The torch tensor is sparse, or laid out in another way that is not kept.",
        "torch-meta": "The torch tensor lies on the device `meta`: it has no values.",
        "torch-type": "What is given for a tensor is none, or of a subclass that may be more.",
        "torch-values": "torch does not give the values of the tensor.",
        "type": "This layout has no such element type.",
        "usage": "The command line is wrong.",
        "word": "The codes do not fill whole words.",
        # what is not supported, or not proven
        "base": "Only a `.zt` can be the base of an overlay.",
        "bundle": "The OpenSSF bundle is of a kind that is not read.",
        "checkpoint-type": "The tensor is quantized in a way that is not known.",
        "decoded-size": "The array would be larger than what may be allocated.",
        "encode-format": "The format is not made from floats.",
        "gguf-blocks": "The blocks of this GGUF type are kept, but not made into numbers.",
        "key-kind": "The key is of a kind that is not used for this.",
        "mask-pattern": "A mask that was given does not keep N of each M weights.",
        "mask-disagrees": "Weights under clear bits of the mask are not zero.",
        "memory": "There is not enough memory.",
        "metadata": "Attributes of a file of this format are not changed.",
        "mixed-parts": "A parameter joins integers and floats.",
        "ninfer-altered": "The `.zt` no longer carries the artifact that it was made from.",
        "ninfer-strays": "Bytes between objects are not zero, and a `.zt` has no place for them.",
        "ninfer-version": "The artifact is of a NInfer version that is not read.",
        "no-cryptography": "cryptography is not installed.",
        "no-digest": "A part carries no digest, so nothing stands for its content.",
        "no-model-signing": "model-signing is not installed, or does not load.",
        "no-scipy": "scipy is not installed.",
        "no-torch": "torch is not installed.",
        "npz-only": "The array is stored in an order or a stream that only an npz has.",
        "no-zero": "A sparse tensor is of a type that has no zero for the cells it leaves out.",
        "numpy-shape": "numpy holds no array of this shape.",
        "quantized": "The tensor is quantized: dense values would be other numbers.",
        "refused": "The target format cannot hold some tensors; nothing was written.",
        "sources": "Nothing was named to be joined.",
        "unmatched": "There is no telling which blob belongs to which entry of an index.",
        "scipy": "scipy holds no tensor of this kind.",
        "torch-dtype": "torch has no such type.",
        "torch-shape": "torch holds no tensor of this shape.",
        "unknown-algorithm": "The digest is of an algorithm that is not known, and not checked.",
        "unknown-architecture": "The architecture is not known, nor are its parameters.",
        "unknown-auxiliary": "The role of an auxiliary is not known.",
        "unknown-encoding": "The part is stored under an encoding that is not known.",
        "unknown-layout": "The layout is not known, so the parts are not made into values.",
        "unknown-type": "The logical type is not known, so its bytes are not made into values.",
        "weak-digest": "The digest of a shard is not cryptographic, so nothing is signed with it.",
        # files and the system
        "changed": "The file was changed while it was open.",
        "document": "A seal, a signature or a bundle is malformed, or was changed.",
        "key": "The file is no key in PEM.",
        "locked": "Another process is writing this file.",
        "missing-file": "There is no such file.",
        "forbidden": "The system does not let us read this file.",
        "missing-folder": "There is no such folder.",
        "missing-resource": "A file that goes with the model is not there.",
        "missing-shard": "A file that the model needs is not there.",
        "no-space": "The disk has no room.",
        "not-durable": "The new file stands, but a power cut may undo that.",
        "seal-content": "The content digest of a seal is not that over the digests of its parts.",
        "seal-file": "A file is missing, does not open, or is not the one that was sealed.",
        "seal-payload": "The payload of a tensor is not what was sealed.",
        "seal-rest": "Bytes outside of plain tensors, such as a header, are not what was sealed.",
        "seal-tensor": "A tensor is missing, new, or of another shape or type than was sealed.",
        "short-read": "The file ends before the bytes that were asked for.",
        "signature-differs": "A file, a shard or a tensor is not what was signed.",
        "signature-invalid": "The signature is not one of the trusted key over its statement.",
        "signature-key": "Another key than the trusted one signed.",
        "signature-missing": "Something that was signed is not there.",
        "signature-name": "The file was signed under another name.",
        "signature-swapped": "A file lies under the name of another one that was signed.",
        "unsafe-link": "A link leads out of the folder of the model.",
        "unsafe-name": "A name found in a file is not a plain file name.",
        "url": "A URL was given; only files are read.",
        "weak-key": "Anybody can sign for the public key, or it is not canonically encoded.",
        "write-failed": "The system refused to write.",
        "wrong-shard": "The file under the name of a shard is another one.",
    }
)


_OF_CONTENT: Final = {"ninfer": "NInfer v3", "npz": "npz", "tb": "Tensorbit"}
"""Whose rules those are by which no format judges when it is opened, by how their ids begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What is known of a code: a rule of a format, or an error."""

    code: str
    requirement: str
    section: str = ""
    stage: str = ""
    format: str = ""
    example: str = ""

    @property
    def is_rule(self) -> bool:
        """Whether this is a rule of a format."""
        return bool(self.stage)


def explain(code: str) -> Explanation | None:
    """Return what is known of a code; None when there is no such code."""
    return next((each for each in everything() if each.code == code), None)


def everything() -> Iterator[Explanation]:
    """Yield every rule, those of opening in their order of judging, then every other code."""
    yield from _rules().values()
    for code, meaning in CODES.items():
        yield Explanation(code=code, requirement=meaning)


@cache
def _rules() -> Mapping[str, Explanation]:
    from tensorark.formats import FORMATS

    examples = _examples()
    titles = {rule.id: each.title for each in reversed(FORMATS) for rule in each.rules}
    judged = {rule.id: rule for each in FORMATS for rule in each.rules}
    return MappingProxyType(
        {
            rule.id: Explanation(
                code=rule.id,
                requirement=rule.requirement,
                section=rule.section,
                stage=rule.stage,
                format=titles.get(rule.id) or _OF_CONTENT.get(rule.id.split(".")[0], "payload"),
                example=examples.get(rule.id, ""),
            )
            for rule in (judged | {rule.id: rule for rule in all_rules()}).values()
        }
    )


def _examples() -> dict[str, Any]:
    """Return messages that files of the conformance corpus gave, made by tools/cli_reference.py."""
    import json

    text = files("tensorark.report").joinpath("examples.json").read_text("utf-8")
    found: dict[str, Any] = json.loads(text)
    return found
