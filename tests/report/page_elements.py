"""A page as a browser without any mercy sees it: its elements, whether all are closed, and the text of each."""

from html.parser import HTMLParser

VOID = {"meta", "link", "br", "hr", "img", "input", "wbr"}


class Elements(HTMLParser):
    """The elements of a page in order, each with its attributes; raises AssertionError where one is closed wrongly."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.found, self.open, self.texts = [], [], []
        self.feed(page)
        self.close()
        assert self.open == [], f"{self.open} never closed"

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        assert len(dict(attrs)) == len(attrs), f"an attribute twice in {tag}: {attrs}"
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag, f"</{tag}> closes another element"

    def handle_data(self, data):
        self.texts.append((tuple(self.open), data))

    @property
    def outline(self):
        """Every element with the names of its attributes: what no text of a result may change.

        The lines from labels to their points are left out: whether one is drawn depends on the label's length.
        """
        return [(tag, tuple(attrs)) for tag, attrs in self.found if attrs.get("class") != "leader"]

    def values(self, attribute):
        return [attrs[attribute] for _, attrs in self.found if attribute in attrs]

    def inside(self, tag):
        """The texts of all elements of this name."""
        return [text for open_, text in self.texts if open_ and open_[-1] == tag]
