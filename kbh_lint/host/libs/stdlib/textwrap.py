"""textwrap, on texts that know where they were written."""

from __future__ import annotations

from kbh_lint.base.values import Value
from kbh_lint.host.libs.plain import Unfollowed
from kbh_lint.host.values.modelled import Site, models
from kbh_lint.source import embedded


class Textwrap(Unfollowed):
    """The module `textwrap`."""

    @models("dedent")
    def dedent(self, site: Site, text: Value) -> Value:
        """Models `textwrap.dedent(text)`."""
        return embedded.dedent(text) if isinstance(text, str) else NotImplemented

    @models("indent")
    def indent(self, site: Site, text: Value, prefix: Value, *chosen: Value, **named: Value) -> Value:
        """Models `textwrap.indent(text, prefix)`."""
        if not isinstance(text, str) or not isinstance(prefix, str):
            return NotImplemented
        lines = embedded.split_lines(text) if isinstance(text, embedded.Text) else text.splitlines(True)
        return embedded.concat([part for line in lines for part in ((prefix, line) if line.strip() else (line,))])

    def other(self, site: Site) -> Value:
        """Answers a call without a fitting model (`Library.other`): the text, unchanged."""
        text = site.args[0] if site.args else None
        return text if isinstance(text, str) else super().other(site)
