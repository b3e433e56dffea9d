"""The lab: from a recipe to a run, a record and a table. It imports the library, ``rollpe``."""
