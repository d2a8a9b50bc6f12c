"""The demonstration behind `make demo`: a published model goes to `.zt` and back, unchanged.

Owns the folder `demo/`. Every step is a `tark` command that is printed before it runs, so that it
can be repeated by hand; the first one that fails ends the demonstration. Needs the run-time
dependencies alone. Must never install the package that the model is taken from, nor run its code.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
DEMO = ROOT / "demo"
TARK = Path(sysconfig.get_path("scripts")) / "tark"

PACKAGE = ROOT / "requirements" / "demo.lock"
MEMBER = "silero_vad/data/silero_vad_16k.safetensors"
SHA256 = "c59271c284ae9c8335d795d60e0bfdb71aaaceec578d9bd9ffc1b8153c319ea1"


class DemoFailed(Exception):
    """A step did not do what it promises; the message says which."""


def main() -> int:
    """Run the demonstration and return its exit code."""
    DEMO.mkdir(exist_ok=True)
    try:
        model = published_model() or made_up_model()
        show_round_trip(model)
    except DemoFailed as failure:
        print(f"\ndemo: FAILED: {failure}", file=sys.stderr)
        return 1
    return 0


def show_round_trip(model: Path) -> None:
    """Convert, look, check, convert back and compare."""
    archive = DEMO / f"{model.stem}.zt"
    back = DEMO / f"{model.stem}.back.safetensors"
    for made in (archive, back):
        made.unlink(missing_ok=True)

    tark("to zTensor, in canonical form", "convert", model, "-o", archive)
    tark("what is in it", "ls", archive)
    tark("every digest, against every byte", "verify", archive)
    tark("the name of the content, whatever file it is in", "id", archive)
    tark("back to safetensors", "convert", archive, "-o", back)
    tark("the .zt holds the same tensors as the original", "diff", model, archive)
    tark("and so does the copy that came back", "diff", model, back)

    print("\nNothing was lost on the way. The files:")
    for path in (model, archive, back):
        print(f"  {path.stat().st_size:>9,} bytes  {shown(path)}")


def tark(purpose: str, *arguments: str | Path) -> None:
    """Print one `tark` command under its purpose and run it; fail when it fails."""
    words = [str(shown(word)) if isinstance(word, Path) else word for word in (TARK, *arguments)]
    print(f"\n# {purpose}\n$ {shlex.join(words)}", flush=True)
    try:
        code = subprocess.run(words, cwd=ROOT, check=False).returncode
    except OSError as error:
        raise DemoFailed(f"{words[0]} cannot be run: {error}") from error
    if code != 0:
        raise DemoFailed(f"`tark {words[1]}` ended with exit code {code}")


def shown(path: Path) -> Path:
    """Return a path as it is typed in the project's folder."""
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path


def published_model() -> Path | None:
    """Fetch the model, or return None when the package index cannot be reached."""
    model = DEMO / Path(MEMBER).name
    if model.is_file() and digest(model.read_bytes()) == SHA256:
        print(f"The model is here already: {shown(model)}")
        return model

    requirement = PACKAGE.read_text().splitlines()[1].split()[0]
    print(f"Downloading {requirement} for the model inside it (11 MB) ...", flush=True)
    reason = download()
    if reason is not None:
        print(f"The download is NOT possible here:\n  {reason}")
        return None

    (wheel,) = DEMO.glob("silero_vad-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        content = archive.read(MEMBER)
    wheel.unlink()
    if digest(content) != SHA256:
        raise DemoFailed(f"{MEMBER} is not the pinned file: its sha256 is {digest(content)}")
    model.write_bytes(content)
    print(f"Its sha256 is the pinned one: {SHA256}")
    return model


def download() -> str | None:
    """Download the wheel by its hash; return None, or why it could not be had."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary=:all:", "--retries=1", "--timeout=20"]
    command += ["--require-hashes", "-r", str(PACKAGE), "-d", str(DEMO)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    except subprocess.TimeoutExpired:
        return "no answer within five minutes"
    if done.returncode == 0:
        return None
    if "DO NOT MATCH THE HASHES" in done.stderr:
        raise DemoFailed(f"the package served is not the pinned one:\n{done.stderr}")
    errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
    return errors[-1] if errors else f"pip ended with exit code {done.returncode}"


def made_up_model() -> Path:
    """Write a small safetensors file of seeded random numbers, by nothing but its format."""
    model = DEMO / "made_up.safetensors"
    random = np.random.default_rng(20260101)
    tensors: dict[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]] = {
        "embed.weight": random.standard_normal((512, 64), np.float32),
        "layer.weight": random.standard_normal((64, 64), np.float32).astype(np.float16),
        "layer.mask": random.integers(0, 2, (64, 64)).astype(np.bool_),
        "steps": np.array(1000, np.int64),
    }
    names = {"float32": "F32", "float16": "F16", "bool": "BOOL", "int64": "I64"}
    header: dict[str, object] = {
        "__metadata__": {"origin": "made up by the tensorark demonstration"}
    }
    end = 0
    for name, array in tensors.items():
        start, end = end, end + array.nbytes
        dtype = names[array.dtype.name]
        header[name] = {"dtype": dtype, "shape": array.shape, "data_offsets": (start, end)}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    payload = b"".join(
        array.astype(array.dtype.newbyteorder("<")).tobytes() for array in tensors.values()
    )
    model.write_bytes(len(text).to_bytes(8, "little") + text + payload)
    print(f"Going on with a made-up model instead: {shown(model)}")
    return model


def digest(content: bytes) -> str:
    """Return the sha256 of bytes, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
