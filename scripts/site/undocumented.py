"""undocumented.py XML-FOLDER: the public names that no comment describes, one per line; exit status 1 if there are any.

Not every declaration is a name: constructors and destructors are part of their class, operators mean what they always mean, deleted
functions cannot be used, overloads share one comment, and the comment of an enum is that of its values.
"""
import pathlib
import sys
import xml.etree.ElementTree as tree

from reference import line_of, text_of


def is_described(element):
    return any(text_of(element.find(part)) for part in ("briefdescription", "detaileddescription"))


def is_name(member, owner):
    name = text_of(member.find("name"))
    return not (name.startswith(("operator", "~", "@")) or name == owner or member.get("kind") == "friend"
                or text_of(member.find("argsstring")).replace(" ", "").endswith("=delete"))


def names_of(compound):
    """Name → element, of a class and of what is in it, or in a namespace. Of overloads, one that is described."""
    full = text_of(compound.find("compoundname"))
    owner = full.split("<")[0].split("::")[-1]
    names = {}
    if compound.get("kind") != "namespace":
        names[full] = compound
    for member in compound.iter("memberdef"):
        if member.get("prot") == "private" or not is_name(member, owner):
            continue
        name = f"{full}::{text_of(member.find('name'))}"
        if name not in names or is_described(member):
            names[name] = member
    return names


def main(folder):
    missing = set()
    for file in pathlib.Path(folder).glob("*.xml"):
        if not file.name.startswith(("class", "struct", "union", "namespace")):
            continue
        for compound in tree.parse(file).iter("compounddef"):
            if compound.get("prot") == "private":
                continue
            for name, element in names_of(compound).items():
                if not is_described(element):
                    missing.add((*line_of(element), name))
    for path, line, name in sorted(missing):
        print(f"{path}:{line}: {name}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
