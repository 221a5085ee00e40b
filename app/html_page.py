"""The shell of an HTML page that is a file of its own: no script, and no request to any host."""

from html import escape

_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
<main>
{body}</main>
</body>
</html>
"""


def html_page(title: str, style: str, body: str) -> str:
    """Return the page; the title is a text, the style and the body are what they are."""
    return _PAGE.format(title=escape(title), style=style, body=body)
