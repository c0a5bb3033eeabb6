"""Chromium for the tests of pages. Where it is absent they are skipped, and say what to install."""

import shutil

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]


@pytest.fixture(scope="package")
def browser():
    """A Chromium without a window."""
    if CHROMIUM is None:
        pytest.skip("needs Chromium, which is not installed: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="needs Playwright: pip install -e '.[test]'")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=[*FLAGS, "--disable-component-update"])
        yield chromium
        chromium.close()


@pytest.fixture
def opened(browser, tmp_path):
    """Opens a page from a file: ``opened(html, hash, **options of a context)``. Errors and requests fail the test."""
    contexts, troubles = [], []

    def open_page(html, fragment="", **options):
        path = tmp_path / f"page-{len(contexts)}.html"
        path.write_text(html, encoding="utf-8")
        context = browser.new_context(**options)
        contexts.append(context)
        tab = context.new_page()
        tab.on("console", lambda message: troubles.append(f"console: {message.text}"))
        tab.on("pageerror", lambda error: troubles.append(f"error: {error}"))
        tab.on("request", lambda request: troubles.append(f"request: {request.url}"))
        tab.goto(path.as_uri() + fragment)
        return tab

    yield open_page
    for context in contexts:
        context.close()
    own = tmp_path.as_uri()
    assert [trouble for trouble in troubles if not trouble.startswith(f"request: {own}/page-")] == []
