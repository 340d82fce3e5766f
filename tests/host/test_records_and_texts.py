"""Records, texts and containers give what Python gives: each program is run by both, and `answer` is compared."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from host_support import HEAD, KERNEL, LEAK, WORK, lint, model, states
from test_python_meaning import executed, interpreted

SAME = {
    "dataclasses have an order": """
import dataclasses
@dataclasses.dataclass(order=True,frozen=True)
class C:
    cost:float
    bm:int=dataclasses.field(compare=False,default=64)
cs=[C(3.0,1),C(1.0,2),C(2.0,3)]
answer=[min(cs).bm,sorted(cs)[-1].bm,C(1.0)==C(1.0,9),C(1.0)<C(2.0),{C(1.0):1}[C(1.0)]]
""",
    "fields of dataclasses have options": """
import dataclasses
@dataclasses.dataclass
class A:
    x:int
    y:list=dataclasses.field(default_factory=list)
    z:int=dataclasses.field(init=False,default=7)
    k:dataclasses.InitVar[int]=3
    def __post_init__(self,k): self.w=k
a=A(1); b=A(x=1,k=5)
a.y.append(1)
answer=[a.y,b.y,a.z,a.w,b.w,a==A(1,[1]),repr(A(2)),[f.name for f in dataclasses.fields(A)],dataclasses.asdict(a)]
""",
    "objects that are equal are one key": """
import dataclasses
@dataclasses.dataclass(frozen=True)
class K:
    m:int
    n:int
cache={}
cache[K(1,2)]='a'
answer=[cache[K(1,2)],K(1,3) in cache,hash(K(1,2))==hash(K(1,2)),len({K(1,1),K(1,1)})]
""",
    "a wrapper has the name of what it wraps": """
import functools
def once(fn):
    done=False; val=None
    @functools.wraps(fn)
    def w(*a):
        nonlocal done,val
        if not done: val=fn(*a); done=True
        return val
    return w
n=[0]
@once
def build():
    n[0]+=1; return n[0]
answer=[build(),build(),n,build.__name__]
""",
    "a property has a deleter": """
class A:
    def __init__(self): self._x=1
    @property
    def x(self): return self._x
    @x.setter
    def x(self,v): self._x=v*2
    @x.deleter
    def x(self): self._x=0
a=A(); a.x=4; b=a.x; del a.x
answer=[b,a.x]
""",
    "a dict of a class of its own": """
class D(dict):
    def __missing__(self,k): self[k]=k*2; return self[k]
    def __getattr__(self,k): return self[k]
d=D(a=1)
answer=[d['a'],d['bb'],d.a,len(d),sorted(d),d.get('zz'),'a' in d,dict(d),list(d.items())]
""",
    "itertools makes groups and parts": """
import itertools as it
answer = [[(k, list(g)) for k, g in it.groupby([1, 1, 2])], list(it.compress('abc', [1, 0, 1])),
          [(k, list(g)) for k, g in it.groupby(['a', 'b', 'cc'], key=len)]]
""",
    "what is known is written as JSON": """
import json
answer=[json.loads('{"a":[1,2.5,null,true]}'),json.dumps({'a':1}),json.loads(json.dumps({'b':[1]})),json.dumps({'b':1,'a':2},sort_keys=True)]
""",
    "patterns are searched in known texts": """
import re
p = re.compile(r'(\\w)(\\d)')
answer = [bool(re.match(r'a+b', 'aab')), re.sub(r'\\d', '#', 'a1b2'), re.findall(r'\\w+', 'a b'),
          re.search(r'(\\d+)', 'x42').group(1), re.split(r',\\s*', 'a, b'), p.sub(lambda m: m[2] + m[1], 'a1b2'),
          p.sub(r'\\2\\1', 'a1'), [m.span() for m in p.finditer('a1b2')], re.match('x', 'a') is None]
""",
    "a text is written piece by piece": """
import io
b=io.StringIO()
b.write('a'); print('b',file=b)
answer=b.getvalue()
""",
    "a set holds one of objects that are equal": """
