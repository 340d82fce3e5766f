"""From preprocessed CUDA C++ text to an IR module, by tree-sitter."""

from __future__ import annotations

from tree_sitter import Node

from kbh_lint.base import ir
from kbh_lint.frontends.cuda.base import type_names
from kbh_lint.frontends.cuda.blank import blank
from kbh_lint.frontends.cuda.declarations import Declarations
from kbh_lint.frontends.cuda.outermost import settle
from kbh_lint.frontends.cuda.preprocess import Prepared
from kbh_lint.frontends.cuda.recover import pieces, repaired, too_nested
from kbh_lint.frontends.cuda.unit import CudaUnit

MAX_BRACKETS = 200


def module(unit: CudaUnit, prepared: Prepared) -> ir.Module:
    """The IR of a preprocessed text; what could not be read is in `Module.unread` and in `Opaque` nodes."""
    unit.text = unit.prepared = prepared.text
    unit.map = prepared.map
    unit.stopped = prepared.stopped
    unread: list[tuple[str, ir.Loc]] = [(reason, (unit, start, end)) for reason, start, end in prepared.unread]
    deep = too_nested(prepared.text, MAX_BRACKETS)
    if deep is not None:
        unread.append((f"brackets nest more than {MAX_BRACKETS} deep", (unit, deep, deep + 1)))
        return ir.Module(unit, _includes(unit, prepared.includes), None, unread)
    blanked = blank(prepared.text)
    unit.text = blanked.text
    unit.known_types = type_names(blanked.text)
    run = _Lowering(unit, blanked)
    try:
        body = run.module()
    except RecursionError:  # the caller may stand deep already
        unread.append(("nested too deeply to be lowered", (unit, 0, len(unit.text))))
        body = []
    settle(unit, run.outermost, body)
    body = sorted([*_includes(unit, prepared.includes), *body], key=lambda statement: int(statement.loc[1]))
    return ir.Module(unit, tuple(body), None, unread + run.unread)


def _includes(unit: CudaUnit, includes: list[tuple[str, int, int]]) -> tuple[ir.Stmt, ...]:
    return tuple([ir.Import(path, None, None, 0, (unit, start, end)) for path, start, end in includes])


class _Lowering(Declarations):
    def module(self) -> list[ir.Stmt]:
        """Lowers all top-level statements. If there is a syntax error, each top-level piece is parsed on its own, so
        that an error affects one piece only."""
        children = self.parse(0, len(self.text))
        if not self.erroneous:
            return list(self.statements(children))
        fixed = repaired(self.text)
        if fixed != self.text:
            self.text = self.unit.text = self.blanked.text = fixed
            children = self.parse(0, len(fixed))
            if not self.erroneous:
                return list(self.statements(children))
        found: list[ir.Stmt] = []
        for piece in pieces(self.text):
            if piece.namespace is not None:
                self.unit.add_namespace(piece.start, piece.end, piece.namespace)
                continue
            found += self._piece(piece.start, piece.end, piece.body)
        return found

    def _piece(self, start: int, end: int, body: int | None) -> list[ir.Stmt]:
        children = self.parse(start, end)
        if not self.erroneous or body is None or any(self._is_whole(child) for child in children):
            return list(self.statements(children))
        return self._split(start, end, body)

    def _is_whole(self, node: Node) -> bool:
        while node.type == "template_declaration" and node.named_children:
            node = node.named_children[-1]
        return node.type in ("function_definition", "class_specifier", "struct_specifier", "union_specifier")

    def _split(self, start: int, end: int, body: int) -> list[ir.Stmt]:
        """A function whose text does not parse: its head and its body each on their own."""
        head = self.parse(start, body, "", "{}")
        functions = [node for node in self.statements(head) if isinstance(node, ir.FuncDef)]
        statements = self._statements_of(body, end)
        if len(functions) != 1:
            return [ir.Opaque("syntax error", statements, (self.unit, start, end))]
        functions[0].body = statements
        functions[0].loc = (self.unit, functions[0].loc[1], end)
        return list(functions)

    def _statements_of(self, start: int, end: int) -> tuple[ir.Stmt, ...]:
        self.in_function += 1
        try:
            children = self.parse(start, end)
            if len(children) == 1 and children[0].type == "compound_statement":
                return self.structured(self.block(children[0]))
            found: list[ir.Stmt] = []
            inside = end - 1 if self.text[end - 1 : end] == "}" else end
            for piece in pieces(self.text, start + 1, inside):
                found += self.statements(self.parse(piece.start, piece.end))
            return self.structured(tuple(found))
        finally:
            self.in_function -= 1
