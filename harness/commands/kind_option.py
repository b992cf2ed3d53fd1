"""--cluster: the option that takes the name of a kind of cluster.

Its help lists the kinds, but finding them imports all that clusters need. So that no other help has to wait for that,
they are looked up by `Command` when its own help is shown, and by the option when it has a value.
"""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand

from harness.foundation.errors import UsageError

EVERY_KIND = "<kinds>"  # what stands in place of their names until somebody asks for help
OUR_KINDS = "<our kinds>"
KINDS_HELP = "{kinds}."


def kind_option(text: str = KINDS_HELP, *, ours: bool = False, **how: Any) -> Any:
    """A flag that takes the name of a kind of cluster, or of those alone whose nodes we start."""

    def parsed(name: str) -> str:
        from harness.clusters.kinds import kind_named

        try:
            known = kind_named(name).name
        except UsageError as error:
            raise typer.BadParameter(str(error)) from None
        if known not in (names := list(_kinds(ours=ours))):
            raise typer.BadParameter(f"'{known}' cannot be had here, only {', '.join(names)}")
        return known

    return typer.Option("--cluster", parser=parsed, metavar=OUR_KINDS if ours else EVERY_KIND, help=text, **how)


class Command(TyperCommand):
    """A command, whose help names the kinds of clusters if it has --cluster."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """With the kinds that there are."""
        for option in self.params:
            if isinstance(option, typer.core.TyperOption) and option.metavar in {EVERY_KIND, OUR_KINDS}:
                kinds = _kinds(ours=option.metavar == OUR_KINDS)
                described = " · ".join(f"{name}: {about}" for name, about in kinds.items())
                option.metavar = f"<{'|'.join(kinds)}>"
                option.help = (option.help or "").format(kinds=described)
        super().format_help(ctx, formatter)


def _kinds(*, ours: bool) -> dict[str, str]:
    """Their names, and what they are."""
    from harness.clusters.kinds import KINDS

    return {kind.name: kind.about for kind in KINDS.values() if kind.ours or not ours}
