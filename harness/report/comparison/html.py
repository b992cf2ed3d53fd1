"""A comparison as one HTML file: self-contained, without JavaScript, everything from runs escaped.

The page forbids itself to load or run anything (Content-Security-Policy), so that nothing which a broker or a file name
says can do more than be read. `page` is shared with the report of an investigation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from harness.report.comparison.judge import Comparison, Pair
from harness.report.terminal.comparison import LEGEND, has_legend, others, partition_rows, summary_rows, telling

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
STYLE = """
:root { color-scheme: light dark; --line: #8884; --bad: #b3261e; --good: #1b6e3c; --open: #8a5a00; --dim: #666; }
@media (prefers-color-scheme: dark) { :root { --bad: #ff8a80; --good: #7ed99c; --open: #ffc46b; --dim: #aaa; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.regression, .bad { color: var(--bad); font-weight: 600; } .improvement, .good { color: var(--good); font-weight: 600; }
.too-few-runs-to-tell, .open { color: var(--open); } .dim { color: var(--dim); }
li { margin: .3rem 0; }
@media print { body { margin: 0; max-width: none; } }
"""


def comparison_page(comparison: Comparison) -> str:
    """The whole comparison."""
    body = [_summary(comparison), table(partition_rows(comparison.groups), "What arrived in each partition")]
    body.append("<h2>Each pair</h2>")
    body += [_pair(pair) for pair in comparison.pairs]
    if comparison.differs:
        rows = [["setting", "values"], *([name, " · ".join(values)] for name, values in comparison.differs.items())]
        body.append(table(rows, "Asked differently: what else a difference may come from"))
    if comparison.notes:
        body += ["<h2>To keep in mind</h2>", bullets(comparison.notes)]
    return page(f"{len(comparison.groups)} groups of runs compared", body)


def page(title: str, body: Iterable[str]) -> str:
    """A document around what is HTML already."""
    return "\n".join((
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>",
        f"<h1>{escape(title)}</h1>",
        *body,
        "</body></html>\n",
    ))  # fmt: skip


def table(rows: Sequence[Sequence[str]], title: str = "") -> str:
    """Rows of text, the first of which is the header; nothing without rows."""
    if not rows:
        return ""
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in rows[0])
    lines = ("".join(f"<td{_class_of(cell)}>{escape(cell)}</td>" for cell in row) for row in rows[1:])
    inside = "".join(f"<tr>{cells}</tr>" for cells in lines)
    heading = f"<h2>{escape(title)}</h2>" if title else ""
    return f'{heading}<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{inside}</tbody></table></div>'


def bullets(texts: Iterable[str], css: str = "") -> str:
    """A list of texts."""
    mark = f' class="{css}"' if css else ""
    return f"<ul{mark}>" + "".join(f"<li>{escape(text)}</li>" for text in texts) + "</ul>"


def paragraph(text: str, css: str = "") -> str:
    """A text."""
    mark = f' class="{css}"' if css else ""
    return f"<p{mark}>{escape(text)}</p>"


def _class_of(cell: str) -> str:
    name = cell.replace(" ", "-")
    return f' class="{name}"' if name in {"regression", "improvement", "too-few-runs-to-tell"} else ""


def _summary(comparison: Comparison) -> str:
    legend = paragraph(LEGEND, "dim") if has_legend(comparison) else ""
    return table(summary_rows(comparison)) + legend


def _pair(pair: Pair) -> str:
    parts = [f"<h3>{escape(pair.before)} → {escape(pair.after)}</h3>"]
    for judged in telling(pair):
        parts.append(paragraph(judged.sentence, judged.verdict.replace(" ", "-")))
        parts.append(paragraph(judged.why, "dim"))
    parts += [paragraph(text, "dim") for text in others(pair)]
    return "".join(parts)
