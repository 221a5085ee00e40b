"""Replies to requests for an object: verdicts, votes, plans, edits and others."""

import json

from tests.engine.replies.case import Again, Case, Dropped, Refuses

C1 = '{"evidence": [], "reason": "Plain.", "score": 0.9}'
C2 = '{"evidence": [], "reason": "Stiff.", "score": 0.6}'
KEYED = f'{{"scores": {{"c1": {C1}, "c2": {C2}}}, "findings": []}}'
LISTED = (
    '{"scores": [{"criterion": "clarity", "evidence": [], "reason": "Plain.", "score": 0.9},'
    ' {"criterion": "tone", "evidence": [], "reason": "Stiff.", "score": 0.6}]}'
)
READ = (0.9, 0.6)


def scored(one: str, two: str = "0.6") -> str:
    """A verdict with these scores, as they are written."""
    return f'{{"scores": {{"c1": {{"reason": "a", "score": {one}}}, "c2": {{"score": {two}}}}}}}'


FORMS = [
    Case("form", "critique", "in the form asked for", KEYED, READ),
    Case("form", "critique", "the list that was asked for before", LISTED, READ),
    Case(
        "form",
        "critique",
        "names instead of keys",
        KEYED.replace("c1", "clarity").replace("c2", "Tone"),
        READ,
    ),
    Case(
        "form", "critique", "keys in capitals", KEYED.replace("c1", "C1").replace("c2", "C2"), READ
    ),
    Case(
        "form",
        "critique",
        "keys and names",
        KEYED.replace("c1", "c1: clarity").replace("c2", "c2 (tone)"),
        READ,
    ),
    Case(
        "form",
        "critique",
        "members in capitals",
        LISTED.replace("scores", "Scores").replace("criterion", "Criterion"),
        READ,
    ),
    Case("form", "critique", "bare scores", '{"scores": {"c1": 0.9, "c2": 0.6}}', READ),
    Case("form", "critique", "wrapped in a name", f'{{"critique": {KEYED}}}', READ),
    Case(
        "form",
        "critique",
        "as the call of a function",
        f'{{"name": "critique", "arguments": {KEYED}}}',
        READ,
    ),
    Case(
        "form",
        "critique",
        "arguments as text",
        '{"name": "f", "arguments": "{\\"scores\\": {\\"c1\\": 0.9, \\"c2\\": 0.6}}"}',
        READ,
    ),
    Case("form", "critique", "a list of one", f"[{KEYED}]", READ),
    Case(
        "form",
        "critique",
        "the bare list of scores",
        LISTED.removeprefix('{"scores": ').removesuffix("}"),
        READ,
    ),
    Case(
        "form",
        "critique",
        "a criterion is left out",
        '{"scores": {"c1": 0.9}}',
        Again("no score for tone"),
    ),
    Case("form", "critique", "no scores", '{"strengths": ["Clear."]}', Again("scores")),
    Case(
        "form",
        "critique",
        "an empty list of scores",
        '{"scores": []}',
        Again("no score for clarity, tone"),
    ),
    Case(
        "form",
        "critique",
        "an entry without a score",
        '{"scores": {"c1": {"reason": "a"}, "c2": 0.6}}',
        Again("no score for clarity"),
    ),
    Case("form", "critique", "an array of names", '["clarity", "tone"]', Again()),
    Case(
        "form",
        "critique",
        "key and value of unlike criteria",
        KEYED.replace("c1", "c1: tone"),
        Again("no score for clarity"),
    ),
    Case(
        "form",
        "critique",
        "both unmeasured",
        scored("null", "null"),
        Again("no criterion has a score"),
    ),
    Case("form", "critique", "one unmeasured", scored("0.9", "null"), (0.9, None)),
    Case("form", "critique", "an object in a string", json.dumps(KEYED), READ),
    Case("form", "critique", "a string in a string", json.dumps(json.dumps(KEYED)), READ),
    Case(
        "form",
        "critique",
        "scores in a string",
        json.dumps({"scores": json.dumps({"c1": 0.9, "c2": 0.6})}),
        READ,
    ),
    Case(
        "form",
        "critique",
        "keys and names with a full stop",
        KEYED.replace("c1", "c1. clarity").replace("c2", "c2. tone"),
        READ,
    ),
    Case("form", "critique", "nothing around the scores", f'{{"c1": {C1}, "c2": {C2}}}', READ),
    Case("form", "critique", "bare scores by name", '{"clarity": 0.9, "tone": 0.6}', READ),
    Case("form", "critique", "scores as ratings", '{"ratings": {"c1": 0.9, "c2": 0.6}}', READ),
    Case(
        "form",
        "critique",
        "entries without a criterion",
        '{"scores": [{"score": 0.9}, {"score": 0.6}]}',
        Again("which criterion"),
    ),
    Case(
        "form",
        "critique",
        "the example of the prompt",
        '{"scores": {"c1": {"evidence": ["<words of the draft>"], "reason": "<why>", "score": 0.5},'
        ' "c2": {"evidence": [], "reason": "<why>", "score": 0.5}}, "strengths": ["..."],'
        ' "findings": [{"kind": "c1", "message": "...", "fix": "...", "quote": "..."}]}',
        Again("repeats the form"),
    ),
]


