"""The meanings of a page's words, from the explanations that ``softcheck explain`` prints."""

from softcheck.explain import pages


def meaning_of(word: str) -> str:
    """The meaning of a column, a verdict, a kind or a probe as a sentence; empty for a word that has none."""
    page = pages().get(word.replace("/ ", "/").removesuffix("*"))
    return "" if page is None else f"{page.meaning[0].upper()}{page.meaning[1:]}."
