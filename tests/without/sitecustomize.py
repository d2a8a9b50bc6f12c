"""Lets every process lack what only some systems, or installations, have; see `make without`.

TENSORARK_WITHOUT names what is to be absent, separated by spaces: modules, which cannot be
imported, and ``os.NAME``, which `os` has not.
"""

import os
import sys

for _name in os.environ.get("TENSORARK_WITHOUT", "").split():
    _of_os = _name.removeprefix("os.")
    if _of_os == _name:
        sys.modules[_name] = None  # type: ignore[assignment]
    elif hasattr(os, _of_os):
        delattr(os, _of_os)
