"""From paths to submissions: what is found, what is refused, and with which problem and target."""

import json
import os
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kbh_lint import UsageError
from kbh_lint.base import paths
from kbh_lint.source.submissions import BadInput, Submission, discover

CODE = "class Model:\n    pass\n"


def found(*given: Path | str, problem: str | None = None, target: str | None = None) -> list[Submission | BadInput]:
    return list(discover(given, problem=problem, target=target, problems_dir=paths.problems_dir()))


def one(path: Path | str, problem: str | None = None, target: str | None = None) -> Submission:
    (item,) = found(path, problem=problem, target=target)
    assert isinstance(item, Submission)
    return item


def refused(path: Path) -> str:
    (item,) = found(path)
    assert isinstance(item, BadInput)
    assert "\n" not in item.message
    assert str(path) in item.message
    return item.message


def write(path: Path, text: str = CODE) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


# --- what is found -------------------------------------------------------------------------------------------


def test_a_folder_gives_its_python_files_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name in ("b.py", "a.py", "sub/c.py", "notes.md", ".hidden/d.py", "__pycache__/e.py"):
        write(tmp_path / name)
    names = [str(item.path.relative_to(tmp_path)) for item in found(tmp_path)]
    assert names == ["a.py", "b.py", "sub/c.py"]


def test_an_empty_init_file_marks_a_package_and_is_no_submission_of_a_folder(tmp_path: Path) -> None:
    marks, says = write(tmp_path / "__init__.py", ""), write(tmp_path / "sub" / "__init__.py")
    assert [item.path for item in found(tmp_path)] == [says]
    assert "is empty" in refused(marks)


def test_a_file_that_is_asked_for_twice_is_read_once(tmp_path: Path) -> None:
    file = write(tmp_path / "a.py")
    assert len(found(file, tmp_path, str(file))) == 1


def test_a_run_archive_is_its_solution_with_its_sources_as_sidecars(tmp_path: Path) -> None:
    run = tmp_path / "run"
    write(run / "solution.py", "import helper\n" + CODE)
    write(run / "run.json", '{"problem": "07_w4a16_gemm", "hardware": "H100"}')
    write(run / "helper.py", "x = 1\n")
    write(run / "check.py", "print('grader')\n")
    write(run / "csrc/gemm.cu", "__global__ void f() {}\n")
    (run / "built.so").write_bytes(b"\x7fELF\0")
    item = one(tmp_path)
    assert item.path == run / "solution.py"
    assert (item.problem, item.problem_source, item.target) == ("07_w4a16_gemm", "run.json", "h100_pcie")
    assert sorted(item.sidecars) == ["built.so", "csrc/gemm.cu", "helper.py"]
    assert item.sidecars["built.so"].binary
    assert item.sidecars["csrc/gemm.cu"].text.startswith("__global__")


def test_a_loose_file_has_only_the_neighbours_that_it_names(tmp_path: Path) -> None:
    file = write(tmp_path / "a.py", "from tools import f\nload(sources=[here / 'k.cu'])\n")
    for name in ("k.cu", "other.cu", "tools.py", "b.py"):
        write(tmp_path / name)
    assert sorted(one(file).sidecars) == ["k.cu", "tools.py"]


def test_a_bundle_is_cut_at_its_markers_and_keeps_line_numbers(tmp_path: Path) -> None:
    body = "__global__ void f() {}\n"
    text = (
        f"import torch\n{CODE}# ===== sidecar: csrc/f.cu ({len(body)} bytes, loaded by solution.py) =====\n{body}"
        "# ===== sidecar: g.cuh (9 bytes, loaded by solution.py) =====\nint g();\n"
    )
    item = one(write(tmp_path / "x.py", text))
    assert item.text == f"import torch\n{CODE}"
    assert {name: (car.text, car.first_line) for name, car in item.sidecars.items()} == {
        "csrc/f.cu": (body, 5),
        "g.cuh": ("int g();\n", 7),
    }
    assert item.sidecars["g.cuh"].path == str(item.path)
    assert not [note for note in item.notes if "sidecar" in note]


