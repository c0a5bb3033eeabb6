"""Sphinx's settings for the site: ``sphinx-build -W docs build/docs``. CONTRIBUTING.md says why it is Sphinx."""

import re
from pathlib import Path

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

from softcheck import __version__
from softcheck.explain import files

HERE = Path(__file__).parent

project = "softcheck"
release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_click"]
smartquotes = False
html_theme = "furo"
html_title = f"softcheck {release}"
html_copy_source = False
html_show_copyright = False
html_static_path = ["_static"]
html_css_files = ["wide.css"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"

FROM_ROOT = {"contributing": "CONTRIBUTING.md", "changelog": "CHANGELOG.md"}
"""Pages that begin with a file of the project's root."""

ALL_WORDS = """
```{toctree}
:hidden:
:glob:

*
```
"""


def write_words(_app: Sphinx) -> None:
    """Writes the page of each word of a report, which git ignores."""
    folder = HERE / "explain"
    folder.mkdir(exist_ok=True)
    for name, text in files().items():
        (folder / name).write_text(text + ALL_WORDS * (name == "README.md"), encoding="utf-8")


def read_page(app: Sphinx, page: str, source: list[str]) -> None:
    """Puts a file of the project's root in front of its page; Markdown outside of the site is linked as a file."""
    if page in FROM_ROOT:
        file = HERE.parent / FROM_ROOT[page]
        app.env.note_dependency(str(file))
        text = file.read_text(encoding="utf-8")
        source[0] = re.sub(r"\]\((?![a-z]+:|#)", "](../", text).replace("](../docs/", "](") + source[0]
    source[0] = re.sub(r"\[([^\]]*)\]\((\.\./[^)\s]+\.md)\)", r"[\1](path:\2)", source[0])


def without_signature(_app: Sphinx, what: str, *_others: object) -> tuple[str, None] | None:
    """A class is shown without its signature, which repeats all its fields."""
    return ("", None) if what == "class" else None


def setup(app: Sphinx) -> None:
    """Connects these to the build, and leaves the source of a diagram as text, since drawing it takes a script from elsewhere."""
    app.connect("builder-inited", write_words)
    app.connect("source-read", read_page)
    app.connect("autodoc-process-signature", without_signature)
    app.add_lexer("mermaid", TextLexer)
