"""Replies to the revision of a plain article, each with marks around its text and without them.

A reply is a template: what stands around the text. `NO_TEXTS` are replies without one, and
`LEGITIMATE` are texts that a reader must not touch, however odd they are.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from app.contract.drafts import marks
from app.contract.judgement import Criterion, Critique
from workers.engine.asking import ask, question, reply_reader
from workers.engine.drafting import WrittenText, written_in
from workers.engine.moves import StepError
from workers.engine.prompts import Prompt, PromptRequest, Revise, Task, Write
from workers.engine.replies.reader import Doubtful, Unreadable

TASK = "Write an article for a garden club's newsletter on how to start a compost heap."
ARTICLE = """\
# Starting a compost heap

A compost heap turns kitchen scraps and garden waste into dark, crumbly soil. It needs no special
equipment at all. What it basically needs is a shady corner, some patience and a good mix of wet and dry
material that is utilized in alternating layers.

Begin with a layer of twigs about ten centimetres deep, so that air can reach the heap from below. Add
vegetable peelings, coffee grounds and grass cuttings, and cover every wet layer with dry leaves or torn
cardboard. Meat, cheese and cooked food attract rats and do not belong on the heap.

Turn the heap with a fork every two weeks. If it smells, it is too wet: add cardboard. If nothing happens
for a month, it is too dry: water it. After six to nine months the compost at the bottom is ready to be
used in the garden."""
REVISED = """\
# Starting a compost heap

A compost heap turns kitchen scraps and garden waste into dark, crumbly soil. It needs no equipment: a
shady corner, some patience, and layers of wet and dry material in turn are enough.

Begin with a layer of twigs about ten centimetres deep, so that air reaches the heap from below. Add
vegetable peelings, coffee grounds and grass cuttings, and cover every wet layer with dry leaves or torn
cardboard. Meat, cheese and cooked food attract rats and do not belong on the heap.

