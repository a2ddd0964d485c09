"""Mutations of the XML and weights of a model; all but those of kind `text` and `removal` keep the XML well-formed."""

import re
import struct
from collections import namedtuple

Site = namedtuple("Site", "kind name start end")

# Kinds of mutations and how often they are tried.
WEIGHTS = {
    "attribute": 14,
    "dimension": 6,
    "element type": 5,
    "weights": 5,
    "edge": 3,
    "offset": 3,
    "port": 2,
    "layer": 2,
    "removal": 2,
    "text": 1,
}
WORDS = ["", "0", "1", "-1", "2", "nonsense", "true", "false", "1,1", "1.5", "nan", "inf", "1e400", " 1 ", "9" * 20]
ELEMENT_TYPES = "f32 f16 bf16 f64 i32 i64 i16 i8 u8 u16 u32 u64 boolean u4 i4 u1 f8e4m3 string undefined dynamic".split()
EXTREMES = [0, 1, -1, 1 << 15, 1 << 31, (1 << 31) - 1, 1 << 32, (1 << 63) - 1, -(1 << 63), 1 << 63]


def kind_of(tag, name):
    """The kind of an attribute's value, None if it means nothing."""
    if tag == "data":
        return {"element_type": "element type", "shape": "dimension", "offset": "offset", "size": "offset"}.get(name, "attribute")
    if tag in ("edge", "port_map", "input", "output", "back_edges"):
        return "edge"
    return {"port": "port", "layer": "layer", "dim": "dimension"}.get(tag)


def sites(xml):
    """Where values stand, in attributes and between tags."""
    found = []
    for element in re.finditer(r"<([A-Za-z_]+)((?:\s+[^<>]*?)?)/?>([-0-9]*)", xml):
        tag = element[1]
        for attribute in re.finditer(r'([\w-]+)="([^"]*)"', element[2]):
            kind = kind_of(tag, attribute[1])
            start = element.start(2) + attribute.start(2)
            if tag == "rt_info" or kind is None:
                continue
            found.append(Site(kind, attribute[1], start, start + len(attribute[2])))
        if tag == "dim" and element[3]:
            found.append(Site("dimension", tag, element.start(3), element.end(3)))
    return found


def number(value, random):
    """One number of a value becomes a neighbour, a small or a huge one."""
    numbers = list(re.finditer(r"-?\d+", value))
    at = random.choice(numbers)
    old = int(at[0])
    near = [old + 1, old - 1, old * 2, old // 2, -old, 0, 1, random.randrange(8), old + random.randrange(64)]
    new = random.choice(EXTREMES) if random.random() < 0.1 else random.choice(near)
    return value[: at.start()] + str(new) + value[at.end() :]


def listed(value, random):
    """Drops, doubles or exchanges elements of a list."""
    parts = value.split(",")
    one, other = random.randrange(len(parts)), random.randrange(len(parts))
    how = random.randrange(3)
    if how == 0:
        parts.pop(one)
    elif how == 1:
        parts.insert(other, parts[one])
    else:
        parts[one], parts[other] = parts[other], parts[one]
    return ",".join(parts)


def changed(site, old, vocabulary, random):
    """Another value for a place."""
    if site.kind == "element type":
        return random.choice(ELEMENT_TYPES)
    others = sorted(vocabulary.get(site.name, {old}) - {old})
    roll = random.random()
    if re.search(r"\d", old) and roll < 0.55:
        return number(old, random)
    if "," in old and roll < 0.75:
        return listed(old, random)
    if site.kind == "dimension" and roll < 0.85:
        return random.choice(["?", "1..4", "?,?", "", "0", "1", "..3", "2.."])
    if others and roll < 0.9:
        return random.choice(others)
    return random.choice(WORDS)


def element(xml, random):
    """Removes or doubles an element without children, or removes an attribute."""
    if random.random() < 0.5:
        attributes = [m for m in re.finditer(r'\s[\w-]+="[^"]*"', xml) if not m[0].startswith((" names", " name"))]
        at = random.choice(attributes)
        return xml[: at.start()] + xml[at.end() :]
    elements = list(re.finditer(r"<(edge|input|output|port|dim)\b[^<>]*(/>|>\d*</\1>)", xml))
    if not elements:
        return xml
    at = random.choice(elements)
    return xml[: at.start()] + ("" if random.random() < 0.6 else at[0] * 2) + xml[at.end() :]


def damage(xml, random):
    """Any damage: what comes out is seldom well-formed."""
    at, length = random.randrange(len(xml)), random.randrange(1, 40)
    how = random.randrange(4)
    if how == 0:
        return xml[:at]
    if how == 1:
        return xml[:at] + xml[at + length :]
    if how == 2:
        return xml[:at] + xml[at : at + length] * 2 + xml[at + length :]
    return xml[:at] + random.choice(["<", ">", '"', "&", "\0", "&amp;", "<!--", "<![CDATA[", "é", "</layer>"]) + xml[at + 1 :]


def weights(data, random):
    """Another integer in the weights (shapes and indices are weights too), or a shorter file."""
    if not data or random.random() < 0.2:
        return data[: random.randrange(len(data) + 1)]
    word = 8 if len(data) >= 8 and random.random() < 0.7 else 1
    at = random.randrange(len(data) // word) * word
    value = random.choice([0, 1, -1, 2, 3, 7, -2, 1 << 20, 1 << 40, (1 << 63) - 1, -(1 << 63)])
    return data[:at] + struct.pack("<q", value)[:word] + data[at + word :]


def mutate(xml, data, vocabulary, random):
    """One or two mutations; returns texts and what was changed."""
    done = []
    for _ in range(random.choice([1, 1, 1, 2])):
        places = sites(xml)
        here = {site.kind for site in places} | {"weights", "removal", "text"}
        kind = random.choices(*zip(*((kind, weight) for kind, weight in WEIGHTS.items() if kind in here)))[0]
        if kind == "weights":
            data, what = weights(data, random), "weights"
        elif kind == "removal":
            xml, what = element(xml, random), "an element or attribute removed or doubled"
        elif kind == "text":
            xml, what = damage(xml, random), "text"
        else:
            site = random.choice([site for site in places if site.kind == kind])
            old = xml[site.start : site.end]
            new = changed(site, old, vocabulary, random)
            xml, what = xml[: site.start] + new + xml[site.end :], f"{site.name} {old!r} -> {new!r}"
        done.append((kind, what))
    return xml, data, done
