"""What a name stands for when it is used: functions of a class bound to an object, dicts of a module, out arguments."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import ARGUMENTS, GRID, HEAD, KERNEL, OUTPUT, TILES, WIDE, classes, lint, model, states

OUT = OUTPUT.strip()
LAUNCH = f"gemm[{GRID}]({ARGUMENTS}, {TILES})"
IMPORTS = HEAD + "import functools\nimport operator\nimport types\n"
SETUP = "self.plan = None\nself.layers = nn.ModuleDict({'gate': nn.Identity()})"
CAPTURE = (
    f"{OUT}\n{LAUNCH}\ngraph = torch.cuda.CUDAGraph()\nwith torch.cuda.graph(graph):\n    {LAUNCH}\n"
    "self.plan = x, REPLAY, y, graph\nreturn y"
)
KEPT = "if self.plan is not None and self.plan[0] is x:\n    self.plan[1]()\n    return self.plan[2]\n" + CAPTURE
REPLAYS = {
    "a partial of the class's function": "functools.partial(torch.cuda.CUDAGraph.replay, graph)",
    "its descriptor": "torch.cuda.CUDAGraph.replay.__get__(graph)",
    "a method made of it": "types.MethodType(torch.cuda.CUDAGraph.replay, graph)",
    "the function in a lambda": "lambda: torch.cuda.graphs.CUDAGraph.replay(graph)",
    "a partial of getattr's": "functools.partial(getattr(torch.cuda.CUDAGraph, 'replay'), graph)",
}
TABLES = {
    "buffers": "w, s = self._buffers['weight'], self._buffers['weight_scale']",
    "buffers through get": "w, s = self._buffers.get('weight'), self._buffers.get('weight_scale')",
    "a new buffer": "self._buffers['held'] = self.weight\nw, s = self.held, self._buffers['weight_scale']",
    "a dict of modules by attribute": "w, s = self.layers.gate(self.weight), self.weight_scale",
    "items": "held = dict(self._buffers.items())\nw, s = held['weight'], held['weight_scale']",
}
FROM_TABLE = f"{OUT}\ngemm[{GRID}](x, w, s, y, M, N, K, {TILES})\nreturn y"


def text(body: str, kernel: str = KERNEL) -> str:
    return IMPORTS + kernel + model(body, SETUP)


@pytest.mark.parametrize("way", REPLAYS)
def test_a_graph_replays_however_its_method_was_bound(tmp_path: Path, way: str) -> None:
    report = lint(tmp_path, text(KEPT.replace("REPLAY", REPLAYS[way])))
    assert report.verdict == "clean", report.findings


def test_a_graph_that_is_only_named_does_not_replay(tmp_path: Path) -> None:
    report = lint(tmp_path, text(KEPT.replace("REPLAY", "functools.partial(torch.cuda.CUDAGraph.pool, graph)")))
    assert "identity-keyed-input-cache" in classes(report) or "output-memoization" in classes(report), report.findings


@pytest.mark.parametrize("way", TABLES)
def test_weights_are_found_in_the_dicts_of_a_module(tmp_path: Path, way: str) -> None:
    body = f"{TABLES[way]}\n{FROM_TABLE}"
    assert lint(tmp_path, text(body)).verdict == "clean"
    assert set(states(lint(tmp_path, text(body))).values()) == {"kept"}
    wide = lint(tmp_path, text(body, KERNEL.replace("tl.dot(a, b, acc)", WIDE)))
    assert classes(wide) == {"fp8-upcast-bf16-gemm"}


def test_what_is_stored_in_the_dict_of_buffers_is_an_attribute(tmp_path: Path) -> None:
    kept = "if 'first' not in self._buffers:\n    self._buffers['first'] = x.clone()\nx = self.first\n"
    body = f"{kept}{OUT}\n{LAUNCH}\nreturn y"
    assert classes(lint(tmp_path, text(body))) == {"identity-keyed-input-cache"}
