#!/usr/bin/env bash
# Submit a request with curl, follow its events, then print the result.
#
#     examples/refine.sh examples/improve-an-email.json
#
# HONE_SERVER is the address of the server. Needs curl (7.76 or newer) and jq.
set -euo pipefail

server=${HONE_SERVER:-http://localhost:8080}
request=${1:?usage: refine.sh REQUEST.json}

# 202 and a snapshot with links; anything else is a problem that says what to change.
if ! snapshot=$(curl --silent --show-error --fail-with-body "$server/v1/refinements" \
  --header 'Content-Type: application/json' --data-binary "@$request"); then
  jq --raw-output '.detail' <<<"$snapshot" >&2
  exit 1
fi
self=$server$(jq --raw-output '.links.self' <<<"$snapshot")

# The stream begins with the first event and closes after the last one.
curl --silent --show-error --fail --no-buffer "$self/events" |
  jq --raw-input --raw-output --unbuffered \
    'select(startswith("data:")) | ltrimstr("data:") | fromjson | "\(.event)\t\(.type)"'

curl --silent --show-error --fail "$self" |
  jq --raw-output '"", "\(.outcome): \(.reason)", "", .result.draft'
