"""Replies to requests for a text: first drafts, and revisions of `DRAFT` or of another base."""

import json

from tests.engine.replies.case import DRAFT, Again, Case, Refuses

TEXT = "We refund you within 14 days.\n\nSend the goods back unopened."
LINE = "We refund you within 14 days."
CODE = "```python\nx = 1\n```"
QUOTING = 'We refund you within 14 days (see "Refunds").'
FIELDS = '1;Screw M4;"galvanised, 100 pieces"\n2;Nut M4;"DIN 934"\n3;Washer;large'
MAIL = "Dear Ms Lee,\n\nwe refund you within 14 days.\n\nKind regards\nSam"
DIALOGUE = "Write a dialogue between a customer and an assistant about refunds."
TO_REPLY = "Write the reply to a customer's email that asks for the updated version of our terms."


def first(
    name: str, raw: str, expected: object = TEXT, task: str = "Explain our refund policy."
) -> Case:
    """A reply to a request for a first draft."""
    return Case("first draft", "text", name, raw, expected, task)


def revision(
    name: str, raw: str, expected: object = TEXT, base: str = DRAFT, task: str = ""
) -> Case:
    """A reply to a request for a revision."""
    return Case("revision", "text", name, raw, expected, task or "Explain our refund policy.", base)


def kept(
    name: str, raw: str, task: str = "Explain our refund policy.", base: str | None = None
) -> Case:
    """A reply that is content as it stands."""
    return Case("content", "text", name, raw, raw, task, base)


def refused(name: str, raw: str) -> Case:
    """A reply that refuses to write, in some language."""
    return Case("refusal", "text", name, raw, Refuses(), "Explain our policy.", DRAFT)


