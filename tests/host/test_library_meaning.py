"""The standard library and rarer syntax give what Python gives: each program is run by both, and `answer` compared."""

from __future__ import annotations

import pytest
from test_python_meaning import executed, interpreted

SAME = {
    "hashes of known bytes are known": """
import hashlib, dataclasses
@dataclasses.dataclass(frozen=True)
class Shape:
    rows: int
    parts: tuple = (1, 2)
h = hashlib.sha256(b'one'); h.update(b'two'); other = h.copy(); other.update('three'.encode())
answer=[hashlib.sha1(repr(Shape(3)).encode()).hexdigest()[:10], h.hexdigest(), other.digest().hex(), h.name,
        hashlib.md5(b'', usedforsecurity=False).hexdigest(), hashlib.new('sha512', b'x').hexdigest(),
        hashlib.blake2b(b'x', digest_size=8).hexdigest(), int.from_bytes(hashlib.sha3_256(b'x').digest()[:4], 'little')]
""",
    "a class that is registered passes for an abstract one": """
import abc
class B(abc.ABC): pass
class C: pass
B.register(C)
answer=[isinstance(C(),B), issubclass(C,B)]
""",
    "an abstract class says what passes for it": """
import abc
class B(abc.ABC):
    @classmethod
    def __subclasshook__(cls, other):
        return hasattr(other,'go')
class C:
    def go(self): pass
class D: pass
answer=[isinstance(C(),B), isinstance(D(),B)]
""",
    "a metaclass says what is of its class": """
class M(type):
    def __instancecheck__(cls, o): return o==3
class A(metaclass=M): pass
answer=[isinstance(3,A), isinstance(4,A)]
""",
    "a protocol asks for members": """
import typing
@typing.runtime_checkable
class P(typing.Protocol):
    def go(self): ...
class C:
    def go(self): pass
class D: pass
answer=[isinstance(C(),P), isinstance(D(),P)]
""",
    "__getstate__ says what is copied": """
import copy
class A:
    def __init__(self): self.a=1; self.b=2
    def __getstate__(self): return {'a': 5}
x=copy.copy(A())
answer=[x.a, hasattr(x,'b')]
""",
    "__setstate__ takes what is copied": """
import copy
class A:
    def __init__(self): self.a=1
    def __setstate__(self, s): self.a=s['a']+10
x=copy.copy(A()); y=copy.deepcopy(A())
answer=[x.a,y.a]
""",
    "__reduce__ makes a copy": """
import copy
class A:
    def __init__(self,n): self.n=n
    def __reduce__(self): return (A,(self.n+1,))
answer=[copy.copy(A(1)).n, copy.deepcopy(A(1)).n]
""",
    "__deepcopy__ is asked inside of containers": """
import copy
class A:
    def __init__(self): self.n=1
    def __deepcopy__(self, memo):
        b=A(); b.n=9; return b
answer=[copy.deepcopy(A()).n, copy.deepcopy([A()])[0].n, copy.deepcopy({'k':A()})['k'].n]
""",
    "a context manager is a decorator": """
import contextlib
seen=[]
class C(contextlib.ContextDecorator):
    def __enter__(self): seen.append('in'); return self
    def __exit__(self,*a): seen.append('out'); return False
@C()
def f(x): seen.append(x); return x+1
answer=[f(3), seen]
""",
    "so is one made of a generator": """
import contextlib
seen=[]
@contextlib.contextmanager
def c():
    seen.append('in')
    yield
    seen.append('out')
@c()
def f(x): seen.append(x); return x+1
answer=[f(3), seen]
""",
    "singledispatch goes by the first argument": """
import functools
@functools.singledispatch
def f(x): return 'o'
@f.register
def _(x: int): return 'i'
@f.register(str)
def _s(x): return 's'
f.register(list, lambda x: 'l')
answer=[f(1),f('a'),f([1]),f(2.0), f.dispatch(int)(1), f(True)]
""",
    "so do methods": """
import functools
class A:
    @functools.singledispatchmethod
    def f(self,x): return 'o'
    @f.register
    def _(self,x:int): return 'i'
    @f.register(str)
    def _s(self,x): return 's'
a=A()
answer=[a.f(1),a.f('q'),a.f(2.0)]
""",
    "and by classes": """
import functools
class Base: pass
class Sub(Base): pass
@functools.singledispatch
def f(x): return 0
@f.register(Base)
def _(x): return 1
answer=[f(Base()),f(Sub()),f(3)]
""",
    "a partial method is bound": """
import functools
class A:
    def f(self, a, b=0): return (a,b)
    g=functools.partialmethod(f, 1)
    h=functools.partialmethod(f, b=4)
answer=[A().g(b=2), A().h(3)]
""",
    "getters of several": """
import operator,types
o=types.SimpleNamespace(a=1,b=types.SimpleNamespace(c=2))
answer=[operator.attrgetter('a')(o),operator.attrgetter('a','b.c')(o),operator.methodcaller('upper')('a'),operator.itemgetter(1)([1,2])]
""",
    "a namespace has a dict": """
import types
a=types.SimpleNamespace(**{'x':1})
a.__dict__.update(y=3)
setattr(a,'z',4)
answer=[a.x,a.y,a.z,sorted(vars(a)), getattr(a,'q',None)]
""",
    "a function is bound to an object": """
import types
class A:
    n=4
def f(self,x): return self.n+x
a=A()
a.m=types.MethodType(f,a)
answer=[a.m(3), a.m.__self__ is a]
""",
    "a function is made of code": """
import types
def f(): return k
g=types.FunctionType(f.__code__, {'k':7})
answer=g()
""",
    "members are keys": """
import enum
class E(enum.Enum):
    A=(1,2); B=(3,4)
d={E.A:'a',E.B:'b'}
answer=[d[E.A],d[E((3,4))],E['A'].value[1],len(E),list(E)[0] is E.A, E.A in d, str(E.A), E.B.name]
""",
    "members are made by their class": """
import enum
class E(enum.Enum):
    A=(1,2); B=(3,4)
    def __init__(self,x,y): self.x=x; self.y=y
    @property
    def both(self): return self.x+self.y
answer=[E.A.x,E.B.both]
""",
    "members that are texts": """
import enum
class E(str,enum.Enum):
    A='a'; B='b'
    @classmethod
    def of(cls,n): return cls.A if n<3 else cls.B
answer=[E.of(1)=='a', E.of(5) is E.B, E.of(5).value, E('a').name]
""",
    "values that are missing": """
import enum
class E(enum.Enum):
    A=1
    @classmethod
    def _missing_(cls,v): return cls.A
answer=E(9) is E.A
""",
    "members that are numbers": """
import enum
class E(enum.IntEnum):
    A=1; B=2
answer=[E.A+1, E.A<E.B, [e.name for e in E], E(2).name, {E.A:3}[1], E.B.value]
""",
    "an enumeration of names": """
import enum
E=enum.Enum('E','A B C')
answer=[E.A.value,E['C'].value,[e.name for e in E]]
""",
    "match takes objects apart": """
import dataclasses
@dataclasses.dataclass
class P: x:int; y:int
def f(v):
    match v:
        case P(0,y): return ('z',y)
        case P(x=1): return 'one'
        case P(): return 'p'
        case int(n) if n>3: return n
        case str() | bytes(): return 'text'
        case _: return None
answer=[f(P(0,4)),f(P(1,2)),f(P(3,3)),f(5),f(2),f('a')]
""",
    "match takes dicts apart": """
def f(v):
    match v:
        case {'k':'gemm','n':n,**rest}: return (n,rest)
        case {'k':k}: return k
        case {}: return 'd'
        case _: return 0
answer=[f({'k':'gemm','n':1,'z':2}),f({'k':3}),f({}),f(1)]
""",
    "match takes parts of parts": """
def f(v):
    match v:
        case ('op',{'m':(m,n) as mn}): return [m,n,mn]
        case (x,y) as t: return t
answer=[f(('op',{'m':(1,2)})),f((5,6))]
""",
    "match goes by __match_args__": """
class P:
    __match_args__=('a','b')
    def __init__(self,a,b): self.a=a; self.b=b
def f(v):
    match v:
        case P(1,b): return b
        case P(a,b=2): return a
    return 'no'
answer=[f(P(1,5)),f(P(4,2)),f(P(4,3))]
""",
    "a named tuple with a body": """
import typing
class C(typing.NamedTuple):
    bm:int
    bn:int=64
    @property
    def area(self): return self.bm*self.bn
c=C(2)
x,y=c
answer=[c.area,x,y,c._replace(bn=3).area,C._fields,max(c),[*c],c<C(3), C(bm=1,bn=2)==C(1,2), isinstance(c,tuple)]
""",
    "a chain of dicts": """
import collections
c=collections.ChainMap({'a':1},{'a':2,'b':3})
c['z']=4
answer=[c['a'],c['b'],c['z'],c.get('q',9),'b' in c,dict(c)=={'a':1,'b':3,'z':4},
        c.new_child({'a':7})['a'],c.maps[0],len(c)]
""",
    "counters are added": """
import collections
c=collections.Counter('aab')
c.update('b'); c.subtract({'a':1})
answer=[c.most_common(1),c['a'],sum(c.values()),c.total(),dict(c+c),sorted(c.elements()),c.most_common()]
""",
    "the order of a dict": """
import collections
d=collections.OrderedDict([('a',1),('b',2)])
d['c']=3
d.move_to_end('a')
x=list(d)
d.move_to_end('c',last=False)
y=list(d)
z=d.popitem(last=False)
answer=[x,y,z,list(reversed(d)),list(d.items())]
""",
    "a name in a comprehension is left behind": """
xs=[1,2,3]
r=[y for x in xs if (y:=x*2)>2]
answer=[r,y,[last:=x for x in xs],last]
""",
    "any stops at the first": """
xs=[1,5,9]
if any((hit:=x)>4 for x in xs): answer=hit
""",
    "context variables": """
import contextvars
v=contextvars.ContextVar('v',default=3)
a=v.get()
t=v.set(5)
b=v.get()
v.reset(t)
c=v.get()
ctx=contextvars.copy_context()
def run(): v.set(8); return v.get()
answer=[a,b,c,ctx.run(run),v.get()]
""",
    "one that is not set": """
import contextvars
v=contextvars.ContextVar('v')
try: v.get(); answer=0
except LookupError: answer=v.get(4)
""",
    "templates": """
import string
t=string.Template('a $b ${c} $$')
answer=[t.substitute(b=1,c='x'),t.safe_substitute({'b':2}),string.Template('$x').substitute({'x':'y'})]
""",
    "fields of a format": """
w=8
answer=['{:>{w}}'.format(3,w=5),'{0[a]}'.format({'a':1}),'{0.real}'.format(4),f'{3:0{w}b}',f'{3.14159:.{2}f}','{!r}'.format('a'),f'{"a"!r:>5}','{:,}'.format(12345),f'{255:#x}',format(255,'08b'),'%5.2f|%-4s|%04d|%x'%(1.5,'a',7,255),f'{1==1}',f'{w=}']
""",
    "packed numbers": """
import struct
b=struct.pack('<if',3,0.5)
answer=[struct.unpack('<if',b),len(b),struct.calcsize('<iq'),
        struct.unpack('<I',struct.pack('<f',1.0))[0],b[0],
        int.from_bytes(struct.pack('>H',258),'big')]
""",
    "arrays of numbers": """
import array
a=array.array('i',[1,2,3])
a.append(4)
answer=[a[1],len(a),a.tolist(),sum(a),a.itemsize,list(a)]
""",
    "a metaclass makes objects once": """
class S(type):
    inst={}
    def __call__(cls,*a,**k):
        if cls not in cls.inst: cls.inst[cls]=super().__call__(*a,**k)
        return cls.inst[cls]
class A(metaclass=S):
    def __init__(self,n): self.n=n
answer=[A(1) is A(2),A(3).n]
""",
    "a metaclass keeps its classes": """
class M(type):
    reg=[]
    def __new__(mcs,name,bases,ns,**kw):
        cls=super().__new__(mcs,name,bases,ns)
        M.reg.append(name)
        cls.tag=name.lower()
        return cls
class A(metaclass=M): pass
class B(A): pass
answer=[M.reg,A.tag,B.tag,B().tag]
""",
    "a metaclass answers for its class": """
class M(type):
    def __getitem__(cls,k): return k*2
    def __getattr__(cls,n): return n+'!'
    def __len__(cls): return 4
    def __iter__(cls): return iter([1,2])
    def __contains__(cls,x): return x==5
    @property
    def p(cls): return 9
    def meth(cls): return cls.__name__
class A(metaclass=M): pass
answer=[A[3],A.foo,len(A),list(A),5 in A,A.p,A.meth()]
""",
    "a class is subscripted": """
class A:
    def __class_getitem__(cls,k): return ('item',k)
answer=[A[3],A[1,2]]
""",
    "a class is made by type": """
class B:
    y=1
A=type('A',(B,),dict(x=3))
answer=[A().y,A.x,isinstance(A(),B)]
""",
    "arguments that are named": """
import collections, itertools
from multiprocessing.pool import ThreadPool
pool=ThreadPool(1)
more=__import__('collections.abc',globals(),locals(),['Mapping'])
answer=[list(itertools.permutations([1,2,3],r=2)),list(itertools.combinations(iterable=[1,2,3],r=2)),
        list(collections.deque(iterable=[1,2,3],maxlen=2)),pool.apply_async(pow,args=(2,5)).get(),
        isinstance({},more.Mapping)]
""",
    "arguments of methods that are named": """
d={'a':1}
answer=['a,b,c'.split(sep=',',maxsplit=1),'a\\nb'.splitlines(keepends=True),d.setdefault('b',2),d.pop('c',3),d,
        sorted([3,1,2],reverse=True),'{a}'.format(a=1),'{a}'.format_map({'a':2})]
""",
    "match counts items": """
def f(v):
    match v:
        case []: return 'e'
        case [x]: return x
        case (1,y): return y
        case [int(a),*rest,b] if a<b: return rest
        case [[a,b],_]: return a+b
        case _: return None
answer=[f([]),f([3]),f((1,2)),f([2,3,4,5]),f([[1,2],0]),f('ab'),f([9,1])]
""",
}


@pytest.mark.parametrize("name", SAME)
def test_a_program_means_what_it_means_in_python(name: str) -> None:
    assert interpreted(SAME[name]) == executed(SAME[name])
