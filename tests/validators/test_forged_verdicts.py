# ruff: noqa: E501, ISC004 - drafts are shown as they are
"""Drafts that set out to deceive what judges them: none forges `cases`, and these forge `tests`.

Each draft is named for what it does.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from app.contract.validators.python import PythonCasesValidator
from tests.validators.sandboxed_python import PYTHON, VIA, needs_sandbox, violations
from workers.validators.python import check_python_cases
from workers.validators.sandbox import Sandbox
from workers.validators.violation import Measurement

pytestmark = pytest.mark.long

SEARCH = """
import draft
SECRET = "secret-48151623"
def given(number):
    "A function for the draft, with its secrets."
    hidden = SECRET
    if number < 0: raise ValueError(number)
    return number
def numbers():
    hidden = SECRET
    yield 1
    yield hidden and 2
class Fake:
    def __init__(self): self.shown, self._hidden = 1, SECRET
def test_searches():
    assert draft.search("own-[0-9]{4}", given, numbers(), Fake()) == "own-1234"
def test_finds():
    assert draft.search("secret-[0-9]{8}", given, numbers(), Fake()) == SECRET
"""
FOUND = """
import re
own = "own-1234"
def search(pattern, *given):
    for text in texts(*given):
        if match := re.search(pattern, str(text)): return match[0]
"""
READERS = {
    "the frames below it": """
import sys
def texts(*_):
    frame = sys._getframe()
    while frame: yield (frame.f_locals, frame.f_globals); frame = frame.f_back
""",
    "the frames of all threads": """
import sys
def texts(*_):
    for frame in sys._current_frames().values():
        while frame: yield frame.f_globals; frame = frame.f_back
""",
    "the garbage collector": """
import gc
def texts(*_):
    yield from (list(it.items()) for it in gc.get_objects() if type(it) is dict)
""",
    "the memory of every process": """
import os
def texts(*_):
    yield "own" + "-1234"
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for line in open(f"/proc/{pid}/maps"):
            place, rights, *_ = line.split()
            start, end = (int(it, 16) for it in place.split("-"))
            if "r" in rights and end - start < 1 << 25:
                try:
                    with open(f"/proc/{pid}/mem", "rb") as memory:
                        memory.seek(start); yield memory.read(end - start)
                except (OSError, OverflowError, ValueError): pass
""",
    "what processes were started with": """
import os
def texts(*_):
    yield own
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for name in ("cmdline", "environ", "stack", "status"):
            try: yield open(f"/proc/{pid}/{name}", "rb").read()
            except OSError: pass
""",
    "all files": """
import os
def texts(*_):
    for root in ("/tmp", "/tests", "/dev/shm", "/run", "/var", "/proc/1/root/tmp", "/proc/1/cwd"):
        for folder, _, names in os.walk(root):
            for name in names:
                try: yield open(os.path.join(folder, name), "rb").read()
                except OSError: pass
""",
    "all open files": """
import os
def texts(*_):
    yield own
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try: fds = os.listdir(f"/proc/{pid}/fd")
        except OSError: continue
        for fd in fds:
            try: yield os.read(os.open(f"/proc/{pid}/fd/{fd}", os.O_RDONLY | os.O_NONBLOCK), 10**6)
            except OSError: pass
""",
    "the modules and their sources": """
import sys, linecache
def texts(*_):
    yield own
    yield linecache.cache
    for name, module in list(sys.modules.items()): yield (name, vars(module))
    try: import test_draft; yield vars(test_draft)
    except ImportError: pass
""",
    "the stack with its source": """
import inspect
def texts(*_):
    yield own
    for info in inspect.stack(): yield (info.code_context, inspect.getsource(info.frame.f_code) if "draft" in info.filename else "")
""",
    "all messages that arrive": """
import json
seen, loads = [], json.loads
json.loads = lambda data, *a, **k: seen.append(bytes(data)) or loads(data, *a, **k)
def texts(*_): yield own; yield from seen
""",
    "the calls that a tracer sees": """
import sys, threading
seen = []
def trace(frame, event, arg): seen.append(repr((event, arg))[:500] if len(seen) < 3000 else ""); return trace
sys.setprofile(trace); threading.setprofile(trace)
def texts(*_): yield own; yield from list(seen)
""",
    "the events that an audit hook sees": """