def doubtful(name: str, c1: str, expected: object, *, beside: str = "") -> Case:
    """A verdict of which the entry of c1 is unusual, or what is beside the scores."""
    return Case(
        "doubtful score",
        "critique",
        name,
        f'{{"scores": {{"c1": {c1}, "c2": 0.6}}{beside}}}',
        expected,
    )


DOUBTFUL = [
    doubtful("a scale in other words", '{"rating": 1, "bestRating": 5}', (0.2, 0.6)),
    doubtful("a scale in one word", '{"score": 1, "of": 5}', (0.2, 0.6)),
    doubtful("points", '{"score": 1, "points_possible": 20}', (0.05, 0.6)),
    doubtful("a range of values", '{"score": 1, "range": [1, 5]}', Again("not a scale")),
    doubtful("a scale beside", "1", Again("which scale"), beside=', "rating_scale": "1-5"'),
    doubtful("a scale in a sentence", "1", Again("not a scale"), beside=', "scoring": "out of 10"'),
    doubtful("a poor one", '"1 (poor)"', Again("poor")),
    doubtful("one star", '"1 (star)"', Again("star")),
    doubtful("a good fraction", '"0.95 (good)"', (0.95, 0.6)),
    doubtful("a footnote", '"0.9\u00b2"', Again()),
    doubtful("a footnote, bare", "0.9\u00b2", Again()),
    doubtful("a circled footnote", '"0.9\u2460"', Again()),
    doubtful("a number that ends with its point", "0.", Again()),
    doubtful("a German zero that is cut", '"0,"', Again()),
    doubtful("a decimal comma, bare", "0,9", Again()),
    doubtful(
        "half of the example",
        '{"evidence": ["<words of the draft>"], "reason": "<why>", "score": 0.5}',
        Again("the form asked for"),
    ),
    doubtful("two scores", '{"score": 0.9, "rating": 0.3}', Again("two different scores")),
    doubtful(
        "a corrected score", '{"score": 0.9, "final_score": 0.3}', Again("two different scores")
    ),
    doubtful("a rating in words", '{"score": 0.9, "rating": "good"}', READ),
    doubtful("a weighted score", '{"score": 0.9, "weighted_score": 0.45}', READ),
    doubtful("a score in two cases", '{"Score": 0.9, "score": 0.1}', Again("repeats a name")),
    doubtful("a key and another name", '{"name": "tone", "score": 0.9}', Again("two criteria")),
    doubtful(
        "not measurable, with a filler", '{"score": 0, "unmeasurable": "no facts"}', (None, 0.6)
    ),
    doubtful("measurable after all", '{"score": 0.9, "unmeasurable": "no"}', READ),
    doubtful(
        "nothing measurable, but scores", "0.9", Again("agree"), beside=', "unmeasurable": true'
    ),
    doubtful(
        "a list of the unmeasurable", "0.9", Again("agree"), beside=', "unmeasurable": ["c2"]'
    ),
    Case(
        "doubtful score",
        "critique",
        "a total",
        f'{{"score": 0.75, "ratings": {{"c1": {C1}, "c2": {C2}}}}}',
        READ,
    ),
    Case(
        "doubtful score",
        "critique",
        "findings first",
        '{"findings": [], "scores": {"c2": 0.6, "c1": 0.9}}',
        READ,
    ),
]

