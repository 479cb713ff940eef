"""`python -m umbel.operator`: keeps every Federation of the hub it runs on."""

from __future__ import annotations

import sys

from umbel.operator.process import main

if __name__ == "__main__":
    sys.exit(main())
