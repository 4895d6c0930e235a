"""What `make site` adds to MkDocs: README.md is the front page, and links into the repository work.

A page of docs/ may link to any file of the repository, as it does on a code host. Such a file becomes a page
of the site below `repository/`, a text with its Markdown and a program as it is, so that the site is whole
without the repository. MkDocs calls the functions (`hooks` in mkdocs.yml).
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^( *```.*?^ *```)", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(?<=\]\()(?![a-z]+:)([^)#\s]+)")
LANGUAGES = {".py": "python", ".yaml": "yaml", ".json": "json", ".sh": "bash", ".toml": "toml"}


def in_repository(uri: str) -> PurePosixPath:
    """The file of the repository that a page of the site was made from."""
    if uri == "index.md":
        return PurePosixPath("README.md")
    inside = uri.removeprefix("repository/")
    return PurePosixPath(inside if inside != uri else f"docs/{uri}")


def in_site(path: str) -> str:
    """The page of the site with a file or folder of the repository."""
    if path == "README.md":
        return "index.md"
    if path.startswith("docs/") and (ROOT / path).is_file() and not path.endswith(".py"):
        return path.removeprefix("docs/")
    if (ROOT / path / "README.md").is_file():
        path += "/README.md"
    return f"repository/{path}" if path.endswith(".md") else f"repository/{path}.md"


def target(link: str, page: PurePosixPath) -> str:
    return posixpath.normpath(page.parent / link)


def relink(text: str, uri: str) -> str:
    """A page's Markdown, with links that lead from where it is in the site to where their files are."""
    page, folder = in_repository(uri), posixpath.dirname(uri)

    def moved(match: re.Match[str]) -> str:
        return posixpath.relpath(in_site(target(match[1], page)), folder or ".")

    # Odd parts are fenced code.
    parts = FENCE.split(text)
    return "".join(part if number % 2 else LINK.sub(moved, part) for number, part in enumerate(parts))


def content(uri: str) -> str:
    """The Markdown of a page made from a file outside docs/."""
    path = ROOT / in_repository(uri)
    if path.is_file():
        # The front page has the tabs above it, and no other pages beside it.
        hidden = "---\nhide: [navigation]\n---\n\n" if uri == "index.md" else ""
        return hidden + relink(path.read_text(encoding="utf-8"), uri)
    path = path.with_suffix("")
    name = path.relative_to(ROOT).as_posix()
    if path.is_dir():
        names = sorted(found.name for found in path.iterdir() if found.name[0] not in "._")
        code, language = "\n".join(names), "text"
    else:
        code, language = path.read_text(encoding="utf-8"), LANGUAGES.get(path.suffix, "text")
    return f"---\nsearch:\n  exclude: true\n---\n\n# {name}\n\n~~~~{language}\n{code}\n~~~~\n"


def on_files(files: Files, config: Any, **_: Any) -> Files:
    wanted = ["index.md", "repository/CHANGELOG.md", "repository/CONTRIBUTING.md"]
    pages = [file.src_uri for file in files.documentation_pages()]
    seen = set(pages)
    while wanted or pages:
        for uri in wanted:
            seen.add(uri)
            files.append(File.generated(config, uri, content=content(uri)))
        pages += [uri for uri in wanted if (ROOT / in_repository(uri)).is_file()]
        wanted = []
        for uri in pages:
            page = in_repository(uri)
            text = FENCE.sub("", (ROOT / page).read_text(encoding="utf-8"))
            found = {in_site(target(link, page)) for link in LINK.findall(text)}
            wanted += sorted(uri for uri in found - seen - set(wanted) if uri.endswith(".md"))
        pages = []
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    outside = page.file.generated_by is not None
    return markdown if outside else relink(markdown, page.file.src_uri)