def test_a_truncated_sidecar_is_noted(tmp_path: Path) -> None:
    text = CODE + "# ===== sidecar: f.cu (900 bytes, loaded by solution.py) =====\nint f() {\n"
    assert any("should have 900 bytes" in note for note in one(write(tmp_path / "x.py", text)).notes)


def test_code_cannot_hide_behind_a_sidecar_marker(tmp_path: Path) -> None:
    text = CODE + "# ===== sidecar: f.cu (9 bytes, loaded by solution.py) =====\nimport torch\ntorch.cuda.Event = 0\n"
    item = one(write(tmp_path / "x.py", text))
    assert item.text == text
    assert item.sidecars == {}
    assert any("markers were not followed" in note for note in item.notes)


def test_markers_mean_nothing_in_a_run_archive_where_the_files_themselves_are_there(tmp_path: Path) -> None:
    text = CODE + "# ===== sidecar: f.py (9 bytes, loaded by solution.py) =====\nimport torch\n"
    write(tmp_path / "solution.py", text)
    write(tmp_path / "result.json", "{}")
    assert one(tmp_path / "solution.py").text == text


def test_line_ends_and_a_byte_order_mark_do_not_change_positions(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_bytes(b"\xef\xbb\xbfx = 1\r\ny = 2\r\n")
    assert one(file).text == "x = 1\ny = 2\n"


def test_the_hash_covers_text_and_sidecars(tmp_path: Path) -> None:
    file = write(tmp_path / "a.py", "load('k.cu')\n")
    kernel = write(tmp_path / "k.cu", "int a;")
    before = one(file).sha256
    kernel.write_text("int b;")
    after = one(file).sha256
    assert before != after
    kernel.write_text("int a;")
    assert one(file).sha256 == before


def test_nothing_of_a_submission_is_executed(tmp_path: Path) -> None:
    file = write(tmp_path / "bomb_that_must_not_go_off.py", "open('went_off', 'w')\nraise SystemExit\n")
    one(file)
    assert not (tmp_path / "went_off").exists()
    assert "bomb_that_must_not_go_off" not in sys.modules


def test_a_submission_can_be_sent_to_another_process(tmp_path: Path) -> None:
    item = one(write(tmp_path / "01_fp8_gemm.py", "load('k.cu')\n"))
    assert pickle.loads(pickle.dumps(item)) == item


# --- which problem and target --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("20260101_010101_claude_some-model_01_fp8_gemm.py", "01_fp8_gemm"),
        ("01_fp8_gemm/solution.py", "01_fp8_gemm"),
        ("07_w4a16_gemm/honest/splitk.py", "07_w4a16_gemm"),
        ("10_patch_embed_conv3d_gemm-v2.py", "10_patch_embed_conv3d_gemm"),
        ("01_glm52_fused_moe.py", None),
        ("101_fp8_gemm.py", None),
        ("01_fp8_gemmlike.py", None),
        ("solution.py", None),
    ],
)
def test_the_problem_is_an_exact_id_in_the_name_of_the_file_or_of_its_folder(
    tmp_path: Path, name: str, problem: str | None
) -> None:
    item = one(write(tmp_path / "in" / name))
    assert item.problem == problem
    if problem is None:
        assert any("could not be decided" in note for note in item.notes)


def test_each_source_of_the_problem_outranks_the_next(tmp_path: Path) -> None:
    comment = "# kbh: problem=03_paged_attention\n" + CODE
    assert one(write(tmp_path / "loose.py", comment)).problem_source == "comment"
    file = write(tmp_path / "05_topk_bitonic" / "solution.py", comment)
    assert (one(file).problem, one(file).problem_source) == ("05_topk_bitonic", "folder name")
    write(file.with_name("run.json"), '{"problem_id": "problems/06_sonic_moe_swiglu"}')
    assert (one(file).problem, one(file).problem_source) == ("06_sonic_moe_swiglu", "run.json")
    given = one(file, problem="02_kda_cutlass")
    assert (given.problem, given.problem_source) == ("02_kda_cutlass", "--problem")


