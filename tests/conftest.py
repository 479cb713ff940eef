from __future__ import annotations

import warnings

# Typer uses names that Click has deprecated: not ours to mend, and only told at the first import.
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import typer  # noqa: F401
