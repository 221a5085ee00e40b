# ruff: noqa: E501 - drafts and tests are shown as they are
"""What tests may do with a draft that is in another process."""

import pytest

from tests.validators.sandboxed_python import needs_sandbox, violations

DRAFT = """
import dataclasses, enum, asyncio, collections, json, functools
@dataclasses.dataclass(order=True)
class P:
    x: int
    y: int = 2
    def __add__(self, o): return P(self.x+o.x, self.y+o.y)
class MyErr(ValueError):
    def __init__(self, m, code): super().__init__(m); self.code = code
def fail(): raise MyErr("bad", 7)
class Color(enum.Enum):
    RED = 1
    BLUE = "b"
class Num(enum.IntEnum):
    ONE = 1
class Stack(list):
    def push(self, x): self.append(x)
class Box:
    def __init__(self): self.items = []
    def __len__(self): return len(self.items)
    def __iter__(self): return iter(self.items)
    def __contains__(self, x): return x in self.items
    def __enter__(self): return self
    def __exit__(self, *a): return False
    def add(self, x): self.items.append(x); return self
    @property
    def size(self): return len(self.items)
    @staticmethod
    def st(): return "st"
    @classmethod
    def mk(cls): return cls()
NT = collections.namedtuple("NT", "a b")
def nt(): return NT(1, 2)
def count(s): return collections.Counter(s)
def sort(xs): xs.sort()
def gen(n):
    for i in range(n): yield i
async def co(x): await asyncio.sleep(0.001); return x + 1
async def agen():
    for i in range(3): yield i
def apply(f, *a, **k): return f(*a, **k)
def hello(): print("hello"); return input("name? ")
def retry(n):
    def deco(f):
        @functools.wraps(f)
        def w(*a, **k):
            for i in range(n):
                try: return f(*a, **k)
                except ValueError as e: last = e
            raise last
        w.calls = 5
        return w
    return deco
@functools.lru_cache
def fib(n): return n if n < 2 else fib(n-1)+fib(n-2)
def js(s): return json.loads(s)
REG = {}
def reg(k, v): REG.setdefault(k, []).append(v); return REG
import time
def slow(): time.sleep(5); return time.time()
def nested(d): d["a"].append(d["b"]["c"]); return {"x": (1, [2, {3}]), "y": {"z": b"q"}}
def opn(p): return open(p).read()
def roll():
    import random
    return random.randint(1, 10**9)
def sav(p, t):
    with open(p, "w") as f: f.write(t)
"""
TESTS = """
import unittest, io, contextlib, json, asyncio, dataclasses, inspect, doctest, collections, subprocess, sys
from unittest import mock
import draft
from draft import *
def test_dc():
    assert draft.P(1) == P(1, 2) and P(1) != P(2) and P(1) < P(2) and P(1,2) + P(1,2) == P(2,4)
    assert repr(P(1)) == "P(x=1, y=2)" and str(P(1)) == "P(x=1, y=2)"
    assert dataclasses.asdict(P(1)) == {"x": 1, "y": 2}
    assert eval(repr(P(1))) == P(1)
    assert type(P(1)) is P and isinstance(P(1), P) and not isinstance(P(1), Box)
    assert [P(1)] == [P(1)] and P(1) in [P(1)]
def test_err():
    try: draft.fail()
    except draft.MyErr as e: assert e.code == 7 and str(e) == "bad" and isinstance(e, ValueError)
    else: assert False
class T(unittest.TestCase):
    def test_r(self):
        with self.assertRaises(ValueError) as c: draft.fail()
        self.assertEqual(c.exception.code, 7)
        with self.assertRaisesRegex(draft.MyErr, "ba"): draft.fail()
        with self.assertRaises(json.JSONDecodeError) as c: draft.js("{")
        self.assertEqual(c.exception.pos, 1)
        with self.assertRaises(TypeError): draft.P()
        self.assertRaises(KeyError, lambda: draft.reg.__globals__["nope"])
    def test_same(self):
        self.assertEqual(draft.nt(), (1, 2)); self.assertEqual(draft.nt().a, 1)
        self.assertEqual(draft.count("aab"), {"a": 2, "b": 1})
        self.assertIsInstance(draft.count("a"), collections.Counter)
def test_enum():
    assert Color.RED is draft.Color(1) and Color["RED"].value == 1 and len(list(Color)) == 2 and Num.ONE == 1 and Num.ONE is draft.Num(1)
    assert Color.RED in Color
    assert {Color.RED: 1}[Color.RED] == 1
def test_stack():
    s = Stack(); s.push(3); assert s == [3] and len(s) == 1 and isinstance(s, list); s.append(4); assert list(s) == [3, 4] and s.pop() == 4
    s.push(9); assert s == [3, 9]
def test_box():
    b = Box(); assert not b; b.add(1).add(2); assert len(b) == 2 and list(b) == [1,2] and 2 in b and b.size == 2 and b.items == [1,2]
    b.items.append(7); assert b.size == 3
    with b as c: assert c is b
    assert Box.st() == "st" and isinstance(Box.mk(), Box)
    b.items = []; assert b.size == 0 and vars(b) == b.__dict__ == {"items": []}
    assert not hasattr(b, "nope") and hasattr(b, "add")
def test_mut():
    x = [3,1,2]; draft.sort(x); assert x == [1,2,3]
    d = {"a": [], "b": {"c": 4}}; r = draft.nested(d); assert d == {"a": [4], "b": {"c": 4}}, d
    assert r == {"x": (1, [2, {3}]), "y": {"z": b"q"}}
    assert draft.reg("k", 1) is draft.REG; assert draft.REG == {"k": [1]}; draft.REG.clear(); assert draft.reg("a", 2) == {"a": [2]}
def test_gen():
    assert list(draft.gen(3)) == [0,1,2]; assert sum(draft.gen(4)) == 6
    g = draft.gen(1); next(g)
    try: next(g); assert False
    except StopIteration: pass
async def test_co():
    assert await draft.co(1) == 2
    assert await asyncio.gather(draft.co(1), draft.co(2)) == [2, 3]
    assert [x async for x in draft.agen()] == [0,1,2]
def test_co2(): assert asyncio.run(draft.co(4)) == 5
def test_cb():
    seen = []
    assert draft.apply(lambda a, b=1: a + b, 2) == 3
    draft.apply(seen.append, 4); assert seen == [4]
    assert draft.apply(sorted, [2,1], key=lambda v: -v) == [2,1]
    n = []
    @draft.retry(3)
    def flaky():
        "doc"
        n.append(1)
        if len(n) < 3: raise ValueError("x")
        return "ok"
    assert flaky() == "ok" and len(n) == 3 and flaky.__name__ == "flaky" and flaky.calls == 5, flaky.__name__
    class Local(Exception): pass
    def boom(): raise Local("q")
    try: draft.apply(boom); assert False
    except Local as e: assert e.args == ("q",)
def test_mock():
    m = mock.Mock(return_value=4); assert draft.apply(m, 1) == 4; m.assert_called_once_with(1)
    with mock.patch.object(draft, "apply", return_value=9): assert draft.apply(1) == 9
    assert draft.apply(len, [1]) == 1
    with mock.patch("draft.time.sleep") as s, mock.patch("draft.time.time", return_value=5.0):
        assert draft.slow() == 5.0
        s.assert_called_once_with(5)
def test_print():
    buf = io.StringIO()
    with contextlib.redirect_stdout(buf), mock.patch("builtins.input", return_value="Al"): assert draft.hello() == "Al"
    assert buf.getvalue() == "hello\\n", buf.getvalue()
def test_fib():
    assert draft.fib(30) == 832040; assert draft.fib.cache_info().hits > 0
def test_insp():
    assert "return n" in inspect.getsource(draft.fib.__wrapped__)
    assert str(inspect.signature(draft.apply)) == "(f, *a, **k)"
    assert inspect.iscoroutinefunction(draft.co) and not inspect.iscoroutinefunction(draft.apply) and inspect.isfunction(draft.apply)
    assert callable(draft.apply) and draft.apply.__name__ == "apply"
    assert doctest.testmod(draft).failed == 0
def test_seed():
    import random
    random.seed(7); first = draft.roll(); random.seed(7); assert draft.roll() == first
    random.seed(7); assert random.randint(1, 10**9) == first
def test_opened():
    with mock.patch("builtins.open", mock.mock_open(read_data="x")) as opened:
        draft.hello.__name__
        assert opened.call_count == 0
def test_files():
    import tempfile, os, pathlib
    with tempfile.TemporaryDirectory() as d:
        p = pathlib.Path(d) / "x.txt"
        for t in ("one", "two", "3"):
            p.write_text(t); assert draft.opn(str(p)) == t
        draft.sav(p, "back"); assert p.read_text() == "back"
        draft.sav(f"{d}/new", "b"); assert sorted(os.listdir(d)) == ["new", "x.txt"]
        p.unlink()
        try: draft.opn(p); assert False
        except FileNotFoundError as e: assert e.errno == 2
    draft.sav("rel.txt", "r"); assert open("rel.txt").read() == "r"
def test_src(): assert "class P" in open(draft.__file__).read()
def test_sub():
    r = subprocess.run([sys.executable, "-c", "import draft; print(draft.fib(5))"], capture_output=True, text=True, cwd="/tmp", env={"PYTHONPATH": "/tmp"})
    assert r.stdout == "5\\n", r.stderr
"""