def test_a_run_of_another_deck_stays_undecided_even_in_a_folder_with_a_known_name(tmp_path: Path) -> None:
    file = write(tmp_path / "01_fp8_gemm" / "solution.py")
    write(file.with_name("run.json"), '{"problem": "01_glm52_fused_moe"}')
    item = one(file)
    assert item.problem is None
    assert any("not in the deck" in note for note in item.notes)


@pytest.mark.parametrize("content", ["{", "[1]", '{"problem": 3}', "[" * 100_000, "\xff"])
def test_a_broken_run_file_is_not_fatal(tmp_path: Path, content: str) -> None:
    file = write(tmp_path / "04_kahan_softmax" / "solution.py")
    file.with_name("run.json").write_text(content, encoding="latin-1")
    assert one(file).problem == "04_kahan_softmax"


@pytest.mark.parametrize("said", ['"RTX_PRO_6000"', '{"name": "rtx pro 6000"}', '{"id": "rtx_pro_6000"}'])
def test_the_target_comes_from_the_run_file(tmp_path: Path, said: str) -> None:
    write(tmp_path / "run.json", f'{{"hardware": {said}}}')
    assert one(write(tmp_path / "solution.py")).target == "rtx_pro_6000"


def test_the_target_may_be_given_or_commented_and_an_unknown_one_is_only_noted(tmp_path: Path) -> None:
    file = write(tmp_path / "a.py", "# kbh: target=b200\n")
    assert one(file).target == "b200"
    assert one(file, target="H200").target == "h200"
    other = one(write(tmp_path / "b.py", "# kbh: target=tpu\n"))
    assert other.target is None
    assert any("`tpu`" in note for note in other.notes)


