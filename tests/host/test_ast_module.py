"""The module `ast`: programs that read, build and change trees of Python mean what they mean, and kernels that are made
so are looked at like any other; what is not known in a tree leaves its result unknown."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from host_support import ARGUMENTS, GEMM, GRID, HEAD, OUTPUT, TILES, classes, lint, model, reasons
from test_python_meaning import executed

import kbh_lint
from kbh_lint.frontends import python
from kbh_lint.host.run import Run
from kbh_lint.host.values.frames import Frame
from kbh_lint.host.values.run_state import HoleKind
from kbh_lint.host.values.session import Session
from kbh_lint.host.values.tensors import Unknown


def run_on(program: str, text: str) -> tuple[Run, Any]:
    runner = Run(Session(python.lower(program, "solution.py"), {}, (12, 0)), {})
    env = runner.scopes.main
    env.vars["text"] = text
    runner.block(runner.session.module.body, Frame(env, env, None, None))
    return runner, env.vars.get("answer")


# --- what programs mean

SAME = {
    "a tree says what it is made of": """
import ast
tree = ast.parse("def f(a, *b, c=1):\\n    return a + b[0] * c\\n")
answer = [type(tree.body[0]).__name__, tree.body[0].name, tree.body[0].args.vararg.arg, tree._fields,
          ast.BinOp._fields, ast.BinOp.__match_args__, ast.Name._attributes,
          tree.body[0].body[0].value.right.op.__class__.__name__]
""",
    "places of nodes": """
import ast
tree = ast.parse("x = 1\\nif x:\\n  é = 'a'; y = (x +\\n   2)\\n")
answer = [(type(n).__name__, n.lineno, n.col_offset, n.end_lineno, n.end_col_offset)
          for n in ast.walk(tree) if hasattr(n, 'lineno')]
""",
    "a visitor reads names": """
import ast
class Names(ast.NodeVisitor):
    def __init__(self):
        self.found = []
    def visit_Name(self, node):
        self.found.append((node.id, type(node.ctx).__name__))
    def visit_Call(self, node):
        self.found.append('call')
        self.generic_visit(node)
v = Names()
v.visit(ast.parse("y = f(x, g(z))\\nfor i in y: print(i)"))
answer = v.found
""",
    "a visitor gives back what its methods do": """
import ast
class Value(ast.NodeVisitor):
    def visit_Expression(self, node): return self.visit(node.body)
    def visit_BinOp(self, node):
        a, b = self.visit(node.left), self.visit(node.right)
        return a + b if isinstance(node.op, ast.Add) else a * b
    def visit_Constant(self, node): return node.value
    def generic_visit(self, node): raise ValueError(type(node).__name__)
answer = [Value().visit(ast.parse("1 + 2 * (3 + 4)", mode="eval"))]
try:
    Value().visit(ast.parse("-1", mode="eval"))
except ValueError as e:
    answer.append(str(e))
""",
    "a visitor whose visit is its own": """
import ast
class Depth(ast.NodeVisitor):
    def __init__(self): self.depth, self.most = 0, 0
    def visit(self, node):
        self.depth += 1
        self.most = max(self.most, self.depth)
        super().visit(node)
        self.depth -= 1
v = Depth()
v.visit(ast.parse("a = [1, (2, {3: 4 + 5})]"))
answer = [v.most, v.depth]
""",
    "a transformer puts, takes out and spreads": """
import ast
class Change(ast.NodeTransformer):
    def visit_Assert(self, node): return None
    def visit_Expr(self, node): return [node, ast.copy_location(ast.Pass(), node)]
    def visit_Name(self, node): return ast.copy_location(ast.Name('_' + node.id, node.ctx), node)
    def visit_Return(self, node):
        self.generic_visit(node)
        node.value = None
        return node
tree = Change().visit(ast.parse("def f(x):\\n    assert x\\n    g(x)\\n    return x\\n"))
answer = [ast.unparse(tree), ast.dump(tree)]
""",
    "a visit that gives None takes a field away": """
import ast
class Bare(ast.NodeTransformer):
    def visit_Constant(self, node): return None
tree = Bare().visit(ast.parse("def f(): return 3"))
answer = [hasattr(tree.body[0].body[0], 'value'), tree.body[0].body[0].value]
""",
    "the names of constants that were": """
