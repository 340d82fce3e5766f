"""torch.func: what calls a function of one sample for each of a batch."""


def vmap(func, in_dims=0, out_dims=0, randomness="error", *, chunk_size=None):
    def mapped(*args, **kwargs):
        dims = in_dims if isinstance(in_dims, (tuple, list)) else (in_dims,) * len(args)
        pairs = [*zip(args, dims, strict=False), *[(value, 0) for value in kwargs.values()]]
        sizes = [size for value, dim in pairs for size in _sizes(value, dim)]
        if not sizes:
            raise ValueError("vmap: at least one input has to be mapped over")

        def sample(at):
            rows = [_row(value, dim, at) for value, dim in zip(args, dims, strict=False)]
            return func(*rows, **{name: _row(value, 0, at) for name, value in kwargs.items()})

        samples = []
        for at in range(sizes[0]):
            samples.append(sample(at))
        return _batched(samples, out_dims)

    return mapped


def _within(value, dim):
    if isinstance(value, dict):
        dims = dim if isinstance(dim, dict) else dict.fromkeys(value, dim)
        return {name: (item, dims[name]) for name, item in value.items()}
    return {at: (item, dim[at] if isinstance(dim, (tuple, list)) else dim) for at, item in enumerate(value)}


def _sizes(value, dim):
    if dim is None:
        return []
    if isinstance(value, (tuple, list, dict)):
        return [size for item, inner in _within(value, dim).values() for size in _sizes(item, inner)]
    return [value.shape[dim]] if hasattr(value, "select") else []


def _row(value, dim, at):
    if dim is None:
        return value
    if isinstance(value, dict):
        return {name: _row(item, inner, at) for name, (item, inner) in _within(value, dim).items()}
    if isinstance(value, (tuple, list)):
        return type(value)(_row(item, inner, at) for item, inner in _within(value, dim).values())
    return value.select(dim, at) if hasattr(value, "select") else value


def _batched(rows, dim):
    first = rows[0]
    if isinstance(first, (tuple, list)):
        dims = dim if isinstance(dim, (tuple, list)) else (dim,) * len(first)
        return tuple(_batched([row[at] for row in rows], dims[at]) for at in range(len(first)))
    if isinstance(first, dict):
        return {name: _batched([row[name] for row in rows], dim) for name in first}
    return first if dim is None else __stacked__(rows, dim)
