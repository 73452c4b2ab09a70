"""mkdocs' hooks: API pages, pages made of files outside docs/, and links to those files.

In the repository a page links to sources and headers by their paths. On the site a header is a section of the API reference, and any
other file that a page links to is a page that shows it.
"""
import os
import pathlib
import posixpath
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import reference  # noqa: E402
from mkdocs.structure.files import File  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINK = re.compile(r"(\]\()([^)\s#:]+)(#[^)\s]*)?(\))")
FENCE = re.compile(r"(^```.*?^```[^\n]*$)", re.DOTALL | re.MULTILINE)
# Pages that are files outside docs/.
MIRRORS = {"readme.md": "README.md", "benchmarks.md": "bench/README.md", "contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}
LANGUAGES = {".cpp": "cpp", ".h": "cpp", ".py": "python", ".sh": "bash", ".toml": "toml"}

shown = {}  # Path of a source that is shown → its page.
headers = set()
places = {}  # Page → path of its file in the repository.


def on_files(files, config):
    found = reference.Reference(os.environ["SITE_XML"])
    headers.update(found.headers)
    for room in found.rooms():
        add(files, config, f"api/{room.replace('/', '-')}.md", found.page(room))
    add(files, config, "api/index.md", index(found))
    for page, path in MIRRORS.items():
        places[page] = path
        add(files, config, page, (ROOT / path).read_text())
    for example in sorted(ROOT.glob("examples/*/main.cpp")):
        show(example.parent.relative_to(ROOT).as_posix())
    for file in list(files.documentation_pages()):
        places.setdefault(file.src_uri, f"docs/{file.src_uri}")
        if file.src_uri.startswith("api/"):
            continue
        for _, target, _, _ in LINK.findall(FENCE.sub("", file.content_string)):
            resolve(file.src_uri, target)
    for path, page in shown.items():
        add(files, config, page, source_page(path))
    return files


def add(files, config, uri, content):
    files.append(File.generated(config, uri, content=content))


def index(found):
    lines = ["# API reference", "", "Every public header, by room (see [architecture](../architecture.md)). Names are in namespace `tessera` unless they say otherwise.", "",
             "| room | headers |", "|---|---|"]
    for room, paths in found.rooms().items():
        names = ", ".join(f"[{pathlib.PurePath(path).stem}]({room.replace('/', '-')}.md#{reference.anchor_of(path)})" for path in paths)
        lines.append(f"| [{room}]({room.replace('/', '-')}.md) | {names} |")
    return "\n".join(lines)


def show(path):
    shown[path] = f"source/{path}.md" if not path.startswith("examples/") else f"examples/{path.split('/')[1]}.md"
    return shown[path]


def resolve(page, target):
    """The site's address of what a page links to; None for pages and pictures, which mkdocs knows."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(places[page]), target))
    if path.startswith("docs/") and (path.endswith((".md", ".svg", ".png")) or not (ROOT / path).exists()):
        return None if places[page].startswith("docs/") else path.removeprefix("docs/")
    for mirror, origin in MIRRORS.items():
        if path == origin:
            return mirror
    if path == "README.md":
        return "index.md"
    if path.startswith("src/") and path.removeprefix("src/") in headers:
        header = path.removeprefix("src/")
        return f"{reference.page_of(header)}#{reference.anchor_of(header)}"
    if path.startswith("src/tessera/") and (ROOT / path).is_dir():
        return reference.page_of(f"{path.removeprefix('src/')}/any.h")
    if path.startswith("examples/"):
        return show("/".join(path.split("/")[:2]))
    if (ROOT / path).is_file():
        return show(path)
    return None  # mkdocs complains.


def on_page_markdown(markdown, page, config, files):
    uri = page.file.src_uri
    if uri not in places or uri.startswith(("api/", "source/", "examples/")):
        return markdown

    def changed(match):
        address = resolve(uri, match[2])
        if address is None:
            return match[0]
        page_part, _, anchor = address.partition("#")
        relative = posixpath.relpath(page_part, posixpath.dirname(uri) or ".")
        return f"{match[1]}{relative}{match[3] or (anchor and '#' + anchor)}{match[4]}"

    pieces = FENCE.split(markdown)
    return "".join(piece if FENCE.match(piece) else LINK.sub(changed, piece) for piece in pieces)


def source_page(path):
    if path.startswith("examples/"):
        return example_page(path)
    text = (ROOT / path).read_text()
    return f"# {path}\n\n`````{LANGUAGES.get(pathlib.PurePath(path).suffix, 'text')}\n{text}\n`````\n"


def example_page(path):
    folder = ROOT / path
    code = (folder / "main.cpp").read_text()
    parts = [f"# Example: {folder.name}", "", f"A project of its own in `{path}`, for an installed Tessera. The tests compile and run its program.", ""]
    for name in ("main.cpp", "CMakeLists.txt", "expected.txt"):
        if (folder / name).exists():
            text = code if name == "main.cpp" else (folder / name).read_text()
            parts += [f"## {name}", "", f"`````{ {'main.cpp': 'cpp', 'CMakeLists.txt': 'cmake'}.get(name, 'text') }", text.rstrip(), "`````", ""]
    return "\n".join(parts)