import ast
class Old(ast.NodeVisitor):
    def __init__(self): self.found = []
    def visit_Num(self, node): self.found.append(('num', node.value))
    def visit_Str(self, node): self.found.append(('str', node.value))
    def visit_NameConstant(self, node): self.found.append(('name', node.value))
v = Old()
v.visit(ast.parse("f(1, 'a', None, True, b'c', 2.5)"))
c = ast.parse("1", mode="eval").body
answer = [v.found, isinstance(c, ast.Num), isinstance(c, (ast.Str, ast.Bytes)), isinstance(c, (ast.Str, ast.Num)), c.n,
          ast.dump(ast.Num(3)), ast.dump(ast.Str('s'))]
""",
    "isinstance and issubclass": """
import ast
n = ast.parse("a @ b", mode="eval").body
answer = [isinstance(n, ast.expr), isinstance(n, (ast.Call, ast.BinOp)), isinstance(n.op, ast.operator),
          isinstance(n, ast.stmt), isinstance(3, ast.AST), isinstance(None, ast.expr),
          issubclass(ast.Add, ast.operator),
          issubclass(ast.For, ast.AST), isinstance(n, ast.BinOp | ast.Call)]
""",
    "match statements": """
import ast
def kind(node):
    match node:
        case ast.BinOp(ast.Constant(a), ast.Add(), ast.Constant(b)):
            return a + b
        case ast.BinOp(op=ast.Mult(), left=ast.Name(id=name)):
            return name
        case ast.Call(func=ast.Attribute(value=ast.Name('tl'), attr=attr), args=[first, *_]):
            return attr, type(first).__name__
        case ast.expr():
            return 'expr'
    return None
answer = [kind(ast.parse(t, mode="eval").body) for t in ("1 + 2", "x * 3", "tl.load(p + 1, m)", "tl.load()", "[1]")]
answer.append(kind(3))
""",
    "constructors": """
import ast
n = ast.BinOp(ast.Name('a', ast.Load()), ast.Add(), right=ast.Constant(2))
d = ast.Dict([ast.Constant('k')], [n])
load = ast.Attribute(value=ast.Name(id='tl', ctx=ast.Load()), attr='load', ctx=ast.Load())
call = ast.Call(func=load, args=[n], keywords=[ast.keyword('mask', ast.Constant(None))])
args = ast.arguments(posonlyargs=[], args=[ast.arg('a')], kwonlyargs=[], kw_defaults=[], defaults=[])
f = ast.FunctionDef(name='f', args=args, body=[ast.Return(call)], decorator_list=[], lineno=1, col_offset=0)
answer = [ast.unparse(n), ast.unparse(d), ast.unparse(f), ast.dump(f), n.left.id, hasattr(n, 'lineno'), f.returns]
for build in (lambda: ast.Name('a', ast.Load(), 3), lambda: ast.Name('a', id='b')):
    try:
        build()
        answer.append('built')
    except TypeError as e:
        answer.append(str(e))
try:
    ast.Assign([], ast.Constant(1)).nothing
except AttributeError:
    answer.append('no attribute')
""",
    "fields are set, deleted and listed": """
import ast
n = ast.parse("f(x, key=1)", mode="eval").body
n.keywords = []
n.args.append(ast.Constant(5))
del n.args[0]
setattr(n.func, 'id', 'g')
n.extra = 3
del n.extra
answer = [ast.unparse(n), list(ast.iter_fields(n.args[0])), [type(c).__name__ for c in ast.iter_child_nodes(n)],
          sorted(vars(n.args[0])), hasattr(n, 'extra'), getattr(n, 'attr', 'none')]
""",
    "walk goes on with what is there by then": """
import ast
tree = ast.parse("f(g(1), h(2))\\nk(3)")
seen = []
for node in ast.walk(tree):
    seen.append(type(node).__name__)
    if isinstance(node, ast.Module):
        node.body[0].value.args.pop()
first = next(n for n in ast.walk(tree) if isinstance(n, ast.Call))
answer = [seen, ast.unparse(first), sum(isinstance(n, ast.Call) for n in ast.walk(tree))]
""",
    "places are copied, filled in and moved": """
import ast
tree = ast.parse("x = 1\\ny = f(2)\\n")
new = ast.copy_location(ast.Call(ast.Name('g', ast.Load()), [ast.Constant(3)], []), tree.body[1].value)
tree.body[1].value = new
answer = [hasattr(new.func, 'lineno'), ast.fix_missing_locations(tree) is tree, new.func.lineno,
          new.args[0].end_col_offset]