SCALES = [
    Case("score", "critique", "a text", scored('"0.9"'), READ),
    Case("score", "critique", "out of ten", scored('"9/10"'), READ),
    Case("score", "critique", "out of ten, bare", scored("9/10"), READ),
    Case("score", "critique", "in words", scored('"4.5 out of 5"'), READ),
    Case("score", "critique", "in German", scored('"9 von 10"'), READ),
    Case("score", "critique", "percent", scored('"90%"'), READ),
    Case("score", "critique", "percent, bare", scored("90%"), READ),
    Case("score", "critique", "per cent in words", scored('"90 percent"'), READ),
    Case("score", "critique", "a decimal comma", scored('"0,9"'), READ),
    Case("score", "critique", "without a zero", scored(".9"), READ),
    Case("score", "critique", "full-width digits", scored('"０.９"'), READ),
    Case("score", "critique", "full-width digits, bare", scored("０.９"), READ),
    Case("score", "critique", "with a word for it", scored('"0.9 (good)"'), READ),
    Case("score", "critique", "an object with its scale", scored('{"value": 9, "max": 10}'), READ),
    Case("score", "critique", "a word for not measured", scored("0.9", '"N/A"'), (0.9, None)),
    Case("score", "critique", "one", scored("1", "0"), (1.0, 0.0)),
    Case("score", "critique", "a bare 85", scored("85"), Again("85 is not a score")),
    Case("score", "critique", "a bare 85 as text", scored('"85"'), Again("85")),
    Case("score", "critique", "a bare 8", scored("8"), Again("8 is not a score")),
    Case("score", "critique", "a little above one", scored("1.2"), Again("1.2")),
    Case("score", "critique", "below zero", scored("-0.1"), Again("-0.1")),
    Case("score", "critique", "eleven out of ten", scored('"11/10"'), Again("11/10")),
    Case("score", "critique", "out of zero", scored('"1/0"'), Again("1/0")),
    Case("score", "critique", "a range", scored('"0.8-0.9"'), Again("0.8-0.9")),
    Case("score", "critique", "two scores in one", scored('"0.8, maybe 0.9"'), Again("0.8, maybe")),
    Case("score", "critique", "a word", scored('"high"'), Again("high")),
    Case("score", "critique", "true", scored("true"), Again("true")),
    Case("score", "critique", "not a number", scored("NaN"), Again("NaN|nan")),
    Case("score", "critique", "infinity", scored("Infinity"), Again("inf")),
    Case("score", "critique", "a list", scored("[0.9]"), Again("0.9")),
    Case("score", "critique", "a huge exponent", scored("1e999"), Again("inf")),
    Case(
        "score",
        "critique",
        "a scale beside the score",
        '{"scores": {"c1": {"score": 9, "max_score": 10}, "c2": {"score": 3, "scale": "1-5"}}}',
        (0.9, 0.6),
    ),
    Case(
        "score",
        "critique",
        "one of five",
        '{"scores": {"c1": {"score": 1, "max": 5}, "c2": {"score": 1, "max": 5}}}',
        (0.2, 0.2),
    ),
    Case(
        "score",
        "critique",
        "a scale of all scores",
        '{"scores": {"c1": 9, "c2": 6}, "scale": "0-10"}',
        READ,
    ),
    Case(
        "score",
        "critique",
        "a scale among the scores",
        '{"scores": {"c1": 1, "c2": 0, "max": 10}}',
        (0.1, 0.0),
    ),
    Case(
        "score",
        "critique",
        "a share of another scale",
        '{"scores": {"c1": {"score": 0.9, "max": 10}, "c2": 0.6}}',
        Again("which scale"),
    ),
    Case(
        "score",
        "critique",
        "a scale in words",
        '{"scores": {"c1": {"score": 1, "scale": "low to high"}, "c2": 0.6}}',
        Again("not a scale"),
    ),
    Case("score", "critique", "less than one of ten", scored('"0.9/10"'), Again("which scale")),
    Case("score", "critique", "less than one per cent", scored('"0.9%"'), Again("which scale")),
    Case("score", "critique", "out of less than one", scored('"0.8/0.9"'), Again("which scale")),
    Case("score", "critique", "a thousand", scored('"1,000"'), Again("1,000")),
    Case("score", "critique", "a leading zero", scored("01"), Again("01")),
    Case(
        "score",
        "critique",
        "a sum among the scores",
        '{"scores": {"c1": 0.9, "c2": 0.6, "total": 1.5}}',
        Dropped(READ, 1),
    ),
]

