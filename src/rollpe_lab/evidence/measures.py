"""Tables of measures: one row an arm, one column a scope of conditions."""

from __future__ import annotations

from collections.abc import Mapping

from rollpe_lab.evidence.conditions import Evidence, NotMeasured, Scope
from rollpe_lab.evidence.families import NO_BREAK
from rollpe_lab.files import markdown


def measured(evidence: Evidence, scope: str, arm: str) -> str:
    """Mean over runs and its 95 % interval, or "not measured".

    scope: a recipe and perhaps a measure, as in conditions: ``order neighbors``.
    """
    at = Scope(scope, evidence)
    try:
        s = at.summary(arm)
    except NotMeasured:
        return "not measured"
    digits = 1 if at.measure.unit == "points" else 2
    spread = f" [{s.low:.{digits}f}, {s.high:.{digits}f}]" if s.n > 1 else ""
    return f"{s.mean:.{digits}f}{spread}".replace("-", "−").replace(" ", NO_BREAK)


def measures_table(
    evidence: Evidence, arms: Mapping[str, str], scopes: Mapping[str, str], head: str = "encoding"
) -> str:
    """A table of `measured`: a row for each labeled arm, a column for each titled scope, then the runs.

    The number of runs is that of the first scope's recipe.
    """
    rows = [[head, *scopes, "runs"]]
    for label, arm in arms.items():
        runs = len(Scope(next(iter(scopes.values())), evidence).runs(arm))
        rows.append([label, *(measured(evidence, scope, arm) for scope in scopes.values()), str(runs)])
    return markdown(rows)