answer += [ast.dump(ast.increment_lineno(tree, 4), include_attributes=True)]
answer += [ast.dump(ast.fix_missing_locations(ast.Expression(ast.Name('a', ast.Load()))), include_attributes=True)]
""",
    "documentation": """
import ast
tree = ast.parse('\"\"\"One.\\n\\n    Two.\\n    \"\"\"\\ndef f():\\n    "three"\\ndef g(): pass')
answer = [ast.get_docstring(tree), ast.get_docstring(tree, clean=False), ast.get_docstring(tree.body[1]),
          ast.get_docstring(tree.body[2])]
try:
    ast.get_docstring(tree.body[0].value)
except TypeError as e:
    answer.append(str(e))
""",
    "literals": """
import ast
answer = [ast.literal_eval("{'a': [1, (2.5, -3)], 'b': {4}, 'c': None}"),
          ast.literal_eval(ast.parse("[1, 2]", mode="eval")),
          ast.literal_eval(ast.Constant(7)), ast.literal_eval("  1+2j")]
for text in ("f(1)", "1 +", "a"):
    try:
        answer.append(ast.literal_eval(text))
    except (ValueError, SyntaxError) as e:
        answer.append(type(e).__name__)
""",
    "parts of the text": """
import ast
text = "if a:\\n    x = f(1,\\n          2)\\n"
tree = ast.parse(text)
answer = [ast.get_source_segment(text, tree.body[0].body[0].value),
          ast.get_source_segment(text, tree.body[0], padded=True)]
""",
    "text that is no Python": """
import ast
answer = []
try:
    ast.parse("x = = 1")
except SyntaxError as e:
    answer.append('refused')
""",
    "code of trees runs": """
import ast
tree = ast.parse("def f(n):\\n    return n * FACTOR\\n")
class Put(ast.NodeTransformer):
    def visit_Name(self, node):
        return ast.Constant(7) if node.id == 'FACTOR' else node
scope = {}
exec(compile(ast.fix_missing_locations(Put().visit(tree)), "<made>", "exec"), scope)
power = ast.Expression(ast.BinOp(ast.Constant(2), ast.Pow(), ast.Constant(5)))
answer = [scope['f'](3), eval(compile(ast.fix_missing_locations(power), "<e>", "eval"))]
answer.append(ast.unparse(compile("a+b", "<t>", "exec", ast.PyCF_ONLY_AST)))
""",
    "code of trees binds in a scope of its own": """
import ast
tree = ast.parse("def f(n):\\n    return n + k\\nm = f(1) + k")
names, own = {'k': 4}, {}
exec(compile(tree, "<t>", "exec"), names, own)
def inside():
    made = {}
    exec("def g(n):\\n    return n * FACTOR", globals(), made)
    return made['g'](5)
FACTOR = 3
answer = [own['f'](2), own['m'], 'm' in names, sorted(own), inside(),
          eval("k + n", {'k': 1}, {'n': 5}), eval("k", names)]
names['k'] = 10
answer.append(own['f'](2))
""",
    "code of trees that lack something is refused": """
import ast
answer = []
for tree, mode in ((ast.Module([ast.Expr(ast.Constant(1))], []), "exec"), (ast.parse("1"), "eval"),
                   (ast.Expression(ast.Constant(1)), "exec"), (ast.Expression(ast.Name('a')), "eval")):
    try:
        compile(tree, "<t>", mode)
        answer.append('compiled')
    except TypeError as e:
        answer.append(str(e))
""",
    "a text of a tree without places": """
import ast
answer = [ast.unparse(ast.Module([ast.Expr(ast.Call(ast.Name('f', ast.Load()), [], []))], []))]
try:
    ast.unparse(ast.Module([ast.Assign([ast.Name('x', ast.Store())], ast.Constant(1))], []))
except AttributeError as e:
    answer.append('no line')
""",
    "copies of trees": """
import ast, copy
tree = ast.parse("x = f(1)")
other = copy.deepcopy(tree)
other.body[0].value.args[0].value = 2
answer = [ast.unparse(tree), ast.unparse(other), ast.dump(tree) == ast.dump(other), tree.body[0] in tree.body,
          tree == other]
""",
    "names brought in by from": """
from ast import NodeTransformer, parse, unparse, Constant as C, Add
import ast as a
class Sums(NodeTransformer):
    def visit_BinOp(self, node):
        node = self.generic_visit(node)
        match node:
            case a.BinOp(C(x), Add(), C(y)):
                return C(x + y)
        return node
