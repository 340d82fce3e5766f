"""ast: how its functions are called; the classes of nodes and visitors are made of the real ones."""


def parse(source, filename="<unknown>", mode="exec", *, type_comments=False, feature_version=None, optimize=-1):
    return __parsed__(source, mode, type_comments)


def unparse(ast_obj):
    return __unparsed__(ast_obj)


def dump(node, annotate_fields=True, include_attributes=False, *, indent=None, show_empty=False):
    return __dumped__(node, annotate_fields, include_attributes, indent)


def literal_eval(node_or_string):
    return __literal__(node_or_string)


def iter_fields(node):
    return __fields__(node)


def iter_child_nodes(node):
    return __below__(node)


def walk(node):
    return __walked__(node)


def fix_missing_locations(node):
    return __fixed__(node)


def increment_lineno(node, n=1):
    return __moved__(node, n)


def copy_location(new_node, old_node):
    return __copied__(new_node, old_node)


def get_docstring(node, clean=True):
    if not isinstance(node, (AsyncFunctionDef, FunctionDef, ClassDef, Module)):
        raise TypeError(f"{node.__class__.__name__!r} can't have docstrings")
    if not (node.body and isinstance(node.body[0], Expr)):
        return None
    value = node.body[0].value
    if not (isinstance(value, Constant) and isinstance(value.value, str)):
        return None
    return __cleaned__(value.value) if clean else value.value


def get_source_segment(source, node, *, padded=False):
    if getattr(node, "end_lineno", None) is None or getattr(node, "end_col_offset", None) is None:
        return None
    start = 0 if padded and node.end_lineno != node.lineno else node.col_offset
    found = __segment__(source, node.lineno, start, node.end_lineno, node.end_col_offset)
    return " " * node.col_offset + found[node.col_offset :] if padded and not start and node.col_offset else found


class _Old(type):
    def __instancecheck__(cls, instance):
        return __is_old__(cls.__name__, instance)


class Num(Constant, metaclass=_Old):
    def __new__(cls, *args, **kwargs):
        return Constant(*args, **kwargs)


class Str(Constant, metaclass=_Old):
    def __new__(cls, *args, **kwargs):
        return Constant(*args, **kwargs)


class Bytes(Constant, metaclass=_Old):
    def __new__(cls, *args, **kwargs):
        return Constant(*args, **kwargs)


class NameConstant(Constant, metaclass=_Old):
    def __new__(cls, *args, **kwargs):
        return Constant(*args, **kwargs)


class Ellipsis(Constant, metaclass=_Old):
    def __new__(cls, *args, **kwargs):
        return Constant(..., *args, **kwargs)


class slice(AST):
    pass


class Index(slice):
    def __new__(cls, value, **kwargs):
        return value


class ExtSlice(slice):
    def __new__(cls, dims=(), **kwargs):
        return Tuple(list(dims), Load(), **kwargs)
