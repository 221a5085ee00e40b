"""Calculates what a text claims to have calculated, such as `9 / 12 = 0.75 kg`.

Only what can be read for certain is calculated: numbers, operators and brackets. Everything else is
passed over, as is a wrong result of an equation that does not stand alone: a remainder, a base, a
label or a "not" beside it may make it right.
"""

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction

from app.contract.values import value

LONGEST = 300
"""Characters of an equation that is calculated."""

MOST_DIGITS = 30
"""Digits of a number that is read."""

LARGEST_POWER = 64

CLOSE = Fraction(1, 100)
"""The relative difference that rounding on the way to a result, or `about`, may make."""

PLAIN = str.maketrans(
    {
        "\u2212": "-",  # minus
        "\u2013": "-",  # en dash
        "\u00d7": "*",  # multiplication sign
        "\u00b7": "*",  # middle dot
        "\u22c5": "*",  # dot operator
        "\u00f7": "/",  # division sign
        "\u00a0": " ",
        "\u202f": " ",
    }
)
LATEX = ((r"\times", "*"), (r"\cdot", "*"), (r"\div", "/"), (r"\approx", "\u2248"), (r"\%", "%"))
PERCENT_OF = re.compile(r"% {0,2}(?:of|von)(?= {0,2}[\d(])", re.IGNORECASE)
TIMES = re.compile(r"(?<=[\d)%]) ?[xX] ?(?=[\d(])")
RUN = re.compile(r"[-0-9.,()+*/^%=\u2248 $\u20ac\u00a3]+")
BEFORE = "([{<>\"'_`|\\\n"
"""What may stand right before an equation, beside white space."""

SENTENCE = re.compile(r"[.,] ")
LEAD = re.compile(
    r"(?:^|[^\w\s'\u2019-])\s*(?:(?:[^\W\d_]+ )?(?:so|then|thus|hence|therefore|from|is|are|has"
    r"|have|gets?|gives?|makes?|costs?|weighs?|also|dann|somit|ist|sind|hat|macht|kostet|wiegt))?\s*\Z",
    re.IGNORECASE | re.MULTILINE,
)
END = re.compile(
    r"[ .)*]*+(?:(?!(?:uhr|am|pm|per|percent|prozent|dozen|dutzend|hundred|thousand|tausend|mio"
    r"|mrd|[mb]illion\w*)\b)[^\W\d_]++(?:/[^\W\d_]++)?)?+[^\w\n,;:]*?(?:\n|\Z|[.!?|]\s)",
    re.IGNORECASE,
)
"""What stands around an equation that stands alone: few words of its clause, and a unit that does
not scale the result."""

NUMBER = re.compile(r"\d[\d.,]*\d|\d")
ALONE = re.compile(rf"\u2248? *-? *(?:{NUMBER.pattern}) *%?")
TOKEN = re.compile(rf" *({NUMBER.pattern}|[()*/^+%-])")
ENGLISH, CONTINENTAL = (",", "."), (".", ",")
"""What stands between thousands and before decimals."""

Style = tuple[str, str]


class _CannotRead(Exception):
    """The text is no equation that can be calculated."""


@value(slots=True)
class Calculation:
    """Two sides of an equation; `value` is that of the left side."""

    left: str
    right: str
    value: str
    is_right: bool

    def __str__(self) -> str:
        """Return the equation, or what is wrong with it."""
        if self.is_right:
            return f"{self.left} = {self.right}"
        return f"{self.left} is {self.value}, not {self.right}"


def calculations_in(text: str) -> Iterator[Calculation]:
    """Yield the equations in a text that can be calculated, pair by pair of their sides.

    A rounded result is right, a whole number within 1 %. Numbers are read as in English, or with a
    decimal comma if that makes the equation right.
    """
    plain = text.translate(PLAIN)
    for latex, sign in LATEX:
        plain = plain.replace(latex, sign)
    plain = TIMES.sub(" * ", PERCENT_OF.sub("% *", plain))
    for found in RUN.finditer(plain):
        sides = _sides(plain, found)
        if sides:
            readings = [_compared(sides, style) for style in (ENGLISH, CONTINENTAL)]
            readable = [reading for reading in readings if reading]
            best = max(
                readable, key=lambda reading: sum(pair.is_right for pair in reading), default=[]
            )
            yield from (pair for pair in best if pair.is_right or _stands_alone(plain, found))


def _stands_alone(text: str, found: re.Match[str]) -> bool:
    """Tell whether nothing around an equation can give its result another meaning."""
    run, start = found[0], found.start()
    sides = re.split("[=\u2248]", run)
    if not (SENTENCE.search(sides[0]) or LEAD.search(text, max(0, start - 80), start)):
        return False
    cut = SENTENCE.search(sides[-1])
    end = END.match(text, start + len(run.rstrip(" .)*")))
    return cut[0] == ". " if cut else end is not None