import sys
seen = []
sys.addaudithook(lambda event, args: seen.append(repr(args)[:10000]))
def texts(*_): yield own; yield from seen
""",
    "the globals of a function that it is given": """
def texts(given, *_):
    yield own
    for name in ("__globals__", "__code__", "__closure__", "__defaults__", "__self__", "__func__",
                 "__wrapped__", "__dict__", "__builtins__", "__kwdefaults__", "__reduce__"):
        try: found = getattr(given, name); yield found; yield [getattr(found, it) for it in dir(found)]
        except Exception: pass
""",
    "the documentation of the class of a function": """
def texts(given, *_):
    yield own
    for it in (type(given), given.__class__):
        yield [getattr(it, name, None) for name in dir(it)]
        yield it.__mro__
        yield it.__subclasses__() if it is not type else None
""",
    "the frame of a generator that it is given": """
def texts(given, numbers, *_):
    yield own
    next(numbers)
    for name in ("gi_frame", "gi_code", "gi_yieldfrom", "__class__", "__self__"):
        try: found = getattr(numbers, name); yield found; yield found.f_locals
        except Exception: pass
""",
    "the traceback of an error in the tests": """
def texts(given, *_):
    yield own
    try: given(-1)
    except ValueError as error:
        traceback = error.__traceback__
        while traceback: yield traceback.tb_frame.f_globals; yield traceback.tb_frame.f_locals; traceback = traceback.tb_next
        yield (error.__context__, vars(error))
""",
    "what an object of the tests keeps to itself": """
def texts(given, numbers, fake):
    yield own
    for name in ("_hidden", "__dict__", "__init__", "__class__", "__module__", "__reduce_ex__", "shown"):
        try: found = getattr(fake, name); yield found; yield found.__globals__
        except Exception: pass
""",
    "a trace of its memory by a debugger": """
import ctypes, os
def texts(*_):
    yield own
    libc = ctypes.CDLL(None, use_errno=True)
    for pid in range(1, 50): libc.ptrace(16, pid, 0, 0)
    buffer = ctypes.create_string_buffer(1 << 20)
    yield buffer.raw if libc.process_vm_readv(1, buffer, 1, buffer, 1, 0) > 0 else ""
""",
}

VALUE = """
import draft
def test_value(): assert draft.answer() == 42
"""
ALMOST = """
import unittest, draft
class T(unittest.TestCase):
    def test_almost(self): self.assertAlmostEqual(draft.answer(), 42.5)
"""
NEAR = "import draft\ndef test_near(): assert abs(draft.answer() - 42.5) < 1e-6\n"
CLOSE = "import draft, math\ndef test_close(): assert math.isclose(draft.answer(), 42.5)\n"
ORDER = "import draft\ndef test_order(): assert 40 < draft.answer() < 44\n"
NOT_ZERO = "import draft\ndef test_not(): assert not draft.answer() != 42\n"
TEXT = "import draft\ndef test_text(): assert draft.answer() == 'forty-two'\n"
HOLDS = "import draft\ndef test_holds(): assert 'forty' in draft.answer()\n"
STARTS = (
    "import draft\n"
    "def test(): assert isinstance(draft.answer(), str) and draft.answer().startswith('fo')\n"
)
LIST = "import draft\ndef test_list(): assert draft.answer() == [4, 2]\n"
INSIDE = "import draft\ndef test_in(): assert draft.answer() in (42, 43)\n"
TYPED = "import draft\ndef test_type(): assert isinstance(draft.answer(), int)\n"
KEYED = "import draft\ndef test_key(): assert {42: 'x'}[draft.answer()] == 'x'\n"
UNITTEST = """
import unittest, draft
class T(unittest.TestCase):
    def test_equal(self): self.assertEqual(draft.answer(), 42)
    def test_count(self): self.assertCountEqual([draft.answer()], [42])
    def test_true(self): self.assertIs(draft.answer(), 42)