SYNTAX = [
    Case("syntax", "critique", "trailing commas", scored("0.9,").replace("0.6", "0.6,"), READ),
    Case(
        "syntax",
        "critique",
        "comments",
        scored("0.9 // nearly").replace("}, ", "\n}, /* next */ "),
        READ,
    ),
    Case(
        "syntax",
        "critique",
        "comments as in Python",
        '{"scores": { # both\n"c1": 0.9, "c2": 0.6}}',
        READ,
    ),
    Case("syntax", "critique", "single quotes", scored("0.9").replace('"', "'"), READ),
    Case(
        "syntax",
        "critique",
        "Python's literals",
        "{'scores': {'c1': {'score': 0.9}, 'c2': {'score': None}}}",
        (0.9, None),
    ),
    Case(
        "syntax",
        "critique",
        "names without quotes",
        "{scores: {c1: {score: 0.9}, c2: {score: 0.6}}}",
        READ,
    ),
    Case(
        "syntax",
        "critique",
        "typographic quotes",
        scored("0.9").replace('"a"', "“a”").replace('"c1"', "“c1”"),
        READ,
    ),
    Case(
        "syntax", "critique", "full-width punctuation", '{"scores"：{"c1"：0.9，"c2"：0.6}}', READ
    ),
    Case(
        "syntax", "critique", "a line end in a text", scored("0.9").replace('"a"', '"a\nb"'), READ
    ),
    Case(
        "syntax",
        "critique",
        "quotes in a text",
        scored("0.9").replace('"a"', '"it says "soon", which is vague"'),
        READ,
    ),
    Case(
        "syntax",
        "critique",
        "an apostrophe in single quotes",
        "{'scores': {'c1': {'reason': 'it's fine', 'score': 0.9}, 'c2': 0.6}}",
        READ,
    ),
    Case(
        "syntax",
        "critique",
        "an escape that JSON has not",
        scored("0.9").replace('"a"', r'"a\_b \d"'),
        READ,
    ),
    Case(
        "syntax",
        "critique",
        "a missing comma between lines",
        '{"scores": {"c1": 0.9\n"c2": 0.6}}',
        READ,
    ),
    Case("syntax", "critique", "two commas", '{"scores": {"c1": 0.9,, "c2": 0.6}}', READ),
    Case(
        "syntax",
        "critique",
        "a triple-quoted text",
        scored("0.9").replace('"a"', '"""He said "no"."""'),
        READ,
    ),
    Case(
        "syntax",
        "critique",
        "a text in back quotes",
        scored("0.9").replace('"a"', '`say "no"`'),
        READ,
    ),
    Case("syntax", "critique", "members on Windows lines", KEYED.replace(", ", ",\r\n"), READ),
    Case("syntax", "critique", "a byte order mark", "\ufeff" + KEYED, READ),
    Case(
        "syntax", "critique", "zero-width spaces", "\u200b" + KEYED.replace(": ", ":\u200b"), READ
    ),
    Case(
        "syntax",
        "critique",
        "a name twice, same value",
        scored("0.9").replace('"a"', '"a", "reason": "a"'),
        READ,
    ),
    Case(
        "syntax",
        "critique",
        "a name twice",
        scored('0.9, "score": 0.1'),
        Again("'score' stands twice"),
    ),
    Case(
        "syntax",
        "critique",
        "a criterion twice",
        '{"scores": {"c1": 0.9, "c1": 0.1, "c2": 0.6}}',
        Again("'c1' stands twice"),
    ),
    Case(
        "syntax",
        "critique",
        "a criterion twice in a list",
        LISTED.replace('"tone"', '"clarity"'),
        Again("scored twice"),
    ),
    Case(
        "syntax",
        "critique",
        "a criterion by key and by name",
        '{"scores": {"c1": 0.9, "clarity": 0.1, "c2": 0.6}}',
        Again("scored twice"),
    ),
    Case("syntax", "critique", "a colon is missing", '{"scores" {"c1": 0.9, "c2": 0.6}}', Again()),
    Case(
        "syntax",
        "critique",
        "the wrong bracket closes",
        '{"scores": {"c1": 0.9, "c2": 0.6]}',
        Again(),
    ),
    Case(
        "syntax",
        "critique",
        "half a surrogate pair",
        scored("0.9").replace('"a"', r'"\ud800"'),
        Again("surrogate"),
    ),
    Case("syntax", "critique", "nested a hundred times", '{"scores": ' * 100 + "}" * 100, Again()),
]

