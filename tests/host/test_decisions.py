"""Values that are not known decide nothing by themselves: both sides of what hangs on them are read."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import GRID, HEAD, KERNEL, OUTPUT, TILES, classes, lint, model, reasons, states

LAUNCH = f"{OUTPUT.strip()}\ngemm[{GRID}](x, self.weight, self.weight_scale, y, M, N, K, {TILES})\nreturn y"
LEAK = "(torch.matmul(x.bfloat16(), self.weight.bfloat16().t()) * self.weight_scale).bfloat16()"
TOP = """import os, random, sys
try:
    import somebodys_package
    FOUND = True
except ImportError:
    FOUND = False
os.environ["MODE"] = "a"
os.environ.setdefault("MODE", "b")
os.environ.update(OTHER="c")
os.environ["GONE"] = "d"
os.environ.pop("GONE")
"""

UNDECIDED = {
    "a chain, its first link": "random.random() < 0 < 1",
    "a chain, its last link": "0 < 1 < random.random()",
    "an item of two": "[0, 1][int(random.random() * 2)]",
    "an item of three": "[0, 1, 2][int(random.random() * 3)]",
    "one number of many": "list(range(20))[int(random.random() * 20)] > 9",
    "a field of an f-string": "f'{random.random()}'[0] == '0'",
    "a list in an f-string": "'0' in f'n={[random.random()]}'",
    "a field of format": "'{0}{n}'.format(1, n=random.random()).endswith('3')",
    "a conversion": "('%s' % random.random())[0] == '0'",
    "the length of a text": "len(str([random.random()])) > 12",
    "a number read from a text": "int(f'1{random.random()}'[:3]) > 3",
    "texts in an order": "f'{random.random()}' < '0.5'",
    "an attribute that torch may have": "not hasattr(torch, 'no_such_thing')",
    "a package that may be installed": "not FOUND",
    "a variable that is always set": "os.environ['PATH'] == 'here'",
    "one object of many": "[None, (), [], {}, 'text', 0.0][int(random.random() * 6)]",
}


def branch(test: str) -> str:
    return HEAD + TOP + KERNEL + model(f"if {test}:\n    return {LEAK}\n{LAUNCH}")


@pytest.mark.parametrize("test", UNDECIDED)
def test_a_branch_on_what_is_not_known_keeps_no_promise(tmp_path: Path, test: str) -> None:
    report = lint(tmp_path, branch(UNDECIDED[test]))
    assert set(states(report).values()) == {"unproven"}, reasons(report)


@pytest.mark.parametrize(
    "test",
    ["x.float().sum().item() < 0 < 1", "[0, 1, 1][int(x.float().sum().item()) % 3]", "f'{x[0, 0].item():.0f}' == '7'"],
)
def test_contents_of_inputs_decide_in_chains_and_lists(tmp_path: Path, test: str) -> None:
    assert "input-magnitude-sniffing" in classes(lint(tmp_path, branch(test)))


@pytest.mark.parametrize(
    "test",
    [
        "0 < M < 0",
        "[0, 0, 0][int(random.random() * 3)]",
        "[0] * 100 == [1] * 100",
        "os.environ.get('MODE') != 'a'",
        "os.getenv('OTHER') != 'c'",
        "'GONE' in os.environ",
        "'PATH' not in os.environ",
        "not hasattr(torch, 'float8_e4m3fn')",
        "f'a{random.random()}'[0] == 'b'",
    ],
)
def test_what_is_the_same_for_every_answer_is_decided(tmp_path: Path, test: str) -> None:
    report = lint(tmp_path, branch(test))
    assert (report.verdict, set(states(report).values())) == ("clean", {"kept"}), reasons(report)


def test_a_text_tells_who_asked_as_its_parts_do(tmp_path: Path) -> None:
    assert "grader-sniffing" in classes(lint(tmp_path, branch("'x' in f'{sys.argv}'")))


@pytest.mark.parametrize(("key", "found"), [("{x.float().sum().item()}", True), ("{torch.cuda.utilization()}", False)])
def test_a_key_that_is_a_text_tells_apart_what_its_parts_do(tmp_path: Path, key: str, found: bool) -> None:
    made = LAUNCH.rpartition("\n")[0] if found else "y = torch.empty((1,), device=x.device)"
    body = f"key = f'{key}'\nif key not in self.held:\n" + "".join(f"    {line}\n" for line in made.splitlines())
    body += "    self.held[key] = y\n" + ("return self.held[key]" if found else LAUNCH)
    report = lint(tmp_path, HEAD + KERNEL + model(body, "self.held = {}"))
    assert classes(report) - {"stale-weight-cache"} == ({"unchanged-input-output-memo"} if found else set()), reasons(
        report
    )


@pytest.mark.parametrize(
    "test",
    ["torch.nn.__name__ == 'torch.nn'", "triton.runtime.driver.active.get_current_target().backend == 'cuda'",
     "x.grad_fn is None", "x.is_leaf", "x.retains_grad is False"],
)  # fmt: skip
def test_what_a_library_says_of_itself_hides_no_branch(tmp_path: Path, test: str) -> None:
    report = lint(tmp_path, HEAD + KERNEL + model(f"if {test}:\n    return {LEAK}\n{LAUNCH}"))
    assert "kept" not in states(report).values(), states(report)


@pytest.mark.parametrize("check", ["int(status) != 0", "status.value != 0", "status.value", "int(status)"])
def test_a_status_of_cuda_is_success_also_as_a_number(tmp_path: Path, check: str) -> None:
    top = "from cuda.bindings import driver\nstatus, = driver.cuInit(0)\n"
    top += f"if {check}:\n    raise RuntimeError(status)\n"
    assert lint(tmp_path, HEAD + top + KERNEL + model(LAUNCH)).verdict == "clean"