answer = unparse(Sums().visit(parse("z = 1 + 2 + 3 * (4 + 5)")))
""",
    "methods in a table of a class": """
import ast
class Table(ast.NodeTransformer):
    visit_Add = visit_Sub = lambda self, node: ast.Mult()
    def generic_visit(self, node):
        return ast.NodeTransformer.generic_visit(self, node)
tree = ast.parse("a + b - c")
t = Table()
t.visit_Name = lambda node: ast.Name(node.id.upper(), node.ctx)
answer = [ast.unparse(t.visit(tree)), [c.__name__ for c in ast.cmpop.__subclasses__()][:3], ast.Load() is ast.Load()]
""",
    "statements are unrolled": """
import ast, copy
class Unroll(ast.NodeTransformer):
    def visit_For(self, node):
        self.generic_visit(node)
        match node.iter:
            case ast.Call(func=ast.Name(id='range'), args=[ast.Constant(value=n)]) if n <= 4:
                out = []
                for i in range(n):
                    class Put(ast.NodeTransformer):
                        def visit_Name(self, name):
                            return ast.Constant(i) if name.id == node.target.id else name
                    out += [Put().visit(copy.deepcopy(s)) for s in node.body]
                return out
        return node
tree = Unroll().visit(ast.parse("for i in range(3):\\n    a[i] = b(i)\\nfor j in range(9):\\n    pass\\n"))
answer = ast.unparse(ast.fix_missing_locations(tree))
""",
    "a dump with lines": """
import ast
tree = ast.parse("f(x, y=1)")
answer = [ast.dump(tree, indent=2), ast.dump(tree, False),
          ast.dump(tree.body[0], annotate_fields=False, include_attributes=True)]
""",
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", SAME)
def test_a_program_that_uses_trees_means_what_it_means_in_python(name: str) -> None:
    runner, answer = run_on(SAME[name], "")
    assert [hole for hole in runner.trace.unread if hole.kind is not HoleKind.MADE] == []
    assert repr(answer) == repr(executed(SAME[name]))


PROGRAM = """
import ast
class Same(ast.NodeTransformer):
    def visit_Name(self, node): return node
