#!/usr/bin/env bash
# Refine a document that is too long for one prompt, part by part, and print what became of it.
#
#     examples/long_document.sh > better.txt
#
# The document is Python's own help: 465,000 characters. HONE_SERVER is the address of the server.
set -euo pipefail

.venv/bin/python -c 'from pydoc_data.topics import topics; print("\n\n".join(topics.values()))' |
  .venv/bin/hone submit - --strategy nested --criterion clarity --criterion spelling