CLASSES = """
import abc, enum, threading, functools, typing, collections, dataclasses
class LRU:
    def __init__(self, n): self.n = n; self.d = collections.OrderedDict()
    def get(self, k):
        if k not in self.d: return -1
        self.d.move_to_end(k); return self.d[k]
    def put(self, k, v):
        self.d[k] = v; self.d.move_to_end(k)
        if len(self.d) > self.n: self.d.popitem(last=False)
class InsufficientFunds(Exception):
    def __init__(self, need, have): super().__init__(f"need {need}, have {have}"); self.need, self.have = need, have
class Account:
    def __init__(self, balance=0): self._b = balance
    @property
    def balance(self): return self._b
    @balance.setter
    def balance(self, v):
        if v < 0: raise ValueError("negative")
        self._b = v
    def withdraw(self, n):
        if n > self._b: raise InsufficientFunds(n, self._b)
        self._b -= n
    def __repr__(self): return f"Account({self._b})"
class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self): ...
class Sq(Shape):
    def __init__(self, s): self.s = s
    def area(self): return self.s ** 2
    def __lt__(self, o): return self.s < o.s
class Perm(enum.Flag):
    R = 1; W = 2
class CI(dict):
    def __setitem__(self, k, v): super().__setitem__(k.lower(), v)
    def __getitem__(self, k): return super().__getitem__(k.lower())
    def __contains__(self, k): return super().__contains__(k.lower())
class Counter2:
    def __init__(self): self.n = 0; self.l = threading.Lock()
    def inc(self):
        with self.l: self.n += 1
class Matrix:
    def __init__(self, rows): self.rows = rows
    def __matmul__(self, o): return Matrix([[sum(a*b for a,b in zip(r,c)) for c in zip(*o.rows)] for r in self.rows])
    def __eq__(self, o): return isinstance(o, Matrix) and self.rows == o.rows
    def __getitem__(self, ij): return self.rows[ij[0]][ij[1]]
class Obs:
    def __init__(self): self.subs = []
    def sub(self, f): self.subs.append(f); return lambda: self.subs.remove(f)
    def emit(self, *a): return [f(*a) for f in self.subs]
class Money(typing.NamedTuple):
    amount: int
    cur: str = "EUR"
T = typing.TypeVar("T")
class Box(typing.Generic[T]):
    def __init__(self, v): self.v = v
def main(argv=None):
    import argparse
    p = argparse.ArgumentParser(); p.add_argument("n", type=int); a = p.parse_args(argv); print(a.n * 2); return 0
class Node:
    def __init__(self, v, nxt=None): self.v, self.next = v, nxt
def rev(h):
    prev = None
    while h: h.next, prev, h = prev, h, h.next
    return prev
@dataclasses.dataclass(frozen=True)
class Fz:
    a: int
    tags: list = dataclasses.field(default_factory=list)
def timed(f):
    @functools.wraps(f)
    def w(*a, **k): w.n += 1; return f(*a, **k)
    w.n = 0
    return w
class Tree:
    def __init__(self): self.root = None
    def __iter__(self): yield from [1, 2, 3]
"""
TESTS_OF_CLASSES = """
import unittest, collections.abc, copy, pickle, threading, io, contextlib, dataclasses, asyncio, concurrent.futures
from draft import *
import draft
class T(unittest.TestCase):
    def setUp(self): self.acc = Account(10)
    def test_acc(self):
        with self.assertRaises(InsufficientFunds) as cm: self.acc.withdraw(20)
        self.assertEqual(cm.exception.need, 20); self.assertIn("need 20", str(cm.exception))
        with self.assertRaises(ValueError): self.acc.balance = -1
        self.acc.balance = 7; self.assertEqual(self.acc.balance, 7); self.assertEqual(repr(self.acc), "Account(7)")
        with self.assertRaises(AttributeError): self.acc.nope
    def test_abc(self):
        with self.assertRaises(TypeError): Shape()
        self.assertTrue(issubclass(Sq, Shape)); self.assertIsInstance(Sq(2), Shape); self.assertEqual(Sq(3).area(), 9)
        self.assertEqual([s.s for s in sorted([Sq(3), Sq(1)])], [1, 3]); self.assertEqual(max([Sq(1), Sq(4)], key=lambda s: s.area()).s, 4)
    def test_lru(self):
        c = LRU(2); c.put(1, 1); c.put(2, 2); self.assertEqual(c.get(1), 1); c.put(3, 3); self.assertEqual(c.get(2), -1)
        self.assertEqual(list(c.d), [1, 3])
def test_flag(): assert Perm.R | Perm.W == Perm(3) and Perm.R in (Perm.R | Perm.W)
def test_ci():
    c = CI(); c["A"] = 1; assert c["a"] == 1 and "A" in c and c == {"a": 1} and len(c) == 1 and list(c) == ["a"] and dict(c) == {"a": 1}
def test_threads():
    c = Counter2(); ts = [threading.Thread(target=c.inc) for _ in range(5)]
    [t.start() for t in ts]; [t.join() for t in ts]; assert c.n == 5
    with concurrent.futures.ThreadPoolExecutor(3) as ex: list(ex.map(lambda _: c.inc(), range(4)))
    assert c.n == 9
def test_matrix():
    m = Matrix([[1, 2], [3, 4]]); assert m @ m == Matrix([[7, 10], [15, 22]]) and m[0, 1] == 2 and m.rows == [[1,2],[3,4]]
def test_obs():
    o = Obs(); seen = []; un = o.sub(seen.append); o.emit(3); assert seen == [3]; un(); o.emit(4); assert seen == [3]
def test_nt():
    m = Money(3); assert m == (3, "EUR") and m.amount == 3 and m._replace(amount=4) == (4, "EUR") and isinstance(m, tuple); a, c = m; assert a == 3
    assert m == Money(3) and hash(m) == hash(Money(3))
def test_generic(): assert Box[int](3).v == 3
def test_main():
    b = io.StringIO()
    with contextlib.redirect_stdout(b): assert main(["4"]) == 0
    assert b.getvalue().strip() == "8"
    try:
        with contextlib.redirect_stderr(io.StringIO()) as e: main(["x"])
        assert False
    except SystemExit as x: assert x.code == 2
    assert "invalid int" in e.getvalue()
def test_node():
    h = rev(Node(1, Node(2, Node(3)))); vs = []
    while h: vs.append(h.v); h = h.next
    assert vs == [3, 2, 1]
def test_fz():
    f = Fz(1)
    try: f.a = 2; assert False
    except dataclasses.FrozenInstanceError: pass
    try: f.a = 2; assert False
    except AttributeError: pass
    assert f.tags == [] and dataclasses.replace(f, a=5).a == 5 and dataclasses.is_dataclass(f)
def test_deco():
    @timed
    def g(x): return x
    assert g(1) == 1 and g.n == 1 and g.__wrapped__(2) == 2
def test_abcs():
    assert isinstance(Tree(), collections.abc.Iterable) and not isinstance(Tree(), collections.abc.Sized) and list(Tree()) == [1,2,3] and 2 in Tree()
def test_copy():
    a = Account(3); b = copy.deepcopy(a); b.withdraw(1); assert a.balance == 3 and b.balance == 2
    assert pickle.loads(pickle.dumps(Fz(3))) == Fz(3)
def test_state(): assert vars(Account(3)) == {"_b": 3} and Account(1).__dict__ == {"_b": 1}
def test_doc(): assert Account.__name__ == "Account" and Account.withdraw.__name__ == "withdraw" and hasattr(Account, "withdraw") and not hasattr(Account, "zip")
def test_none(): assert Node(1).next is None and bool(Node(1)) and (Node(1) == None) is False and Node(1) != None
"""


@needs_sandbox
@pytest.mark.parametrize(("draft", "tests"), [(DRAFT, TESTS), (CLASSES, TESTS_OF_CLASSES)])
async def test_tests_use_a_draft_as_if_it_were_in_their_process(draft: str, tests: str) -> None:
    assert await violations(draft, tests) == ()