tree = ast.parse(text)
answer = [ast.dump(tree, include_attributes=True), ast.unparse(tree), [type(n).__name__ for n in ast.walk(tree)]]
answer.append(ast.dump(Same().visit(tree), include_attributes=True) == answer[0])
"""


OWN = sorted(
    path.relative_to(Path(kbh_lint.__file__).parent).as_posix() for path in Path(kbh_lint.__file__).parent.rglob("*.py")
)


@pytest.mark.share(20)
@pytest.mark.parametrize("name", OWN)
def test_trees_of_our_own_files_are_those_of_python(name: str) -> None:
    text = (Path(kbh_lint.__file__).parent / name).read_text(encoding="utf-8")
    runner, answer = run_on(PROGRAM, text)
    real = ast.parse(text)
    names = [type(node).__name__ for node in ast.walk(real)]
    assert not runner.trace.unread, runner.trace.unread
    assert answer == [ast.dump(real, include_attributes=True), ast.unparse(real), names, True]


# --- what is not known

# What is done with a tree that is not known, or holds what is not: `answer` is not known, and nothing fails.
OPEN = {
    "a text that is not known": "answer = ast.unparse(ast.parse(open('/data/k.py').read()))",
    "a constant that is not known": "answer = ast.unparse(ast.Expression(ast.Constant(os.getpid())))",
    "a dump of one": "answer = ast.dump(ast.Constant(random.random()))",
    "a name that is not known": "answer = ast.unparse(ast.Name(open('/data/k').read(), ast.Load()))",
    "a list that is not known": "answer = ast.unparse(ast.List(random.sample([], 1), ast.Load()))",
    "an object of something else": "answer = ast.unparse(ast.Constant(torch.float16))",
    "a class of its own": "class N(ast.expr):\n    _fields = ('a',)\nanswer = ast.unparse(N(ast.Constant(1)))",
    "a tree in itself": "n = ast.List([], ast.Load())\nn.elts.append(n)\nanswer = ast.unparse(n)",
    "a literal that is not known": "answer = ast.literal_eval(open('/data/k').read())",
    "code that is not known": (
        "n = ast.fix_missing_locations(ast.Expression(ast.Constant(random.random())))\nanswer = compile(n, 'a', 'eval')"
    ),
    "a tree that grows at each step": (
        "n = ast.Name('a', ast.Load())\nfor i in range(40): n = ast.BinOp(n, ast.Add(), n)\nanswer = ast.unparse(n)"
    ),
    "a tree that is deep": (
        "n = ast.Name('a', ast.Load())\nfor i in range(4000): n = ast.UnaryOp(ast.Not(), n)\nanswer = ast.unparse(n)"
    ),
    "a text that is deep": "answer = ast.parse('-' * 3000 + '1')",
    "a text that is too long": "answer = ast.parse('x = 1\\n' * 300_000)",
    "a text of parentheses": "answer = ast.unparse(ast.parse('(' * 190 + '1' + ')' * 190 + '+' + '+'.join('a' * 190)))",
    "an iterator that is no list": "answer = ast.unparse(ast.Module((ast.Pass() for i in [1]), []))",
    "a visit of what is not known": "answer = ast.NodeTransformer().visit(ast.parse(open('/data/k.py').read()))",
    "a visitor that is not known": "answer = ast.NodeTransformer.visit(open('/data/k').read(), ast.parse('a'))",
}


@pytest.mark.parametrize("what", OPEN)
def test_what_is_not_known_of_a_tree_is_not_known_of_its_result(what: str) -> None:
    runner, answer = run_on(f"import ast, os, random, torch\n{OPEN[what]}\n", "")
    assert isinstance(answer, Unknown), (answer, runner.trace.unread)
    assert not [hole for hole in runner.trace.unread if "could not follow" in hole.why], runner.trace.unread


# What a visitor meets that it cannot know is a hole: nobody knows what it would have noted.
UNSEEN = {
    "a whole tree": "V().visit(ast.parse(open('/data/k.py').read()))",
    "a part of one": "V().visit(ast.Expr(random.choice([])))",
    "an item": "V().visit(ast.List([random.choice([])], ast.Load()))",
    "a part that is changed": "ast.NodeTransformer().visit(ast.Expr(random.choice([])))",
    "all of one": "for node in ast.walk(ast.parse(open('/data/k.py').read())): pass",
}


@pytest.mark.parametrize("what", UNSEEN)
def test_a_visit_of_what_is_not_known_is_told(what: str) -> None:
    text = f"import ast, random\nclass V(ast.NodeVisitor):\n    def visit_Name(self, node): pass\n{UNSEEN[what]}\n"
    runner, _ = run_on(text, "")
    assert any("syntax tree" in hole.why for hole in runner.trace.unread), runner.trace.unread


def test_a_number_that_is_not_known_is_no_part_that_a_visitor_misses() -> None:
    text = "import ast, random\nv = ast.NodeTransformer().visit(ast.Expression(ast.Constant(random.random())))\n"
    runner, _ = run_on(text, "")
    assert not runner.trace.unread


def test_a_tree_that_holds_itself_ends_the_visit(recwarn: pytest.WarningsRecorder) -> None:
    text = "import ast\nn = ast.List([], ast.Load())\nn.elts.append(n)\nast.NodeVisitor().visit(n)\nanswer = 3\n"
    runner, answer = run_on(text, "")
    assert answer == 3 and runner.trace.unread


# --- where things stood


def test_what_a_tree_is_written_as_stands_where_its_parts_did(tmp_path: Path) -> None:
    """Also under a copy of a place, and with lines that were moved; what stood nowhere stands at the call."""
    program = """import ast
TEXT = '''
a = first(1)
if a:
    b = second(2)
'''
class Wrap(ast.NodeTransformer):
    def visit_Call(self, node):
        return ast.copy_location(ast.Call(ast.Name("w", ast.Load()), [node], []), node)
tree = ast.increment_lineno(Wrap().visit(ast.parse(TEXT)), 100)
tree.body.insert(0, ast.parse("import third")
    .body[0])
answer = ast.unparse(ast.fix_missing_locations(tree))
new = ast.unparse(ast.fix_missing_locations(ast.Module([ast.Expr(ast.Constant(3))], [])))
"""
    runner, text = run_on(program, "")
    lines = {row: text.origin(text.index(row))[1] for row in str(text).splitlines()}
    assert lines == {"import third": 11, "a = w(first(1))": 3, "if a:": 4, "    b = w(second(2))": 5}
    assert runner.scopes.main.vars["new"].origin(0)[1] == 14


# --- kernels that are made so

CHANGED = """
import ast, textwrap