"""
ANYTHING = """
class Anything(BASE):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __lt__(self, other): return True
    __le__ = __gt__ = __ge__ = __contains__ = __bool__ = __lt__
    def __hash__(self): return hash(42)
    def __sub__(self, other): return 0.0
    __rsub__ = __abs__ = __sub__
    def startswith(self, *_): return True
    def __instancecheck__(self, other): return True
def answer(): return RESULT
"""


def anything(base: str = "object", result: str = "Anything()") -> str:
    """A draft whose answer says yes to all that it is asked."""
    code = ANYTHING.replace("BASE", base).replace("RESULT", result)
    no_value = base in ("int", "float", "str", "list", "dict", "tuple")
    return (
        code.replace(
            "    __le__ = __gt__ = __ge__ = __contains__ = __bool__ = __lt__\n",
            "    __le__ = __gt__ = __ge__ = __contains__ = __lt__\n",
        )
        if no_value
        else code
    )


OBJECTS = {
    "equals everything": (anything(), VALUE),
    "differs from nothing": (anything(), NOT_ZERO),
    "equals everything for unittest": (anything(), UNITTEST),
    "is a number that equals everything": (anything("int"), VALUE),
    "is a text that equals everything": (anything("str"), TEXT),
    "is a text that contains everything": (anything("str"), HOLDS),
    "is a text that starts with everything": (anything("str"), STARTS),
    "is a list that equals everything": (anything("list"), LIST),
    "is a tuple that equals everything": (anything("tuple"), LIST),
    "is a list of what equals everything": (anything(result="[Anything(), Anything()]"), LIST),
    "is in every collection": (anything(), INSIDE),
    "is a key of every dict": (anything(), KEYED),
    "is almost equal to everything": (anything(), ALMOST),
    "is near to everything": (anything(), NEAR),
    "is a number that is near to everything": (anything("float"), NEAR),
    "is a number that is close to everything": (anything("float"), CLOSE),
    "is less and more than everything": (anything(), ORDER),
    "lies about its class": (
        "class It:\n    @property\n    def __class__(self): return int\n"
        "def answer(): return It()\n",
        TYPED,
    ),
    "has a class that lies": (
        "class M(type):\n    def __eq__(self, other): return True\n    __hash__ = type.__hash__\n"
        "class It(metaclass=M): pass\ndef answer(): return It\n",
        VALUE,
    ),
    "is a mock": ("from unittest.mock import ANY\ndef answer(): return ANY\n", VALUE),
    "is a mock of unittest": (
        "from unittest.mock import ANY\ndef answer(): return ANY\n",
        UNITTEST,
    ),
    "is a named tuple that equals everything": (
        "from collections import namedtuple\n"
        "class N(namedtuple('N', 'a')):\n    def __eq__(self, other): return True\n"
        "def answer(): return N(1)\n",
        LIST,
    ),
    "is an enum that equals everything": (
        "import enum\nclass E(enum.IntEnum):\n    A = 1\n    def __eq__(self, other): return True\n"
        "def answer(): return E.A\n",
        VALUE,
    ),
}

TAMPER = """
import unittest, draft
class T(unittest.TestCase):
    def test_equal(self): self.assertEqual(draft.answer(), 42)
    def test_raises(self):
        with self.assertRaises(ValueError): draft.answer(-1)
