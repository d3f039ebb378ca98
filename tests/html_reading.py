"""An HTML page as tests look at it: its elements, their attributes and the text that stands in each."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

# Elements without an end.
_VOID = {"meta"}


@dataclass
class Element:
    name: str
    attributes: dict[str, str]
    text: str = ""
    # Without what is in bdi, the tags and labels that are put beside the words.
    own_text: str = ""
    children: list["Element"] = field(default_factory=list)

    @property
    def classes(self) -> list[str]:
        return (self.attributes.get("class") or "").split()

    def of_class(self, name: str) -> list["Element"]:
        """The elements in this one that have a class, in the order of the page."""
        found = []
        for child in self.children:
            found += [child] * (name in child.classes) + child.of_class(name)
        return found


class _Reader(HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.root = Element("page", {})
        self.elements = []
        self._opened = [self.root]

    def handle_starttag(self, tag, attrs):
        element = Element(tag, dict(attrs))
        self.elements.append(element)
        self._opened[-1].children.append(element)
        if tag not in _VOID:
            self._opened.append(element)

    def handle_endtag(self, tag):
        assert self._opened.pop().name == tag, f"{tag} ends what it has not begun"

    def handle_data(self, data):
        is_beside = any(element.name == "bdi" for element in self._opened)
        for element in self._opened:
            element.text += data
            element.own_text += "" if is_beside else data

    def finish(self):
        self.close()
        assert self._opened == [self.root], "an element has no end"
        return self.root, self.elements


def read_page(page: str) -> tuple[Element, list[Element]]:
    """The page as an element around all, and all of its elements; their ends must be where they belong."""
    reader = _Reader()
    reader.feed(page)
    return reader.finish()