def _sides(text: str, found: re.Match[str]) -> list[str]:
    """Return the sides of the equation in a run of its characters; none if there is none."""
    run = found[0]
    if not re.search("[=\u2248]", run) or len(run) > LONGEST:
        return []
    before = text[max(0, found.start() - 1) : found.start()]
    after = text[found.end() : found.end() + 1]
    if before and not run[0].isspace() and before not in BEFORE:
        return []  # part of a name, a time, a function
    if after.isalnum() and not run[-1].isspace():
        return []
    is_first = not before or before == "\n"
    run = run.lstrip(" ")
    if is_first and run.startswith(("- ", "* ", "+ ")):
        run = run[2:]  # the item of a list
    run = (
        re.sub("[$\u20ac\u00a3]", " ", run.strip(" *"))
        .replace("**", "^")
        .replace("\u2248", "=\u2248")
    )
    sides = run.split("=")
    sides[0] = SENTENCE.split(sides[0])[-1].strip()
    sides[-1] = SENTENCE.split(sides[-1])[0].strip(" .,")
    sides = [side.strip() for side in sides]
    sides[0] = sides[0][max(0, sides[0].count("(") - sides[0].count(")")) :]
    excess = max(0, sides[-1].count(")") - sides[-1].count("("))
    sides[-1] = sides[-1][: len(sides[-1]) - excess].strip()
    is_sum = not all(map(ALONE.fullmatch, sides))
    joins_word = sides[0][:1] in ("+", "-", "*", "/", "^") and not is_first
    return sides if is_sum and not joins_word and all(sides) else []


def _compared(sides: list[str], style: Style) -> list[Calculation]:
    """Return each side compared with the next; nothing if one cannot be read in this style."""
    try:
        values = [_value_of(side.lstrip("\u2248"), style) for side in sides]
    except (_CannotRead, ZeroDivisionError, OverflowError):
        return []
    return [
        Calculation(
            left.lstrip("\u2248 "),
            right.lstrip("\u2248 "),
            _shown(value, style),
            _agree(left, value, right, other, style),
        )
        for left, value, right, other in zip(sides, values, sides[1:], values[1:], strict=False)
    ]


def _agree(left: str, value: Fraction, right: str, other: Fraction, style: Style) -> bool:
    if value == other:
        return True
    difference, scale = abs(value - other), max(abs(value), abs(other))
    is_close = difference <= CLOSE * scale
    if right.startswith("\u2248"):
        return is_close or difference <= _half_unit(right.lstrip("\u2248 "), style)
    for side in (left, right):
        if ALONE.fullmatch(side):
            unit = _half_unit(side, style)
            if difference <= unit and (unit < Fraction(1, 2) or is_close):
                return True
    on_the_way = not ALONE.fullmatch(right) and any(style[1] in side for side in (left, right))
    return on_the_way and is_close


def _half_unit(number: str, style: Style) -> Fraction:
    """Return half a unit in the last place of a number."""
    digits = len(number.strip(" %").rpartition(style[1])[2]) if style[1] in number else 0
    return Fraction(1, 2 * 10 ** (digits + 2 * ("%" in number)))


def _shown(value: Fraction, style: Style) -> str:
    """Return a number with at most six significant decimals."""
    if value.denominator == 1:
        return str(value.numerator)
    text = f"{float(value):.6g}" if abs(value) < 10**6 else f"{float(value):.2f}"
    return text.replace(".", style[1])


SIGNS = {"^": "**", "%": "[0]"}
"""How Python writes what a power and a percent sign mean here: a subscript binds as tightly."""

OPERATORS: Mapping[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def _value_of(text: str, style: Style) -> Fraction:
    """Return the value of one side of an equation; Python parses it and executes nothing."""
    numbers: list[Fraction] = []
    tokens: list[str] = []
    at = 0
    while at < len(text.rstrip()):
        found = TOKEN.match(text, at)
        if not found:
            raise _CannotRead
        token, at = found[1], found.end()
        if token[0].isdigit():
            numbers.append(_number(token, style))
            token = f"n{len(numbers) - 1}"
        tokens.append(SIGNS.get(token, token))
    if "[0]" in tokens and {"+", "-"} & {*tokens}:
        raise _CannotRead  # 50 + 10 % is written for 55 as for 50.1
    try:
        return _calculated(ast.parse(" ".join(tokens), mode="eval").body, numbers)
    except (SyntaxError, MemoryError, RecursionError):
        raise _CannotRead from None


def _calculated(node: ast.expr, numbers: Sequence[Fraction]) -> Fraction:
    match node:
        case ast.Name():
            return numbers[int(node.id[1:])]
        case ast.UnaryOp(op=ast.USub()):
            return -_calculated(node.operand, numbers)
        case ast.Subscript(slice=ast.Constant()):
            return _calculated(node.value, numbers) / 100
        case ast.BinOp(op=ast.Pow()):
            base, power = _calculated(node.left, numbers), _calculated(node.right, numbers)
            if power.denominator != 1 or abs(power) > LARGEST_POWER or (base == 0 and power < 0):
                raise _CannotRead
            return base**power.numerator
        case ast.BinOp() if type(node.op) in OPERATORS:
            operate = OPERATORS[type(node.op)]
            return operate(_calculated(node.left, numbers), _calculated(node.right, numbers))
    raise _CannotRead


def _number(text: str, style: Style) -> Fraction:
    thousands, decimal = style
    whole, _, rest = text.partition(decimal)
    groups = whole.split(thousands)
    if len(text) > MOST_DIGITS or decimal in rest or thousands in rest:
        raise _CannotRead
    if len(groups) > 1 and (len(groups[0]) > 3 or any(len(group) != 3 for group in groups[1:])):
        raise _CannotRead
    return Fraction(f"{''.join(groups)}.{rest or '0'}")
