"""Ours: a text that stands in for a library's in examples and tests, as virus scanners have a harmless test file.

The fingerprints say that it belongs to a library `kbh-sample`, which a ban of liger_kernel covers.
"""

# ruff: noqa: F821


def row_statistics(source, maxima, sums, width, TILE):
    base = tl.program_id(0).to(tl.int64) * width
    lanes = TILE - 1 - tl.arange(0, TILE)
    best = tl.load(source + base + lanes, mask=lanes < width, other=float("-inf"))
    for at in range(TILE, width, TILE):
        best = tl.maximum(tl.load(source + base + at + lanes, mask=lanes < width - at, other=float("-inf")), best)
    peak = tl.max(best, axis=0)
    kept, lost = tl.zeros((TILE,), tl.float32), tl.zeros((TILE,), tl.float32)
    for at in range(0, width, TILE):
        term = tl.exp(tl.load(source + base + at + lanes, mask=lanes < width - at, other=float("-inf")) - peak) - lost
        grown = kept + term
        lost = (grown - kept) - term
        kept = grown
    tl.store(maxima + tl.program_id(0), peak)
    tl.store(sums + tl.program_id(0), tl.sum(kept, axis=0))


def row_normalize(source, target, maxima, sums, width, TILE):
    row, tile = tl.program_id(0), tl.program_id(1)
    lanes = TILE - 1 - tl.arange(0, TILE)
    base = row.to(tl.int64) * width + tile * 2 * TILE
    left = width - tile * 2 * TILE
    peak, total = tl.load(maxima + row), tl.load(sums + row)
    near = tl.exp(tl.load(source + base + lanes, mask=lanes < left, other=float("-inf")) - peak) / total
    far = tl.exp(tl.load(source + base + TILE + lanes, mask=lanes < left - TILE, other=float("-inf")) - peak) / total
    tl.store(target + base + lanes, near, mask=lanes < left)
    tl.store(target + base + TILE + lanes, far, mask=lanes < left - TILE)
