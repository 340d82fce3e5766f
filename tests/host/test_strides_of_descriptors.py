"""Descriptors of Triton's that cannot be made: rows that begin at no multiple of 16 bytes, elements that lie apart."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import check_what_holds

CAUGHT = """\
from triton.tools.tensor_descriptor import TensorDescriptor
try:
    TensorDescriptorGIVEN
    made = True
except AssertionError:
    made = False
"""
OF = "torch.zeros(64, COLUMNS, dtype=torch.TYPE, device=x.device)"


@pytest.mark.parametrize(
    ("columns", "dtype", "made"),
    [(128, "bfloat16", True), (120, "bfloat16", True), (124, "bfloat16", False), (124, "float32", True),
     (4127, "float8_e4m3fn", False), (4128, "float8_e4m3fn", True)],
)  # fmt: skip
def test_rows_begin_at_multiples_of_sixteen_bytes(tmp_path: Path, columns: int, dtype: str, made: bool) -> None:
    tensor = OF.replace("COLUMNS", str(columns)).replace("TYPE", dtype)
    for given in (f".from_tensor({tensor}, [16, 16])", f"({tensor}, [64, {columns}], [{columns}, 1], [16, 16])"):
        check_what_holds(tmp_path, "", CAUGHT.replace("GIVEN", given), "made" if made else "not made")


@pytest.mark.parametrize(
    ("view", "made"),
    [(".t()", False), ("[:, 64:]", True), (".narrow(1, 0, 60)", True), ("[::2]", True), ("[:, ::2]", False)],
)
def test_of_a_view_its_strides_count(tmp_path: Path, view: str, made: bool) -> None:
    tensor = OF.replace("COLUMNS", "128").replace("TYPE", "bfloat16")
    given = f".from_tensor({tensor}{view}, [16, 16])"
    check_what_holds(tmp_path, "", CAUGHT.replace("GIVEN", given), "made" if made else "not made")
