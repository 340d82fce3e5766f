"""Property cases: the plans are drawn by hypothesis, the values by the case's own generator."""

from grader.structure import Structure
from hypothesis import strategies as st


def hot_tail(plan, symbols, inputs, state, generator):
    """The last columns of x, a few times larger than the rest."""
    columns = max(1, symbols["K"] // plan["share"])
    inputs["x"][:, -columns:] *= plan["factor"]


STRUCTURES = {
    "hot-tail": Structure(
        lambda symbols: st.fixed_dictionaries({"share": st.integers(8, 32), "factor": st.integers(4, 16)}), hot_tail
    ),
}
