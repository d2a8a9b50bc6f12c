"""`python -m tensorark` is `tark`."""

import sys

from tensorark.cli import main

if __name__ == "__main__":
    sys.exit(main())
