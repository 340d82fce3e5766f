"""Operations with a state beside their result: recurrent layers, their cells, and attention with its weights."""

from __future__ import annotations

from typing import Any

from kbh_lint.host.torch.signatures import NOTHING, Called, Made, Table, each
from kbh_lint.host.values.tensors import Tensor


def _state(called: Called) -> list[Tensor]:
    """The states that were given: one, or the two of an LSTM."""
    given = called.given.get("hx")
    values = given if isinstance(given, (tuple, list)) else [given]
    return [value for value in values if isinstance(value, Tensor)]


def _last(tensors: list[Tensor]) -> Any:
    return tensors[0].shape[-1] if tensors and tensors[0].shape else None


def _over_time(called: Called) -> list[Made]:
    """The output of every step, and the last state (two of an LSTM)."""
    count = 3 if called.name == "lstm" else 2
    shape, layers = called.shape(), called.number("num_layers")
    first, both = called.given.get("batch_first"), called.given.get("bidirectional")
    if shape is None or len(shape) not in (2, 3) or not isinstance(first, bool) or not isinstance(both, bool):
        return [NOTHING] * count
    hidden = called.number("hidden_size")
    hidden = hidden if hidden is not None else _last(_state(called)[-1:])
    shown = called.number("proj_size") or hidden
    ways = 2 if both else 1
    deep = layers * ways if layers is not None else None
    batch = shape[1:2] if not first else shape[:1]
    batch = batch if len(shape) == 3 else ()
    wide = shown * ways if isinstance(shown, int) else None
    made: list[Made] = [((*shape[:-1], wide), called.dtype), ((deep, *batch, shown), called.dtype)]
    return [*made, ((deep, *batch, hidden), called.dtype)] if count == 3 else made


def _one_step(called: Called) -> Made | list[Made]:
    shape, hidden = called.shape(), called.number("hidden_size")
    hidden = hidden if hidden is not None else _last(_state(called))
    made: Made = ((*shape[:-1], hidden) if shape else None, called.dtype)
    return [made, made] if called.name == "lstm_cell" else made


def _attention(called: Called) -> list[Made]:
    """The result, and the weights that it was made with; averaged over heads unless the call says otherwise."""
    q, k, first = called.shape("query"), called.shape("key"), called.given.get("batch_first")
    if q is None or k is None or len(q) != len(k) or len(q) not in (2, 3) or not isinstance(first, bool):
        return [NOTHING] * 2
    if len(q) == 2:
        batch, rows, columns = (), q[0], k[0]
    else:
        batch, rows, columns = (q[:1], q[1], k[1]) if first else (q[1:2], q[0], k[0])
    heads = () if called.given.get("average_attn_weights") is True else (called.number("num_heads"),)
    return [(q, called.dtype), ((*batch, *heads, rows, columns), called.dtype)]


TABLE: Table = {
    **each("lstm gru rnn_tanh rnn_relu", "input hx=None params=None has_biases=True num_layers=1 dropout=0.0 "
           "train=False bidirectional=False batch_first=False", _over_time),
    **each("lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell", "input hx=None w_ih=None w_hh=None b_ih=None b_hh=None",
           _one_step),
    **each("multi_head_attention_forward", "query key value key_padding_mask=None need_weights=True attn_mask=None "
           "average_attn_weights=True is_causal=False batch_first=None", _attention),
}  # fmt: skip
