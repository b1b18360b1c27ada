"""One page in two forms: Markdown for people who read text, HTML for browsers."""

from __future__ import annotations

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

    def __init__(self, title: str) -> None:
        self._title = title
        self._markdown = [f"# {title}"]
        self._html = [f"<h1>{escape(title)}</h1>"]

    def heading(self, text: str) -> None:
        """A section begins."""
        self._markdown.append(f"## {text}")
        self._html.append(f"<h2>{escape(text)}</h2>")

    def paragraph(self, text: str) -> None:
        """Some sentences; backticks mark code."""
        self._markdown.append(text)
        self._html.append(f"<p>{_code(escape(text))}</p>")

    def items(self, lines: Sequence[str]) -> None:
        """A list."""
        self._markdown.append("\n".join(f"- {line}" for line in lines))
        self._html.append("<ul>" + "".join(f"<li>{_code(escape(line))}</li>" for line in lines) + "</ul>")

    def image(self, file: str, alt: str) -> None:
        """A picture beside the page."""
        self._markdown.append(f"![{alt}]({file})")
        self._html.append(f'<p><img src="{escape(file)}" alt="{escape(alt)}"></p>')

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """A table; cells are shown as `shown` has them."""
        cells = [[shown(value) for value in row] for row in rows]
        bare = [[cell.replace("|", "\\|") for cell in row] for row in ([*columns], ["---"] * len(columns), *cells)]
        lines = [f"| {' | '.join(row)} |" for row in bare]
        self._markdown.append("\n".join(lines))
        head = "".join(f"<th>{escape(name)}</th>" for name in columns)
        body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in cells)
        self._html.append(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")

    @property
    def markdown(self) -> str:
        """The page as Markdown."""
        return "\n\n".join(self._markdown) + "\n"

    @property
    def html(self) -> str:
        """The page as HTML; it needs nothing but the pictures beside it."""
        body = "\n".join(self._html)
        head = f'<meta charset="utf-8"><title>{escape(self._title)}</title><style>{STYLE}</style>'
        return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n{body}\n</body></html>\n'


def shown(value: Any) -> str:
    """A value as people read it: three decimals, nothing where there is no number."""
    if isinstance(value, float):
        return "" if value != value else f"{value:.3f}"
    return str(value)


def _code(text: str) -> str:
    parts = text.split("`")
    return "".join(f"<code>{part}</code>" if n % 2 else part for n, part in enumerate(parts))