@pytest.mark.parametrize(
    ("problem", "target", "told"),
    [("01_fp8_gem", None, "did you mean 01_fp8_gemm?"), (None, "h20", "did you mean h200?"), ("zzz", None, "`zzz`")],
)
def test_only_an_explicit_unknown_choice_is_an_error(problem: str | None, target: str | None, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        found(problem=problem, target=target)
    assert told in str(caught.value)


def test_suppression_in_a_submission_is_only_reported(tmp_path: Path) -> None:
    item = one(write(tmp_path / "a.py", "x = 1\ny = 2  # kbh: ignore[KBH101] because\n# kbh: ignore\n"))
    notes = [note for note in item.notes if "suppression" in note]
    assert len(notes) == 2
    assert notes[0].startswith("line 2 asks for suppression of KBH101")


# --- what is refused -----------------------------------------------------------------------------------------


def test_what_cannot_be_read_as_source_is_refused_in_a_sentence_that_says_why(tmp_path: Path) -> None:
    cases = {
        "empty.py": (b" \n", "is empty"),
        "latin.py": (b"a = 1\nb = '\xe9'\n", "not UTF-8 (line 2 holds the byte 0xe9)"),
        "binary.py": (b"\x7fELF\0\0", "binary"),
        "wide.py": ("x = 1\n".encode("utf-16"), "UTF-16"),
        "huge.py": (b"x = 1\n" * 3_400_000, "20.4 MB"),
    }
    for name, (data, told) in cases.items():
        (tmp_path / name).write_bytes(data)
        assert told in refused(tmp_path / name)
    write(tmp_path / "good.py")
    kinds = [type(item) for item in found(tmp_path)]
    assert kinds.count(BadInput) == len(cases)
    assert kinds.count(Submission) == 1


def test_a_missing_path_and_a_folder_without_python_are_told(tmp_path: Path) -> None:
    assert "does not exist" in refused(tmp_path / "none.py")
    assert "holds no .py file" in refused(tmp_path)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    assert "is not a file" in refused(tmp_path / "pipe.py")


@pytest.fixture
def unreadable(tmp_path: Path) -> Iterator[Path]:
    file = write(tmp_path / "secret.py")
    file.chmod(0)
    yield file
    file.chmod(0o600)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_told(unreadable: Path) -> None:
    assert "permission denied" in refused(unreadable)


def test_links_that_lead_back_or_out_are_skipped_and_the_rest_is_read(tmp_path: Path) -> None:
    top = tmp_path / "top"
    write(top / "a.py")
    write(top / "sub" / "b.py")
    outside = write(tmp_path / "outside" / "c.py")
    (top / "sub" / "loop").symlink_to(top)
    (top / "self").symlink_to(top / "self")
    (top / "out").symlink_to(outside.parent)
    (top / "out.py").symlink_to(outside)
    (top / "inside.py").symlink_to(top / "a.py")
    items = found(top)
    assert [str(i.path.relative_to(top)) for i in items if isinstance(i, Submission)] == ["a.py", "sub/b.py"]
    messages = [i.message for i in items if isinstance(i, BadInput)]
    assert sum("links back" in m for m in messages) == 1
    assert sum("outside" in m for m in messages) == 2


def test_very_deep_folders_are_left_with_a_sentence(tmp_path: Path) -> None:
    write(tmp_path / "/".join(["d"] * 40) / "a.py")
    assert any(isinstance(i, BadInput) and "folders deep" in i.message for i in found(tmp_path))


def test_a_run_file_that_is_huge_is_not_parsed(tmp_path: Path) -> None:
    write(tmp_path / "run.json", json.dumps({"problem": "01_fp8_gemm", "pad": "x" * 4_100_000}))
    assert one(write(tmp_path / "solution.py")).problem is None


def test_modules_of_packages_beside_count_as_far_as_something_imports_them(tmp_path: Path) -> None:
    write(tmp_path / "mine.py", "from ours.gemm import (run,  # it\n    tune)\nimport torch, os.path\n" + CODE)
    write(tmp_path / "ours/__init__.py", "")
    write(tmp_path / "ours/gemm.py", "from . import tiles\nfrom ..shared import kept\nSOURCE = 'gemm.cu'\n")
    write(tmp_path / "ours/gemm.cu", "int a;")
    write(tmp_path / "ours/tiles.py", "x = 1\n")
    write(tmp_path / "ours/other.py", "y = 1\n")
    write(tmp_path / "shared.py", "kept = 1\n")
    write(tmp_path / "theirs/gemm.py", "z = 1\n")
    found = one(tmp_path / "mine.py").sidecars
    assert sorted(found) == ["ours/__init__.py", "ours/gemm.cu", "ours/gemm.py", "ours/tiles.py"]


def test_headers_and_sources_by_their_paths_count_beside_a_loose_file(tmp_path: Path) -> None:
    write(tmp_path / "mine.py", "load(sources=['csrc/bind.cpp', str(HERE / 'gemm.cu')])\n" + CODE)
    write(tmp_path / "gemm.cu", '#include "tiles.cuh"\n#include <deep/mma.cuh>\n#include <cuda.h>\n')
    write(tmp_path / "tiles.cuh", '#include "../outside.h"\n')
    write(tmp_path / "deep/mma.cuh", '#include "ptx.h"\n')
    write(tmp_path / "deep/ptx.h", "int a;")
    write(tmp_path / "csrc/bind.cpp", '# include "common/types.h"\n')
    write(tmp_path / "csrc/common/types.h", "int b;")
    write(tmp_path / "csrc/other.h", "int c;")
    write(tmp_path / "unused.cuh", "int d;")
    found = one(tmp_path / "mine.py").sidecars
    names = ["csrc/bind.cpp", "csrc/common/types.h", "deep/mma.cuh", "deep/ptx.h", "gemm.cu", "tiles.cuh"]
    assert sorted(found) == names


def test_headers_of_the_folders_around_a_source_count(tmp_path: Path) -> None:
    write(tmp_path / "mine.py", "load(sources=['csrc/kernels/gemm.cu'], extra_include_paths=['csrc'])\n" + CODE)
    write(tmp_path / "csrc/kernels/gemm.cu", '#include "common/types.h"\n')
    write(tmp_path / "csrc/common/types.h", "int a;")
    write(tmp_path / "csrc/common/other.h", "int b;")
    found = one(tmp_path / "mine.py").sidecars
    assert sorted(found) == ["csrc/common/types.h", "csrc/kernels/gemm.cu"]
