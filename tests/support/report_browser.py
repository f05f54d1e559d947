"""A real browser, headless: loads a page and gives back what became of it."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from tempfile import TemporaryDirectory

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
_QUIET = (
    "--headless",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    # Whatever the page asks for by name must fail: it has to be complete in itself.
    "--host-resolver-rules=MAP * ~NOTFOUND",
)


def browser() -> str | None:
    """Path of a Chromium; None where there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


@dataclass(frozen=True)
class Element:
    """A start tag of the rendered document."""

    tag: str
    attributes: dict[str, str | None]

    @property
    def classes(self) -> set[str]:
        """Its classes."""
        return set((self.attributes.get("class") or "").split())


class Rendered(HTMLParser):
    """The document after its scripts have run."""

    def __init__(self, dom: str) -> None:
        """Parse what `--dump-dom` printed."""
        super().__init__()
        self.dom = dom
        self.elements: list[Element] = []
        self.feed(dom)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep the tag."""
        self.elements.append(Element(tag, dict(attrs)))

    def with_class(self, name: str) -> list[Element]:
        """Every element of this class."""
        return [element for element in self.elements if name in element.classes]

    def data(self, name: str) -> list[str]:
        """The values of every `data-<name>` attribute, in the order of the document."""
        key = f"data-{name}"
        return [
            element.attributes[key] or "" for element in self.elements if key in element.attributes
        ]


def render(page: Path, *, width: int = 1280, height: int = 1600, dark: bool = False) -> Rendered:
    """Load a page, let its scripts run and read the document back."""
    return Rendered(_run(page, "--dump-dom", f"--window-size={width},{height}", dark=dark).stdout)


def net_log(page: Path, target: Path) -> str:
    """Chromium's own log of everything that it asked the network for while it showed `page`."""
    _run(page, "--dump-dom", f"--log-net-log={target}", dark=False)
    return target.read_text()


def _run(page: Path, *arguments: str, dark: bool) -> "subprocess.CompletedProcess[str]":
    path = browser()
    assert path is not None
    with _profile() as profile:
        command = [path, *_QUIET, f"--user-data-dir={profile}", *arguments]
        if os.geteuid() == 0:
            command.append("--no-sandbox")  # Chromium refuses to run as root with it
        if dark:
            command.append("--force-dark-mode")
        return subprocess.run(
            [*command, page.as_uri()], check=True, capture_output=True, text=True, timeout=120
        )


@contextmanager
def _profile() -> Iterator[str]:
    # A helper process of the browser may still be writing when the browser has gone.
    with TemporaryDirectory(prefix="crashsim-browser-", ignore_cleanup_errors=True) as directory:
        yield directory