CUT_OFF = [
    Case("cut off", "critique", "in a text", KEYED[:40], Again("cut off")),
    Case("cut off", "critique", "after a member", KEYED[:60], Again("cut off")),
    Case("cut off", "critique", "before the last bracket", KEYED[:-1], Again("cut off")),
    Case("cut off", "critique", "in a fence", f"```json\n{KEYED[:70]}", Again("cut off")),
    Case(
        "cut off",
        "edits",
        "in the second edit",
        '{"edits": [{"search": "take", "replace": "need"}, {"search": "Se',
        Again("cut off"),
    ),
    Case(
        "cut off", "vote", "in a number", '{"groups": {"a1": 1, "a2": 1, "a3": 1', Again("cut off")
    ),
    Case(
        "cut off",
        "critique",
        "in the thinking",
        "<think>The draft is clear, but",
        Again("thinking"),
    ),
    Case("cut off", "critique", "empty", "", Again("no JSON object")),
    Case("cut off", "critique", "blank", " \n\u200b ", Again("no JSON object")),
]

AROUND = [
    Case("around it", "critique", "a fence", f"```json\n{KEYED}\n```", READ),
    Case("around it", "critique", "a fence without a language", f"```\n{KEYED}\n```", READ),
    Case("around it", "critique", "a fence that is not closed", f"```json\n{KEYED}\n", READ),
    Case("around it", "critique", "tildes", f"~~~json\n{KEYED}\n~~~", READ),
    Case("around it", "critique", "words before", f"Here is my evaluation:\n\n{KEYED}", READ),
    Case("around it", "critique", "words after", f"{KEYED}\n\nI hope this helps! {{smile}}", READ),
    Case(
        "around it",
        "critique",
        "braces in the words before",
        f"I looked for {{placeholders}}.\n{KEYED}",
        READ,
    ),
    Case(
        "around it",
        "critique",
        "another language",
        f"以下是我的评估：\n```json\n{KEYED}\n```\n希望有帮助。",
        READ,
    ),
    Case("around it", "critique", "a link before", f"[1] see [the guide](x):\n{KEYED}", READ),
    Case(
        "around it",
        "critique",
        "thinking",
        f'<think>\nLet me see: {{"c1": 0.1}}\n</think>\n{KEYED}',
        READ,
    ),
    Case(
        "around it",
        "critique",
        "another verdict while thinking",
        f"<think>{scored('0.1')}</think>{KEYED}",
        READ,
    ),
    Case("around it", "critique", "thinking in capitals", f"<THINKING>hm</THINKING>{KEYED}", READ),
    Case("around it", "critique", "thinking of Kimi", f"◁think▷hm◁/think▷{KEYED}", READ),
    Case("around it", "critique", "thinking of Magistral", f"[THINK]hm[/THINK]{KEYED}", READ),
    Case(
        "around it",
        "critique",
        "only the closing tag",
        f"The draft is clear.\n</think>\n\n{KEYED}",
        READ,
    ),
    Case(
        "around it",
        "critique",
        "channels",
        f"<|channel|>analysis<|message|>{scored('0.1')}<|end|><|start|>assistant<|channel|>final<|message|>{KEYED}<|return|>",
        READ,
    ),
    Case(
        "around it",
        "critique",
        "channels without their marks",
        f"analysisThe draft is clear.assistantfinal{KEYED}",
        READ,
    ),
    Case("around it", "critique", "an end token", f"{KEYED}<|im_end|>", READ),
    Case(
        "around it",
        "critique",
        "the example, then the answer",
        '{"scores": {"c1": {"evidence": ["<words of the draft>"], "reason": "<why>", "score": 0.5}, "c2": {"evidence": ["<words of the draft>"], "reason": "<why>", "score": 0.5}}}\n'
        + KEYED,
        READ,
    ),
    Case("around it", "critique", "the answer twice", f"{KEYED}\n{KEYED}", READ),
    Case(
        "around it",
        "critique",
        "the answer, then a correction",
        f"{KEYED}\nWait, I correct that:\n{scored('0.2')}",
        Again("2 different JSON objects"),
    ),
    Case("around it", "critique", "two verdicts", f"[{scored('0.1')}, {KEYED}]", Again()),
    Case(
        "around it",
        "critique",
        "a prose verdict",
        "Clarity: 9/10. Tone: 6/10. A good draft.",
        Again("no JSON object"),
    ),
    Case(
        "around it",
        "critique",
        "Markdown",
        "| criterion | score |\n|---|---|\n| clarity | 0.9 |",
        Again("no JSON object"),
    ),
    Case(
        "around it",
        "critique",
        "XML",
        "<scores><c1>0.9</c1><c2>0.6</c2></scores>",
        Again("no JSON object"),
    ),
    Case("around it", "critique", "YAML", "scores:\n  c1: 0.9\n  c2: 0.6", Again("no JSON object")),
    Case("around it", "critique", "a refusal", "I'm sorry, but I can't help with that.", Refuses()),
    Case(
        "around it",
        "critique",
        "a refusal in German",
        "Es tut mir leid, aber dabei kann ich Ihnen nicht helfen.",
        Refuses(),
    ),
]

