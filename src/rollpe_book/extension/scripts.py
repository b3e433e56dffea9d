"""The scripts of the site: bundles of book/scripts, made by the workflow, and their sources to read.

Markup says what it needs: only a page with ``data-script="runs"`` in it loads the bundle runs.js, and its
style sheet where the bundle has one. Data that scripts fetch are kept by
rollpe_book.extension.site.write_data.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.config import Config

from rollpe_book.extension.site import is_site, project_root


def find_bundles(app: Sphinx, config: Config) -> None:
    """Let the site serve the bundles."""
    bundles = project_root(app) / "_build/scripts"
    if bundles.is_dir():
        config.html_static_path.append(str(bundles))


def load_bundles(app: Sphinx, pagename: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Let a page load what its markup asks for."""
    for name in sorted(set(re.findall(r'data-script="(\w+)"', context.get("body") or ""))):
        if is_site(app) and (project_root(app) / f"_build/scripts/{name}.js").is_file():
            app.add_js_file(f"{name}.js", loading_method="defer")
            if (project_root(app) / f"_build/scripts/{name}.css").is_file():
                app.add_css_file(f"{name}.css")


def copy_files(app: Sphinx, exception: Exception | None) -> None:
    """Put into the site the sources, to which figures link, and the data, also of pages read earlier."""
    keep_out = shutil.ignore_patterns("node_modules", "*.json")
    for folder, name in ((Path(app.srcdir, "scripts"), "source"), (Path(app.doctreedir, "data"), "data")):
        if exception is None and is_site(app) and folder.is_dir():
            target = Path(app.outdir, "_static", name)
            shutil.copytree(folder, target, ignore=keep_out, dirs_exist_ok=True)


def setup(app: Sphinx) -> None:
    app.connect("config-inited", find_bundles)
    app.connect("html-page-context", load_bundles)
    app.connect("build-finished", copy_files)