BODY = '''KERNEL'''


class Bind(ast.NodeTransformer):
    def __init__(self, table):
        self.table = table

    def visit_Name(self, node):
        return ast.copy_location(ast.Constant(self.table[node.id]), node) if node.id in self.table else node


class Step(ast.NodeTransformer):
STEP


def made(M, N, K):
    tree = ast.parse(BODY)
    for step in (Bind(dict(BM=64, BN=128, BK=64)), Step()):
        tree = ast.fix_missing_locations(step.visit(tree))
    scope = {"tl": tl, "__name__": __name__}
    exec(compile(tree, "<made>", "exec"), scope)
    return triton.jit(scope["gemm"])
"""
PLAIN = GEMM.replace(", BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr", "")
LAUNCH = f"{OUTPUT.strip()}\nself.kernel[{GRID}]({ARGUMENTS})\nreturn y"


def submission(step: str, kernel: str = PLAIN) -> str:
    indented = "".join(f"    {line}\n" for line in step.strip("\n").splitlines())
    return (
        HEAD
        + CHANGED.replace("KERNEL", kernel).replace("STEP\n", indented)
        + model(LAUNCH, "self.kernel = made(M, N, K)")
    )


HONEST_STEPS = {
    "nothing is changed": "pass",
    "masks are taken away": """
def visit_Call(self, node):
    self.generic_visit(node)
    if isinstance(node.func, ast.Attribute) and node.func.attr == "load" and len(node.keywords) > 5:
        node.keywords = []
    return node
""",
    "numbers are folded": """
def visit_BinOp(self, node):
    self.generic_visit(node)
    if isinstance(node.left, ast.Constant) and isinstance(node.right, ast.Constant):
        return ast.Constant(eval(compile(ast.fix_missing_locations(ast.Expression(node)), "<fold>", "eval")))
    return node
""",
    "names are made anew": """
def visit_Assign(self, node):
    match node:
        case ast.Assign(targets=[ast.Name(id="acc")]):
            return [node, ast.Assign([ast.Name("spare", ast.Store())], ast.Name("acc", ast.Load()))]
    return node
""",
}
CAST = """
def visit_Call(self, node):
    self.generic_visit(node)
    if isinstance(node.func, ast.Attribute) and node.func.attr == "dot":
        for i in (0, 1):
            cast = ast.parse("v.to(tl.bfloat16)", mode="eval").body
            cast.func.value = node.args[i]
            node.args[i] = cast
    return node
"""
LEAKING_STEPS = {
    "operands are cast by a tree": CAST,
    "operands are cast by nodes": """
def visit_Call(self, node):
    self.generic_visit(node)
    match node:
        case ast.Call(func=ast.Attribute(attr="dot"), args=[a, b, c]):
            kind = ast.Attribute(ast.Name("tl", ast.Load()), "bfloat16", ast.Load())
            node.args = [ast.Call(ast.Attribute(x, "to", ast.Load()), [kind], []) for x in (a, b)] + [c]
    return node
""",
    "loads are cast": """
def visit_Assign(self, node):
    if isinstance(node.targets[0], ast.Name) and node.targets[0].id in ("a", "b"):
        more = ast.parse(f"{node.targets[0].id} = {node.targets[0].id}.to(tl.float16)").body[0]
        return [node, more]
    return node
""",
    "a walk changes calls": """
def visit_FunctionDef(self, node):
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and getattr(call.func, "attr", "") == "dot":
            kind = ast.Attribute(ast.Name("tl", ast.Load()), "bfloat16", ast.Load())
            call.args[:2] = [ast.Call(ast.Attribute(a, "to", ast.Load()), [kind], []) for a in call.args[:2]]
    return node