Turn the heap with a fork every two weeks. A heap that smells is too wet: add cardboard. A heap that does
nothing for a month is too dry: water it. After six to nine months the compost at the bottom is ready."""
FAILING = (
    "clarity: 'basically' and 'at all' say nothing. Fix: cut them. (not met yet)",
    "style: 'is utilized in alternating layers' is stilted. Fix: write 'in turn'.",
)
CRITIQUE = Critique(
    scores=(),
    strengths=("The order of the steps is easy to follow.",),
    weaknesses=("The last sentence ends in words that nobody needs.",),
)
FIRST_PARAGRAPH = REVISED.split("\n\n")[1]
BODY = REVISED.partition("\n\n")[2]
"""The text without its title."""

BEFORE: Mapping[str, str] = {
    "certainly": "Certainly!\n\n{}",
    "sure, on one line": "Sure, here's the revised text: {}",
    "a line with a full stop": "Here is the revised article.\n\n{}",
    "assistant, above": "Assistant:\n{}",
    "assistant, on the line": "Assistant: {}",
    "ai, in bold": "**AI:** {}",
    "Japanese": "はい、こちらが修正後の記事です。\n\n{}",
    "Japanese, with a colon": "ご依頼の通り、読みやすく書き直しました：\n\n{}",
    "Hindi": "ज़रूर! यहाँ संशोधित लेख है:\n\n{}",
    "Hindi, on one line": "यह रहा आपका संशोधित पाठ: {}",
    "Chinese": "好的！根据您的要求，我对文章做了如下润色：\n\n{}",
    "Korean": "요청하신 대로 글을 다듬었습니다.\n\n{}",
    "Thai": "ได้เลยครับ นี่คือบทความฉบับปรับปรุง:\n\n{}",
    "Vietnamese": "Chắc chắn rồi! Đây là bài viết đã được chỉnh sửa:\n\n{}",
    "Ukrainian": "Звісно! Ось відредагований текст статті:\n\n{}",
    "Greek": "Βεβαίως! Ακολουθεί το αναθεωρημένο άρθρο:\n\n{}",
    "Hebrew": "בבקשה, הנה הגרסה המשופרת של המאמר:\n\n{}",
    "Swedish": "Absolut! Här kommer den omarbetade artikeln:\n\n{}",
    "Finnish": "Toki! Tässä on muokattu artikkeli:\n\n{}",
    "Indonesian": "Tentu! Berikut adalah artikel yang telah direvisi:\n\n{}",
    "Czech": "Samozřejmě, zde je upravený článek:\n\n{}",
    "Romanian": "Desigur! Iată articolul revizuit:\n\n{}",
    "Turkish": "Elbette! İşte makalenin gözden geçirilmiş hâli:\n\n{}",
    "German, two sentences": "Gerne. Ich habe den Artikel gestrafft und die Füllwörter entfernt:\n\n{}",
    "French, what was done": "J'ai resserré le texte en tenant compte de vos remarques.\n\n{}",
    "Spanish, cheerful": "¡Perfecto! Te dejo el artículo corregido a continuación 👇\n\n{}",
    "what was done": "I went through the article and cut the filler, as the review asked.\n\n{}",
    "thanks": "Thanks for the thoughtful feedback! I've incorporated it below.\n\n{}",
    "analysis, then a label": (
        'Let me look at the feedback first.\n\n1. "basically" is filler and should go.\n'
        "2. The layers sentence is stilted.\n\nRevised draft:\n\n{}"
    ),
    "analysis under headings": (
        "## Analysis\n\nThe draft is sound, but the opening is padded and the end drags.\n\n"
        "## Revised article\n\n{}"
    ),
    "a plan, then a rule": (
        "Plan:\n- cut filler in the opening\n- rewrite the layers sentence\n- trim the end\n\n---\n\n{}"
    ),
    "thinking aloud": (
        "Okay, so the reviewer wants the filler gone. The layers sentence needs another verb. I will"
        " keep the rest as it is.\n\n{}"
    ),
    "a heading of its own": "# Revised Version\n\n{}",
    "a label in bold": "**Revised Article**\n\n{}",
    "the review's points, answered": (
        "- Filler words: removed.\n- Stilted sentence: rewritten.\n- Ending: trimmed.\n\n{}"
    ),
    "answer": "Answer:\n\n{}",
    "the result is below": "Please find the improved newsletter piece below:\n\n{}",
    "a label right above": "Überarbeitete Fassung des Artikels:\n{}",
    "a line right above": "Please see the polished piece, with the filler gone:\n{}",
    "absolutely, with an emoji": "Absolutely! ✨ Here you go:\n\n{}",
}
AFTER: Mapping[str, str] = {
    "this version": "{}\n\nThis version is shorter and keeps every fact of the original.",
    "a note behind a rule": "{}\n\n---\n\nNote: I removed filler and tightened the ending.",
    "a remark in italics": "{}\n\n*I kept the title and the measurements as they were.*",
    "a list of changes": '{}\n\nChanges:\n1. Removed "basically" and "at all".\n2. Shortened the end.',
    "what I changed": "{}\n\n**What I changed**\n\n- Cut the filler.\n- Simplified one sentence.",
    "a table of changes": (
        "{}\n\n| Before | After |\n|---|---|\n| basically needs | needs |\n| to be used in the garden | (cut) |"
    ),
    "summary of edits": "{}\n\nSummary of edits: filler cut, stilted sentence replaced, ending trimmed.",
    "hope this helps": "{}\n\nI hope this helps! 🌱",
    "a question": "{}\n\nWould you like me to add a section on worm bins?",
    "what do you think": "{}\n\nWhat do you think of this version?",
    "let me know": "{}\n\nLet me know if you'd like any further tweaks.",
    "a count of words": "{}\n\n[138 words]",
    "a verdict": "{}\n\nClarity: 9/10\nStyle: 9/10",
    "how it meets the review": (
        "{}\n\nThe revised article addresses the feedback by removing filler and replacing the stilted"
        " sentence."
    ),
    "end of article": "{}\n\n--- End of article ---",
    "Japanese": "{}\n\n以上が修正版です。ご確認ください。",
    "Chinese": "{}\n\n修改说明：删去了多余的词语，并缩短了结尾。",
    "German": "{}\n\nIch habe die Füllwörter gestrichen und den Schluss gekürzt.",
    "Spanish": "{}\n\nEspero que te sirva. ¿Quieres que lo haga más informal?",
    "Hindi": "{}\n\nआशा है यह संस्करण आपको पसंद आएगा।",
    "a note in brackets": "{}\n\n[Note: this piece was shortened for the newsletter.]",
    "an explanation": "{}\n\n**Explanation:** the filler went, and the layers got a plainer verb.",
    "a total": "{}\n\nTotal words: 138",
    "the end": "{}\n\nEND",
    "a trailing fence": "{}\n```",
    "a token": "{}<|im_end|>",
    "an offer with a list": (
        "{}\n\nIf you want, I can also:\n- add a diagram\n- write a shorter version for social media"
    ),
}
AROUND: Mapping[str, str] = {
    "three quotes": '"""\n{}\n"""',
    "three single quotes": "'''\n{}\n'''",
    "a fence": "```\n{}\n```",
    "a fence after a line": "Here's the updated article:\n\n```markdown\n{}\n```",
    "an element": "<article>\n{}\n</article>",
    "an element of its own": "<revised_article>\n{}\n</revised_article>",
    "rules": "---\n\n{}\n\n---",
    "equals signs": "=====\n{}\n=====",
    "begin and end": "[BEGIN REVISED TEXT]\n{}\n[END REVISED TEXT]",
    "begin and end of article": "--- BEGIN ARTICLE ---\n\n{}\n\n--- END ARTICLE ---",
    "a line and an offer": "Sure thing! Here's my take:\n\n{}\n\nHappy to adjust the tone if needed!",
    "a line and a note behind rules": (
        "Here is the final draft:\n\n---\n\n{}\n\n---\n\n**Key changes:** filler removed, ending trimmed."
    ),
    "three quotes and a remark": 'Revised:\n\n"""\n{}\n"""\n\nShorter by a fifth.',
    "Korean, around": "아래는 수정된 기사입니다:\n\n{}\n\n더 수정이 필요하시면 말씀해 주세요.",
    "typographic quotes": "“{}”",
}


def quoted(text: str) -> str:
    """A text as a blockquote."""
    return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))


CHANGED: Mapping[str, str] = {
    "a blockquote": quoted(REVISED),
    "a blockquote after a line": f"Here is the revised article:\n\n{quoted(REVISED)}",
    "an object": json.dumps({"revised_article": REVISED, "changes": ["filler cut"]}),
}
"""Replies whose text is not written as it is."""

CRITIQUE_OBJECT = {
    "scores": {"c1": {"evidence": [], "reason": "Padded.", "score": 0.5}},
    "findings": [{"kind": "clarity", "message": "Filler.", "fix": "Cut it.", "quote": "basically"}],
}
SAME = FIRST_PARAGRAPH
OPTIONS = (BODY, BODY.replace("Turn the heap", "Mix the heap"))
NO_TEXTS: Mapping[str, str] = {
    "the draft, then corrected": f"{ARTICLE}\n\nCorrected:\n\n{REVISED}",
    "the text twice": f"{REVISED}\n\n{REVISED}",
    "a critique as an object": json.dumps(CRITIQUE_OBJECT),
    "a critique in a fence": f"```json\n{json.dumps(CRITIQUE_OBJECT, indent=1)}\n```",
    "a list of findings": json.dumps(CRITIQUE_OBJECT["findings"]),
    "a critique in prose": (
        "The article is clear and well organised, and its tone suits a newsletter. However, the opening"
        ' paragraph contains filler such as "basically", and the sentence about alternating layers is'
        " stilted. I would suggest cutting both. The last sentence could also be shorter. Overall a solid"
        " draft that needs only light editing before it is published."
    ),
    "strengths and weaknesses": (
        "**Strengths**\n- Clear order of steps\n- Concrete measurements\n\n**Weaknesses**\n- Filler words"
        "\n- A stilted sentence on layers\n\n**Score:** 7/10"
    ),
    "a score": "Score: 8/10",
    "two options": f"Option 1:\n\n{OPTIONS[0]}\n\nOption 2:\n\n{OPTIONS[1]}",
    "options under headings": f"## Option A (concise)\n\n{OPTIONS[0]}\n\n## Option B (lively)\n\n{OPTIONS[1]}",
    "two takes": f"Here are two takes.\n\n**Take one**\n\n{OPTIONS[0]}\n\n**Take two**\n\n{OPTIONS[1]}",
    "the draft and the revision": f"**Original**\n\n{ARTICLE}\n\n**Edited**\n\n{REVISED}",
    "a bare diff": (
        "- shady corner, some patience and a good mix of wet and dry\n"
        "- material that is utilized in alternating layers.\n"
        "+ shady corner, some patience, and layers of wet and dry material in turn are enough."
    ),
    "a unified diff": (
        "--- a/article.md\n+++ b/article.md\n@@ -3,4 +3,3 @@\n A compost heap turns kitchen scraps and"
        " garden waste into dark, crumbly soil.\n-It needs no special equipment at all.\n+It needs no"
        " equipment.\n"
    ),
    "replacements": (
        'Replace "What it basically needs is" with "It needs".\nReplace "is utilized in alternating'
        ' layers" with "in turn".'
    ),
    "dots": "...",
    "an ellipsis": "…",
    "a rule": "---",
    "a placeholder": "[Your revised article goes here]",
    "six times the same": "\n\n".join([SAME] * 6),
    "a sentence without end": "Turn the heap with a fork every two weeks. " * 40,
    "words without end": "A compost heap turns kitchen scraps into " + "soil and " * 300,
    "the review": "\n".join(("Must be mended:", *(f"- {it}" for it in FAILING))),
    "the review in other words": (
        "- clarity: 'basically' and 'at all' say nothing, cut them\n- style: 'is utilized in alternating"
        " layers' is stilted, write 'in turn'\n- the last sentence ends in words that nobody needs"
    ),
    "a turn of a person": f"{REVISED}\n\nHuman: Thanks! Can you make it shorter?\n\nAssistant: Of course.",
    "a turn of a user": f"{REVISED}\n\n### User:\nNow translate it into French.",
    "nothing to do": "The article is already in excellent shape and needs no further revision.",
    "nothing to do, in Portuguese": "O artigo já está ótimo, não vejo nada a melhorar.",
    "done": "Done.",
    "it is done": "I have revised the article according to your feedback.",
    "a question": "Before I revise it, could you tell me who the readers are and how long it may be?",
    "a plan": (
        "I'll cut the filler from the opening, rewrite the sentence about the layers and trim the end."
    ),
    "only a paragraph": f"{FIRST_PARAGRAPH}\n\n(The other paragraphs stay the same.)",
    "another text": (
        "Our refund policy is simple. Customers may send unopened goods back within thirty days of"
        " delivery, and we pay the price to the card with which they paid. Shipping is free."
    ),
    "a tenth": "Compost needs layers.",
    "a refusal": "I'm sorry, but I can't help with that.",
}


@dataclass(frozen=True)
class ArticleReply:
    """A reply to the request to revise the article, or to write it where `base` is None.

    `text` is the text in it, None if it has none. `is_text` says that the whole reply is the text.
    """

    family: str
    name: str
    said: str
    text: str | None
    base: str | None = ARTICLE
    task: str = TASK
    is_cut: bool = False

    @cached_property
    def asked(self) -> PromptRequest:
        """The request that it answers."""
        task = Task(self.task, None, (Criterion(name="clarity"),), nonce="482913")
        if self.base is None:
            return Write(task)
        return Revise(task, self.base, FAILING, CRITIQUE, ())

    @cached_property
    def prompt(self) -> Prompt:
        """The prompt of the request."""
        return self.asked.prompt()

    def with_marks(self) -> "ArticleReply":
        """Return the same reply of a model that puts the text between marks."""
        inside = self.text if self.text is not None and self.text in self.said else self.said
        opens, closes = marks(self.prompt.mark or "")
        marked = f"{opens}\n{inside}" if self.is_cut else f"{opens}\n{inside}\n{closes}"
        return replace(self, said=self.said.replace(inside, marked, 1))

    def with_its_marks(self) -> "ArticleReply":
        """Return the same reply with `{O}`, `{C}` and other stand-ins replaced by marks."""
        number = self.prompt.mark or ""
        (opens, closes), (o, c) = marks(number), marks(f"{(int(number) + 1) % 1_000_000:06}")
        stand_ins = {"O": opens, "C": closes, "OU": opens.upper(), "CU": closes.upper()}
        said = self.said
        for name, it in {**stand_ins, "o": o, "c": c, "N": number}.items():
            said = said.replace(f"{{{name}}}", it)
        return replace(self, said=said)

    def outcome(self, *, is_again: bool = False) -> str:
        """Return what comes of it: `right`, `asked again`, `wrong`, or `doubted` if it is asked
        again once, and no draft when it comes again."""
        move = question("revise", "generator", self.asked)
        try:
            read = replace(reply_reader(move, self.said), is_again=is_again).text()
        except Doubtful:
            return "doubted"
        except Unreadable:
            return "asked again"
        return "right" if read == self.text else "wrong"

    def played(self, later: str) -> str:
        """Return what comes of it in the end, if every later reply is another one: `right`,
        `wrong`, or `kept` where there is no draft or the one before stays."""
        step = ask(question("revise", "generator", self.asked), written_in, "empty_draft")
        reply = None
        while True:
            try:
                step.send(reply)
                reply = self.said if reply is None else later
            except StepError:
                return "kept"
            except StopIteration as done:
                written: WrittenText = done.value
                is_kept = written.text == self.base and not written.is_reply
                is_right = written.text.strip() == (self.text or "").strip()
                return "right" if is_right else "kept" if is_kept else "wrong"

    @property
    def in_object(self) -> str:
        """The same text of a model that ignores marks and answers with an object if told to."""
        made = json.dumps({"text": self.text or self.said}, ensure_ascii=False)
        return made.removesuffix('"}') if self.is_cut else made

    @property
    def is_wrong(self) -> bool:
        """Whether a wrong text becomes the draft, of this reply or of the same one again."""
        return "wrong" in (self.outcome(), self.outcome(is_again=True))

    @property
    def is_wrong_with_object(self) -> bool:
        """Whether a wrong text becomes the draft, where an object follows as soon as asked for."""
        return self.played(self.in_object) == "wrong"


def _wrapped() -> Iterator[ArticleReply]:
    for family, templates in (("before", BEFORE), ("after", AFTER), ("around", AROUND)):
        for name, it in templates.items():
            yield ArticleReply(family, name, it.replace("{}", REVISED), REVISED)
    for name, it in CHANGED.items():
        yield ArticleReply("around", name, it, REVISED)


REPLIES = (*_wrapped(), *(ArticleReply("no text", name, it, None) for name, it in NO_TEXTS.items()))


KETTLE = (
    "The electric kettle was invented in the late nineteenth century, but it took decades before"
    " households trusted it. Early models kept the heating element in a separate chamber under the"
    " water, which wasted energy and took a long time to boil. In 1922 a British company put the"
    " element inside the water, sealed in a metal tube, and boiling times fell to a few minutes.\n\n"
    "The next problem was safety. A kettle that boiled dry could set fire to the kitchen, and many"
    " did. The bimetallic switch, which bends in the heat of the steam and breaks the circuit, ended"
    " that in the 1950s. It costs a few pence, has no electronics, and is still found in nearly every"
    " kettle that is sold today."
)
KETTLE_REVISED = (
    "Electric kettles appeared in the 1890s, yet decades passed before households trusted them. The"
    " first ones heated the water from a chamber below, so that most of the energy was lost. Boiling"
    " times fell to minutes in 1922, when a British firm sealed the element in a metal tube and put it"
    " into the water.\n\n"
    "That left the danger of fire: a kettle that boiled dry could burn down a kitchen. The answer came"
    " in the 1950s with a strip of two metals that bends in the steam and breaks the circuit. The"
    " switch costs pence, needs no electronics, and sits in nearly every kettle sold today."
)
BRIDGES = (
    "Alte Steinbrücken halten länger als neue aus Beton. Ein Bogen aus Quadern wird nur gedrückt und"
    " nie gezogen, und Stein verträgt Druck fast unbegrenzt. Im Beton dagegen liegt Stahl, der die"
    " Zugkräfte aufnimmt und mit der Zeit rostet, sobald Wasser und Salz durch feine Risse dringen."
    "\n\nDie Prüfer gehen deshalb alle sechs Jahre über jede Brücke im Land. Sie klopfen den Beton ab,"
    " messen die Risse und vergleichen sie mit den Aufzeichnungen ihrer Vorgänger. Wird ein Riss"
    " breiter als drei Zehntel Millimeter, dann wird die Brücke im Grunde genommen für schwere"
    " Lastwagen gesperrt, bis sie ausgebessert ist."
)
BRIDGES_REVISED = BRIDGES.replace("im Grunde genommen ", "").replace(
    "Im Beton dagegen liegt Stahl", "Im Beton aber liegt Stahl"
)
TEA = (
    "緑茶をおいしく淹れるには、湯の温度が大切です。熱すぎる湯は苦みを引き出し、ぬるい湯では香りが立ちません。"
    "煎茶なら七十度から八十度、玉露なら五十度ほどが目安です。\n\n"
    "まず沸かした湯を湯のみに注ぎ、少し冷まします。次に茶葉を急須に入れ、冷ました湯を静かに注ぎます。"
    "一分ほど待ったら、最後の一滴まで均等に注ぎ分けます。最後の一滴にうまみが詰まっているからなのです。"
)
TEA_REVISED = TEA.replace("からなのです", "からです").replace("少し冷まします", "冷まします")
OTHERS = {
    "without a title": (KETTLE, KETTLE_REVISED),
    "in German": (BRIDGES, BRIDGES_REVISED),
    "in Japanese": (TEA, TEA_REVISED),
}

LEGITIMATE: Mapping[str, str] = {
    "as it was": ARTICLE,
    "a new first paragraph": f"Nothing in a garden is wasted for long.\n\n{BODY}",
    "a question to the reader": f"Do you throw your peelings away? You need not.\n\n{BODY}",
    "a new subtitle": REVISED.replace("heap\n\n", "heap\n\n*Dark soil for patient people*\n\n", 1),
    "a motto": f"*Festina lente.*\n\n{REVISED}",
    "a good wish": f"{REVISED}\n\nHappy composting! 🌱",
    "a call to readers": f"{REVISED}\n\nTell us how your heap is doing: write to the club.",
    "a hope": f"{REVISED}\n\nI hope this helps you start a heap of your own.",
    "a note to readers": f"{REVISED}\n\nNote: the council lends forks for free.",
    "a version of the guide": (
        f"{REVISED}\n\nThis version of the guide replaces the original one from 2019."
    ),
    "a summary": (
        f"{REVISED}\n\n## In short\n\n- Layers of wet and dry\n- Turn every two weeks\n- Wait six months"
    ),
    "a section on questions": (
        f"{REVISED}\n\n## Questions\n\n**Can I add citrus?** Yes, a little.\n\n**Do I need a lid?** No."
    ),
    "a table": (
        f"{REVISED}\n\n| Sign | Cause | Remedy |\n|---|---|---|\n| smell | too wet | cardboard |"
    ),
    "a list instead of prose": (
        "# Starting a compost heap\n\nYou need:\n\n- a shady corner\n- twigs\n- dry leaves or cardboard\n\n"
        "What to do:\n\n1. Lay twigs, ten centimetres deep.\n2. Add peelings and cover them with dry leaves.\n"
        "3. Turn the heap with a fork every two weeks.\n4. Wait six to nine months."
    ),
    "two options": (
        "# Starting a compost heap\n\nOption 1: a heap. Begin with a layer of twigs and add kitchen scraps"
        " and garden waste in layers; turn it with a fork every two weeks.\n\nOption 2: a bin. It keeps rats"
        " out, costs forty euros, and needs no turning at all."
    ),
    "in the first person": (
        "# How I started a compost heap\n\nI began with a layer of twigs and a shady corner. I added"
        " vegetable peelings and coffee grounds, and I covered every wet layer with dry leaves. I turned"
        " the heap with a fork every two weeks, and after nine months I had dark, crumbly soil. You can too."
    ),
    "half of it": REVISED.rpartition("\n\n")[0],
    "front matter": f"---\ntitle: Compost\n---\n\n{REVISED}",
    "a rule between parts": REVISED.replace("\n\nTurn", "\n\n---\n\nTurn"),
    "a pull quote": REVISED.replace("\n\nBegin", "\n\n> It needs no equipment.\n\nBegin"),
    "a code block": f"{REVISED}\n\n```\nC:N = 30:1\n```",
    "plus and minus": f"{REVISED}\n\n+ leaves, peelings, coffee\n- meat, cheese, cooked food",
    "an author": f"{REVISED}\n\n*The author has kept a compost heap for thirty years.*",
    "a first line with a colon": REVISED.replace(
        "A compost heap turns", "The short version: a compost heap turns"
    ),
    "a warning before the text": REVISED.replace("A compost heap", "Warning: a compost heap", 1),
    "without a title": BODY,
    "another title": REVISED.replace("# Starting a compost heap", "# Black gold in nine months"),
    "a sentence that comes again": "\n\n".join(
        f"{it}\n\nAnd then you wait." for it in REVISED.split("\n\n")[1:]
    ),
}
TRANSLATED = (
    "# Einen Komposthaufen anlegen\n\nEin Komposthaufen macht aus Küchenabfällen und Gartenresten dunkle,"
    " krümelige Erde. Man braucht dafür nur eine schattige Ecke, etwas Geduld und abwechselnd feuchte und"
    " trockene Schichten.\n\nDie unterste Schicht sind Zweige, zehn Zentimeter hoch, damit Luft von unten"
    " an den Haufen kommt."
)


def others() -> Iterator[ArticleReply]:
    """Yield what stands around the text of other articles: without a title, in other languages."""
    for language, (base, text) in OTHERS.items():
        for family, templates in (("before", BEFORE), ("after", AFTER), ("around", AROUND)):
            for name, it in templates.items():
                said = it.replace("{}", text)
                yield ArticleReply(f"{family}, {language}", name, said, text, base)


def firsts() -> Iterator[ArticleReply]:
    """Yield the same replies to the request to write the article."""
    for it in REPLIES:
        said = "shorter" not in it.said and it.said
        if it.family != "no text" and said and it.name not in OF_A_REVISION:
            yield replace(it, family=f"first draft, {it.family}", base=None)


OF_A_REVISION = {"a table of changes"}


def legitimate() -> Iterator[ArticleReply]:
    """Yield replies that are texts as they stand."""
    for name, it in LEGITIMATE.items():
        yield ArticleReply("legitimate", name, it, it)
    yield ArticleReply("legitimate", "a translation", TRANSLATED, TRANSLATED)
    for name, (base, text) in OTHERS.items():
        yield ArticleReply("legitimate", name, text, text, base)
    for name, text in (
        ("first draft", ARTICLE),
        ("first, German", BRIDGES),
        ("first, Japanese", TEA),
    ):
        yield ArticleReply("legitimate", name, text, text, None)