FIRST = [
    first("the text alone", TEXT),
    first("blank around it", f"\n\n{TEXT}\n \n"),
    first("Windows line ends", TEXT.replace("\n", "\r\n")),
    first("a byte order mark", "\ufeff" + TEXT),
    first("zero-width space before", "\u200b" + TEXT),
    first("a fence", f"```\n{TEXT}\n```"),
    first("a fence with a language", f"```markdown\n{TEXT}\n```"),
    first("a fence that is not closed", f"```text\n{TEXT}"),
    first("tildes", f"~~~\n{TEXT}\n~~~"),
    first(
        "a fence with code in it",
        f"```markdown\n{TEXT}\n\n{CODE}\n```",
        f"{TEXT}\n\n{CODE}",
    ),
    first("a bare fence with code in it", f"```\n{TEXT}\n\n{CODE}\n```", f"{TEXT}\n\n{CODE}"),
    first("Sure! Here is the text:", f"Sure! Here is the text:\n\n{TEXT}"),
    first(
        "an offer that names no work, after a text that speaks to nobody",
        "Sure, here are the steps:\n\n1. Open it.\n2. Read it.\n\nLet me know if you need more.",
        "1. Open it.\n2. Read it.",
    ),
    first(
        "Certainly! Here's an explanation:",
        f"Certainly! Here's an explanation of the policy:\n\n{TEXT}",
    ),
    first("Here is a draft:", f"Here is a draft:\n\n{TEXT}"),
    first(
        "with its fence and a note",
        f"Here is the text:\n\n```\n{TEXT}\n```\n\nLet me know if you'd like any changes!",
    ),
    first("in German", f"Gerne! Hier ist der Text:\n\n{TEXT}"),
    first("in French", f"Bien sûr ! Voici le texte :\n\n{TEXT}"),
    first("in Spanish", f"¡Claro! Aquí tienes el texto:\n\n{TEXT}"),
    first("in Chinese", f"好的，以下是文本：\n\n{TEXT}"),
    first("in Japanese", f"承知しました。以下が文章です：\n\n{TEXT}"),
    first(
        "between rules",
        f"Sure, here is the text:\n\n---\n\n{TEXT}\n\n---\n\nLet me know if you want another tone.",
    ),
    first("in quotation marks after a line", f'Here is the text:\n\n"{LINE}"', LINE),
    first("an object with the text", '{"text": "We refund you within 14 days."}', LINE),
    first("in the prompt's fence", f"<data-3fa9c1>\n{TEXT}\n</data-3fa9c1>"),
    first("in the prompt's fence with its label", f"Text:\n<data-3fa9c1>\n{TEXT}\n</data-3fa9c1>"),
    first("in the prompt's tags", f"<draft 4f0c2e>\n{TEXT}\n</draft 4f0c2e>"),
    first("with the closing tag of the prompt", f"{TEXT}\n</finished text 4f0c2e>"),
    first("in answer tags", f"<answer>\n{TEXT}\n</answer>"),
    first("thinking", f"<think>\nThe user wants a policy.\n</think>\n\n{TEXT}"),
    first("thinking in another tag", f"<reasoning>Hm.</reasoning>\n{TEXT}"),
    first("thinking twice", f"<think>One.</think>\n<think>Two.</think>\n{TEXT}"),
    first("nested thinking", f"<think>One <think>two</think> three</think>{TEXT}"),
    first("nested thinking closed once", f"<think>One <think>two</think>{TEXT}"),
    first("empty thinking", f"<think>\n\n</think>\n\n{TEXT}"),
    first("only the closing tag", f"The user wants a policy.\n</think>\n{TEXT}"),
    first("thinking of Kimi", f"◁think▷Hm.◁/think▷{TEXT}"),
    first("thinking of Magistral", f"[THINK]Hm.[/THINK]{TEXT}"),
    first(
        "thinking of Sky",
        f"<|begin_of_thought|>Hm.<|end_of_thought|>\n<|begin_of_solution|>{TEXT}<|end_of_solution|>",
    ),
    first(
        "thinking between paragraphs",
        TEXT.replace("\n\n", "\n\n<thinking>\nShorter?\n</thinking>\n\n"),
        TEXT,
    ),
    first(
        "channels",
        f"<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>{TEXT}",
    ),
    first("channels without their marks", f"analysisWe need a policy.assistantfinal{TEXT}"),
    first("thinking, then a line", f"<think>Hm.</think>\nHere is the text:\n\n{TEXT}"),
    first("an end token", f"{TEXT}<|eot_id|>"),
    first("an end token of Gemma", f"{TEXT}\n<end_of_turn>"),
    first("a header of Llama", f"<|start_header_id|>assistant<|end_header_id|>\n\n{TEXT}"),
    first("thinking of Gemma", f"<|channel>thought\nHm.\n<channel|>{TEXT}"),
    first("empty thinking of Gemma", f"<|channel>thought\n<channel|>{TEXT}<turn|>"),
    first(
        "thinking of Command",
        f"<|START_THINKING|>Hm.<|END_THINKING|><|START_RESPONSE|>{TEXT}<|END_RESPONSE|>",
    ),
    first("thinking of Apertus", f"<|inner_prefix|>Hm.<|inner_suffix|>{TEXT}"),
    first(
        "thinking of Granite", f"Here is my thought process:\nHm.\n\nHere is my response:\n{TEXT}"
    ),
    first("thinking, then an answer that is not closed", f"<think>Hm.</think>\n<answer>\n{TEXT}"),
    first("a turn of Gemma", f"<start_of_turn>model\n{TEXT}<end_of_turn>"),
    first("in French without a noun", f"Voici\u00a0:\n\n« {LINE} »", LINE),
    first("in Chinese, revised", f"以下是修改后的文本：\n\n{TEXT}"),
    first("thanks before it", f"Thank you for the feedback. Here is the updated draft:\n\n{TEXT}"),
    first(
        "a call of a tool",
        '<tool_call>{"name": "f", "arguments": {"draft": "We refund you within 14 days."}}</tool_call>',
        LINE,
    ),
    first(
        "an object with notes",
        '{"revised_draft": "We refund you within 14 days.", "notes": "Short."}',
        LINE,
    ),
    first("a JSON string", json.dumps(TEXT)),
    first(
        "the task before it", f"<task 4f0c2e>\nExplain our refund policy.\n</task 4f0c2e>\n\n{TEXT}"
    ),
    first(
        "a part of the task before it",
        f"<task 4f0c2e>\nExplain.\n</task 4f0c2e>\n{TEXT}",
        Again("tags"),
    ),
    first("a count of words", f"{TEXT}\n\n(Word count: 11)"),
    first("a mark at the end", f"{TEXT}\n\n[End of draft]"),
    first(
        "no text to work on",
        "I don't see any draft. Please paste the text and I'll help!",
        Again("asks for a text"),
    ),
    first("a placeholder", "[Insert the final text here]", Again("announces")),
    first("a refusal in a short form", "I'm unable to help with that.", Refuses()),
    first(
        "a refusal with understanding",
        "I appreciate the details, but I'm not able to write this.",
        Refuses(),
    ),
    first("unfinished thinking", "<think>\nThe user wants a policy. First", Again("thinking")),
    first("thinking and nothing else", "<think>Done.</think>", Again("nothing after")),
    first("an unfinished channel", "<|channel|>analysis<|message|>We need", Again("thinking")),
    first("empty", "", Again("empty")),
    first("blank", " \n\u200b\n", Again("empty")),
    first("an empty fence", "```\n```", Again("empty")),
]

