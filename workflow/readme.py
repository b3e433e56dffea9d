"""Write the results table of README.md from the committed records.

Run by ``make readme``. tests/workflow/test_readme.py compares.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rollpe_lab.evidence.table import LARGE, recipe_with_runs, results_table
from rollpe_lab.records import Record, read_records

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
BEGIN = "<!-- results: written by `make readme` from data/records; tests compare it with the records -->\n"
END = "<!-- end of results -->"
LOWER, NARROW = ("short@learning_rate=0.00025",), ("mini-paper",)
SCALES = {  # of these recipes the first that has runs, and the words above its table
    NARROW: "The paper's depth and class token, 96 channels in place of 384, {epochs} epochs on two "
    "processor cores (`plans/ladder-5-paper.yaml`). Compare down a column, not across:",
    LARGE: "The paper's ViT-S/4 on CIFAR-100, {epochs} epochs (recipe `{recipe}`):",
    LOWER: "At a lower learning rate (recipe `{recipe}`), the best for multiplexed RollPE:",
}


def tables(records: Sequence[Record]) -> str:
    """The Markdown between the two marks."""
    parts = []
    for wanted, words in SCALES.items():
        table = results_table(records, recipe_with_runs(records, wanted))
        title = words.format(epochs=table.epochs, recipe=table.recipe)
        parts.append(f"{title}\n\n{table.to_markdown()}\n" if table.measured else f"{title} not run yet.\n")
    return "\n" + "\n".join(parts) + "\n"


def updated(text: str) -> str:
    """README's text with the present tables."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    records = read_records(ROOT / "data/records")
    return before + BEGIN + tables(records) + END + after


if __name__ == "__main__":
    README.write_text(updated(README.read_text()))
