"""Write the corpus of Tensorbit, or with --check compare it to what is committed."""

from __future__ import annotations

import argparse
import sys

from . import corpus


def main() -> int:
    """Return 0, or 1 if --check found a difference."""
    parser = argparse.ArgumentParser(prog="conformance.build.tensorbit", description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare and write nothing")
    if not parser.parse_args().check:
        sys.stdout.write(f"{corpus.write()} files written\n")
        return 0
    found = corpus.problems()
    sys.stdout.writelines(f"{line}\n" for line in found)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
