from hypothesis import strategies as st
from grader.structure import Structure


def apply(plan, symbols, inputs, state, generator):
    inputs["used"].fill_(plan["used"])


STRUCTURES = {
    "ragged": Structure(lambda s: st.integers(1, s["M"] - 1).map(lambda n: {"used": n}), apply)
}
