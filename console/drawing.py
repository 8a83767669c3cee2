"""SVG as elements of the page: what a shape says is a text node, never markup, so that no name can become a script.

A drawing is given as values and drawn again by what differs: of a map whose figures change each second only these are sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nicegui.element import Element
from nicegui.elements.mixins.text_element import TextElement

Attributes = Mapping[str, str | float]


@dataclass(frozen=True, slots=True)
class SvgShape:
    """An element of SVG. `attributes`: their names are ours alone, never what users have chosen."""

    tag: str
    attributes: Attributes = field(default_factory=dict)
    text: str = ""
    parts: tuple[SvgShape, ...] = ()


def text(x: float, y: float, words: str, css: str = "", anchor: str = "start", title: str = "") -> SvgShape:
    return SvgShape("text", {"x": round(x, 1), "y": round(y, 1), "class": css, "text-anchor": anchor}, words, _titled(title))


def box(x: float, y: float, width: float, height: float, css: str = "", title: str = "", round_: float = 3) -> SvgShape:
    place: Attributes = {"x": round(x, 1), "y": round(y, 1), "width": round(max(0.0, width), 1), "height": round(height, 1)}
    return SvgShape("rect", {**place, "rx": round_, "class": css}, parts=_titled(title))


def path(points: str, css: str = "", width: float | None = None, title: str = "") -> SvgShape:
    drawn: Attributes = {"d": points, "class": css} | ({} if width is None else {"stroke-width": round(width, 2)})
    return SvgShape("path", drawn, parts=_titled(title))


def curve(x: float, y: float, to_x: float, to_y: float) -> str:
    """The points of an edge that leaves to the right and comes from the left."""
    bend = max(24.0, abs(to_x - x) / 2)
    return f"M{x:.1f} {y:.1f}C{x + bend:.1f} {y:.1f} {to_x - bend:.1f} {to_y:.1f} {to_x:.1f} {to_y:.1f}"


def link(to: str, *parts: SvgShape) -> SvgShape:
    """`to`: an address of the console's own, its names quoted."""
    return SvgShape("a", {"href": to}, parts=parts)


def _titled(words: str) -> tuple[SvgShape, ...]:
    return (SvgShape("title", text=words),) if words else ()


def line_of(values: Sequence[float | None], width: float, height: float) -> str:
    """The points of a small curve of values, the greatest at the top; a gap where there is none."""
    greatest = max((value for value in values if value is not None), default=0.0) or 1.0
    step = width / max(1, len(values) - 1)
    points, pen = [], "M"
    for i, value in enumerate(values):
        if value is None:
            pen = "M"
            continue
        points.append(f"{pen}{i * step:.1f} {height - 1 - (height - 2) * value / greatest:.1f}")
        pen = "L"
    return "".join(points)


class SvgDrawing:
    """An `<svg>` in the page. `stretched`: it fills its place, whatever becomes of its proportions."""

    def __init__(self, css: str = "", stretched: bool = False) -> None:
        self.root, self._fit = Element("svg").classes(css), "none" if stretched else "xMinYMin meet"
        self._drawn: list[_Drawn] = []

    def draw(self, shapes: Sequence[SvgShape], width: float, height: float) -> None:
        """Shows these, and nothing else."""
        _set(self.root, {"viewBox": f"0 0 {width:g} {height:g}", "preserveAspectRatio": self._fit})
        _draw(self.root, self._drawn, shapes)


class _Drawn:
    """What is shown of a shape."""

    def __init__(self, shape: SvgShape) -> None:
        self.shape, self.element = shape, TextElement(tag=shape.tag, text=shape.text)
        self.parts: list[_Drawn] = []
        self.element.props.update(shape.attributes)
        _draw(self.element, self.parts, shape.parts)

    def become(self, shape: SvgShape) -> None:
        if shape == self.shape:
            return
        if shape.text != self.shape.text:
            self.element.set_text(shape.text)
        if shape.attributes != self.shape.attributes:
            _set(self.element, shape.attributes)
        _draw(self.element, self.parts, shape.parts)
        self.shape = shape


def _draw(parent: Element, drawn: list[_Drawn], shapes: Sequence[SvgShape]) -> None:
    same = next(
        (i for i, (is_, be) in enumerate(zip(drawn, shapes, strict=False)) if is_.shape.tag != be.tag), min(len(drawn), len(shapes))
    )
    for each in drawn[same:]:
        each.element.delete()
    del drawn[same:]
    for each, shape in zip(drawn, shapes, strict=False):
        each.become(shape)
    with parent:
        drawn += [_Drawn(shape) for shape in shapes[same:]]


def _set(element: Element, attributes: Attributes) -> None:
    if any(element.props.get(key) != value for key, value in attributes.items()) or element.props.keys() - attributes.keys() - {"class"}:
        for gone in [key for key in element.props if key not in attributes]:
            del element.props[gone]
        element.props.update(attributes)