FINDING = '{"kind": "c1", "message": "Vague.", "fix": "Say when.", "quote": "soon"}'


def found(*findings: str) -> str:
    """A verdict with these findings."""
    return KEYED.replace('"findings": []', f'"findings": [{", ".join(findings)}]')


ITEMS = [
    Case("bad item", "critique", "a finding by key", found(FINDING), READ),
    Case(
        "bad item",
        "critique",
        "an unknown criterion",
        found(FINDING, FINDING.replace("c1", "style")),
        Dropped(READ, 1),
    ),
    Case(
        "bad item",
        "critique",
        "a finding without a message",
        found(FINDING, '{"kind": "c1"}'),
        Dropped(READ, 1),
    ),
    Case(
        "bad item",
        "critique",
        "a finding that is a text",
        found('"Too long."', FINDING),
        Dropped(READ, 1),
    ),
    Case(
        "bad item",
        "critique",
        "no findings",
        KEYED.replace('"findings": []', '"findings": null'),
        READ,
    ),
    Case(
        "bad item",
        "critique",
        "a score of another criterion",
        KEYED.replace('"c2"', '"c3": 0.1, "c2"'),
        Dropped(READ, 1),
    ),
    Case(
        "bad item",
        "critique",
        "a strength that is no text",
        KEYED.replace('"findings"', '"strengths": ["Clear.", 7], "findings"'),
        Dropped(READ, 1),
    ),
    Case(
        "bad item",
        "critique",
        "one strength instead of a list",
        KEYED.replace('"findings"', '"strengths": "Clear.", "findings"'),
        READ,
    ),
    Case(
        "bad item",
        "questions",
        "a misquoted claim",
        '{"questions": [{"claim": "take 14 days", "question": "How long?"}, {"claim": "take 20 days", "question": "When?"}]}',
        Dropped(("How long?",), 1),
    ),
    Case(
        "bad item",
        "questions",
        "every claim misquoted",
        '{"questions": [{"claim": "take 20 days", "question": "When?"}]}',
        Again("does not occur"),
    ),
    Case(
        "bad item",
        "questions",
        "a question that gives the answer",
        '{"questions": [{"claim": "Refunds take 14 days", "question": "Is it true that refunds take 14 days?"}, {"claim": "14 days", "question": "How long?"}]}',
        Dropped(("How long?",), 1),
    ),
    Case("bad item", "questions", "none", '{"questions": []}', Again("no question")),
    Case("bad item", "questions", "no list", '{"questions": 7}', Again()),
    Case(
        "bad item",
        "contradictions",
        "in the form asked for",
        '{"answers": {"a1": [{"claim": "14 days", "contradiction": "It is 30.", "fix": "30"}], "a2": []}}',
        ("14 days",),
    ),
    Case(
        "bad item",
        "contradictions",
        "the list that was asked for before",
        '{"contradictions": [{"claim": "14 days", "answer": 1, "contradiction": "It is 30."}]}',
        ("14 days",),
    ),
    Case("bad item", "contradictions", "none", '{"answers": {"a1": [], "a2": []}}', ()),
    Case(
        "bad item",
        "contradictions",
        "one for an answer, not a list",
        '{"answers": {"a1": {"claim": "14 days", "contradiction": "It is 30."}, "a2": null}}',
        ("14 days",),
    ),
    Case(
        "bad item",
        "contradictions",
        "an answer left out",
        '{"answers": {"a1": []}}',
        Again("answer 2"),
    ),
    Case(
        "bad item",
        "contradictions",
        "an unknown answer",
        '{"contradictions": [{"claim": "14 days", "answer": 1, "contradiction": "x"}, {"claim": "14 days", "answer": 9, "contradiction": "x"}]}',
        Dropped(("14 days",), 1),
    ),
    Case(
        "bad item",
        "contradictions",
        "a misquoted claim alone",
        '{"answers": {"a1": [{"claim": "20 days", "contradiction": "x"}], "a2": []}}',
        Again("does not occur"),
    ),
    Case(
        "bad item",
        "checklist",
        "in the form asked for",
        '{"criteria": {"first": {"name": "a", "description": "Is it a?"}, "second": {"name": "b", "description": "Is it b?"}, "third": {"name": "c", "description": "Is it c?"}, "more": []}}',
        ("a", "b", "c"),
    ),
    Case(
        "bad item",
        "checklist",
        "one is no question",
        '{"criteria": [{"name": "a", "description": "Is it a?"}, {"name": "b", "description": "Is it b?"}, {"name": "c", "description": "Is it c?"}, {"name": "d", "description": "It is d."}]}',
        Dropped(("a", "b", "c"), 1),
    ),
    Case(
        "bad item",
        "checklist",
        "too few",
        '{"criteria": [{"name": "a", "description": "Is it a?"}]}',
        Again("at least 3"),
    ),
    Case(
        "bad item",
        "edits",
        "in the form asked for",
        '{"edits": {"first": {"search": "take", "replace": "need"}, "more": []}}',
        ("take",),
    ),
    Case(
        "bad item",
        "edits",
        "the list that was asked for before",
        '{"edits": [{"search": "take", "replace": "need"}]}',
        ("take",),
    ),
    Case(
        "bad item",
        "edits",
        "one instead of a list",
        '{"edits": {"search": "take", "replace": "need"}}',
        Again(),
    ),
    Case(
        "bad item",
        "edits",
        "an edit without words",
        '{"edits": [{"search": "take", "replace": "need"}, {"replace": "x"}]}',
        Dropped(("take",), 1),
    ),
]