REVISION = [
    revision("the text alone", TEXT),
    revision("Here is the revised text:", f"Here is the revised text:\n\n{TEXT}"),
    revision("in bold", f"**Here is the revised draft:**\n\n{TEXT}"),
    revision("a label", f"**Revised text:**\n\n{TEXT}"),
    revision("a label as a heading", f"### Revised Draft\n\n{TEXT}"),
    revision("Here's the polished policy:", f"Here's the polished policy:\n\n{TEXT}"),
    revision("I've rewritten it:", f"I've revised the draft as you asked:\n\n{TEXT}"),
    revision("a trailing note", f"{TEXT}\n\nLet me know if you'd like me to adjust the tone."),
    revision("feel free", f"{TEXT}\n\nFeel free to ask for further changes!"),
    revision(
        "a list of changes",
        f"{TEXT}\n\n**Changes made:**\n- Shortened the first sentence.\n- Removed 'soon'.",
    ),
    revision(
        "a note after a rule",
        f"{TEXT}\n\n---\n\nI shortened the first sentence and kept all facts.",
    ),
    revision("a remark before a rule", f"Sure, I tightened it a little.\n\n---\n\n{TEXT}"),
    revision(
        "a note in German",
        f"Hier ist die überarbeitete Fassung:\n\n{TEXT}\n\nSag mir Bescheid, wenn ich etwas ändern soll.",
    ),
    revision(
        "a note in Spanish",
        f"Aquí tienes la versión revisada:\n\n{TEXT}\n\nAvísame si quieres cambios.",
    ),
    revision("a note in Chinese", f"以下是修改后的文本：\n\n{TEXT}\n\n如需进一步修改，请告诉我。"),
    revision(
        "a note in Italian",
        f"Ecco il testo rivisto:\n\n{TEXT}\n\nFammi sapere se vuoi altre modifiche.",
    ),
    revision("a note in Portuguese", f"Aqui está o texto revisado:\n\n{TEXT}"),
    revision("a note in Dutch", f"Hier is de herziene tekst:\n\n{TEXT}"),
    revision("a note in Polish", f"Oto poprawiony tekst:\n\n{TEXT}"),
    revision("a note in Russian", f"Вот исправленный текст:\n\n{TEXT}"),
    revision("a note in Korean", f"다음은 수정된 텍스트입니다:\n\n{TEXT}"),
    revision("in quotation marks", f'"{LINE}"', LINE),
    revision("in typographic quotation marks", f"“{LINE}”", LINE),
    revision("a fence around a fence", f"```markdown\n{CODE}\n```", CODE, CODE.replace("1", "2")),
    revision("in quotation marks, with a quotation", f'"{QUOTING}"', QUOTING),
    revision("in quotation marks, with fields", f'"{FIELDS}"', FIELDS, FIELDS.replace("M4", "M3")),
    revision(
        "a mail",
        f"Here is the revised email:\n\n{MAIL}",
        MAIL,
        MAIL.replace("14", "30"),
        "Write an email about refunds.",
    ),
    revision("an object with the draft", '{"revised_text": "We refund you within 14 days."}', LINE),
    revision("the prompt's label and fence", f"Draft:\n<data-17>\n{TEXT}\n</data-17>"),
    revision("Here you go:", f"Here you go:\n\n{TEXT}"),
    revision("a line with a full stop", f"Of course. Below is the improved version.\n\n{TEXT}"),
    revision("as requested", f"As requested, here is the revised draft.\n\n{TEXT}"),
    revision(
        "what was done before it",
        f"Absolutely! I've tightened the wording. Here's the result:\n\n{TEXT}",
    ),
    revision("a smiling line", f"Sure thing! 😊\n\nHere's the improved text:\n\n{TEXT}"),
    revision("a label in brackets", f"[Revised Draft]\n\n{TEXT}"),
    revision("a label with a count", f"Revised version (11 words):\n\n{TEXT}"),
    revision("a short label", f"**Output:**\n\n{TEXT}"),
    revision("in German without a verb", f"Gerne! Hier die überarbeitete Fassung:\n\n{TEXT}"),
    revision("in Japanese", f"以下は修正した文章です：\n\n{TEXT}"),
    revision("in Arabic", f"إليك النص المنقح:\n\n{TEXT}\n\nأخبرني إذا كنت تريد أي تعديلات."),
    revision(
        "changes before it",
        f"Based on the critique, I made these changes:\n- shorter\n\nRevised text:\n\n{TEXT}",
    ),
    revision("the draft before it", f"**Original:**\n{DRAFT}\n\n**Revised:**\n{TEXT}"),
    revision("reasoning before it", f"## Reasoning\nIt is long.\n\n## Revised draft\n{TEXT}"),
    revision("a fence and a remark", f"Here it is:\n\n```text\n{TEXT}\n```\n\nHope it helps!"),
    revision("a rule at the end", f"{TEXT}\n\n---"),
    revision("an offer", f"{TEXT}\n\nWould you like me to make it more formal?"),
    revision("a note on the work", f"{TEXT}\n\nNote: I removed the aside, as it was unclear."),
    revision("praise of the version", f"{TEXT}\n\nThis version is clearer than the original."),
    revision("praise by criteria", f"{TEXT}\n\n✅ All criteria met."),
    revision("improvements", f"{TEXT}\n\n### Key improvements\n1. Clarity\n2. Tone"),
    revision("nothing to change, short", "No changes needed.", Again("remark")),
    revision(
        "nothing to change, in German",
        "Der Text ist sehr gut. Es sind keine Änderungen nötig.",
        Again("remark"),
    ),
    revision("an announcement", "I'll revise the draft now.", Again("announces")),
    revision(
        "two versions", f"Version 1:\n\n{TEXT}\n\nVersion 2:\n\n{LINE}", Again("more than one")
    ),
    revision("differences", f"```diff\n-{DRAFT}\n+{LINE}\n```", Again("differences")),
    revision("nothing to change", "The draft is fine, no changes are needed.", Again("remark")),
    revision(
        "a part left out",
        "We refund you within 14 days.\n\n[The rest of the text remains unchanged.]",
        Again("leaves out"),
    ),
    revision(
        "a part left out in words",
        "We refund you.\n\n... (rest of the draft stays the same)",
        Again("leaves out"),
    ),
]

