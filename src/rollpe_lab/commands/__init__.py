"""The verbs of ``rollpe`` that train, read and time runs: options, help and printed output."""
