"""The console that everything is printed on. What steers a terminal is shown and does nothing.

Brokers, logs and records may hold anything: escape sequences (ESC, and the single character U+009B that means the
same), other control characters, and what turns the direction of text. All of it is replaced where segments of text are
made, so no line that is printed anywhere can forget it.
"""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

C0, C1, DELETE = range(0x20), range(0x80, 0xA0), 0x7F
KEPT = "\n\t"
PICTURES = 0x2400  # ␀ and what comes after it
SURROGATES = range(0xD800, 0xE000)  # halves of characters, which cannot be printed
TURNING = (0x200E, 0x200F, 0x061C, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_SHOWN: dict[int, str] = {
    **{code: chr(PICTURES + code) for code in C0 if chr(code) not in KEPT},
    **{code: f"<{code:02X}>" for code in C1},
    **dict.fromkeys((*TURNING, *SURROGATES), "\N{REPLACEMENT CHARACTER}"),
    DELETE: "\N{SYMBOL FOR DELETE}",
}


def shown(text: str) -> str:
    """The text with pictures of what would steer a terminal."""
    return text.translate(_SHOWN)


class SafeConsole(Console):
    """Prints what Rich makes of anything, and no control character that comes from the text."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Segments of text; Rich's own controls stay."""
        for segment in super().render(renderable, options):
            if segment.control or (segment.text.isascii() and segment.text.isprintable()):
                yield segment
            else:
                yield segment._replace(text=shown(segment.text))