""",
}


@pytest.mark.parametrize("step", HONEST_STEPS)
def test_an_honest_kernel_that_is_made_of_a_tree_keeps_its_promises(tmp_path: Path, step: str) -> None:
    report = lint(tmp_path, submission(HONEST_STEPS[step]))
    assert (report.verdict, {p.state for p in report.promises}) == ("clean", {"kept"}), reasons(report)


@pytest.mark.parametrize("step", LEAKING_STEPS)
def test_a_kernel_that_becomes_a_leak_on_the_way_is_one(tmp_path: Path, step: str) -> None:
    text = submission(LEAKING_STEPS[step])
    report = lint(tmp_path, text)
    assert classes(report) == {"fp8-upcast-bf16-gemm"}, reasons(report)
    parts = ("tl.dot(", "tl.load(", ".to(tl.float16)")  # also where a statement that was put in was written
    lines = {i for i, row in enumerate(text.splitlines(), 1) if any(part in row for part in parts)}
    assert {f.span.line for f in report.findings} <= lines, reasons(report)


def test_a_leak_in_the_text_is_honest_where_the_tree_takes_it_out(tmp_path: Path) -> None:
    takes_out = """
def visit_Call(self, node):
    self.generic_visit(node)
    if isinstance(node.func, ast.Attribute) and node.func.attr == "to" and ast.unparse(node.args[0]) == "tl.float16":
        return node.func.value
    return node
"""
    wide = PLAIN.replace("tl.dot(a, b, acc)", "tl.dot(a.to(tl.float16), b.to(tl.float16), acc)")
    assert lint(tmp_path, submission(takes_out, wide)).verdict == "clean"
    assert classes(lint(tmp_path, submission("pass", wide))) == {"fp8-upcast-bf16-gemm"}


def test_a_host_function_that_is_built_of_nodes_is_followed(tmp_path: Path) -> None:
    build = """
import ast
def name(n): return ast.Name(n, ast.Load())
product = ast.BinOp(ast.Call(ast.Attribute(name("x"), "bfloat16", ast.Load()), [], []), ast.MatMult(),
                    ast.Attribute(ast.Call(ast.Attribute(name("w"), "bfloat16", ast.Load()), [], []), "T", ast.Load()))
shell = ast.parse("def run(x, w): pass")
shell.body[0].body = [ast.Return(product)]
scope = {}
exec(compile(ast.fix_missing_locations(shell), "<host>", "exec"), scope)
"""
    report = lint(
        tmp_path, HEAD + build + model("return (scope['run'](x, self.weight) * self.weight_scale).bfloat16()")
    )
    assert "fp8-upcast-bf16-gemm" in classes(report), reasons(report)


UNKNOWN_STEPS = {
    "a text of a file": """
def visit_FunctionDef(self, node):
    node.body.insert(0, ast.parse("t = 1").body[0])
    node.body[0].value = ast.Constant(open('/data/n').read())
    return node
""",
    "statements of a file": """
def visit_FunctionDef(self, node):
    node.body += ast.parse(open('/data/more.py').read()).body
    return node
""",
}


@pytest.mark.parametrize("step", UNKNOWN_STEPS)
def test_a_kernel_with_a_part_that_nobody_knows_is_unproven(tmp_path: Path, step: str) -> None:
    report = lint(tmp_path, submission(UNKNOWN_STEPS[step]))
    assert report.verdict == "unproven" and not classes(report), reasons(report)
    assert any("not known" in reason for reason in reasons(report)), reasons(report)


def test_what_a_visitor_collected_of_a_kernel_chooses_a_launch(tmp_path: Path) -> None:
    """A reading visitor: the number of loads decides between the kernel and the product of torch."""
    count = """
import ast
class Loads(ast.NodeVisitor):
    def __init__(self): self.count = 0
    def visit_Call(self, node):
        self.count += isinstance(node.func, ast.Attribute) and node.func.attr == "load"
        self.generic_visit(node)
BODY = '''KERNEL'''
v = Loads()
v.visit(ast.parse(BODY))
""".replace("KERNEL", GEMM)
    launch = f"{OUTPUT.strip()}\ngemm[{GRID}]({ARGUMENTS}, {TILES})\nreturn y"
    leak = "return (x.bfloat16() @ self.weight.bfloat16().T * self.weight_scale).bfloat16()\n"
    head = HEAD + "\n\n@triton.jit" + GEMM + count
    assert lint(tmp_path, head + model(f"if v.count != 3:\n    {leak}{launch}")).verdict == "clean"
    assert "fp8-upcast-bf16-gemm" in classes(lint(tmp_path, head + model(f"if v.count == 3:\n    {leak}{launch}")))


# --- what it costs


def test_files_that_do_not_use_trees_do_not_load_what_models_them() -> None:
    code = (
        "import sys, kbh_lint.host.run\n"
        "print(any(name.startswith('kbh_lint.host.datamodel.tree') for name in sys.modules))\n"
    )
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert made.stdout.strip() == "False"
