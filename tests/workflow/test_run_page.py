"""The page "Run it yourself": its recipe and its plan run as printed, three steps each, in another folder."""

from __future__ import annotations

import re
import shlex

from rollpe.cli import main
from shared import ROOT

PAGE = (ROOT / "book/run.md").read_text(encoding="utf8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_a_recipe_and_a_plan_of_ones_own_run_in_any_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for text in blocks("yaml"):
        name = text.splitlines()[0].removeprefix("# ")
        (tmp_path / name).write_text(text.replace("epochs: 2", "epochs: 1\nmax_steps: 3"))
    (commands,) = (block for block in blocks("bash") if "mine-plan.yaml" in block)
    printed = {}
    for line in commands.splitlines():
        main(shlex.split(line)[1:])
        printed[line.partition(" --records mine")[0]], _ = capsys.readouterr()
    train, sweep, table, compare = printed.values()
    assert "mine/mine/axial-rope/seed-0.json" in train
    assert sweep.endswith("8 of 8 runs have a record\n"), "after the list, which has the same beginning"
    assert "`roll@width=7`" in table and "A − B over seeds" in compare
    assert len(list((tmp_path / "mine").rglob("seed-*.json"))) == 9