CONTENT = [
    kept(
        "a dialogue that begins with Sure!", "Sure! Here is what you do:\n\nSend it back.", DIALOGUE
    ),
    kept(
        "a reply that sends a version",
        "Here is the updated version of our terms:\n\nhttps://example.com",
        TO_REPLY,
    ),
    kept(
        "a mail that ends like a note",
        "Dear Ms Lee,\n\nthe contract is attached.\n\nLet me know if you'd like me to change anything.",
        "Write an email to Ms Lee.",
    ),
    kept(
        "a mail that asks for changes",
        f"{LINE}\n\nLet me know if you want changes to the draft.",
        "Write a message to Bo.",
        LINE,
    ),
    kept(
        "a draft in quotation marks", '"We refund you."', "Explain refunds.", '"Refunds take time."'
    ),
    kept("a first draft in quotation marks", '"The best refund there is."', "Write a testimonial."),
    kept("two quotations", '"Yes," she said. "No."', "Write a scene.", "She said no."),
    kept("a draft in a fence", CODE, base=CODE.replace("1", "2")),
    kept("a page in a fence", f"```md\n{LINE}\n{CODE}\n```", base=f"```md\nRefunds.\n{CODE}\n```"),
    kept("two quoted words", '"Refunds" take as long as "returns"', base="Refunds take long."),
    kept("two paragraphs of one speech", '"It rains.\n\n"It pours."', base="He said: it rains."),
    kept("quoted fields", '"a";"b"\n"c";"d"', base="a;b\nc;d"),
    kept(
        "a story with thinking in it",
        "<think>Rain again.</think>\nHe sighed.",
        "Tell a story.",
        "<think>Sun.</think>\nHe smiled.",
    ),
    kept(
        "a text about thinking tags",
        "The model writes `<think>` first and `</think>` last.",
        "Explain the <think> tag.",
    ),
    kept(
        "thinking tags in code",
        "Models write:\n\n```\n<think>\nHm.\n</think>\n```\n\nThen they answer.",
    ),
    kept("two code blocks", "```\na\n```\nand\n```\nb\n```", "Show two commands."),
    kept(
        "code between words",
        "Run this:\n\n```sh\nhone serve\n```\n\nThen look.",
        "Show the command.",
    ),
    kept("a heading", "# Refunds\n\nWe refund you.", "Explain refunds."),
    kept(
        "a question at the end",
        "We refund you.\n\nWould you like to change your order? Call us.",
        "Write a notice.",
    ),
    kept(
        "a first line with a colon",
        "What you need to know:\n\n- Send it back.\n- Wait.",
        "Explain refunds.",
    ),
    kept(
        "a note that belongs to the text",
        "Mix it.\n\nNote: keep it cold.",
        "Write a recipe.",
        "Mix it.\n\nNote: keep it cool.",
    ),
    kept(
        "a note that a revision adds",
        "Mix it.\n\nNote: keep it cold.",
        "Write a recipe.",
        "Mix it.",
    ),
    kept(
        "an essay that ends with its author",
        "I was wrong.\n\nI changed my mind.",
        "Tell it.",
        "I erred.",
    ),
    kept("a title", "**Final version**\n\nWe refund you.", "Write a page."),
    kept("front matter", "---\ntitle: Refunds\n---\n\nWe refund you.", "Write the page."),
    kept("an XML text", "<response>\n<days>14</days>\n</response>", "Write the answer as XML."),
    kept("a JSON text", '{"text": "We refund you."}', "Write JSON with a text."),
    kept(
        "a letter that refuses",
        "I'm sorry, but I can't help with a refund after two years.",
        "Write a reply that declines a refund.",
    ),
    kept(
        "an apology",
        "We are sorry that your refund is late. It will be with you in 14 days.",
        "Explain the delay.",
    ),
    kept(
        "a text on what rests unchanged",
        "The rest of the text remains unchanged.",
        "Say what changes.",
        "The rest of the text remains unchanged. Now.",
    ),
    kept("Windows line ends of the draft", "One.\r\nTwo.", "Say it.", "One.\r\nThree."),
    kept("a poem in single quotes", "'Tis the season of refunds, 'twas said.", "Write a line."),
    kept("full-width digits", "返金は１４日以内です。", "返金について説明してください。"),
    kept("a JSON draft", '{"text": "We refund you."}', "", '{"text": "We refunds you."}'),
    kept("a configuration", '{"answer": "42"}', "Give the config file for answer 42."),
    kept("a string of C", '"a\\nb"', "Show a string with an escape."),
    kept("indented code", "    x = 1\n    y = 2", "Show the body.", "    x = 1"),
    kept(
        "a block of thinking",
        "<think>\nHm.\n</think>\n\nYes.",
        "Write an example with a think block.",
    ),
    kept(
        "words of a channel", "analysis shows that the assistantfinal tag is odd.", "Describe it."
    ),
    kept("an element", "<output>We refund you.</output>", "Write an output element."),
    kept(
        "a draft that begins with a line",
        "Sure! Here's the deal:\n\nWe refund you.",
        "",
        "Sure! Here is the deal: we refund you.",
    ),
    kept(
        "release notes",
        "We release 2.1.\n\nKey changes:\n- Faster refunds.",
        "",
        "We release 2.1. It has changes.",
    ),
    kept(
        "a prompt",
        "Here is the revised text:\n\n{text}",
        "Write a prompt that shows a revised text.",
    ),
    kept(
        "news of a version",
        "We changed our terms. Here is the new version:\n\n1. 14 days.",
        "",
        "Our terms: 14 days.",
    ),
    kept("an order to the reader", "Please send the signed document by Friday.", "Write a notice."),
    kept("a line about writing", "Let me revise the text once more, she thought.", "Write a line."),
    kept("output of a command", "Output:\n\n```\nok\n```\n\nThen stop.", "Document it."),
    kept(
        "a clerk who refuses",
        "申し訳ありませんが、返金はできません。",
        "返金を断る一文を書いてください。",
    ),
    kept(
        "animals that cannot",
        "Leider können Pinguine nicht fliegen, doch sie schwimmen besser als jeder andere Vogel.",
        "Sag in einem Satz, warum Pinguine besonders sind.",
    ),
    kept(
        "a client who cannot",
        "I'm sorry, but I can't complete the form by Friday.",
        "Tell my landlord I can't complete the form by Friday.",
    ),
    kept(
        "a client who cannot, in German",
        "Tut mir leid, ich kann am Freitag nicht.",
        "Sag Anna, dass ich am Freitag nicht kann.",
    ),
    kept(
        "a client who cannot, in Spanish",
        "Lo siento, Juan, no puedo ir el lunes.",
        "Dile a Juan que no puedo ir el lunes.",
    ),
    kept(
        "a client who cannot, in Japanese",
        "すみません、金曜は行けません。予定が入ってしまい、参加できません。",
        "友達に金曜は行けないと伝えてください。",
    ),
    kept(
        "a clerk who refuses more politely",
        "申し訳ございませんが、こちらの商品の返品はお受けできかねます。何卒ご了承ください。",
        "もっと丁寧にしてください。",
        "申し訳ございませんが、この商品の返品は承れません。ご理解をお願いいたします。",
    ),
    kept(
        "two choices",
        "Here are two options:\n\nOption A: refund.\n\nOption B: voucher.",
        "",
        "A refund or a voucher.",
    ),
    kept("joined emoji", "Thank you 👩\u200d💻!", "Thank the team."),
]

