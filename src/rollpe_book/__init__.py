"""The book: equations and their checks, figures, chapters and the Sphinx extension; built from a clone."""
