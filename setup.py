"""The long description and the addresses of the package: what pyproject.toml cannot say by itself.

The sources do not know where they are published. CI says it (GITHUB_SERVER_URL, GITHUB_REPOSITORY), otherwise
git's remote ``origin``; an unpacked source distribution keeps what it was built with. With an address,
relative links of README.md become absolute; without one they become plain text: no dead link is published.
"""

import os
import re
import subprocess
from email.parser import Parser
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).resolve().parent
REMOTE = re.compile(
    r"(?:(?:https|ssh)://(?:[^@/\s]+@)?|[\w.-]+@)([\w.-]*git(?:hub|lab)[\w.-]*)[:/]([\w.-]+/[\w./-]+?)(?:\.git)?/?"
)
CODE, COMMENT = r"^```.*?^```|`[^`\n]+`", r" ?<!--.*?-->"
LINK = r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)"


def address(remote: str) -> str:
    """The page of a repository on GitHub or GitLab, without a user's name or token; "" for other remotes."""
    found = REMOTE.fullmatch(remote.strip())
    return f"https://{found[1]}/{found[2]}" if found else ""


def repository() -> str:
    """The page of this repository; "" if it has none."""
    if "GITHUB_REPOSITORY" in os.environ:
        return f"{os.environ['GITHUB_SERVER_URL']}/{os.environ['GITHUB_REPOSITORY']}"
    if not (ROOT / ".git").exists():  # else git would answer for a repository around this folder
        return ""
    try:
        command = ["git", "remote", "get-url", "origin"]
        return address(subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout)
    except OSError:
        return ""


def long_description(readme: str, url: str, ref: str) -> str:
    """README.md without its comments, and without relative links: absolute below ``url``, or plain text."""

    def replace(found: re.Match[str]) -> str:
        image, text, target = found["image"], found["text"], found["target"]
        if text is None:  # code stays, a comment goes
            return "" if found[0].lstrip().startswith("<!--") else found[0]
        if re.match(r"[a-z]+:", target):
            return found[0]
        path = f"README.md{target}" if target.startswith("#") else target
        return f"{image}[{text}]({url}/{'raw' if image else 'blob'}/{ref}/{path})" if url else text

    return re.sub(f"{CODE}|{COMMENT}|{LINK}", replace, readme, flags=re.DOTALL | re.MULTILINE)


if __name__ == "__main__":
    built = ROOT / "PKG-INFO"  # of a source distribution
    if built.exists():
        known = Parser().parsestr(built.read_text(encoding="utf-8"))
        text = known.get_payload()
        urls = dict(line.split(", ", 1) for line in known.get_all("Project-URL"))
    else:
        url, ref = repository(), "main"
        if os.environ.get("GITHUB_REF_TYPE") == "tag":
            ref = os.environ["GITHUB_REF_NAME"]
        text = long_description((ROOT / "README.md").read_text(encoding="utf-8"), url, ref)
        urls = {"Paper": "https://arxiv.org/abs/2511.11668"}
        if url:
            urls |= {"Repository": url, "Issues": f"{url}/issues"}
            urls |= {"Changelog": f"{url}/blob/{ref}/CHANGELOG.md"}
    setup(long_description=text, long_description_content_type="text/markdown", project_urls=urls)