REFUSAL = [
    refused("English", "I'm sorry, but I can't help with that."),
    refused("English, short", "I cannot assist with this request."),
    refused("English, as an AI", "As an AI language model, I cannot provide this content."),
    refused("English, unable", "Sorry, I am unable to comply with that request."),
    refused("after thinking", "<think>Is it allowed?</think>I can't help with that."),
    refused("typographic", "I’m sorry, but I can’t assist with that."),
    refused("German", "Es tut mir leid, aber dabei kann ich nicht helfen."),
    refused("French", "Je suis désolé, mais je ne peux pas vous aider avec cela."),
    refused("Spanish", "Lo siento, pero no puedo ayudar con eso."),
    refused("Portuguese", "Desculpe, mas não posso ajudar com isso."),
    refused("Italian", "Mi dispiace, ma non posso aiutarti con questa richiesta."),
    refused("Dutch", "Het spijt me, maar ik kan je daar niet mee helpen."),
    refused("Polish", "Przepraszam, ale nie mogę w tym pomóc."),
    refused("Russian", "Извините, но я не могу помочь с этим."),
    refused("Chinese", "抱歉，我无法协助处理这个请求。"),
    refused("Japanese", "申し訳ありませんが、そのご要望にはお応えできません。"),
    refused("Korean", "죄송하지만 그 요청은 도와드릴 수 없습니다."),
    refused("Arabic", "عذرا، لا أستطيع مساعدتك في ذلك."),
    refused("Turkish", "Üzgünüm, bu konuda yardımcı olamam."),
    refused("Hindi", "क्षमा करें, मैं इसमें मदद नहीं कर सकता।"),
]

CASES = [*FIRST, *REVISION, *CONTENT, *REFUSAL]
