"""Ragged numbers of rows in use."""

from hypothesis import strategies as st

from grader.structure import Structure


def fewer_rows(plan, symbols, inputs, state, generator):
    inputs["used"].fill_(plan["used"])


STRUCTURES = {
    "ragged": Structure(lambda symbols: st.integers(1, symbols["M"] - 1).map(lambda n: {"used": n}), fewer_rows),
}