class V:
    def __init__(self,x): self.x=x
    def __add__(self,o): return V(self.x+o.x) if isinstance(o,V) else NotImplemented
    def __radd__(self,o): return self if o==0 else NotImplemented
    def __mul__(self,k): return V(self.x*k)
    __rmul__=__mul__
    def __eq__(self,o): return self.x==o.x
    def __hash__(self): return hash(self.x)
    def __repr__(self): return f'V({self.x})'
answer=[sum([V(1),V(2)]).x,(2*V(3)).x,V(1)==V(1),len({V(1),V(1)}),repr([V(2)]),f'{V(3)!r}']
""",
    "an order is made of one comparison": """
import functools
@functools.total_ordering
class A:
    def __init__(self,n): self.n=n
    def __lt__(self,o): return self.n<o.n
    def __eq__(self,o): return self.n==o.n
answer=[A(1)<=A(1),A(2)>A(1),A(1)>=A(2)]
""",
    "a typed dict is a dict": """
from typing import TypedDict, Literal, Final
class Cfg(TypedDict):
    m:int
c:Cfg={'m':1}
c2=Cfg(m=2)
answer=[c['m'],c2['m']]
""",
    "characters are translated": """
answer='abc'.translate(str.maketrans({'a':'x','b':None}))
""",
    "a thread has what it was given": """
import threading
tls=threading.local()
tls.x=3
lock=threading.Lock()
with lock: y=tls.x
out=[]
t=threading.Thread(target=lambda:out.append(1)); t.start(); t.join()
answer=[y,out,hasattr(tls,'z')]
""",
    "iter calls until the sentinel": """
n=iter(range(10)).__next__
answer=list(iter(n,4))
""",
    "a named tuple is made by its class": """
import collections
class P(collections.namedtuple('P','x y')):
    __slots__=()
    @property
    def s(self): return self.x+self.y
    def __new__(cls,x,y=5): return super().__new__(cls,x,y)
answer=[P(1).s,P(1,2).s,P(1,2)[0],tuple(P(3,4))]
""",
    "a class knows what derives from it": """
class Base:
    R={}
    key=None
    def __init_subclass__(cls,/,**kw):
        super().__init_subclass__(**kw)
        if cls.key: Base.R[cls.key]=cls
class X(Base): key='x'
class Y(X): key='y'
answer=[sorted(Base.R),Base.R['y'].__mro__[1].__name__,[c.__name__ for c in Base.__subclasses__()]]
""",
    "sets are compared": """
answer = [{1, 2}.isdisjoint({9}), {1: 2}.keys() == {1}, {1: 2, 3: 4}.keys() - {1}, len({(1, 2), (1, 2)})]
""",
    "an exception of one's own": """
class E(Exception):
    def __init__(self, msg, code):
        super().__init__(msg)
        self.code = code
try:
    raise E("m", 3)
except E as e:
    answer = [e.code, str(e), e.args, e.__cause__]
""",
    "a dict that is told what it holds": """
class D(dict):
    def __init__(self, *a, **k):
        super().__init__(*a, **k)
        self.n = len(self)
answer = [D({"a": 1}, b=2)["b"], D([("x", 3)])["x"], D(q=1).n]
""",
}


@pytest.mark.parametrize("name", SAME)
def test_a_program_means_what_it_means_in_python(name: str) -> None:
    assert interpreted(SAME[name]) == executed(SAME[name])


SLOW = {
    "a long run from every place": 're.findall(r"a*b", "a" * 200000)',
    "a choice again and again": 're.search("(a|a)" * 60 + "x", "a" * 80)',
    "a class that begins with a bracket": 're.search(r"[]a]*b", "]" * 20000)',
    "flags as a number": 're.search(r"(a+)+ b", "a" * 80, 64)',
}


@pytest.mark.parametrize("how", SLOW)
def test_a_search_that_would_not_end_soon_is_not_made(tmp_path: Path, how: str) -> None:
    body = f"found = {SLOW[how]}\nif found:\n    {LEAK}{WORK}return y\n"
    began = time.process_time()
    report = lint(tmp_path, HEAD + "import re\n" + KERNEL + model(body))
    assert set(states(report).values()) == {"unproven"}, "it was taken for known"
    assert time.process_time() - began < 10
