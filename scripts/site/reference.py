"""API pages from Doxygen's XML: one page per room, one section per header, in the order of the sources."""
import html
import pathlib
import re
import xml.etree.ElementTree as tree

WORDS = {"nonbreakablespace": " ", "ndash": "–", "mdash": "—", "times": "×", "le": "≤", "ge": "≥", "sp": " ", "linebreak": "<br>"}
TAGS = {"para": "p", "computeroutput": "code", "bold": "strong", "emphasis": "em", "itemizedlist": "ul", "orderedlist": "ol",
        "listitem": "li", "superscript": "sup", "subscript": "sub", "blockquote": "blockquote", "table": "table", "row": "tr", "entry": "td"}


def text_of(element):
    """Its words, without marks."""
    return re.sub(r"\s+", " ", "".join(element.itertext())).strip() if element is not None else ""


def code_of(listing):
    lines = []
    for line in listing.iter("codeline"):
        for space in line.iter("sp"):
            space.text = " "
        lines.append("".join(line.itertext()))
    shared = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return "\n".join(line[shared:] for line in lines)


def inner(element):
    """The HTML of what an element of a description holds."""
    parts = [html.escape(element.text or "", quote=False)]
    for child in element:
        parts.append(node(child))
        parts.append(html.escape(child.tail or "", quote=False))
    return "".join(parts)


def node(element):
    if element.tag == "programlisting":
        return f"</p><pre><code>{html.escape(code_of(element), quote=False)}</code></pre><p>"
    if element.tag in ("verbatim", "preformatted"):
        return f"</p><pre><code>{html.escape(''.join(element.itertext()), quote=False)}</code></pre><p>"
    if element.tag in WORDS:
        return WORDS[element.tag]
    if element.tag in ("itemizedlist", "orderedlist"):
        return f"</p><{TAGS[element.tag]}>{inner(element)}</{TAGS[element.tag]}><p>"
    if element.tag in TAGS:
        return f"<{TAGS[element.tag]}>{inner(element)}</{TAGS[element.tag]}>"
    return inner(element)


def description(element):
    """The comment of a name, as HTML in one piece: a blank line would end it for Markdown."""
    parts = [inner(element.find(part)) for part in ("briefdescription", "detaileddescription") if element.find(part) is not None]
    words = re.sub(r"<p>\s*</p>", "", "".join(parts)).strip()
    return re.sub(r"\n\s*\n", "\n&#8203;\n", words)


def signature(member):
    kind, name = member.get("kind"), text_of(member.find("name"))
    kinds = {"typedef": "using ", "enum": "enum class " if member.get("strong") == "yes" else "enum "}
    if kind == "typedef":
        return tidy(f"using {name} = {text_of(member.find('type'))}")
    if kind == "enum":
        values = [text_of(value.find("name")) + (" " + text_of(value.find("initializer"))).rstrip() for value in member.iter("enumvalue")]
        return f"{kinds['enum']}{name} {{ {', '.join(values)} }}"
    template = ", ".join(" ".join(filter(None, (text_of(part.find("type")), text_of(part.find("declname"))))) for part in member.findall("templateparamlist/param"))
    words = (f"template <{template}> " if template else "") + ("static " if member.get("static") == "yes" and kind == "function" else "")
    words += f"{text_of(member.find('type'))} {name}".strip()
    words += text_of(member.find("argsstring"))
    if kind == "variable":
        words += (" " + text_of(member.find("initializer"))).rstrip()
    return tidy(words)


def values_of(enum):
    """The comments of an enum's values, as HTML; nothing if no value has one."""
    rows = [f"<dt><code>{html.escape(text_of(value.find('name')))}</code></dt><dd>{description(value)}</dd>"
            for value in enum.iter("enumvalue") if description(value)]
    return "<dl class=\"api\">" + "\n".join(rows) + "</dl>" if rows else ""


def tidy(words):
    """Doxygen's spaces as clang-format would set them."""
    words = re.sub(r"< ", "<", re.sub(r" >", ">", re.sub(r" ([&*])(?=\w|\))", r"\1 ", words)))
    words = re.sub(r"(?<=[\w)])=(?=[\w{\"])", " = ", words)
    return words.replace("& )", "&)").replace("  ", " ")


def line_of(element):
    place = element.find("location")
    return (place.get("file"), int(place.get("line"))) if place is not None else ("", 0)


class Reference:
    """Everything that Doxygen found, by header."""

    def __init__(self, folder):
        self.headers = {}  # Path below src/ → list of (line, kind, element).
        for file in sorted(pathlib.Path(folder).glob("*.xml")):
            if re.match(r"(class|struct|union)", file.name):
                compound = tree.parse(file).find("compounddef")
                if compound.get("prot") == "public":
                    self._add(compound)
            elif file.name.startswith("namespace"):
                for member in tree.parse(file).iter("memberdef"):
                    self._add(member)

    def _add(self, element):
        file, line = line_of(element)
        if file:
            self.headers.setdefault(file.removeprefix("src/"), []).append((line, element))

    def rooms(self):
        """Name of the page → its headers: one page per room, and per folder of parallel/, plan/ and dialect/."""
        rooms = {}
        for header in sorted(self.headers):
            rooms.setdefault(room_of(header), []).append(header)
        return rooms

    def page(self, room):
        parts = [f"# {room}: API reference\n", "[All rooms](index.md)\n"]
        for header in self.rooms()[room]:
            parts.append(f"\n## `{pathlib.PurePath(header).name}` {{ #{anchor_of(header)} }}\n\n`#include \"{header}\"`\n")
            for _, element in sorted(self.headers[header], key=lambda item: item[0]):
                parts.append(self._compound(element) if element.tag == "compounddef" else self._free(element))
        return "\n".join(parts)

    def _compound(self, compound):
        name = text_of(compound.find("compoundname")).removeprefix("tessera::")
        parts = [f"\n### `{compound.get('kind')} {name}` {{ #{slug(name)} }}\n", f"<div class=\"api\">{description(compound)}</div>\n"]
        members = [member for section in compound.findall("sectiondef") for member in section.findall("memberdef")]
        shown = [member for member in members if member.get("prot") == "public" and member.get("kind") != "friend"]
        shown.sort(key=line_of)
        if shown:
            rows = [f"<dt><code>{html.escape(signature(member))}</code></dt><dd>{description(member)}{values_of(member)}</dd>" for member in shown]
            parts.append("<dl class=\"api\">" + "\n".join(rows) + "</dl>\n")
        return "\n".join(parts)

    def _free(self, member):
        name = text_of(member.find("name"))
        return f"\n### `{name}` {{ #{slug(name)}-{line_of(member)[1]} }}\n\n<div class=\"api\"><pre><code>{html.escape(signature(member))}</code></pre>{description(member)}{values_of(member)}</div>\n"


def slug(name):
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "operator"


def room_of(header):
    parts = pathlib.PurePath(header).parts[1:-1]  # Without tessera/ and the file.
    deep = {"parallel", "plan", "dialect"}
    return "/".join(parts[:2] if parts and parts[0] in deep else parts[:1]) or "base"


def page_of(header):
    return f"api/{room_of(header).replace('/', '-')}.md"


def anchor_of(header):
    return slug("-".join(pathlib.PurePath(header).parts[1:]))
