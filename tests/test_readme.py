"""README.md says what the records and the command line say."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

from rollpe.cli import cli

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()


def test_the_results_table_shows_the_committed_records():
    check = subprocess.run(
        [sys.executable, "workflow/readme.py", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert check.returncode == 0, check.stderr


def test_every_command_in_the_readme_exists_with_its_options():
    commands = re.findall(r"^\s*(?:\.venv/bin/)?rollpe ([^#\n`]+)", README, flags=re.MULTILINE)
    assert len(commands) >= 5
    for line in commands:
        words = shlex.split(line)
        command = cli
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]
        assert command is not cli, line
        known = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("-") and not word.lstrip("-").isdigit()} <= known, (
            line
        )


def test_every_file_the_readme_links_to_exists():
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target
