"""Events as entries of a step: what is said as text, what is written as a diff against what was there before."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from harness.record.archive import ArchiveError, RunFolder
from harness.record.events import (
    AgentEnded,
    AgentStarted,
    Event,
    FileChanged,
    Finding,
    Graded,
    JudgeUsed,
    Message,
    Note,
    RunEnded,
    RunStarted,
    ToolCall,
    ToolResult,
)  # fmt: skip
from harness.view.diffs import Part, Work, diff, lines_of, parts_within
from harness.view.model import Block, Entry, Form
from harness.view.text import cut, short
from harness.view.tools import Asked, asked

__all__ = ["MOST_FILE", "Known", "Writer", "seconds"]

MOST_FILE = 1 << 20  # characters of a file that is compared
MOST_KNOWN = 32
SPARE = 2_000_000  # bytes of the page for what diffs show beyond the call's own text
LONG_LINES, LONG_CHARACTERS = 14, 2_000  # a result or message beyond these is folded
LONG_DIFF = 120


class Known:
    """The last contents of a few files, as calls and snapshots tell them."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._texts: OrderedDict[str, str] = OrderedDict()

    def get(self, path: str) -> str | None:
        """The last known content of a file; None where it is not known."""
        return self._texts.get(path)

    def set(self, path: str, text: str | None) -> None:
        """Notes what a file holds now; None where that is not known."""
        self._texts.pop(path, None)
        if path and text is not None and len(text) <= MOST_FILE:
            self._texts[path] = text
            if len(self._texts) > MOST_KNOWN:
                self._texts.popitem(last=False)

    def saw(self, path: str, sha256: str) -> None:
        """Notes the content of a file that the watcher saw in the workspace; it is read from the archive's objects."""
        try:
            data = self._folder.get(sha256) if sha256 else None
        except ArchiveError:
            data = None
        self.set(path, None if data is None or len(data) > MOST_FILE else data.decode("utf-8", "replace"))


