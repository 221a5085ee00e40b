"""Tasks in several languages, by what their text is: a message, one that declines, or neither."""

ORDINARY = """\
Explain the causes of the war.
Discuss the causes of the war.
Summarize the discussion on refunds.
Explain the decline of Rome.
Explain the decline in birth rates.
Describe how declining sales are reported.
Schreibe über Kleider.
Explain what tenants cannot do.
Explain why birds can't swim.
Write a brief explanation of the war.
Brief history of Rome.
Write a brief guide to lock picking.
Explain who is responsible for refunds.
Write a short text on responsible drinking.
Explain the immune response.
Discuss freedom of speech.
Write an essay about free speech.
Write a blog post about refunds.
Write three blog posts about bread.
Write a bash script that renames files.
Explain denial-of-service attacks.
Explain the denial of climate change.
Explain tunable parameters.
Explain why cells reject transplants.
Write an essay on the rejection of transplants.
Write a function that rejects invalid input.
Write a firewall rule that denies all traffic.
Write a story in which a king refuses a crown.
Explain refuse collection in towns.
Write a notice about refuse collection.
Explain apologetics.
Write about Plato's Apology.
Summarize the e-mail of Ms Lee.
Compare chatbots and search engines.
Explain the answer to the riddle.
Describe the letters of the alphabet.
Explain silent letters.
Write about mail trains.
Write a guide to writing letters.
Write an article on AI assistants.
Explain the conversation between cells.
Erkläre die Absage des Konzerts.
Erkläre, warum Kunden Angebote ablehnen.
Schreib einen Text über Entschuldigungen.
Schreib einen Aufsatz über das Briefgeheimnis.
Beschreibe die Verantwortung der Eltern.
Erkläre das Briefing.
Schreibe leider nicht mehr als zehn Zeilen über Kleider.
Erkläre die Antwort des Immunsystems.
Explique les belles-lettres.
Explique le refus d'obtempérer.
Décris une excursion en montagne.
Rédige un texte sur le désolement des villes.
Rédige un article sur la cause des guerres.
Explica el rechazo de injertos.
Explica el juego de cartas.
Escribe un texto sobre la excusa en la novela picaresca.
Explica cómo funciona el correo.
Spiega il rifiuto dei rifiuti.
Spiega la raccolta dei rifiuti.
Spiega come si ricicla la carta.
Scrivi un testo sulla scuola.
Scrivi un articolo sulle scuse nella politica.
Discuti le cause della guerra.
写一篇关于信息安全的文章。
写一段话解释拒绝服务攻击。
写一篇关于道歉的文章。
说明信用卡的用法。
사과 파이 만드는 법을 설명해 줘.
謝罪会見の歴史を説明してください。
Объясни ответственность сторон.
Объясни отказ двигателя.
Write a product description for a letter opener.
Write a poem.
Write a job advertisement for an assistant.
Fasse die Diskussion zusammen.
Explain how to decline an invitation.
Explain the unfortunately common errors.
Explain Latin nouns that decline in the plural.
Decline of Rome: explain it.
Refuse collection: explain it.
Write a summary of the sorry state of roads.
Explain the excuse defence in law.
Write a headline for the new bakery.
Make this text shorter.
Write a line of verse.
Translate the menu into German.
Explain what a debrief is.
Écris un conte.
Escribe un cuento.
Scrivi una fiaba.
Schreib ein Märchen.
""".splitlines()
"""Tasks whose text is neither, with words of messages and of declining in most of them."""

MESSAGES = """\
Write an e-mail to Ms Lee.
Reply to this message: can you support our festival?
Schreib einer Kundin eine Nachricht über ihre Anfrage.
Schreib einen Brief an Anna.
Schreibe Briefe an alle Kunden.
Verfasse einen kurzen Geschäftsbrief.
Beantworte die E-Mail: Geld zurück?
Explain to a customer in a chat why it is late.
Explain in an e-mail why it is late.
Based on the notes, write an e-mail.
Using the page on refunds, write a letter.
Read the page on refunds and write a reply.
Write a polite response to the review.
Answer the customer.
Rédige une lettre à Anna.
Écris un courriel.
Écris une réponse à ce client.
Escribe una carta a Ana.
Escribe un correo a Ana.
Scrivi una lettera ad Anna.
Scrivi un messaggio ad Anna.
给客户写一封信。
写一条短信。
Write a dialogue between two friends.
Write a speech for a wedding.
Improve the letter.
Explique en una carta por qué.
Erkläre Anna in einer Mail, warum.
Write a prompt for a summarizer.
E-mail to a customer about refunds
Summarize the thread and reply to Bo.
Follow our style guide and answer Bo's mail.
""".splitlines()
"""Tasks for a message that may say no to something."""

REFUSING = """\
Write one sentence that declines.
Write a one-line refusal for a chat.
Write a reply that declines a refund.
Write the message our bot sends when it must decline medical questions.
Decline the invitation politely.
Politely decline.
Write an apology to Ms Lee.
Draft a rejection letter.
Write an e-mail to say no.
Reply to Bo and turn his offer down.
Apologise to Ms Lee.
Refuse the offer.
Write a letter of refusal.
Schreib eine höfliche Absage.
Lehne die Einladung ab.
Sag die Feier höflich ab.
Schreib eine Nachricht, die die Einladung ablehnt.
Entschuldige dich bei Anna.
Formuliere eine Entschuldigung.
Rédige un refus poli.
Rédige une lettre de refus.
Refusez l'invitation.
Excuse-toi auprès d'Anna.
Escribe una carta de rechazo.
Rechaza la oferta.
Escribe una disculpa.
Scrivi una lettera di rifiuto.
Rifiuta l'invito.
Scrivi un rifiuto cortese.
返金を断る一文を書いてください。
写一封拒绝邀请的邮件。
写一封邮件婉拒邀请。
写一句话道歉。
謝罪文を書いてください。
사과 메시지를 써 줘.
초대를 거절하는 답장을 써 줘.
Напиши письмо с отказом.
Напиши вежливый отказ.
Schrijf een afwijzing.
Napisz uprzejmą odmowę.
It should apologise first.
Say no, kindly.
""".splitlines()
"""Tasks for a text that declines, rejects or apologizes."""
