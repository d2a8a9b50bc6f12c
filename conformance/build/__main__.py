"""Write the corpora, or with --check compare them to what is committed."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

if not __package__:  # started as `python conformance/build`: find the package this file belongs to
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from conformance.build import corpora


def main() -> int:
    """Return 0, or 1 if --check found a difference."""
    parser = argparse.ArgumentParser(prog="conformance.build", description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare and write nothing")
    every = corpora().values()
    if not parser.parse_args().check:
        changed = sum(each.write() for each in every)
        sys.stdout.write(f"{changed} files written\n")
        return 0
    found = [line for each in every for line in each.problems()]
    sys.stdout.writelines(f"{line}\n" for line in found)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