class Writer:
    """Makes entries of events, in their order. A text takes at most `longest` bytes of the page."""

    def __init__(self, folder: RunFolder, solution: str, longest: int) -> None:
        self._known = Known(folder)
        self._solution = solution
        self._longest = longest
        self._spare = SPARE
        self._work = Work()
        self._names: OrderedDict[str, str] = OrderedDict()
        self._snapshots = 0

    def entry(self, event: Event) -> Entry | None:
        """The entry of an event; None for the end of a model call, which is the step's own."""
        data = event.data
        if isinstance(data, Message):
            return self._message(data)
        if isinstance(data, ToolCall):
            return self._call(data)
        if isinstance(data, ToolResult):
            return self._result(data)
        if isinstance(data, FileChanged):
            return self._file(data)
        if isinstance(data, JudgeUsed):
            return self._judge(data)
        if isinstance(data, Finding):
            blocks = (self._block("code", data.evidence, "evidence", 2_000),) if data.evidence else ()
            return Entry("finding", f"{data.kind}: {short(data.rule, 80)}", short(data.message, 400), blocks, bad=True)
        return self._plain(event)

    def _plain(self, event: Event) -> Entry | None:
        data = event.data
        if isinstance(data, RunStarted):
            asked_for = f"{data.agent} {data.version}, {data.model}, {data.problem} on {data.target}"
            return Entry("event", "the run started", short(asked_for, 300))
        if isinstance(data, AgentStarted):
            line = short(" ".join(data.argv[:64]), 2_000)
            return Entry(
                "event", f"the agent started in room {short(data.room, 60)}", "", (self._block("shell", line),)
            )
        if isinstance(data, AgentEnded):
            code = "" if data.exit_code is None else f", exit status {data.exit_code}"
            left = f", {data.left_over} processes left over" if data.left_over else ""
            return Entry("event", f"the agent ended: {data.reason}{code}{left}", f"after {seconds(data.seconds)}")
        if isinstance(data, Graded):
            score = "no score" if data.score is None else f"score {data.score:.3g}"
            what = "graded" if data.final else "graded for the curve"
            said = short(f"{data.outcome}, verdict {data.verdict}, {score}", 200)
            return Entry("graded", f"{what}: {said}", f"solution {short(data.solution[:12], 40)}")
        if isinstance(data, RunEnded):
            return Entry("event", short(f"the run ended: {data.outcome} {data.ending}", 120), short(data.detail, 400))
        if isinstance(data, Note):
            return Entry("event", "", "", (self._block("prose", data.text),))
        return None

    def _message(self, data: Message) -> Entry:
        kind = "thinking" if data.thinking else "text" if data.role == "assistant" else data.role
        titles = {"thinking": "thinking", "text": "the model says", "system": "system prompt", "user": "user"}
        folded = kind in ("thinking", "system") or (kind == "user" and _long(data.text))
        return Entry(kind, titles[kind], size(data.text), (self._block("prose", data.text),), folded=folded)

    def _call(self, data: ToolCall) -> Entry:
        name = short(data.name, 60) or "a tool without a name"
        self._names[data.call_id] = name
        if len(self._names) > 1_000:
            self._names.popitem(last=False)
        wanted = asked(data.name, data.arguments)
        blocks = tuple(self._asked(wanted, len(data.arguments)))
        lines = sum(part.text.count("\n") + 1 for block in blocks for part in block.parts)
        note = short(wanted.gist, 160)
        return Entry("call", name, note, blocks, folded=lines > LONG_DIFF, call_id=data.call_id)

    def _asked(self, wanted: Asked, length: int) -> Iterable[Block]:
        left = min(self._longest, 2 * length + 400)
        if wanted.content is not None or wanted.edits:
            yield self._change(wanted, left)
        elif wanted.command:
            yield self._block("shell", wanted.command)
        elif wanted.patch:
            yield Block("diff", *self._kept(_patch(wanted.patch), left), "patch")
        for key, value in wanted.others[:20]:
            form: Form = "code" if "\n" in value or len(value) > 300 else "pair"
            yield self._block(form, value, short(key, 40), max(left // max(len(wanted.others), 1), 200))
        if len(wanted.others) > 20:
            yield self._block("prose", f"{len(wanted.others) - 20} more arguments are left out")

    def _change(self, wanted: Asked, left: int) -> Block:
        """A write or an edit as a diff; the file's lines around it too, where its content is known."""
        before = self._known.get(wanted.path)
        after = wanted.applied(before)
        self._known.set(wanted.path, after)
        if after is not None and len(after) <= MOST_FILE:
            parts = diff(before or "", after, self._work)
            label = "" if before is not None else "a new file, or one that was not seen before"
            if not parts:
                return Block("prose", (Part("same", "the same content as before"),))
        else:
            parts = tuple(_edited(wanted))
            label = "what the file held before is not known"
        kept, left_out = parts_within(parts, left)
        spent = left_out and min(self._spare, self._longest - left)
        if left_out and spent > 0:
            kept, left_out = parts_within(parts, left + spent)
            self._spare -= spent
        return Block("diff", kept, label, f"{left_out:,} more lines are left out" if left_out else "")

    def _kept(self, parts: tuple[Part, ...], left: int) -> tuple[tuple[Part, ...]]:
        kept, left_out = parts_within(parts, left)
        return ((*kept, Part("cut", f"{left_out:,} more lines are left out")) if left_out else kept,)

    def _result(self, data: ToolResult) -> Entry:
        title = f"{'error' if data.is_error else 'result'} of {self._names.get(data.call_id, 'a call')}"
        blocks = (self._block("code", data.output),) if data.output else ()
        note = size(data.output) if data.output else "empty"
        folded = _long(data.output)
        return Entry("result", title, note, blocks, folded, bad=data.is_error, call_id=data.call_id)

    def _file(self, data: FileChanged) -> Entry:
        self._known.saw(data.path, data.sha256)
        anchor = ""
        if data.path == self._solution:
            self._snapshots += 1
            anchor = f"snapshot-{self._snapshots}"
        what = f"{data.bytes:,} bytes, SHA-256 {short(data.sha256[:12], 40)}" if data.sha256 else "removed"
        return Entry("file", f"{short(data.path, 160)} changed in the workspace", what, anchor=anchor)

    def _judge(self, data: JudgeUsed) -> Entry:
        score = "" if data.score is None else f", practice score {data.score:.3g}"
        waited = f", after waiting {seconds(data.waited_s)}" if data.waited_s >= 0.1 else ""
        note = f"solution {short(data.solution[:12], 40)}, {seconds(data.seconds)}{waited}"
        blocks = (self._block("code", data.message),) if data.message else ()
        title = f"{data.what} by the judge: {short(data.outcome, 60)}{score}"
        return Entry("judge", title, note, blocks, folded=_long(data.message))

    def _block(self, form: Form, text: str, label: str = "", most: int | None = None) -> Block:
        kept = cut(text, self._longest if most is None else min(most, self._longest))
        parts: tuple[Part, ...] = (Part("same", kept.head),)
        if kept.left_out:
            parts = (*parts, Part("cut", f"{kept.left_out:,} characters are left out here"), Part("same", kept.tail))
        return Block(form, parts, label)


def seconds(value: float) -> str:
    """A time for people: 4.2 s, 3 min 20 s, 2 h 5 min."""
    if value < 59.95:
        return f"{max(value, 0.0):.1f} s" if value != round(value) else f"{max(value, 0.0):.0f} s"
    whole = round(value)
    first, second = (whole // 60, whole % 60) if whole < 3600 else (whole // 3600, whole % 3600 // 60)
    units = ("min", "s") if whole < 3600 else ("h", "min")
    return f"{first:,} {units[0]} {second} {units[1]}" if second else f"{first:,} {units[0]}"


def size(text: str) -> str:
    """The length of a text, in words."""
    lines = text.count("\n") + 1
    return f"{lines:,} lines, {len(text):,} characters" if lines > 1 else f"{len(text):,} characters"


def _long(text: str) -> bool:
    return len(text) > LONG_CHARACTERS or text.count("\n") > LONG_LINES


def _edited(wanted: Asked) -> Iterable[Part]:
    if wanted.content is not None:
        yield Part("add", wanted.content)
    for number, edit in enumerate(wanted.edits, 1):
        if len(wanted.edits) > 1:
            yield Part("hunk", f"edit {number}")
        if edit.old:
            yield Part("del", edit.old)
        if edit.new:
            yield Part("add", edit.new)


def _patch(text: str) -> tuple[Part, ...]:
    """The lines of a patch by their first character."""
    kinds = {"+": "add", "-": "del", "*": "hunk", "@": "hunk"}
    found: list[tuple[str, list[str]]] = []
    for line in lines_of(text):
        kind = kinds.get(line[:1], "same")
        if found and found[-1][0] == kind:
            found[-1][1].append(line[1:] if kind in ("add", "del", "same") else line)
        else:
            found.append((kind, [line[1:] if kind in ("add", "del", "same") else line]))
    return tuple(Part(kind, "\n".join(lines)) for kind, lines in found)  # type: ignore[arg-type]