OTHERS = [
    Case(
        "other kinds",
        "vote",
        "in the form asked for",
        '{"groups": {"a1": 1, "a2": 2, "a3": 1}}',
        ((0, 2), (1,)),
    ),
    Case(
        "other kinds",
        "vote",
        "the list that was asked for before",
        '{"groups": [[1, 3], [2]]}',
        ((0, 2), (1,)),
    ),
    Case("other kinds", "vote", "the bare list", "[[1, 3], [2]]", ((0, 2), (1,))),
    Case(
        "other kinds",
        "vote",
        "numbers as texts",
        '{"groups": {"a1": "1", "a2": "2", "a3": "1"}}',
        ((0, 2), (1,)),
    ),
    Case(
        "other kinds",
        "vote",
        "the names of answers",
        '{"groups": {"Answer 1": 1, "Answer 2": 2, "Answer 3": 1}}',
        ((0, 2), (1,)),
    ),
    Case(
        "other kinds",
        "vote",
        "an answer left out",
        '{"groups": {"a1": 1, "a2": 2}}',
        Again("every number from 1 to 3"),
    ),
    Case(
        "other kinds",
        "vote",
        "an answer in two groups",
        '{"groups": [[1, 3], [2, 3]]}',
        Again("every number from 1 to 3"),
    ),
    Case(
        "other kinds",
        "vote",
        "truth values",
        '{"groups": {"a1": true, "a2": false, "a3": true}}',
        Again(),
    ),
    Case(
        "other kinds",
        "preference",
        "in the form asked for",
        '{"reason": "Plainer.", "better": "A"}',
        "A",
    ),
    Case(
        "other kinds", "preference", "a small letter", '{"reason": "Plainer.", "better": "b"}', "B"
    ),
    Case(
        "other kinds",
        "preference",
        "with a word",
        '{"reason": "Plainer.", "better": "Text A"}',
        "A",
    ),
    Case("other kinds", "preference", "no quotes", '{"reason": "Plainer.", "better": B}', "B"),
    Case(
        "other kinds",
        "preference",
        "both",
        '{"reason": "Plainer.", "better": "A and B"}',
        Again("A and B"),
    ),
    Case(
        "other kinds",
        "preference",
        "another word",
        '{"reason": "Plainer.", "better": "first"}',
        Again("first"),
    ),
    Case(
        "other kinds",
        "steps",
        "in the form asked for",
        '{"steps": {"s1": {"why": "It follows.", "correct": true}, "s2": {"why": "No.", "correct": false}}}',
        2,
    ),
    Case(
        "other kinds",
        "steps",
        "the list that was asked for before",
        '{"steps": [{"step": 1, "why": "No.", "correct": false}]}',
        1,
    ),
    Case(
        "other kinds",
        "steps",
        "all correct",
        '{"steps": {"s1": {"why": "a", "correct": true}, "s2": {"why": "b", "correct": "yes"}}}',
        None,
    ),
    Case(
        "other kinds",
        "steps",
        "a step left out",
        '{"steps": {"s1": {"why": "a", "correct": true}}}',
        Again("each step from 1 to 2"),
    ),
    Case(
        "other kinds",
        "steps",
        "out of order",
        '{"steps": {"s2": {"why": "a", "correct": true}, "s1": {"why": "a", "correct": true}}}',
        Again("each step"),
    ),
    Case(
        "other kinds",
        "steps",
        "neither true nor false",
        '{"steps": {"s1": {"why": "a", "correct": "mostly"}, "s2": {"why": "a", "correct": true}}}',
        Again(),
    ),
    Case(
        "other kinds",
        "plan",
        "in the form asked for",
        '{"steps": {"first": {"name": "", "instruction": "Find out.", "tool": null, "arguments": null}, "more": []}}',
        ("Find out.",),
    ),
    Case(
        "other kinds",
        "plan",
        "the list that was asked for before",
        '{"steps": [{"instruction": "Find out."}, {"instruction": "Check."}]}',
        ("Find out.", "Check."),
    ),
    Case(
        "other kinds",
        "plan",
        "arguments as text",
        '{"steps": [{"instruction": "Look.", "tool": "look_up", "arguments": "{\\"id\\": 7}"}]}',
        ("Look.",),
    ),
    Case("other kinds", "plan", "no step", '{"steps": []}', Again("at least 1 item")),
    Case(
        "other kinds",
        "plan",
        "an unknown tool",
        '{"steps": [{"instruction": "Look.", "tool": "search", "arguments": {}}]}',
        Again("unknown tool"),
    ),
    Case(
        "other kinds",
        "plan",
        "arguments that are no object",
        '{"steps": [{"instruction": "Look.", "tool": "look_up", "arguments": "7"}]}',
        Again("arguments"),
    ),
]

CASES = [*FORMS, *DOUBTFUL, *SCALES, *SYNTAX, *CUT_OFF, *AROUND, *ITEMS, *OTHERS]