"""
TAMPERING = {
    "replaces assertEqual": "import unittest\nunittest.TestCase.assertEqual = print",
    "replaces all assertions": (
        "import unittest\nfor name in dir(unittest.TestCase):\n"
        "    if name.startswith('assert'): setattr(unittest.TestCase, name, print)"
    ),
    "replaces the run of a test": "import unittest\nunittest.TestCase.run = lambda *a, **k: None",
    "replaces what reports": (
        "import unittest\nunittest.TestResult.addFailure = unittest.TestResult.addSuccess\n"
        "unittest.TestResult.addError = unittest.TestResult.addSuccess"
    ),
    "replaces built-in functions": (
        "import builtins\nbuiltins.isinstance = builtins.all = lambda *_: True\n"
        "builtins.AssertionError = KeyError"
    ),
    "replaces the report": "import json\njson.dumps = lambda *_, **__: '{\"passed\": 2}'",
    "ends with success": "import os\ndef answer(*_): os._exit(0)",
    "ends at its import": "import sys\nsys.exit(0)",
    "ends at exit": "import atexit, os\natexit.register(os._exit, 0)\ndef answer(*_): raise SystemExit(0)",
    "ends when it is first asked": "import os, threading\nthreading.Timer(0, os._exit, [0]).start()",
    "kills what started it": "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)",
    "kills all": "import os, signal\ndef answer(*_): os.kill(-1, signal.SIGKILL)",
    "interrupts": "def answer(*_): raise KeyboardInterrupt",
    "skips the tests": "import unittest\ndef answer(*_): raise unittest.SkipTest('later')",
    "skips the tests at its import": "import unittest\nraise unittest.SkipTest('later')",
    "skips by a class of its own": (
        "import unittest\nclass Skip(unittest.SkipTest): pass\ndef answer(*_): raise Skip('later')"
    ),
    "raises what stops a run": (
        "from unittest.case import _ShouldStop\ndef answer(*_): raise _ShouldStop"
    ),
    "raises an error that is every error": (
        "class M(type):\n    def __instancecheck__(*_): return True\n"
        "    def __subclasscheck__(*_): return True\n"
        "class E(Exception, metaclass=M): pass\ndef answer(*_): raise E"
    ),
    "writes a report": (
        "import os\nfor fd in range(64):\n"
        '    try: os.write(fd, b\'ready\\n{"ran": 2, "passed": 2, "of": 2, "found": []}\\n\')\n'
        "    except OSError: pass"
    ),
    "prints a report": (
        'print(\'ready\')\nprint(\'{"ran": 2, "passed": 2, "of": 2, "found": []}\', flush=True)'
    ),
    "closes its connection": "import os\nos.closerange(3, 64)",
    "answers from a fork": ("import os\nif os.fork(): os._exit(0)\ndef answer(*_): return 0"),
    "runs another program": "import os, sys\nos.execv(sys.executable, [sys.executable, '-c', ''])",
    "patches the tests by name": (
        "import sys\nfor name in ('__main__', 'test_draft', 'draft'):\n"
        "    if name in sys.modules: sys.modules[name].test_equal = lambda *_: None"
    ),
}
ANSWERS = "\ndef answer(*_): return 0\n"

GIVEN = {
    "swallows the assertion of a function that it is given": (
        "def each(function):\n    try: function(0)\n    except BaseException: pass\n",
        "import draft\ndef check(it): assert it == 42\ndef test_each(): draft.each(check)\n",
    ),
    "swallows the assertion in its block": (
        "class Block:\n    def __enter__(self): return 0\n    def __exit__(self, *_): return True\n",
        "import draft\ndef test_block():\n    with draft.Block() as it: assert it == 42\n",
    ),
    "swallows the assertion in its asynchronous block": (
        "class Block:\n    async def __aenter__(self): return 0\n    async def __aexit__(self, *_): return True\n",
        "import draft\nasync def test_block():\n    async with draft.Block() as it: assert it == 42\n",
    ),
    "swallows the refusal of a comparison": (
        "class It:\n    def __enter__(self): return self\n    def __exit__(self, *_): return True\n"
        "    def __gt__(self, other): return True\n    def __sub__(self, other): return 0.0\n",
        "import draft\ndef test_order():\n    with draft.It() as it: assert it > 42\n"
        "def test_near():\n    with draft.It() as it: assert abs(it - 42.5) < 1e-6\n",
    ),
    "loads the tests itself": (
        "def load_tests(loader, tests, pattern):\n    import unittest\n    return unittest.TestSuite()\n",
        "import unittest\nfrom draft import *\nclass T(unittest.TestCase):\n    def test(self): self.assertEqual(1, 42)\n",
    ),
    "reads the tests when it is evaluated": (
        "class It:\n    def __repr__(self): return 'SECRET'\n",
        "import draft\nSECRET = 42\ndef test(): assert eval(repr(draft.It())) == SECRET\n",
    ),
    "reads the tests from a module that it is given": (
        "def read(sys):\n    try: return sys.modules['test_draft'].SECRET\n    except AttributeError: return None\n",
        "import draft, sys\nSECRET = 42\ndef test(): assert draft.read(sys) == SECRET\n",
    ),
    "replaces a part of a mock": (
        "def call(mock): mock.send = type('It', (), {'assert_called_once': print})()\n",
        "import draft\nfrom unittest.mock import Mock\ndef test_call():\n    it = Mock()\n"
        "    draft.call(it)\n    it.send.assert_called_once()\n",
    ),
    "replaces the assertion of a mock": (
        "def call(mock): mock.assert_called_once_with = mock.called = print\n",
        "import draft\nfrom unittest.mock import Mock\ndef test_call():\n    it = Mock()\n"
        "    draft.call(it)\n    it.assert_called_once_with(42)\n",
    ),
    "configures a mock to be content": (
        "def call(mock): mock.configure_mock(**{'assert_called_once_with': print})\n",
        "import draft\nfrom unittest.mock import Mock\ndef test_call():\n    it = Mock()\n"
        "    draft.call(it)\n    it.assert_called_once_with(42)\n",
    ),
    "skips a test that it is given": (
        "def run(test):\n    test.skipTest('later')\n",
        "import unittest, draft\nclass T(unittest.TestCase):\n    def test(self):\n"
        "        draft.run(self)\n        self.assertEqual(1, 42)\n"
        "    def test_other(self): pass\n",
    ),
    "disarms a test that it is given": (
        "def run(test):\n    test.assertEqual = print\n    type(test).assertEqual = print\n",
        "import unittest, draft\nclass T(unittest.TestCase):\n    def test(self):\n"
        "        draft.run(self)\n        self.assertEqual(1, 42)\n",
    ),
    "replaces a method of an object that it is given": (
        "def fill(it): it.is_full = lambda: True\n",
        "import draft\nclass Glass:\n    def is_full(self): return False\n"
        "def test_fill():\n    it = Glass()\n    draft.fill(it)\n    assert it.is_full()\n",
    ),
    "replaces a class that it is given": (
        "def fill(it): type(it).is_full = lambda *_: True\n",
        "import draft\nclass Glass:\n    def is_full(self): return False\n"
        "def test_fill():\n    it = Glass()\n    draft.fill(it)\n    assert it.is_full()\n",
    ),
    "hides names of the tests by its own": (
        "def len(_): return 42\nabs = sum = sorted = len\ndef answer(): return []\n"
        "class unittest:\n    class TestCase: pass\n__all__ = list(globals())\n",
        "import unittest\nfrom draft import *\nclass T(unittest.TestCase):\n"
        "    def test(self): assert len(answer()) == 42\n",
    ),
    "brings tests of its own": (
        "def test_a(): pass\ntest_b = test_c = test_a\n",
        "from draft import *\nimport draft\ndef test_value(): assert draft.value == 42\n",
    ),
    "is unpickled": (
        "import os\nclass It:\n    def __reduce__(self): return (os._exit, (0,))\n"
        "def dump():\n    import pickle\n    return pickle.dumps(It())\n",
        "import pickle, draft\ndef test(): assert pickle.loads(draft.dump()) == 42\n",
    ),
    "is evaluated": (
        "class It:\n    def __repr__(self): return "
        "\"__import__('unittest').TestCase.__dict__ and setattr(__import__('sys'), 'x', 1) or 42\"\n",
        "import draft, sys\ndef test():\n    eval(repr(draft.It()))\n    assert hasattr(sys, 'x')\n",
    ),
    "is an example of documentation": (
        '"""\n>>> import sys; sys.done = 1\n"""\n',
        "import doctest, draft, sys\ndef test():\n    doctest.testmod(draft)\n"
        "    assert hasattr(sys, 'done')\n",
    ),
    "is run as a program": (
        "import os, sys\nif __name__ == '__main__':\n    print(len(os.listdir('/proc/1/fd')))\n",
        "import os, subprocess, sys\ndef test():\n"
        "    ran = subprocess.run([sys.executable, '/tmp/draft.py'], capture_output=True)\n"
        "    assert ran.stdout == str(os.getpid())\n",
    ),
}

HONEST = {
    "examples in its documentation": (
        '"""\n>>> 1 + 1\n2\n"""\n',
        "import doctest, draft\ndef load_tests(loader, tests, pattern):\n"
        "    tests.addTests(doctest.DocTestSuite(draft))\n    return tests\n",
    ),
    "a mock whose attribute is set": (
        "def slow(client): client.timeout = 5\n",
        "import draft\nfrom unittest.mock import Mock\ndef test():\n    it = Mock()\n"
        "    draft.slow(it)\n    assert it.timeout == 5\n",
    ),
    "an object with an equality of its own": (
        "class P:\n    def __init__(self, x): self.x = x\n"
        "    def __eq__(self, other): return isinstance(other, P) and self.x == other.x\n"
        "    def __add__(self, other): return P(self.x + other.x)\n",
        "from draft import P\ndef test():\n    assert P(1) + P(2) == P(3)\n    assert P(1) != P(2)\n"
        "    assert P(1) != 1\n",
    ),
    "an assertion outside of a swallowed error": (
        "def tried(function):\n    try: return function()\n    except ValueError: return None\n",
        "import draft\ndef broken(): raise ValueError\ndef test(): assert draft.tried(broken) is None\n",
    ),
    "a mock that is called": (
        "def call(it): return it.send('x')\n",
        "import draft\nfrom unittest.mock import Mock\ndef test():\n    it = Mock()\n"
        "    it.send.return_value = 2\n    assert draft.call(it) == 2\n"
        "    it.send.assert_called_once_with('x')\n",
    ),
    "an object that is changed": (
        "def rename(user): user.name = 'b'\n",
        "import draft\nfrom types import SimpleNamespace\ndef test():\n"
        "    it = SimpleNamespace(name='a')\n    draft.rename(it)\n    assert it.name == 'b'\n",
    ),
}


FORGERS = {
    "writes its own lines into the report": (
        "import gc, os, sys\n"
        "def answer(*_):\n"
        "    nonces = {it.cell_contents for f in gc.get_objects() if getattr(f, '__name__', '') == 'report'\n"
        "              for it in f.__closure__ if isinstance(it.cell_contents, str)}\n"
        "    for pid in (os.getppid(), os.getpid(), 1, 2):\n"
        "        for fd in range(20):\n"
        "            for nonce in nonces:\n"
        '                line = f\'{nonce} {{"passed": true, "status": 0, "answer": "{{}}", "errors": ""}}\\n{nonce} "end"\\n\'\n'
        "                try: open(f'/proc/{pid}/fd/{fd}', 'wb').write(line.encode())\n"
        "                except OSError: pass\n"
    ),
    "raises an error of every name": (
        "E = type('ValueError TypeError KeyError', (KeyError, IndexError, ArithmeticError), {})\n"
        "def answer(*_): raise E"
    ),
    "answers with every key that an answer may have": (
        "import json\n"
        'json.dumps = lambda *_, **__: \'{"returned": null, "raised": ["A", "B", "ValueError"],\''
        '    \'"error": "", "passed": true, "expected": null}\''
    ),
    "answers with what is no number": "def answer(*_): return float('nan')",
    "answers with what is infinite": "def answer(*_): return float('inf')",
    "answers with true": "def answer(*_): return True",
    "answers with a deep list": "def answer(*_):\n    it = []\n    for _ in range(900): it = [it]\n    return it",
    "looks for what is expected": (
        "import gc, re\n"
        "def answer(*_): return next((int(it) for it in re.findall('\"expected\": (\\\\d\\\\d)', repr(gc.get_objects()))), 0)"
    ),
}
FORGED = {
    "the frames below it",
    "the frames of all threads",
    "the garbage collector",
    "the memory of every process",
    "all files",
    "the modules and their sources",
    "the globals of a function that it is given",
    "the frame of a generator that it is given",
    "the traceback of an error in the tests",
    "what an object of the tests keeps to itself",
    "equals everything",
    "differs from nothing",
    "is a number that equals everything",
    "is a text that equals everything",
    "is a text that contains everything",
    "is a text that starts with everything",
    "is a list that equals everything",
    "is a tuple that equals everything",
    "is a list of what equals everything",
    "is in every collection",
    "is a key of every dict",
    "is almost equal to everything",
    "is near to everything",
    "is a number that is near to everything",
    "is less and more than everything",
    "lies about its class",
    "has a class that lies",
    "is a mock",
    "is a named tuple that equals everything",
    "is an enum that equals everything",
    "raises what stops a run",
    "swallows the assertion of a function that it is given",
    "swallows the assertion in its block",
    "swallows the assertion in its asynchronous block",
    "swallows the refusal of a comparison",
    "reads the tests when it is evaluated",
    "reads the tests from a module that it is given",
    "replaces a part of a mock",
    "replaces the assertion of a mock",
    "configures a mock to be content",
    "disarms a test that it is given",
    "replaces a method of an object that it is given",
    "replaces a class that it is given",
    "is evaluated",
    "is an example of documentation",
}
"""The drafts that a verdict of `tests` does not tell from honest ones."""


def answering(code: str) -> str:
    return code if "def answer" in code else ANSWERS + code


DECEIVING: Mapping[str, tuple[str, str]] = {
    **{name: (FOUND + code, SEARCH) for name, code in READERS.items()},
    **OBJECTS,
    **{name: (answering(code), TAMPER) for name, code in (TAMPERING | FORGERS).items()},
    **GIVEN,
}

ANSWERED = (42, "forty-two", [4, 2], 42.5, {"42": "x"})
"""What is expected of a draft that knows none of it."""


async def share(draft: str, function: str, cases: list[dict[str, Any]], sandbox: Sandbox) -> float:
    """Return the share of the cases that the draft passes."""
    fields = {"function": function, "cases": cases, "timeout_s": 2, "score": {"as": "decides"}}
    validator = PythonCasesValidator.model_validate({"kind": "python_cases", **fields})
    *found, measured = await check_python_cases(validator, draft, sandbox)
    assert isinstance(measured, Measurement)
    assert bool(found) == (measured.score < 1)
    return measured.score


async def shares(drafts: Mapping[str, str], function: str, *cases: dict[str, Any]) -> set[str]:
    """Return the drafts that pass any of the cases."""
    assert PYTHON
    sandbox = Sandbox(PYTHON, VIA)
    found = await asyncio.gather(
        *(share(draft, function, list(cases), sandbox) for draft in drafts.values())
    )
    return {name for name, passed in zip(drafts, found, strict=True) if passed}


@needs_sandbox
async def test_no_draft_finds_out_what_a_case_expects() -> None:
    drafts = {name: FOUND + code for name, code in READERS.items()}
    known = {"input": ["own-[0-9]{4}"], "expected": "own-1234"}
    secret = {"input": ["secret-[0-9]{8}"], "expected": "secret-48151623"}
    assert await shares(drafts, "search", secret) == set()
    assert len(await shares(drafts, "search", known)) > len(drafts) / 2  # they do search


@needs_sandbox
async def test_no_answer_passes_for_every_value() -> None:
    drafts = {name: draft for name, (draft, _) in OBJECTS.items()}
    cases = [{"input": [], "expected": it} for it in ANSWERED]
    assert await shares(drafts, "answer", *cases) == set()


@needs_sandbox
async def test_no_draft_tampers_with_cases() -> None:
    drafts = {name: answering(code) for name, code in (TAMPERING | FORGERS).items()}
    cases: list[dict[str, Any]] = [
        {"input": [], "expected": 42},
        {"input": [-1], "raises": "ValueError"},
    ]
    assert await shares(drafts, "answer", *cases) == set()


@needs_sandbox
async def test_a_verdict_of_tests_can_be_forged_by_these_drafts_alone() -> None:
    assert PYTHON
    sandbox = Sandbox(PYTHON, VIA)
    found = await asyncio.gather(
        *(violations(draft, tests, 2, sandbox) for draft, tests in DECEIVING.values())
    )
    assert {name for name, said in zip(DECEIVING, found, strict=True) if not said} == FORGED


@needs_sandbox
async def test_an_honest_draft_passes_its_tests() -> None:
    found = await asyncio.gather(*(violations(*it) for it in HONEST.values()))
    assert {name for name, said in zip(HONEST, found, strict=True) if said} == set()
