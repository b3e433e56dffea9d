"""The checks of every displayed equation of the book.

    run_checks(labels=None, seed=0)   → list of CheckResult
    write_report(path)                → _build/equations.json, which the book reads for its badges
    EQUATIONS["eq-roll"]              → label, page, source, implements, tolerance

One module to a subject, one function to an equation. If a source is wrong, the corrected equation is
checked, and a second entry (its label ends in -printed) checks that the printed one fails.
"""

from importlib import import_module

from rollpe_book.equations.registry import EQUATIONS, CheckResult, run_checks, write_report

for subject in (
    *("order", "sinusoids", "relative", "rotary", "rolling", "continuous", "rope"),
    *("twin", "multiplexed", "axes", "topography", "text"),
):
    import_module(f"{__name__}.{subject}")  # registers its equations

__all__ = ["EQUATIONS", "CheckResult", "run_checks", "write_report"]
