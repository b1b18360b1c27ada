"""One page in two forms: Markdown for people who read text, and the HTML that markdown-it makes of it."""

from collections.abc import Sequence
from html import escape
from typing import Any

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 62rem; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; margin: 1rem 0; font-size: 14px; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid #ddd; padding: .25rem .7rem; text-align: left; }
img { max-width: 100%; }
code { background: #f3f3f3; padding: 0 .2rem; }
"""


class Page:
    """A page that grows from top to bottom."""

    def __init__(self, title: str, about: str = "") -> None:
        self._title = title
        self._parts = [f"# {title}", *filter(None, [about])]

    def heading(self, text: str) -> None:
        """A section begins."""
        self._parts.append(f"## {text}")

    def paragraph(self, text: str) -> None:
        """Some sentences; backticks mark code."""
        self._parts.append(text)

    def items(self, lines: Sequence[str]) -> None:
        """A list."""
        self._parts.append("\n".join(f"- {line}" for line in lines))

    def image(self, file: str, alt: str) -> None:
        """A picture beside the page."""
        self._parts.append(f"![{alt}]({file})")

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """A table; cells are shown as `shown` has them."""
        lines = ([*columns], ["---"] * len(columns), *([shown(value) for value in row] for row in rows))
        cells = ([cell.replace("|", "\\|") for cell in line] for line in lines)
        self._parts.append("\n".join(f"| {' | '.join(line)} |" for line in cells))

    @property
    def markdown(self) -> str:
        """The page as Markdown."""
        return "\n\n".join(self._parts) + "\n"

    @property
    def html(self) -> str:
        """The page as HTML; it needs nothing but the pictures beside it."""
        from markdown_it import MarkdownIt

        body = MarkdownIt("js-default").render(self.markdown)  # HTML in the text is shown as text
        head = f'<meta charset="utf-8"><title>{escape(self._title)}</title><style>{STYLE}</style>'
        return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n{body}</body></html>\n'


def shown(value: Any) -> str:
    """A value as people read it: three decimals, nothing where there is no number."""
    if isinstance(value, float):
        return "" if value != value else f"{value:.3f}"
    return str(value)
